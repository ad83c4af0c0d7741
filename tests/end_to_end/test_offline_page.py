"""The page of `nmt export -o page.html` in real browsers, opened from disk: what people see; nothing is asked."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from chromium import Chromium, running_chromium
from command_line import run_here
from firefox import Firefox, running_firefox

pytestmark = pytest.mark.slow

TEXT = "The car is red. Where is the house?"
TYPE = """const area = document.getElementById("source"); area.value = arguments[0];
    area.dispatchEvent(new Event("input"))"""
TRANSLATION = "return document.getElementById('translation').textContent"
STATUS = "return document.getElementById('status').textContent"
READY = (
    "return document.getElementById('direction').options.length > 0 && !document.getElementById('status').textContent"
)
WORDS = "return [...document.querySelectorAll('#target .word')].map((word) => word.textContent)"
DAMAGED = "This file is damaged or not complete, so nothing can be translated. Fetch the file again."
NOT_STARTED = "If this line stays, the browser is too old for it or the file is damaged."


@pytest.fixture(scope="module")
def file(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One model's page."""
    return exported(tmp_path_factory.mktemp("page") / "translator.html", model)


def exported(path: Path, *models: Path) -> Path:
    result = run_here("export", *(word for model in models for word in ("--model", str(model))), "-o", str(path))
    assert result.code == 0, result.err
    return path


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    with running_chromium() as running:
        yield running


@pytest.fixture
def page(browser: Chromium, file: Path) -> Iterator[Chromium]:
    """The page, opened afresh; whatever a test does there, nothing is complained about, asked or kept."""
    opened(browser, file)
    yield browser
    assert browser.console() == []
    assert [url for url in browser.requests() if not url.startswith(("file:", "data:", "blob:"))] == []
    kept = "return [document.cookie, localStorage.length, sessionStorage.length, location.href.includes('Where')]"
    assert browser.run(kept) == ["", 0, 0, False]


def opened(browser: Chromium, file: Path, *, fragment: str = "", ready: bool = True) -> None:
    browser.size(1200, 800)
    browser._ask("POST", "/url", {"url": "about:blank"})  # the same file with another fragment is not loaded again
    browser.console()
    browser.requests()
    browser._ask("POST", "/url", {"url": file.resolve().as_uri() + fragment})
    if ready:
        until(browser, READY)


def until(browser: Chromium | Firefox, script: str, *arguments: object) -> Any:
    """Return the result of the script, as soon as it has one."""
    for _ in range(300):
        if found := browser.run(script, *arguments):
            return found
        time.sleep(0.1)
    raise AssertionError(f"{script} gives nothing; the page says {browser.run(STATUS)!r}")


def translated(browser: Chromium, text: str = TEXT) -> str:
    browser.run(TYPE, text)
    until(browser, f"{TRANSLATION.replace('return', 'return !document.body.classList.contains(`old`) &&')} !== ''")
    found: str = browser.run(TRANSLATION)
    return found


def test_lines_in_other_case_and_without_full_stop_are_translated_as_by_nmt_translate(
    browser: Chromium, tmp_path: Path
):
    """The model reads capitals and small letters in the case of its training text; its translations are undone."""
    shutil.copytree(Path(__file__).parents[1] / "models/format-1-init", tmp_path / "model")
    config = tmp_path / "model/run/config.yaml"
    config.write_text(config.read_text(encoding="utf-8").replace("@HERE@", str(tmp_path / "model")), encoding="utf-8")
    lines = ["WHERE IS OUR HOTEL?", "she sees the red car", "The cat is big", "The cat is big.", "Cat", "HE IS TIRED"]
    opened(browser, exported(tmp_path / "translator.html", config.parent))
    options = ("--model", str(config.parent), "--precision", "int8", "--beam-size", "1")
    truth = run_here("translate", *options, stdin="".join(f"{line}\n" for line in lines).encode())
    assert truth.code == 0, truth.err
    assert translated(browser, "\n".join(lines)).split("\n") == truth.out.decode().splitlines()


def by_nmt(text: str, model: Path) -> list[str]:
    options = ("--precision", "int8", "--beam-size", "1")
    result = run_here("translate", "--model", str(model), *options, stdin=text.encode())
    assert result.code == 0, result.err
    return result.lines


def test_lines_are_translated_as_by_nmt_in_int8(page, corpus, model):
    lines = (corpus / "test.en").read_text(encoding="utf-8").splitlines()
    lines += [line for line in (corpus / "train.en").read_text(encoding="utf-8").splitlines() if len(line) < 80][:170]
    expected = by_nmt("\n".join(lines) + "\n", model)
    found = translated(page, "\n".join(lines)).split("\n")
    assert len(found) == len(lines)
    assert sum(one == other for one, other in zip(found, expected, strict=True)) >= 0.99 * len(lines)


@pytest.mark.soak
def test_sentences_are_translated_one_by_one_and_what_is_between_them_stays(page, model):
    first, second = by_nmt("The car is red.\nWhere is the house?\n", model)
    assert (
        translated(page, "  The car is red.  Where is the house?\n\n12 + 3\t\n") == f"  {first}  {second}\n\n12 + 3\t\n"
    )


@pytest.mark.soak
def test_the_address_says_what_to_translate(browser, file, model):
    opened(browser, file, fragment=f"#text={quote('Where is the red car?')}")
    (expected,) = by_nmt("Where is the red car?\n", model)
    until(browser, TRANSLATION.replace("textContent", "textContent === arguments[0]"), expected)
    browser.run("location.hash = 'text='")
    until(browser, TRANSLATION.replace("textContent", "textContent === ''"))
    assert browser.console() == []


@pytest.mark.soak
def test_a_long_sentence_is_cut_as_by_nmt(page, model):
    text = "the red car is here and " * 60
    assert translated(page, text).rstrip() == by_nmt(text.strip() + "\n", model)[0]


@pytest.mark.soak
def test_other_translations_are_shown(page):
    best = translated(page, "Where is the red car?")
    others = "return [...document.querySelectorAll('#alternatives button')].map((one) => one.textContent)"
    found = page.run(others)
    assert 1 <= len(found) <= 3
    assert len({best, *found}) == len(found) + 1


@pytest.mark.soak
def test_pointing_and_keys_show_what_a_word_looked_at(page):
    words = translated(page).split()
    assert page.run(WORDS) == words
    page.hover('#target .word[data-index="1"]')
    readout = page.run("return document.getElementById('readout').textContent")
    assert re.fullmatch(rf"{re.escape(words[1])} looked at \S+ \d+ %.*", readout)
    assert page.run("return document.querySelectorAll('#mirror .lit').length") > 0
    page.run("document.querySelector('#target .word').focus()")
    page.press("Right")
    assert words[1] in page.run(STATUS)


@pytest.mark.soak
def test_the_keyboard_reaches_everything(page):
    translated(page)
    page.run("document.getElementById('source').focus()")
    reached = []
    for _ in range(20):
        page.press("Tab")
        reached.append(page.run("return document.activeElement.id || document.activeElement.className || "
                                "document.activeElement.localName"))  # fmt: skip
    assert {"word", "copy", "correct", "file", "summary"} <= {name.partition(" ")[0] for name in reached}


@pytest.mark.soak
def test_narrow_pages_do_not_scroll_sideways(page):
    translated(page, TEXT + " " + "The cat sees the dog. " * 12)
    page.run("document.querySelector('details').open = true")
    for width in (1200, 700, 360):
        page.size(width, 800)
        time.sleep(0.3)
        assert page.run("return document.documentElement.scrollWidth <= innerWidth"), width


@pytest.mark.soak
def test_right_to_left_text_is_written_from_the_right(page):
    translated(page, "اين السيارة")
    assert page.run("return getComputedStyle(document.getElementById('source')).direction") == "rtl"


@pytest.mark.soak
def test_text_is_never_markup(page):
    attack = "<img src=x onerror=window.attacked=1> <script>window.attacked=1</script>"
    translated(page, attack)
    page.run("location.hash = new URLSearchParams({text: arguments[0]})", attack)
    until(page, "return document.getElementById('source').value === arguments[0]", attack)
    time.sleep(0.5)
    assert page.run("return window.attacked || null") is None
    assert page.run("return document.querySelectorAll('main img, main script').length") == 0


@pytest.mark.soak
def test_a_name_and_a_card_are_never_markup(browser, model, tmp_path):
    copy = shutil.copytree(model, tmp_path / "model")
    config = (copy / "config.yaml").read_text(encoding="utf-8")
    for key, attack in (("name", "<img src=x onerror=window.attacked=1>"), ("licence", "</pre><img src=x onerror=x>")):
        config, count = re.subn(rf"^( *{key}): .*$", rf"\g<1>: '{attack}'", config, count=1, flags=re.MULTILINE)
        assert count == 1, config
    (copy / "config.yaml").write_text(config, encoding="utf-8")
    opened(browser, exported(tmp_path / "page.html", copy))
    card = browser.run("return document.querySelector('.about pre').textContent")
    assert card.count("onerror") >= 2
    assert browser.run("return document.querySelectorAll('img').length || window.attacked || 0") == 0


DROP = """const data = new DataTransfer(); data.items.add(new File([new Uint8Array(arguments[0])], "a.txt"));
    const get = URL.createObjectURL; window.made = [];
    URL.createObjectURL = (blob) => { made.push(blob); return get(blob); };
    dispatchEvent(Object.assign(new Event("drop", {cancelable: true}), {dataTransfer: data}));"""


@pytest.mark.soak
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_text_file_is_translated(page, model, encoding):
    page.run(DROP, list("The car is red.\r\n→ 7\r\n".encode(encoding)))
    text = until(page, "return window.made[0] && made[0].text()")
    assert text == by_nmt("The car is red.\n", model)[0] + "\n→ 7\n"


@pytest.mark.soak
def test_a_text_file_in_another_encoding_is_refused(page):
    page.run(DROP, list("The car is réd.\n".encode("latin-1")))
    said = until(page, "return document.getElementById('file-list').textContent.replace(/.*is being translated/, '')")
    assert said == "a.txt: the text is not UTF-8, or is damaged; save it as UTF-8"


def test_the_page_asks_nobody_and_may_not(page):
    translated(page)
    refused = page.run("return fetch('https://example.org/').then(() => 'answered', () => 'refused')")
    assert refused == "refused"
    assert any("Content Security Policy" in line for line in page.console())


@pytest.mark.soak
def test_the_card_is_there(page):
    assert "Translates from en to fr" in page.run("return document.querySelector('.about pre').textContent")


WITHOUT = {
    "a worker": "delete window.Worker",
    "a worker that starts": "window.Worker = class { constructor() { setTimeout(() => "
    "this.onerror({preventDefault() {}})); } postMessage() {} }",
    "WebAssembly": "delete window.WebAssembly; delete window.Worker",
    "a sentence segmenter": "delete Intl.Segmenter; delete window.Worker; delete Uint8Array.fromBase64",
}


@pytest.mark.soak
@pytest.mark.parametrize("what", WITHOUT)
def test_the_page_translates_without(browser, file, model, what):
    first = browser.command("Page.addScriptToEvaluateOnNewDocument", source=WITHOUT[what])
    try:
        opened(browser, file)
        found = translated(browser)
    finally:
        browser.command("Page.removeScriptToEvaluateOnNewDocument", identifier=first["identifier"])
    assert found == " ".join(by_nmt("The car is red.\nWhere is the house?\n", model))


@pytest.mark.soak
def test_damaged_files_say_so(browser, file, tmp_path):
    content = file.read_bytes()
    model = content.index(b'class="model"')
    script = content.index(b"const AttentionWords")
    damages = {
        "a changed weight": (content[: model + 5000] + b"AAAA" + content[model + 5004 :], DAMAGED),
        "no base64": (content[: model + 5000] + b"????" + content[model + 5004 :], DAMAGED),
        "cut off in the model": (content[: model + 5000], DAMAGED),
        "cut off in the kernels": (content[: model - 100], DAMAGED),
        "cut off before the model": (content[: content.rindex(b"<script", 0, model)], DAMAGED),
        "a changed script": (content[:script] + b"CONST" + content[script + 5 :], NOT_STARTED),
        "cut off in the scripts": (content[: script + 10], NOT_STARTED),
    }
    for name, (damaged, message) in damages.items():
        path = tmp_path / "damaged.html"
        path.write_bytes(damaged)
        opened(browser, path, ready=False)
        until(browser, "return document.getElementById('status').textContent.endsWith(arguments[0])", message)
        time.sleep(0.3)
        assert browser.run(STATUS).endswith(message), name
        browser.console()


@pytest.mark.soak
def test_both_directions_share_a_page(browser, model, tmp_path):
    """The same model twice, the second under exchanged names: it says nonsense, but each direction has its own."""
    back = shutil.copytree(model, tmp_path / "back")
    config = (back / "config.yaml").read_text(encoding="utf-8")
    config = config.replace("source_lang: en", "source_lang: xx").replace("target_lang: fr", "target_lang: en")
    (back / "config.yaml").write_text(config.replace("source_lang: xx", "source_lang: fr"), encoding="utf-8")
    opened(browser, exported(tmp_path / "both.html", model, back))
    names = browser.run("return [...document.getElementById('direction').options].map((one) => one.textContent)")
    assert names == ["English → French", "French → English"]
    there = translated(browser, "The car is red.")
    browser.click("#swap")
    until(browser, "return document.getElementById('source').value === arguments[0]", there)
    (expected,) = by_nmt(there + "\n", back)
    until(browser, TRANSLATION.replace("textContent", "textContent === arguments[0]"), expected)
    assert browser.run("return document.querySelectorAll('.about').length") == 2
    assert browser.console() == []


@pytest.mark.soak
def test_firefox_translates_too(file, model, tmp_path):
    with running_firefox() as firefox:
        firefox.visit(file.resolve().as_uri() + f"#text={quote(TEXT)}")
        until(firefox, f"{TRANSLATION} !== ''")
        assert firefox.run(TRANSLATION) == " ".join(by_nmt("The car is red.\nWhere is the house?\n", model))
        assert firefox.run(WORDS) == firefox.run(TRANSLATION).split()
        content = file.read_bytes()
        (tmp_path / "damaged.html").write_bytes(content[: content.index(b'class="model"') + 5000])
        firefox.visit((tmp_path / "damaged.html").as_uri())
        until(firefox, f"{STATUS} === arguments[0]", DAMAGED)
