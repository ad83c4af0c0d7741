"""The attention page in a real browser: what a reader points at, presses and sees."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from chromium import Chromium, running_chromium

from nmt_cli.plots.attention_page import AttentionPicture, Candidate, SearchStep
from nmt_cli.plots.attention_plot import draw_attention

pytestmark = pytest.mark.slow

STEPS = (
    SearchStep((Candidate("▁das", 0.7, -0.36, "", True), Candidate("▁ein", 0.2, -1.61, "", False))),
    SearchStep(
        (
            Candidate("▁kleine", 0.6, -0.87, "das", True),
            Candidate("▁Haus", 0.3, -1.56, "das", False),
            Candidate("▁Haus", 0.9, -1.72, "ein", True, beam=1),
        )
    ),
    SearchStep((Candidate("▁Haus", 0.85, -1.03, "das kleine", True),)),
)
HOUSE = AttentionPicture(
    ("the", "little", "house"),
    ("das", "kleine", "Haus"),
    ((0.87, 0.07, 0.03, 0.03), (0.1, 0.75, 0.15, 0.0), (0.02, 0.38, 0.5, 0.1)),
    translation="das kleine Haus.",
    steps=STEPS,
)
ARABIC = AttentionPicture(("وقعت", "الدول"), ("states", "signed"), ((0.1, 0.8, 0.1), (0.7, 0.2, 0.1)))
LONG = AttentionPicture(
    tuple(f"source{number}" for number in range(80)),
    tuple("Zuständigkeitsübertragungsverordnung" * (number % 40 == 7) or f"word{number}" for number in range(80)),
    tuple(tuple(0.8 if row == column else 0.002 for column in range(81)) for row in range(80)),
)
ATTACK = "window.attacked=1"
HOSTILE = AttentionPicture(
    (f"</script><script>{ATTACK}</script>", f"<img src=x onerror={ATTACK}>"),
    (f'"><svg onload={ATTACK}>', "&lt;b&gt;"),
    ((0.5, 0.5, 0.0), (1.0, 0.0, 0.0)),
    translation=f"<iframe srcdoc='<script>parent.{ATTACK}</script>'>",
    steps=(SearchStep((Candidate(f"<img src=x onerror={ATTACK}>", 1.0, 0.0, f"<script>{ATTACK}</script>", True),)),),
)
PICTURES = (HOUSE, ARABIC, LONG, HOSTILE)

# Words of one side with what lights them: [text, number, weight].
LIT = """return [...document.querySelectorAll(`#${arguments[0]} .word.lit`)].map((word) =>
    [word.children[0].textContent, word.children[1].textContent, Number(word.style.getPropertyValue("--weight"))])"""
CHOSEN = "return [...document.querySelectorAll('.word.chosen')].map((word) => word.children[0].textContent)"
CANDIDATES = """return [...document.querySelectorAll("#beams .candidate")].map((row) => [
    row.closest("#beams > li").querySelector(".prefix").textContent, row.querySelector(".piece").textContent,
    row.querySelector(".probability").textContent, row.querySelector(".fill").style.width, row.className])"""


def word(side: str, index: int) -> str:
    return f'.word[data-side="{side}"][data-index="{index}"]'


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    with running_chromium() as running:
        yield running


@pytest.fixture
def page(browser: Chromium, tmp_path: Path) -> Iterator[Chromium]:
    """The page, opened afresh; whatever a test does there, nothing is complained about and nothing asked for."""
    draw_attention(PICTURES, tmp_path / "attention.html")
    browser.size(1200, 800)
    browser.console()
    browser.requests()
    browser.visit(tmp_path / "attention.html")
    yield browser
    assert browser.console() == []
    assert browser.requests() == [(tmp_path / "attention.html").as_uri()]


def test_pointing_at_a_target_word_lights_up_what_it_looked_at(page: Chromium):
    page.hover(word("target", 2))
    lit = page.run(LIT, "source")
    assert [(text, number) for text, number, _ in lit] == [
        ("the", "2%"), ("little", "38%"), ("house", "50%"), ("</s>", "10%"),
    ]  # fmt: skip
    assert max(lit, key=lambda entry: entry[2])[0] == "house"
    assert page.run(CHOSEN) == ["Haus"]
    colours = page.run(
        "return [...document.querySelectorAll('#source .word')].map((word) => getComputedStyle(word).backgroundColor)"
    )
    assert len(set(colours)) == 4
    readout = page.run("return document.getElementById('readout').textContent")
    assert readout == "Haus looked athouse50 %little38 %</s>10 %the2 %"


@pytest.mark.soak
def test_pointing_at_a_source_word_lights_up_the_translation(page: Chromium):
    page.hover(word("source", 1))
    lit = page.run(LIT, "target")
    assert [(text, number) for text, number, _ in lit] == [("das", "7%"), ("kleine", "75%"), ("Haus", "38%")]
    assert page.run(LIT, "source") == []


@pytest.mark.soak
def test_the_end_of_the_source_is_reached_as_a_word_is(page: Chromium):
    page.hover(word("source", 3))
    assert page.run(CHOSEN) == ["</s>"]
    lit = page.run(LIT, "target")
    assert [(text, number) for text, number, _ in lit] == [("das", "3%"), ("Haus", "10%")]
    page.run(f"document.querySelector('{word('source', 2)}').focus()")
    page.press("Right")
    name = page.run("return document.activeElement.getAttribute('aria-label')")
    assert name == "</s>, the end of the source"
    page.press("Down")
    assert page.run(CHOSEN) == ["Haus"]


@pytest.mark.soak
def test_the_page_says_where_attention_need_not_add_up(browser: Chromium, tmp_path: Path):
    sums = "return document.getElementById('sums').textContent"
    for weights, said in (
        (((0.5, 0.5),), "A whole row is 100."),
        (((0.5, 0.1),), "The attention of this model need not add up to 100."),
    ):
        draw_attention([AttentionPicture(("the",), ("das",), weights)], tmp_path / "sums.html")
        browser.visit(tmp_path / "sums.html")
        assert browser.run(sums) == said


@pytest.mark.soak
def test_a_tapped_word_stays_when_the_pointer_goes_away(page: Chromium):
    page.click(word("target", 1))
    page.hover(word("target", 2))
    page.hover("h1")
    assert page.run(CHOSEN) == ["kleine"]
    assert page.run("return document.querySelector('[aria-pressed=\"true\"]').getAttribute('aria-label')") == (
        "kleine, translation word 2 of 3"
    )


@pytest.mark.soak
def test_a_finger_lights_up_a_word(page: Chromium):
    at = page.run(f"""const box = document.querySelector('{word("target", 1)}').getBoundingClientRect();
        return {{x: box.x + box.width / 2, y: box.y + box.height / 2}}""")
    page.command("Input.dispatchTouchEvent", type="touchStart", touchPoints=[at])
    page.command("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
    assert page.run(CHOSEN) == ["kleine"]


@pytest.mark.soak
def test_the_keyboard_reaches_every_word_and_says_what_it_shows(page: Chromium):
    page.press("Tab", "Tab", "Tab", "Tab")  # previous, list, next, first source word
    assert page.run(CHOSEN) == ["the"]
    page.press("Right", "Right")
    assert page.run(CHOSEN) == ["house"]
    page.press("Down")  # to the word that looked here most
    assert page.run(CHOSEN) == ["Haus"]
    page.press("Left")
    assert page.run(CHOSEN) == ["kleine"]
    outline = page.run("const s = getComputedStyle(document.activeElement); return [s.outlineStyle, s.outlineWidth]")
    assert outline == ["solid", "2px"]
    live = page.run("const n = document.getElementById('live'); return [n.getAttribute('aria-live'), n.textContent]")
    assert live == ["polite", "kleine looked at little 75 %, house 15 %, the 10 %"]


@pytest.mark.soak
def test_arrow_keys_and_buttons_step_through_decoding(page: Chromium):
    assert page.run(CANDIDATES) == [
        ["at the start", "▁das", "70.0 %", "70%", "candidate kept"],
        ["at the start", "▁ein", "20.0 %", "20%", "candidate"],
    ]
    page.press("Right")  # the focus is nowhere yet
    second = page.run(CANDIDATES)
    assert [entry[:3] for entry in second] == [
        ["das", "▁kleine", "60.0 %"],
        ["das", "▁Haus", "30.0 %"],
        ["ein", "▁Haus", "90.0 %"],
    ]
    assert page.run("return document.getElementById('step-count').textContent") == "2 of 3"
    page.click("#next-step")
    assert page.run("return document.getElementById('step-count').textContent") == "3 of 3"
    page.press("Right")
    assert page.run("return document.getElementById('step-count').textContent") == "3 of 3"
    page.press("Left")
    assert page.run(CANDIDATES) == second
    page.run("document.getElementById('step').focus()")
    page.press("Left")  # once, by the slider itself
    assert page.run("return document.getElementById('step-count').textContent") == "1 of 3"
    assert page.run("return document.getElementById('live').textContent") == "Step 1 of 3. Kept: ▁das 70 %"


@pytest.mark.soak
def test_the_reader_switches_between_sentences(page: Chromium):
    page.click("#next-sentence")
    assert page.run("return document.getElementById('source').dir") == "rtl"
    assert page.run("return document.getElementById('target').dir") == "ltr"
    assert page.run("return document.getElementById('steps').hidden") is True
    first, second = (f"document.querySelector('{word('source', index)}').getBoundingClientRect().x" for index in (0, 1))
    assert page.run(f"return {first} > {second}")
    page.run(f"document.querySelector('{word('source', 0)}').focus()")
    page.press("Left")  # onward, where reading goes from right to left
    assert page.run(CHOSEN) == ["الدول"]
    page.run("document.getElementById('sentence').focus()")
    page.press("Down")
    assert page.run("return document.querySelectorAll('.word').length") == 161
    page.click("#previous-sentence")
    page.click("#previous-sentence")
    assert page.run("return document.getElementById('sentence').selectedIndex") == 0


@pytest.mark.soak
def test_the_matrix_shows_every_weight_and_lights_up_the_words(page: Chromium):
    cells = (
        "return [...document.querySelectorAll('#matrix tbody tr')].map((row) => [...row.cells].map((c) => c.innerText))"
    )
    assert page.run(cells) == [
        ["das", "87", "7", "3", "3"], ["kleine", "10", "75", "15", ""], ["Haus", "2", "38", "50", "10"],
    ]  # fmt: skip
    assert page.run("return [...document.querySelectorAll('#matrix thead th')].map((th) => th.innerText)") == [
        "Translation", "the", "little", "house", "</s>",
    ]  # fmt: skip
    page.hover('#matrix td[data-target="1"][data-source="0"]')
    assert page.run(CHOSEN) == ["kleine"]
    page.hover('#matrix thead th[data-source="2"]')
    assert page.run(CHOSEN) == ["house"]


@pytest.mark.soak
@pytest.mark.parametrize("index", range(len(PICTURES)))
def test_a_narrow_window_scrolls_down_only(page: Chromium, index: int):
    page.size(360, 700)
    page.run("const list = document.getElementById('sentence'); list.selectedIndex = arguments[0];"
             "list.dispatchEvent(new Event('change'))", index)  # fmt: skip
    assert page.run("return document.documentElement.scrollWidth") <= 360
    assert page.run("const all = [...document.querySelectorAll('.word')];"
                    "return all.every((word) => word.getBoundingClientRect().right <= 360)")  # fmt: skip
    scrolls = page.run("const s = document.getElementById('scroll'); return s.scrollWidth > s.clientWidth")
    assert scrolls == (PICTURES[index] is LONG)


@pytest.mark.soak
def test_the_head_of_the_matrix_stays_in_sight(page: Chromium):
    page.click("#next-sentence")
    page.click("#next-sentence")
    seen = page.run(
        """const box = document.getElementById("scroll"), edge = box.getBoundingClientRect();
        const at = (selector) => document.querySelector(selector).getBoundingClientRect();
        box.scrollTo(600, 600);
        return [at('thead th[data-source="20"]').y - edge.y, at('tbody th[data-target="20"]').x - edge.x,
                box.scrollLeft, box.scrollTop]"""
    )
    assert seen == [1, 1, 600, 600]


def test_hostile_text_is_shown_and_not_run(page: Chromium):
    for _ in range(3):
        page.click("#next-sentence")
    assert page.run("return window.attacked === undefined")
    shown = page.run("return [...document.querySelectorAll('.word')].map((word) => word.children[0].textContent)")
    assert shown == [*HOSTILE.source, "</s>", *HOSTILE.target]
    assert page.run("return document.getElementById('translation').textContent") == HOSTILE.translation
    assert page.run("return document.querySelectorAll('main :is(img, svg, script, iframe)').length") == 0


@pytest.mark.soak
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_letters_have_enough_contrast_on_every_light(browser: Chromium, tmp_path: Path, scheme: str):
    weights = tuple(step / 40 for step in range(41))
    draw_attention([AttentionPicture(("word",) * 40, ("target",), (weights,))], tmp_path / "lights.html")
    browser.visit(tmp_path / "lights.html")
    browser.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    ratios = browser.run(
        """const pixel = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
        const level = (colours) => {
            for (const colour of colours) { pixel.fillStyle = colour; pixel.fillRect(0, 0, 1, 1); }
            const parts = [...pixel.getImageData(0, 0, 1, 1).data].slice(0, 3).map((part) => part / 255);
            const [r, g, b] = parts.map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
            return 0.2126 * r + 0.7152 * g + 0.0722 * b;
        };
        const paper = getComputedStyle(document.body).backgroundColor;
        return [...document.querySelectorAll(".word")].map((word) => {
            const style = getComputedStyle(word), a = level([style.color]), b = level([paper, style.backgroundColor]);
            return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        })"""
    )
    browser.command("Emulation.setEmulatedMedia", features=[])
    assert len(ratios) == 42
    assert min(ratios) >= 4.5
