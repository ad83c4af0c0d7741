"""The page of `nmt serve` in a real browser: typing, hovering, keys, sizes, right-to-left text, a server that goes."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from chromium import Chromium, running_chromium
from serving import Server, running_server

pytestmark = pytest.mark.slow

WORDS = "return [...document.querySelectorAll('#target .word')].map((word) => word.textContent)"
LIT = "return [...document.querySelectorAll('#mirror .lit')].map((word) => word.textContent)"
CHOSEN = "return [...document.querySelectorAll('#target .chosen')].map((word) => word.textContent)"
TYPE = """const area = document.getElementById("source"); area.value = arguments[0];
    area.dispatchEvent(new Event("input"))"""
TEXT = "The car is red. Where is the house?"


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    with running_chromium() as running:
        yield running


@pytest.fixture(scope="module")
def server(model) -> Iterator[Server]:
    with running_server("--model", model) as running:
        yield running


@pytest.fixture
def page(browser: Chromium, server: Server) -> Iterator[Chromium]:
    """The page, opened afresh; whatever a test does there, nothing is complained about, and only the server asked."""
    browser.size(1200, 800)
    browser.console()
    browser.requests()
    browser._ask("POST", "/url", {"url": f"{server.address}/"})
    until(browser, "return document.getElementById('direction').options.length === 1")
    yield browser
    assert browser.console() == []
    assert [url for url in browser.requests() if not url.startswith((server.address, "data:", "blob:"))] == []


def until(browser: Chromium, script: str, *arguments: object) -> Any:
    """Return the result of the script, as soon as it has one."""
    for _ in range(300):
        if found := browser.run(script, *arguments):
            return found
        time.sleep(0.1)
    raise AssertionError(f"{script} gives nothing; the page says {browser.run(STATUS)!r}")


STATUS = "return document.getElementById('status').textContent"


def answering(browser: Chromium, text: str, aligned: dict[str, Any], **more: Any) -> None:
    """Let the page take this for the answer of the server from now on."""
    found = {"translatedText": text, "alignment": [aligned | {"target": text}]} | more
    script = """const ask = window.fetch, found = JSON.stringify(arguments[0]);
        window.fetch = (path, more) => path === "translate" ? Promise.resolve(new Response(found)) : ask(path, more)"""
    browser.run(script, found)


def translated(browser: Chromium, text: str = TEXT) -> list[str]:
    browser.run(TYPE, text)
    found: list[str] = until(browser, f"if (!document.body.classList.contains('old')) {{ {WORDS} }}")
    return found


def test_what_is_typed_is_translated(page, server):
    assert " ".join(translated(page)) == " ".join(server.translate(TEXT)["translatedText"].split())
    assert page.run("return document.querySelectorAll('#alternatives button').length") > 0
    page.run(TYPE, "")
    until(page, "return document.getElementById('target').textContent === ''")


@pytest.mark.soak
def test_the_address_says_what_to_translate(page, server):
    expected = " ".join(server.translate(TEXT)["translatedText"].split())
    page.run("location.hash = new URLSearchParams({text: arguments[0]})", TEXT)
    until(page, "return document.getElementById('translation').textContent === arguments[0]", expected)
    assert page.run("return document.getElementById('source').value") == TEXT


@pytest.mark.soak
def test_pointing_at_a_word_lights_up_what_it_looked_at(page):
    words = translated(page)
    page.hover('#target .word[data-index="1"]')
    assert page.run(CHOSEN) == [words[1]]
    assert set(page.run(LIT)) <= set(TEXT.split())
    assert page.run("return document.getElementById('readout').textContent").startswith(f"{words[1]} looked at ")
    page.hover("h1")
    assert page.run(CHOSEN) == []
    page.click('#target .word[data-index="0"]')
    page.hover("h1")
    assert page.run(CHOSEN) == [words[0]]


@pytest.mark.soak
def test_pointing_at_the_source_lights_up_the_translation(page):
    translated(page)
    place = page.run("""const box = document.querySelector('#mirror .word').getBoundingClientRect();
        return [Math.round(box.x + box.width / 2), Math.round(box.y + box.height / 2)]""")
    move = {"type": "pointerMove", "duration": 0, "origin": "viewport", "x": place[0], "y": place[1]}
    page._ask("POST", "/actions", {"actions": [{"type": "pointer", "id": "mouse", "actions": [move]}]})
    assert page.run("return document.querySelector('#mirror .chosen').textContent") == TEXT.split()[0]


@pytest.mark.soak
def test_doubtful_words_are_underlined_and_said_to_be_so(page):
    weights = [[1.0, 0.0, 0.0, 0.0]] * 2
    answering(page, "rouge voiture", {"source": "The car is red.", "weights": weights, "word_confidence": [0.31, 0.97]})
    translated(page, "The car is red.")
    doubtful = "return [...document.querySelectorAll('#target .doubtful')].map((word) => word.textContent)"
    assert page.run(doubtful) == ["rouge"]
    style = "return getComputedStyle(document.querySelector('#target .doubtful')).textDecorationStyle"
    assert page.run(style) == "wavy"
    label = "return document.querySelector('#target .word').getAttribute('aria-label')"
    assert page.run(label) == "rouge, doubtful"
    assert page.run("return document.getElementById('doubts').hidden") is False
    page.hover('#target .word[data-index="0"]')
    assert page.run("return document.getElementById('readout').textContent").endswith("; 31 % sure")


@pytest.mark.soak
def test_white_space_that_the_engine_reads_as_one_blank_stays_and_hides_no_word(page):
    """As before the question marks of French, and doubled. Fails if the sentence is looked for as it came."""
    text = "  The\u00a0car  is red\u00a0? Where is  it?"
    found = {
        "translatedText": "La voiture est\u00a0rouge ?  Où ?",
        "alignment": [
            {"source": "The car is red ?", "target": "La voiture est rouge ?", "weights": [[0.1, 0.9, 0, 0, 0]] * 5},
            {"source": "Where is it?", "target": "Où ?", "weights": [[1.0, 0, 0]] * 2},
        ],
    }
    page.run("""const ask = window.fetch, found = JSON.stringify(arguments[0]);
        window.fetch = (path, more) => path === "translate" ? Promise.resolve(new Response(found)) : ask(path, more)""",
        found)  # fmt: skip
    assert translated(page, text) == ["La", "voiture", "est", "rouge", "?", "Où", "?"]
    assert page.run("return document.getElementById('translation').textContent") == found["translatedText"]
    assert page.run("return document.getElementById('mirror').textContent") == text
    page.hover('#target .word[data-index="2"]')
    assert page.run(LIT) == ["The", "car"]


@pytest.mark.soak
def test_characters_are_counted_as_the_server_counts_them(page):
    count = "return document.getElementById('count').textContent"
    for text, told in (("a", "1 character"), ("😀", "1 character"), ("😀é", "2 characters"), ("", "")):
        page.run(TYPE, text)
        assert page.run(count) == told


@pytest.mark.soak
def test_another_translation_that_is_pressed_keeps_the_keyboard_and_takes_no_correction_away(page):
    translated(page)
    other = "#alternatives button"
    page.run(f"document.querySelector('{other}').click()")
    assert page.run(f"return document.activeElement === document.querySelector('{other}')")
    page.click("#correct")
    page.run("document.getElementById('correction').value = 'mine'")
    page.run(f"document.querySelector('{other}').click()")
    assert page.run("return document.getElementById('correction').value") == "mine"
    assert page.run("return document.getElementById('correction').hidden") is False
    page.click("#cancel")


@pytest.mark.soak
def test_where_no_confidence_comes_no_word_is_underlined(page):
    answering(page, "rouge voiture", {"source": "The car is red.", "weights": [[1.0, 0.0, 0.0, 0.0]] * 2})
    translated(page, "The car is red.")
    assert page.run("return document.querySelectorAll('#target .doubtful').length") == 0
    assert page.run("return document.getElementById('doubts').hidden") is True
    page.hover('#target .word[data-index="0"]')
    assert "sure" not in page.run("return document.getElementById('readout').textContent")


@pytest.mark.soak
def test_the_page_asks_for_confidence_where_the_model_has_it(page):
    page.run("""const ask = window.fetch; window.fetch = (path, more) => {
        if (path === "translate") window.asked = JSON.parse(more.body); return ask(path, more); }""")
    translated(page)
    assert page.run("return window.asked.confidence") is True


@pytest.mark.soak
def test_keys_go_from_word_to_word(page):
    words = translated(page)
    page.run("document.querySelector('#target .word').focus()")
    page.press("Right", "Right")
    assert page.run(CHOSEN) == [words[2]]
    assert words[2] in page.run(STATUS)


@pytest.mark.soak
def test_the_mirror_lies_below_the_text_at_every_width(page):
    translated(page, TEXT + " " + "The cat sees the dog. " * 12)
    for width in (1200, 700, 360):
        page.size(width, 800)
        time.sleep(0.3)
        sizes = page.run("""return ["source", "mirror"].map((id) => document.getElementById(id))
            .map((node) => [node.clientWidth, node.scrollHeight])""")
        assert sizes[0] == sizes[1]
        assert page.run("return document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.soak
def test_right_to_left_text_is_written_from_the_right(page):
    answering(page, "وقعت الدول", {"source": "states signed", "weights": [[0.1, 0.9], [0.9, 0.1]]})
    assert translated(page, "states signed") == ["وقعت", "الدول"]
    assert page.run("return document.getElementById('target').dir") == "rtl"
    page.run("document.querySelector('#target .word').focus()")
    page.press("Left")
    assert page.run(CHOSEN) == ["الدول"]
    assert page.run(LIT) == ["states", "signed"]


def test_text_is_never_markup(page):
    attack = "<img src=x onerror=window.attacked=1> <script>window.attacked=1</script>"
    answering(page, attack, {"source": attack, "weights": [[0.2] * 4] * 4}, alternatives=[attack])
    assert translated(page, attack) == attack.split()
    assert page.run("return window.attacked || null") is None
    assert page.run("return document.querySelectorAll('#target img, #mirror img, #alternatives img').length") == 0


@pytest.mark.soak
def test_a_correction_is_kept_as_a_row(page):
    translated(page)
    page.run("""window.saved = []; URL.createObjectURL = (blob) => { blob.text().then((text) => saved.push(text));
        return "#"; }""")
    page.click("#correct")
    page.run("document.getElementById('correction').value = 'La voiture\\test rouge.'")
    page.click("#correct")
    assert page.run("return document.getElementById('target').textContent") == "La voiture\test rouge."
    page.click("#downloads button")
    assert until(page, "return window.saved[0]") == f"en\tfr\n{TEXT}\tLa voiture est rouge.\n"


@pytest.mark.soak
def test_a_file_is_translated(page):
    page.run("""const data = new DataTransfer(); data.items.add(new File(["The car is red."], "a.txt"));
        dispatchEvent(Object.assign(new Event("drop", {cancelable: true}), {dataTransfer: data}))""")
    address = until(page, "const link = document.querySelector('#file-list a'); return link && link.href")
    assert page.run("return fetch(arguments[0]).then((answer) => answer.text())", address)
    assert page.run("return document.querySelector('#file-list').textContent") == "a.txt: fetch the translation"


@pytest.mark.soak
def test_what_was_not_ordinary_about_a_file_stands_below_its_link(page):
    page.run("""const data = new DataTransfer();
        data.items.add(new File(["<html lang='de'><p>The car is red.</p></html>"], "a.html"));
        dispatchEvent(Object.assign(new Event("drop", {cancelable: true}), {dataTransfer: data}))""")
    told = until(page, "const one = document.querySelector('#file-list p'); return one && one.textContent")
    assert told == "Warning: says that its text is in de, but it was translated from en"


@pytest.mark.soak
def test_everything_has_a_name(page):
    nameless = page.run("""return [...document.querySelectorAll("button, select, textarea, input")].filter((node) =>
        !node.hidden && !node.textContent.trim() && !node.ariaLabel && !(node.labels && node.labels.length))
        .map((node) => node.outerHTML)""")
    assert nameless == []


@pytest.mark.soak
def test_the_page_waits_for_a_server_that_goes_away(browser, model):
    with running_server("--model", model) as first:
        port = first.port
        browser._ask("POST", "/url", {"url": f"{first.address}/"})
        translated(browser)
        assert first.end() == 0
    browser.run(TYPE, "The cat sees the dog.")
    until(browser, "return document.getElementById('status').textContent.startsWith('The server does not answer')")
    with running_server("--model", model, "--port", str(port)) as second:
        expected = second.translate("The cat sees the dog.")["translatedText"]
        until(browser, "return document.getElementById('target').textContent === arguments[0]", expected)
        assert browser.run(STATUS) == ""
    browser.console()


# Answers that are late -----------------------------------------------------------------------------------------------

HOLD = """const ask = window.fetch, found = (text) => new Response(JSON.stringify({translatedText: text}));
    window.answers = {};
    window.fetch = (path, more) => {
        if (path !== "translate") return ask(path, more);
        const {q, source} = JSON.parse(more.body);
        return new Promise((resolve) => { answers[`${source} ${q}`] = (text) => resolve(found(text)); });
    }"""
CHOOSE = """const list = document.getElementById("direction"); list.selectedIndex = arguments[0];
    list.dispatchEvent(new Event("change"))"""
CORRECT = """document.getElementById("correct").click();
    document.getElementById("correction").value = arguments[0]"""
SHOWN = "return document.getElementById('target').textContent"
SOURCE = "return document.getElementById('source').value"


@pytest.fixture(scope="module")
def both_ways(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    back = tmp_path_factory.mktemp("back") / "model"
    shutil.copytree(model, back)
    config = (back / "config.yaml").read_text()
    languages = ("source_lang: en\n", "target_lang: fr\n"), ("source_lang: fr\n", "target_lang: en\n")
    for old, new in zip(*languages, strict=True):
        assert old in config
        config = config.replace(old, new)
    (back / "config.yaml").write_text(config)
    with running_server("--model", model, "--model", back) as running:
        yield running


@pytest.fixture
def late(browser: Chromium, both_ways: Server) -> Chromium:
    """The page with two directions, whose answers come when `answer` is called."""
    browser.size(1200, 800)
    browser._ask("POST", "/url", {"url": f"{both_ways.address}/"})
    until(browser, "return document.getElementById('direction').options.length === 2")
    browser.run(HOLD)
    return browser


def answer(browser: Chromium, text: str, translation: str, source: str = "en") -> None:
    """Answer the request that names this text and this source language, and wait for it first."""
    until(browser, "return arguments[0] in answers", f"{source} {text}")
    browser.run("answers[arguments[0]](arguments[1])", f"{source} {text}", translation)


@pytest.mark.soak
def test_corrections_belong_to_the_direction_of_what_was_shown(late):
    late.run("""window.saved = {}; URL.createObjectURL = (blob) => { blob.text().then((text) =>
        saved[text.slice(0, 5)] = text); return "#"; }""")
    late.run(TYPE, "the dog")
    answer(late, "the dog", "le chien")
    until(late, f"{SHOWN} === 'le chien'")
    late.run(CHOOSE, 1)
    assert late.run("return document.body.classList.contains('old')")
    assert late.run("return document.getElementById('target').lang") == "fr"
    late.run(CORRECT, "un chien")
    late.click("#correct")
    answer(late, "the dog", "dog", source="fr")
    until(late, f"{SHOWN} === 'dog'")
    assert late.run("return document.getElementById('target').lang") == "en"
    late.run(CORRECT, "a dog")
    late.click("#correct")
    buttons = "return [...document.querySelectorAll('#downloads button')].map((button) => button.textContent)"
    assert late.run(buttons) == ["Download English → French as TSV", "Download French → English as TSV"]
    late.run("document.querySelectorAll('#downloads button').forEach((button) => button.click())")
    assert until(late, "return Object.keys(saved).length === 2 && Object.values(saved)") == [
        "en\tfr\nthe dog\tun chien\n", "fr\ten\nthe dog\ta dog\n",
    ]  # fmt: skip


@pytest.mark.soak
def test_exchanging_the_languages_keeps_what_has_no_translation_yet(late):
    late.run(TYPE, "the dog")
    answer(late, "the dog", "le chien")
    until(late, f"{SHOWN} === 'le chien'")
    late.run(TYPE, "the dog sleeps")
    late.click("#swap")
    assert late.run(SOURCE) == "the dog sleeps"
    answer(late, "the dog sleeps", "another", source="fr")
    until(late, f"{SHOWN} === 'another'")
    late.click("#swap")
    assert late.run(SOURCE) == "another"


@pytest.mark.soak
@pytest.mark.parametrize(("button", "begins"), [("#cancel", "the cat"), ("#correct", "the cat")])
def test_a_late_answer_leaves_a_correction(late, button, begins):
    late.run(TYPE, "the dog")
    answer(late, "the dog", "le chien")
    until(late, f"{SHOWN} === 'le chien'")
    late.run(TYPE, begins)
    late.run(CORRECT, "un chien")
    answer(late, begins, "le chat")
    until(late, f"{STATUS} === 'A new translation is there. Keep or cancel the correction to see it.'")
    assert late.run("return document.getElementById('correction').value") == "un chien"
    late.click(button)
    until(late, f"{SHOWN} === 'le chat'")
    kept = late.run("return document.getElementById('kept-count').textContent")
    assert kept == ("" if button == "#cancel" else "1 correction.")


@pytest.mark.soak
def test_the_page_gets_lower_again(late):
    long = "the dog sleeps and " * 400
    late.run(TYPE, long)
    answer(late, long, "le chien dort et " * 400)
    until(late, f"{SHOWN}.length > 1000")
    late.run(TYPE, "the dog")
    answer(late, "the dog", "le chien")
    until(late, f"{SHOWN} === 'le chien'")
    assert late.run("return document.documentElement.scrollHeight <= innerHeight")


@pytest.mark.soak
def test_who_types_before_the_languages_are_there_gets_them(browser, server):
    """Fails if a key stops the next attempt."""
    refusing = """const ask = window.fetch; let refused = false;
        window.fetch = (path, more) => { if (path !== "languages" || refused) return ask(path, more);
            refused = true;
            return Promise.resolve(new Response("{}", {status: 503, headers: {"Retry-After": "1"}})); }"""
    command = {"cmd": "Page.addScriptToEvaluateOnNewDocument", "params": {"source": refusing}}
    added = browser._ask("POST", "/goog/cdp/execute", command)
    try:
        browser._ask("POST", "/url", {"url": f"{server.address}/"})
        until(browser, f"{STATUS}.endsWith('Trying again.')")
        browser.run(TYPE, TEXT)
        until(browser, "return document.getElementById('direction').options.length === 1")
        until(browser, f"{SHOWN}.length > 0")
    finally:
        command = {"cmd": "Page.removeScriptToEvaluateOnNewDocument", "params": added}
        browser._ask("POST", "/goog/cdp/execute", command)
