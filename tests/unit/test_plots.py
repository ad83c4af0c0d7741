from __future__ import annotations

import html
import json
import re
import struct
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path

import pytest

from nmt_cli.assembly.pictures import pictures_of
from nmt_cli.plots.attention_page import AttentionPicture, Candidate, SearchStep, render_page
from nmt_cli.plots.attention_plot import draw_attention
from nmt_cli.plots.curves import LengthBucket, draw_curves, draw_lengths
from nmt_cli.system.errors import InputError

PICTURE = AttentionPicture(("the", "house"), ("das", "Haus"), ((0.8, 0.1, 0.1), (0.2, 0.8, 0.0)))
TRAINED = [
    {"event": "train", "step": 10, "loss": 5.0},
    {"event": "train", "step": 20, "loss": 4.0},
    {"event": "validation", "step": 20, "loss": 4.2, "bleu": 3.1, "chrf": 20.0, "perplexity": 66.7},
    {"event": "checkpoint", "step": 20},
]
BUCKETS = [
    LengthBucket(1, 10, 40, 31.5, 30.0, 33.0),
    LengthBucket(11, 20, 12, 25.0, 22.0, 28.0),
    LengthBucket(21, 30, 0, 0.0, 0.0, 0.0),
]


def words_of(path: Path) -> list[str]:
    """The text of an SVG file, which must be well-formed XML."""
    root = ElementTree.parse(path).getroot()
    return [node.text for node in root.iter("{http://www.w3.org/2000/svg}text") if node.text]


def data_of(page: str) -> list[dict]:
    """The pictures that a page holds, read as a browser would: up to the first end of a script element."""
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script', page, re.DOTALL)[1])


# Attention


def test_a_png_of_attention_is_a_png(tmp_path):
    draw_attention([PICTURE], tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


def test_an_svg_of_attention_holds_the_words_as_text(tmp_path):
    draw_attention([PICTURE], tmp_path / "a.svg")
    assert {"the", "house", "das", "Haus"} <= set(words_of(tmp_path / "a.svg"))


def test_a_figure_of_attention_has_a_column_for_the_end_and_a_scale(tmp_path):
    draw_attention([PICTURE], tmp_path / "a.svg")
    words = words_of(tmp_path / "a.svg")
    assert words[:3] == ["the", "house", "</s>"]
    assert words[-4:] == ["0 %", "50 %", "100 %", "attention"]


def test_the_same_figure_is_the_same_file(tmp_path):
    draw_attention([PICTURE], tmp_path / "a.svg")
    draw_attention([PICTURE], tmp_path / "b.svg")
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_several_sentences_share_a_figure_and_an_empty_one_does_no_harm(tmp_path):
    other = AttentionPicture(("ein", "Baum"), ("tree",), ((0.5, float("nan"), 0.0),))
    draw_attention([PICTURE, other, AttentionPicture((), (), ())], tmp_path / "a.svg")
    assert {"the", "house", "ein", "Baum", "tree"} <= set(words_of(tmp_path / "a.svg"))


def test_words_are_drawn_as_they_are(tmp_path):
    hostile = ("$\\frac$", "_x_", "</text>", "a\x00b", "\ud800", "\uffff", "line\nbreak")
    draw_attention([AttentionPicture(hostile, ("ok",), ((0.1,) * 8,))], tmp_path / "a.svg")
    expected = {"$\\frac$", "_x_", "</text>", "a\ufffdb", "\ufffd", "line\ufffdbreak"}
    assert expected <= set(words_of(tmp_path / "a.svg"))
    draw_attention([AttentionPicture(hostile, ("ok",), ((0.1,) * 8,))], tmp_path / "a.png")


def test_a_character_without_a_font_is_named_once_and_the_figure_is_drawn(tmp_path, capsys):
    private = AttentionPicture(("\ue123", "\ue123b"), ("a",), ((0.5, 0.5, 0.0),))
    draw_attention([private], tmp_path / "a.png")
    assert capsys.readouterr().err == (
        "warning: no installed font has 1 of the characters, such as \ue123: they are drawn as boxes; "
        "install Noto Sans (Debian: fonts-noto-core)\n"
    )


def test_a_figure_grows_with_the_words(tmp_path):
    def width(count: int) -> float:
        words = tuple(f"w{number}" for number in range(count))
        draw_attention([AttentionPicture(words, ("t",), ((1 / count,) * (count + 1),))], tmp_path / "a.svg")
        return float(ElementTree.parse(tmp_path / "a.svg").getroot().attrib["width"].removesuffix("pt"))

    assert width(80) > 80 * 20 > width(10)


@pytest.mark.slow
def test_a_figure_takes_as_many_sentences_as_can_be_read(tmp_path, capsys):
    words = tuple(f"w{number}" for number in range(12))
    made = 0

    def pictures() -> Iterator[AttentionPicture]:
        nonlocal made
        for made in range(1, 501):  # noqa: B007 (read outside)
            yield AttentionPicture(words, words, ((1 / 13,) * 13,) * 12)

    assert draw_attention(pictures(), tmp_path / "a.png") == 16
    assert made == 17  # a model need not translate the rest
    width, height = struct.unpack(">II", (tmp_path / "a.png").read_bytes()[16:24])
    assert max(width, height) < 160 * 21
    assert capsys.readouterr().err == (
        "warning: only the first 16 sentences are drawn, as many as one figure can show. "
        "For more, write an .html page\n"
    )
    long = AttentionPicture(words * 6, words * 6, ((1 / 73,) * 73,) * 72)
    assert draw_attention([long, PICTURE], tmp_path / "a.png") == 1
    assert "warning: only the first sentence is drawn, as many as" in capsys.readouterr().err
    assert draw_attention([PICTURE] * 30, tmp_path / "a.html") == 30
    assert capsys.readouterr().err == ""


def test_a_figure_too_large_to_read_is_refused(tmp_path):
    words = tuple("w" for _ in range(700))
    picture = AttentionPicture(words, ("t",), ((0.0,) * 701,))
    with pytest.raises(
        InputError, match=r"a\.png: 1 sentence of .* need a figure of 211 by .* draw fewer or shorter ones, or write an"
    ):
        draw_attention([picture], tmp_path / "a.png")
    assert list(tmp_path.iterdir()) == []


def test_weights_of_another_shape_are_a_mistake_of_the_caller():
    with pytest.raises(ValueError, match="a row for each of 1 target words and in it a number for each of 2 source w"):
        AttentionPicture(("a", "b"), ("c",), ((0.5, 0.5),))


# The page


def test_the_page_gives_back_what_was_put_in():
    step = SearchStep(
        (
            Candidate("▁Haus", 0.75, -0.5, "das", kept=True),
            Candidate("x", 0.0, -float("inf"), "", kept=False, has_ended=True, beam=1),
        )
    )
    picture = AttentionPicture(("the",), ("das",), ((0.123456, 0.876544),), "Das.", (step,))
    (data,) = data_of(render_page([picture]))
    assert data == {
        "translation": "Das.",
        "source": ["the"],
        "target": ["das"],
        "weights": [[0.1235, 0.8765]],
        "steps": [
            [
                {
                    "text": "▁Haus",
                    "prefix": "das",
                    "beam": 0,
                    "probability": 0.75,
                    "score": -0.5,
                    "kept": True,
                    "ended": False,
                },
                {"text": "x", "prefix": "", "beam": 1, "probability": 0.0, "score": None, "kept": False, "ended": True},
            ]
        ],
    }


def test_hostile_words_are_escaped_and_come_back_whole():
    words = (
        "</script><script>alert(1)</script>",
        "<!--",
        "&lt;",
        "\u2028\u2029",
        "{{title}}",
        "{{data}}",
        "\\1",
        "'\"",
    )
    page = render_page([AttentionPicture(words, ("a",), ((0.1,) * 9,))])
    assert data_of(page)[0]["source"] == list(words)
    assert "alert(1)</script>" not in page
    assert "\u2028" not in page


def test_lone_surrogates_can_be_written(tmp_path):
    draw_attention([AttentionPicture(("\udcff",), ("a",), ((1.0, 0.0),))], tmp_path / "a.html")
    assert data_of((tmp_path / "a.html").read_text(encoding="utf-8"))[0]["source"] == ["\udcff"]


def test_the_page_asks_nothing_of_the_network():
    page = render_page([PICTURE])
    assert "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'" in page
    assert not re.search(r"https?:|//\w|url\(|@import|<link|\bsrc=|innerHTML", page)


# Curves


def test_learning_curves_show_losses_and_scores(tmp_path):
    draw_curves({"base": TRAINED, "_big $x$": TRAINED}, tmp_path / "c.svg")
    expected = {"base: train", "base: validation", "base: BLEU", "base: chrF", "_big $x$: train", "loss", "update"}
    assert expected <= set(words_of(tmp_path / "c.svg"))


def test_learning_curves_show_the_score_of_each_direction_beside_the_mean(tmp_path):
    several = [{**TRAINED[2], "step": step, "bleu_vi-en": 2.0, "bleu_fr-en": 4.2} for step in (20, 40)]
    for runs, prefix in (({"run": several}, ""), ({"run": several, "other": TRAINED}, "run: ")):
        draw_curves(runs, tmp_path / "c.svg")
        words = set(words_of(tmp_path / "c.svg"))
        assert {f"{prefix}mean BLEU", f"{prefix}BLEU vi-en", f"{prefix}BLEU fr-en"} <= words
        assert ("other: BLEU" in words) == (len(runs) > 1)


def test_records_without_a_field_are_passed_over(tmp_path):
    records = [
        {},
        {"event": "train"},
        {"event": "train", "step": 1},
        {"event": "train", "step": 1, "loss": None},
        {"event": "train", "step": 2, "loss": float("nan")},
        {"event": "train", "step": "3", "loss": 1.0},
        {"event": "train", "step": 4, "loss": True},
        {"event": "validation", "step": 5, "loss": 2.0},
    ]
    draw_curves({"run": records}, tmp_path / "c.svg")
    words = words_of(tmp_path / "c.svg")
    assert "validation" in words
    assert not {"train", "BLEU", "chrF"} & set(words)


def test_curves_of_nothing_are_refused(tmp_path):
    for runs in ({}, {"run": []}, {"run": [{"event": "checkpoint", "step": 1, "loss": 1.0}]}):
        with pytest.raises(InputError, match=r"c\.png: nothing to draw: there is no loss yet; wait for the first"):
            draw_curves(runs, tmp_path / "c.png")


def test_scores_by_length_name_systems_and_buckets(tmp_path):
    draw_lengths({"with_attention": BUCKETS, "without": BUCKETS[:1]}, tmp_path / "l.svg")
    words = words_of(tmp_path / "l.svg")
    assert {"with_attention", "without", "BLEU", "1–10", "n=40", "11–20"} <= set(words)
    assert "21–30" not in words


def test_no_axis_of_scores_goes_beyond_what_a_score_may_be(tmp_path):
    def numbers() -> list[float]:
        return [float(word) for word in words_of(tmp_path / "a.svg") if re.fullmatch(r"-?[\d.]+", word)]

    for low, high in ((0.0, 100.0), (97.5, 100.0), (0.0, 1.0), (100.0, 100.0), (0.0, 0.0)):
        buckets = [LengthBucket(1, 10, 40, low, low - 3, low + 3), LengthBucket(11, 20, 12, high, high - 3, high + 3)]
        draw_lengths({"a": buckets}, tmp_path / "a.svg")
        assert 0 <= min(numbers()) < max(numbers()) <= 100
    scores = [{"event": "validation", "step": step, "loss": 1.0, "bleu": 100.0 * step} for step in (0, 1)]
    draw_curves({"a": scores}, tmp_path / "a.svg")
    assert max(numbers()) == 100


def test_lengths_of_nothing_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"l\.png: nothing to draw: there are no sentences"):
        draw_lengths({"a": BUCKETS[2:]}, tmp_path / "l.png")


# Errors that all share


def test_attention_of_no_sentence_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"a\.html: no sentence to draw; give at least one"):
        draw_attention([], tmp_path / "a.html")


def test_lines_for_which_the_model_writes_nothing_are_told(monkeypatch):
    monkeypatch.setattr(
        sys.modules[pictures_of.__module__],
        "picture_of",
        lambda _, line, target: line if "cat" in line and target != "" else None,
    )
    left_out = []
    assert list(pictures_of(None, ["a dog", " ", "a cat", "two dogs"], None, left_out)) == ["a cat"]
    assert left_out == [1, 4]
    assert list(pictures_of(None, ["a cat", "a cat"], ["x", ""], left_out)) == ["a cat"]
    assert left_out == [1, 4]
    with pytest.raises(InputError, match=r"every translation of the model is empty.*train it for longer"):
        list(pictures_of(None, ["", "a dog"], None, []))


@pytest.mark.parametrize(
    ("name", "said"), [("a.pdf", "not '.pdf'"), ("a", "and there is none"), ("a.png.gz", "not '.gz'")]
)
def test_another_ending_names_those_that_can_be_written(tmp_path, name, said):
    with pytest.raises(InputError) as caught:
        draw_attention([PICTURE], tmp_path / name)
    refused = f"{tmp_path / name}: the ending says what to write: it must be .png, .svg or .html, {said}"
    assert str(caught.value) == refused
    for draw in (
        lambda path: draw_curves({"run": TRAINED}, path),
        lambda path: draw_lengths({"a": BUCKETS}, path),
    ):
        with pytest.raises(InputError) as caught:
            draw(tmp_path / name)
        assert str(caught.value) == refused


def test_a_page_of_curves_or_lengths_holds_the_picture_and_needs_nothing_else(tmp_path):
    """The panels of curves stand one below the other there, so that they can be read on a telephone."""
    for name, draw in (
        ("<curves>", lambda path: draw_curves({"run": TRAINED}, path)),
        ("lengths", lambda path: draw_lengths({"a": BUCKETS}, path)),
    ):
        draw(tmp_path / f"{name}.html")
        draw(tmp_path / f"{name}.svg")
        page, picture = ((tmp_path / f"{name}.{kind}").read_text(encoding="utf-8") for kind in ("html", "svg"))
        drawn, shown = picture[picture.index("<svg") :], page.partition("<body>\n")[2]
        assert page.startswith("<!DOCTYPE html>\n")
        assert f"<title>{html.escape(name)}</title>" in page
        if name == "lengths":
            assert shown == drawn + "</body></html>\n"
        else:
            (wide, low), (narrow, high) = (
                map(float, re.search(r'width="([\d.]+)pt" height="([\d.]+)pt"', one).groups()) for one in (drawn, shown)
            )
            assert (narrow < 0.7 * wide, high > 1.8 * low) == (True, True)
            assert shown.count("<path") == pytest.approx(drawn.count("<path"), rel=0.2)
        assert 'name="viewport"' in page
        assert not re.search(r'(?:src|href)="(?!#)', page)
        assert not re.search(r"https?://(?!www\.w3\.org/)", page)  # those are the names of SVG and XLink


def test_an_ending_in_capitals_counts(tmp_path):
    draw_attention([PICTURE], tmp_path / "A.SVG")
    assert words_of(tmp_path / "A.SVG")


@pytest.mark.parametrize("ending", ["png", "svg", "html"])
def test_an_output_that_cannot_be_opened_is_the_users_error(tmp_path, ending):
    (tmp_path / f"folder.{ending}").mkdir()
    (tmp_path / "file").write_text("")
    cases = {
        tmp_path / "missing" / f"a.{ending}": "cannot be written: no such file or directory",
        tmp_path / f"folder.{ending}": "is a directory; give the name of a file",
        tmp_path / "file" / f"a.{ending}": "cannot be written: not a directory",
    }
    for path, reason in cases.items():
        with pytest.raises(InputError) as caught:
            draw_attention([PICTURE], path)
        assert str(caught.value) == f"{path}: {reason}"
    assert {path.name for path in tmp_path.iterdir()} == {f"folder.{ending}", "file"}


def test_a_failure_leaves_the_file_that_was_there(tmp_path, monkeypatch):
    path = tmp_path / "a.png"
    path.write_text("old")

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("matplotlib.figure.Figure.savefig", fail)
    with pytest.raises(OSError, match="No space left"):
        draw_attention([PICTURE], path)
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("a.png", "old")]


def test_without_matplotlib_figures_say_what_to_install_and_the_page_is_written(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(InputError, match=r"drawing needs matplotlib: pip install 'nmt-cli\[plots\]'"):
        draw_attention([PICTURE], tmp_path / "a.png")
    draw_attention([PICTURE], tmp_path / "a.html")
    assert [file.name for file in tmp_path.iterdir()] == ["a.html"]
