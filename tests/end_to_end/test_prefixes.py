"""`nmt translate --prefix` through the real command line."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from marks import others_slow

from nmt_cli.translation.long_lines import PartsOfLine

SOURCES = [
    "Where is the red car?",
    "The house is small.",
    "",
    "We like the garden.",
    "He sells <b>the hats</b>.",
    "   ",
]
PREFIXES = ["Où ", "La mai", "rien", "", "Il  ven", " \t"]
ODD = [
    "日本  é ﬁ x",
    "\u2028a",
    "a\u00a0b\u00a0",
    "\x00",
    "a\rb",
    "⁇",
    "▁",
    "<unk> </s>",
    "é" * 40,
    "x" * 300,
    "  b  c  ",
]


def write(path: Path, lines: list[str]) -> Path:
    path.write_bytes(b"".join(f"{line}\n".encode() for line in lines))
    return path


def translate(nmt, model: Path, tmp_path: Path, sources: list[str], prefixes: list[str], *options: str) -> list[str]:
    source, prefix = write(tmp_path / "source", sources), write(tmp_path / "prefix", prefixes)
    result = nmt("translate", source, "--model", model, "--prefix", prefix, *options)
    assert result.code == 0, result.err
    return result.out.decode().split("\n")[:-1]


def test_each_translation_begins_with_its_prefix_byte_for_byte(nmt, model: Path, tmp_path: Path):
    sources = [SOURCES[0]] * len(ODD) + SOURCES
    lines = translate(nmt, model, tmp_path, sources, ODD + PREFIXES)
    assert len(lines) == len(sources)
    for line, prefix in zip(lines, ODD + PREFIXES, strict=True):
        assert line.startswith(prefix)
    plain = nmt("translate", "--model", model, stdin=f"{SOURCES[3]}\n".encode())
    assert lines[len(ODD) + 3] == plain.out.decode()[:-1]
    assert [lines[len(ODD) + place] for place in (2, 5)] == ["rien", " \t"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "more", others_slow((), ("--alignment", "hard"), ("--markup",), ("--n-best", "2"), ("--copy-unknown",))
)
def test_a_translation_does_not_depend_on_the_lines_around_it(nmt, model: Path, tmp_path: Path, more):
    sources, prefixes = SOURCES * 3 + [SOURCES[0]] * len(ODD), PREFIXES * 3 + ODD
    whole = translate(nmt, model, tmp_path, sources, prefixes, *more)
    small = translate(nmt, model, tmp_path, sources, prefixes, *more, "--batch-tokens", "12")
    assert whole == small
    turned = translate(nmt, model, tmp_path, sources[::-1], prefixes[::-1], *more)
    if more != ("--n-best", "2"):
        assert turned[::-1] == whole


def test_soft_alignments_have_a_row_for_each_word_of_the_output(nmt, model: Path, tmp_path: Path):
    lines = translate(
        nmt, model, tmp_path, [SOURCES[0]] * len(ODD) + SOURCES, ODD + PREFIXES, "--format", "jsonl", "--alignment",
        "soft",
    )  # fmt: skip
    for record in map(json.loads, lines):
        assert len(record["alignment"]) == len(record["translation"].split())
        assert all(len(row) == len(record["source"].split()) for row in record["alignment"])


def test_a_line_too_long_for_a_matrix_of_weights_keeps_its_prefix(nmt, model: Path, tmp_path: Path, monkeypatch):
    monkeypatch.setattr(PartsOfLine, "fits", lambda _: False)
    source, prefix = write(tmp_path / "source", [SOURCES[4]]), write(tmp_path / "prefix", ["<b>Il ven"])
    result = nmt("translate", source, "--model", model, "--prefix", prefix, "--markup")
    assert result.code == 0, result.err
    assert result.lines[0].startswith("<b>Il ven")
    assert "warning: 1 line is too long for attention weights" in result.err


def test_tags_in_the_prefix_stay_and_are_not_put_in_again(nmt, model: Path, tmp_path: Path):
    sources = ["He sells <b>the hats</b>."] * 3
    found = translate(nmt, model, tmp_path, sources, ["Il <b>ven", "Il vend ", "<b>Il</b> "], "--markup")
    assert [line.startswith(p) for line, p in zip(found, ("Il <b>ven", "Il vend ", "<b>Il</b> "), strict=True)]
    assert [(line.count("<b>"), line.count("</b>")) for line in found] == [(1, 1)] * 3


def test_a_tag_that_a_prefix_opens_is_closed_after_it_without_a_warning(nmt, model: Path, tmp_path: Path):
    sources = ["He sells <b>the <i>hats</i></b>.", "<a href='x'>He</a> sells the hats."]
    prefixes = ["Il <b>vend <i>", "<a href='x'>Il "]
    source, prefix = write(tmp_path / "source", sources), write(tmp_path / "prefix", prefixes)
    result = nmt("translate", source, "--model", model, "--markup", "--prefix", prefix)
    assert result.code == 0
    assert "warning" not in result.err
    closed = (["</i>", "</b>"], ["</a>"])
    for line, begun, closings in zip(result.out.decode().splitlines(), prefixes, closed, strict=True):
        assert line.startswith(begun)
        assert re.findall("</.>", line) == closings


def test_prefixes_and_terms_may_come_from_standard_input_but_not_both(nmt, model: Path, tmp_path: Path):
    source, prefix = write(tmp_path / "source", SOURCES), write(tmp_path / "prefix", PREFIXES)
    of_file = nmt("translate", source, "--model", model, "--prefix", prefix)
    piped = nmt("translate", source, "--model", model, "--prefix", "-", stdin=prefix.read_bytes())
    assert (piped.code, piped.out) == (0, of_file.out), piped.err
    terms = write(tmp_path / "terms.tsv", ["hats\tzzz"])
    of_file = nmt("translate", source, "--model", model, "--glossary", terms)
    piped = nmt("translate", source, "--model", model, "--glossary", "-", stdin=terms.read_bytes())
    assert (piped.code, piped.out) == (0, of_file.out), piped.err
    for more in ((source, "--glossary", "-"), ("-",), ()):
        result = nmt("translate", *more, "--model", model, "--prefix", "-", stdin=b"a\n")
        assert result.code == 2
        assert "standard input can be read only once: give files for the other inputs" in result.err


def test_tags_alone_are_a_prefix_too(nmt, model: Path, tmp_path: Path):
    """With nothing else the translation is that without a prefix, behind the tags."""
    prefixes = ["<b>", "<i> ", "<i><b>", "<i> <b>"]
    sources = ["He sells <b>the hats</b>."] * len(prefixes)
    options = ("--markup", "--confidence", "--format", "jsonl")
    found = list(map(json.loads, translate(nmt, model, tmp_path, sources, prefixes, *options)))
    (free,) = translate(nmt, model, tmp_path, ["He sells the hats."], [""])
    for record, prefix in zip(found, prefixes, strict=True):
        assert record["translation"].startswith(prefix)
        assert record["translation"].count("<b>") == 1
        assert re.sub("</?[bi]>", "", record["translation"]).split() == free.split()
        assert len(record["word_confidence"]) == len(record["translation"].split())


def test_a_prefix_file_of_another_length_is_refused_with_both_counts(nmt, model: Path, tmp_path: Path):
    source, prefix = write(tmp_path / "source", ["a"] * 3), write(tmp_path / "prefix", ["b"] * 2)
    message = (
        f"nmt: {prefix} has 2 lines but {source} has 3. Line i of the prefixes begins the translation of line i; an "
        "empty line stands for no prefix\n"
    )
    result = nmt("translate", source, "--model", model, "--prefix", prefix, "-o", tmp_path / "out")
    assert (result.code, result.err) == (2, message)
    for lines in (1, 3):
        result = nmt("translate", "--model", model, "--prefix", prefix, stdin=b"a\n" * lines)
        assert result.code == 2
        assert f"{prefix} has 2 lines but standard input has {lines}." in result.err
    one = write(tmp_path / "one", ["b"])
    assert f"{one} has 1 line but {source} has 3." in nmt("translate", source, "--model", model, "--prefix", one).err


def test_a_prefix_that_is_not_utf8_is_refused_with_its_line(nmt, model: Path, tmp_path: Path):
    prefix = tmp_path / "prefix"
    prefix.write_bytes(b"a\n\xff\n")
    result = nmt("translate", "--model", model, "--prefix", prefix, stdin=b"a\nb\n")
    assert result.code == 2
    assert f"{prefix}:2: the prefix is not valid UTF-8, so it cannot be kept in an output that is" in result.err


def test_line_ends_from_windows_are_no_part_of_a_prefix(nmt, model: Path, tmp_path: Path):
    prefixes = ["Où est", "", "a\r"]
    lines = translate(nmt, model, tmp_path, SOURCES[:3], [f"{prefix}\r" for prefix in prefixes])
    assert lines[:2] == translate(nmt, model, tmp_path, SOURCES[:2], prefixes[:2])
    assert lines[2].startswith("a\r")


@pytest.mark.parametrize("option", ["--sample", "--shortlist"])
def test_a_prefix_goes_with_a_search_of_all_pieces_only(nmt, model: Path, tmp_path: Path, option: str):
    prefix = write(tmp_path / "prefix", ["a"])
    more = [option] if option == "--sample" else [option, prefix]
    result = nmt("translate", "--model", model, "--prefix", prefix, *more, stdin=b"a\n")
    assert result.code == 2
    assert f"does not go with {option}; leave out one of them" in result.err


def test_a_shard_takes_its_own_prefixes(nmt, model: Path, tmp_path: Path):
    whole = translate(nmt, model, tmp_path, SOURCES, PREFIXES)
    shards = [translate(nmt, model, tmp_path, SOURCES, PREFIXES, "--shard", f"{part}/3") for part in (1, 2, 3)]
    assert [line for shard in shards for line in shard] == whole


def test_a_prefix_that_is_not_utf8_is_named_by_its_line_in_the_whole_file(nmt, model: Path, tmp_path: Path):
    source, prefix = write(tmp_path / "source", ["The car."] * 8), tmp_path / "prefix"
    prefix.write_bytes(b"a\n" * 6 + b"\xff\n" + b"a\n")
    for shard in ((), ("--shard", "2/2")):
        result = nmt("translate", source, "--model", model, "--prefix", prefix, *shard)
        assert result.code == 2
        assert result.err.endswith(
            f"nmt: {prefix}:7: the prefix is not valid UTF-8, so it cannot be kept in an output that is\n"
        )


@pytest.mark.parametrize("prefix", ["Oui, non non non non non", "........", "非常非常非常非常", "-------------------"])
@pytest.mark.parametrize("order", ["1", "3"])
def test_a_prefix_may_repeat_what_the_model_may_not(nmt, model: Path, tmp_path: Path, prefix: str, order: str):
    (line,) = translate(nmt, model, tmp_path, [SOURCES[0]], [prefix], "--no-repeat-ngram", order)
    assert line.startswith(prefix)


def test_terms_that_must_repeat_leave_no_line_empty(nmt, model: Path, tmp_path: Path):
    terms = tmp_path / "terms.tsv"
    terms.write_text("car\tcar car car\n")
    source = write(tmp_path / "source", ["The car is here."])
    result = nmt("translate", source, "--model", model, "--glossary", terms, "--no-repeat-ngram", "1")
    assert "car car car" in result.out.decode()
