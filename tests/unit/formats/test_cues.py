"""Subtitles of other people: the same cues for `nmt import` and `nmt translate`, with their times as they stand."""

from __future__ import annotations

import re

import pytest
from importing_here import imported
from test_one_reader import SPLIT, shouted, translated

from nmt_cli.documents.document import translate_document

CAPTIONS = (
    "WEBVTT\nKind: captions\nLanguage: en\n\n00:00:00.799 --> 00:00:02.869 align:start position:0%\n \n"
    "where<00:00:01.040><c> is</c><00:00:01.920><c> the</c><00:00:02.100><c> red</c><00:00:02.300><c> car</c>\n\n"
    "00:00:02.869 --> 00:00:02.879 align:start position:0%\nwhere is the red car\n \n\n"
    "00:00:02.879 --> 00:00:04.070 align:start position:0%\nwhere is the red car\n"
    "their<00:00:03.360><c> doctor</c><00:00:03.520><c> is</c><00:00:03.700><c> rich</c>\n"
)


def test_captions_that_roll_up_are_read_once(tmp_path):
    french = (
        "00:00:00.799 --> 00:00:02.869\nOù est la voiture rouge ?\n\n00:00:02.879 --> 00:00:04.070\nElle est riche.\n"
    )
    (tmp_path / "a.en.vtt").write_text(CAPTIONS)
    (tmp_path / "a.fr.vtt").write_text(f"WEBVTT\n\n{french}")
    made = imported(tmp_path / "a.en.vtt", tmp_path / "a.fr.vtt")
    assert made.pairs == [
        ("where is the red car", "Où est la voiture rouge ?"),
        ("their doctor is rich", "Elle est riche."),
    ]
    assert made.report["skipped"] == {"repeats the line before (rolling captions)": 1}


def test_captions_that_roll_up_are_translated_line_by_line():
    done = translated(CAPTIONS.encode(), "a.vtt")
    bare = re.sub("<[^<>]*>", "", done.content.decode())
    expected = re.sub("<[^<>]*>", "", CAPTIONS)
    for words in ("where is the red car", "their doctor is rich"):
        expected = expected.replace(words, words.upper())
    assert (bare, done.counts.notes) == (expected, [])
    assert sorted(re.findall("<[^<>]*>", done.content.decode())) == sorted(re.findall("<[^<>]*>", CAPTIONS))


TIMES = [
    "00:00:01,5 --> 00:00:04", "0:0:1 --> 0:0:4", "00:01.500-->00:04.000", "00:00:01 , 500 --> 00:00:04 , 000",
    "00:00:01:500 --> 00:00:04:000", "-00:00:01,100 --> 00:00:04,000", "  00:00:01,500 --> 00:00:04,000  X1:1 X2:2",
    "00:00:01.5000000 --> 00:00:04.0000000", "00:00:01,500 -> 00:00:04,000", "00:00:01;500 --> 00:00:04;000",
    "100:00:01,500 --> 100:00:04,000", "00: 00: 01,500 --> 00: 00: 04,000", "00:00:04,000 --> 00:00:01,500",
]  # fmt: skip


@pytest.mark.parametrize("times", TIMES)
def test_times_as_people_write_them_are_read_and_stay(tmp_path, times):
    cues = f"1\n{times}\n{{}}\n\n2\n00:00:05,500 --> 00:00:07,000\n{{}}\n"
    done = translated(cues.format("a dog.", "a cat.").encode(), "a.srt")
    assert done.content.decode() == cues.format("A DOG.", "A CAT.")
    for language, texts in (("en", ("a dog.", "a cat.")), ("fr", ("un chien.", "un chat."))):
        (tmp_path / f"a.{language}.srt").write_text(cues.format(*texts))
    pairs = imported(tmp_path / "a.en.srt", tmp_path / "a.fr.srt").pairs
    assert sorted(pairs) == [("a cat.", "un chat."), ("a dog.", "un chien.")]


def test_text_behind_a_blank_line_belongs_to_a_cue_that_has_none(tmp_path):
    cues = (
        "1\n00:45:16,960 --> 00:45:20,600\n\n{}\n\n2\n00:45:20,920 --> 00:45:22,040\n{}\n\n3\n"
        "00:45:23,000 --> 00:45:24,000\n\n4\n00:45:25,000 --> 00:45:26,000\n\n\n"
    )
    done = translated(cues.format("a dog.", "a cat.").encode(), "a.srt")
    assert (done.content.decode(), done.counts.notes) == (cues.format("A DOG.", "A CAT."), [])
    for language, texts in (("en", ("a dog.", "a cat.")), ("fr", ("un chien.", "un chat."))):
        (tmp_path / f"a.{language}.srt").write_text(cues.format(*texts))
    made = imported(tmp_path / "a.en.srt", tmp_path / "a.fr.srt")
    assert (made.pairs, made.report["skipped"]) == (
        [("a dog.", "un chien."), ("a cat.", "un chat.")],
        {"a cue without text": 4},
    )


@pytest.mark.parametrize(
    ("damage", "line"),
    [("2\n99:99\na\n", 5), ("2\n00:00\n", 5), ("2\nabc --> 00:00:04,000\na\n", 5), ("2\n", 5), ("--> 00:00\na\n", 5)],
)
def test_a_damaged_cue_costs_that_one_and_is_named(tmp_path, damage, line):
    cues = f"1\n00:00:01,000 --> 00:00:02,000\n{{}}\n\n{damage}\n3\n00:00:05,000 --> 00:00:06,000\n{{}}\n"
    done = translated(cues.format("a dog.", "a cat.").encode(), "a.srt")
    assert done.content.decode() == cues.format("A DOG.", "A CAT.")
    (note,) = done.counts.notes
    assert note.startswith(f"line {line}, left as it is: a cue with times such as")
    for language, texts in (("en", ("a dog.", "a cat.")), ("fr", ("un chien.", "un chat."))):
        (tmp_path / f"a.{language}.srt").write_text(cues.format(*texts))
    made = imported(tmp_path / "a.en.srt", tmp_path / "a.fr.srt")
    assert made.pairs == [("a dog.", "un chien."), ("a cat.", "un chat.")]
    assert list(made.report["skipped"].values()) == [2]


def test_subtitles_in_an_older_encoding_become_utf_8():
    cues = "1\n00:00:01,000 --> 00:00:04,000\nWhere is the café?\n\n2\n00:00:05,000 --> 00:00:07,000\nThey are rich.\n"
    done = translated(cues.encode("cp1252"), "a.srt")
    assert done.content.decode() == cues.replace("Where is the café", "WHERE IS THE CAFÉ").replace(
        "They are rich", "THEY ARE RICH"
    )
    assert done.counts.notes == ["is not valid UTF-8; it is read as cp1252; the output is in UTF-8"]


@pytest.mark.parametrize(
    ("texts", "sentences"),
    [
        (["How old is he?", "42", "Their doctor is rich."], ["How old is he?", "Their doctor is rich."]),
        (["He is here", "Their doctor is rich."], ["He is here", "Their doctor is rich."]),
        (["He knows that", "I am rich."], ["He knows that I am rich."]),
        (["He said,", "Their doctor is rich."], ["He said, Their doctor is rich."]),
        (["HE IS", "RICH NOW."], ["HE IS RICH NOW."]),
        (["Where is the red car--", "Their house"], ["Where is the red car--", "Their house"]),
        (["Where is the red car —", "Their house"], ["Where is the red car —", "Their house"]),
        (["Where is the red car –", "or the"], ["Where is the red car – or the"]),
        (["he has", "42 cars."], ["he has 42 cars."]),
    ],
)
def test_no_sentence_goes_on_before_a_capital_letter_or_a_number(texts, sentences):
    seen = []

    def translate(lines):
        seen.extend(lines)
        return shouted(lines)

    cues = "".join(f"{n}\n00:00:{n:02},000 --> 00:00:{n:02},900\n{text}\n\n" for n, text in enumerate(texts))
    translate_document("a.srt", cues.encode(), translate, SPLIT, target_lang="fr")
    assert seen == sentences


@pytest.mark.parametrize("end", ["\n\n", "\r\r\n"])
def test_blank_lines_between_the_lines_of_a_cue_are_no_damage(end):
    cues = (
        f"1{end}00:00:01,000 --> 00:00:02,000{end}a dog.{end}{end}2{end}00:00:03,000 --> 00:00:04,000{end}a cat.{end}"
    )
    done = translated(cues.encode(), "a.srt")
    expected = cues.replace("a dog", "A DOG").replace("a cat", "A CAT")
    assert (done.content.decode(), done.counts.notes) == (expected, [])


@pytest.mark.parametrize("name", ["a.srt", "a.vtt"])
def test_a_cue_never_gets_a_line_without_text(name):
    def losing(lines):
        return shouted(["" if "lost" in line else line for line in lines])

    first = "1\n00:00:01.000 --> 00:00:02.000\n- a dog.\n- lost cat.\n- a bird.\n\n"
    cues = f"{'WEBVTT' if name.endswith('vtt') else ''}\n\n{first}2\n00:00:05.000 --> 00:00:06.000\nlost.\n"
    new = translate_document(name, cues.encode(), losing, SPLIT, target_lang="fr").content.decode()
    assert new.count("\n\n") == cues.count("\n\n")
    assert new.endswith("\nlost.\n")


def test_tags_with_an_equals_sign_enclose_text():
    cue = "1\n00:00:01,000 --> 00:00:04,000\na <color=#F00>red</color> dog.\n"
    assert translated(cue.encode(), "a.srt").content.decode() == cue.replace(
        "a <color=#F00>red</color> dog", "A <color=#F00>RED</color> DOG"
    )
