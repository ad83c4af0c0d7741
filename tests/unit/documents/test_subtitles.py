"""Subtitles: sentences over several cues, lines, times, and what is refused."""

from __future__ import annotations

import re

import pytest
from document_translators import SPLIT, translator, upper

from nmt_cli.documents.division import MAX_CHARACTERS_PER_SECOND, CuePart, divide_words
from nmt_cli.documents.document import translate_document
from nmt_cli.system.errors import InputError

TWO = """1
00:00:01,000 --> 00:00:03,000
The small white dog

2
00:00:03,100 --> 00:00:06,000 X1:10
sleeps in the garden. It is old.
"""


def subtitles(text: str, translate=upper, name: str = "a.srt") -> str:
    return translate_document(name, text.encode(), translate, SPLIT, target_lang="de").content.decode()


@pytest.mark.parametrize("end", [".", "…”", "!' ", '."', "(yes)", "[music] ", ")»)", "♪", "。»"])
def test_a_cue_that_ends_a_sentence_stands_alone(end):
    lines: list[str] = []

    def translate(some):
        lines.extend(some)
        return upper(some)

    subtitles(TWO.replace("white dog", f"white dog{end}"), translate)
    assert len(lines) == 3


@pytest.mark.slow
def test_many_brackets_are_read_without_long_thought():
    text = TWO.replace("white dog", f"white {')' * 500_000}a")
    assert subtitles(text, lambda some: upper(["x"] * len(some))).count("-->") == 2


def test_hours_of_more_digits_than_a_number_has_are_no_time():
    with pytest.raises(InputError, match=r"a cue with times such as .* should begin here"):
        subtitles(f"1\n{'9' * 400}:00:01,000 --> {'9' * 400}:00:02,000\na dog\n")


def test_a_sentence_over_two_cues_is_translated_whole_and_divided_where_the_attention_changes_cues():
    lines: list[str] = []

    def translate(some):
        lines.extend(some)
        return translator(lambda words: ["DER", *(word.upper() for word in words)], lambda n: [0, *range(n)])(some)

    new = subtitles(TWO, translate)
    assert lines == ["The small white dog sleeps in the garden.", "It is old."]
    assert new.split("\n") == TWO.replace("The small white dog", "DER THE SMALL WHITE DOG").replace(
        "sleeps in the garden. It is old.", "SLEEPS IN THE GARDEN. DER IT IS OLD."
    ).split("\n")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("two\r\nlines.", "TWO\r\nLINES."),
        ("a very long first line here\nb.", "A VERY LONG FIRST\nLINE HERE B."),
        ("<i>all in italics</i>", "<i>ALL IN ITALICS</i>"),
        ("{\\an8}above <b>it</b>", "{\\an8}ABOVE <b>IT</b>"),
        ("- Who?\n- Me.", "- WHO?\n- ME."),
        ("♪ la ♪", "♪ LA ♪"),
        ("123", "123"),
    ],
)
def test_cues_keep_their_lines_and_marks(before: str, after: str):
    cue = "\ufeff1\n00:00:01,000 --> 00:00:09,000\n{}\n\n2\n00:00:20.5 --> 00:00:21.5\n\n\n"
    assert subtitles(cue.format(before)) == cue.format(after)


@pytest.mark.parametrize(
    ("before", "lines", "after"),
    [
        ("- Who?\n– Me.", ["Who?", "Me."], "- WHO\n– ME"),
        (
            "<i>-What a well-known - dog\r\nhe is.</i>",
            ["What a well-known - dog he is."],
            "<i>-WHAT A WELL\r\nKNOWN DOG HE IS</i>",
        ),
        ("-5 degrees", ["-5 degrees"], "DEGREES"),
        (">> Who?\n>>> Me.", ["Who?", "Me."], ">> WHO\n>>> ME"),
        ("[door opens]\nHe is very rich.", ["door opens", "He is very rich."], "[DOOR OPENS]\nHE IS VERY RICH"),
        ("♪ A <b>song</b> ♫\n♪ la la ♪", ["A song", "la la"], "♪ A <b>SONG</b> ♫\n♪ LA LA ♪"),
        ("[man laughing]", ["man laughing"], "[MAN LAUGHING]"),
        (
            "{\\an8}[A <i>big\ndog</i> barks] - Oh (no).",
            ["A big dog barks", "Oh (no)."],
            "{\\an8}[A <i>BIG DOG</i>\nBARKS] - OH NO",
        ),
        ("(ANN) I (we) go", ["ANN", "I (we) go"], "(ANN) I WE GO"),
    ],
)
def test_signs_of_speakers_music_and_sounds_stay_whatever_the_model_does(before: str, lines: list[str], after: str):
    seen: list[str] = []

    def translate(some):
        seen.extend(some)
        return translator(lambda words: re.findall(r"[A-Z]+", " ".join(words).upper()))(some)

    cue = "1\n00:00:01,000 --> 00:00:09,000\n{}\n"
    assert subtitles(cue.format(before), translate) == cue.format(after)
    assert seen == lines


def test_webvtt_keeps_its_notes_settings_and_entities():
    text = (
        "WEBVTT - a title\n\nNOTE\nleave this\n\nSTYLE\n::cue { color: red }\n\nintro\n"
        "00:01.000 --> 00:05.000 align:start\n"
        "<v Ann>a &amp; b <c.red>now</c></v>\n"
    )
    assert subtitles(text, name="a.vtt") == text.replace("a &amp; b", "A &amp; B").replace("now", "NOW")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("WEBVTT\n\n", "WEBVTT\n\n"),
        ("WEBVTT\n\nX-TIMESTAMP-MAP=LOCAL:00:00:00.000\n\n00:01.000 --> 00:02.000\none\n\nonly text\n", None),
    ],
)
def test_blocks_of_webvtt_without_times_stay(before: str, after: str | None):
    done = translate_document("a.vtt", before.encode(), upper, SPLIT, target_lang=None).content.decode()
    assert done == (before.replace("\none", "\nONE") if after is None else after)


def test_text_behind_an_empty_line_within_a_cue_stays_and_is_told():
    text = "1\n00:00:01,000 --> 00:00:02,000\none\n\nmore text\n\n2\n00:00:03,000 --> 00:00:04,000\ntwo\n"
    done = translate_document("a.srt", text.encode(), upper, SPLIT, target_lang=None)
    assert done.content.decode() == text.replace("\none", "\nONE").replace("two", "TWO")
    assert done.counts.notes == ["line 5, left as it is: text after the blank line that ends a cue"]


@pytest.mark.parametrize("text", ["one", "one\ntwo", ""])
@pytest.mark.parametrize(("name", "header"), [("a.srt", ""), ("a.vtt", "WEBVTT\n"), ("a.vtt", "WEBVTT\n\nNOTE a\nb\n")])
@pytest.mark.parametrize("numbers", [("1\n", "2\n", "3\n"), ("", "", "")])
def test_cues_without_a_blank_line_between_them_keep_their_numbers_and_times(text: str, name: str, header, numbers):
    cues = [
        f"{number}00:00:0{place},000 --> 00:00:0{place},900\n{text}".rstrip("\n") + "\n"
        for place, number in enumerate(numbers)
    ]
    last = "9\n00:00:20,000 --> 00:00:21,000\n7.\n"
    old = header + "".join(cues) + last
    assert subtitles(old, name=name) == header + "".join(cues).replace(text, text.upper()) + last


@pytest.mark.parametrize("text", [TWO.replace("It is old.", ""), TWO.replace("\n2\n", "\n\n2\n")])
def test_words_that_change_nothing_leave_the_file_as_it_is(text: str):
    assert subtitles(text, translator(lambda words: words)) == text


def test_the_division_is_the_best_of_all():
    """Compared with the cost of every division, counted anew."""
    words = ["ein", "sehr", "kleiner", "weißer", "Hund", "schläft", "heute", "im", "Garten"]
    looks_at, seams = [0, 1, 1, 2, 3, 5, 4, 6, 7], [3, 5]
    shown = [CuePart(1.0, 10), CuePart(0.9, 12), CuePart(3.0, 40)]

    def cost(cuts: tuple[int, ...]) -> float:
        total, columns = 0.0, [0, *seams, 99]
        for part in range(3):
            own = range(([0, *cuts][part]), [*cuts, len(words)][part])
            text = " ".join(words[row] for row in own)
            total += sum(not columns[part] <= looks_at[row] < columns[part + 1] for row in own)
            total += 10 * max(0.0, len(text) - shown[part].seconds * MAX_CHARACTERS_PER_SECOND) + 1e6 * (not own)
            before = len(" ".join(words[: [*cuts, len(words)][part]])) + 1
            share = sum(s.num_characters for s in shown[: part + 1]) / 62
            total += 0.5 * abs(before / (len(" ".join(words)) + 1) - share)
        return total

    every = [(a, b) for a in range(len(words) + 1) for b in range(a, len(words) + 1)]
    assert cost(tuple(divide_words(words, looks_at, seams, shown))) == pytest.approx(min(map(cost, every)))


def test_a_cue_that_could_be_read_in_time_still_can():
    words, looks_at = ["x" * 10] * 4, [0, 0, 0, 1]
    assert divide_words(words, looks_at, [1], [CuePart(9.0, 20), CuePart(9.0, 20)]) == [3]
    assert divide_words(words, looks_at, [1], [CuePart(1.4, 20), CuePart(9.0, 20)]) == [2]
    assert divide_words(words, looks_at, [1], [CuePart(1.0, 20), CuePart(9.0, 20)]) == [
        3
    ]  # too fast from the beginning


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\n2\n00:00", "a.srt:2: a cue with times such as 00:00:01,000 --> 00:00:02"),
        ("2", "a.srt:1: a cue with times such as"),
        ("", "a.srt:1: has no cue with times such as 00:00:01,000 --> 00:00:02,500"),
        ("WEBVTT\n\n0:1000 -> 00:02.000\nx\n", "a.srt:3: a cue with times such as"),
        ("WEBVTT\n\nonly text\n", "a.srt:1: has no cue with times such as"),
    ],
)
def test_bad_subtitles_are_refused_with_their_line(text: str, message: str):
    with pytest.raises(InputError) as refusal:
        subtitles(text)
    assert str(refusal.value).startswith(message)


@pytest.mark.parametrize(
    ("language", "second", "lines"),
    [
        ("de", "Auto das schnellste ist", ["Ich glaube, dass mein Auto das schnellste ist"]),
        ("de", "Ihr Arzt ist reich", ["Ich glaube, dass mein", "Ihr Arzt ist reich"]),
        ("de", "Keine Sorge", ["Ich glaube, dass mein", "Keine Sorge"]),
        ("de", "42", ["Ich glaube, dass mein"]),
        ("en", "Auto das schnellste ist", ["Ich glaube, dass mein", "Auto das schnellste ist"]),
    ],
)
def test_a_noun_with_a_capital_goes_on_with_a_german_sentence(language: str, second: str, lines: list[str]):
    seen: list[str] = []

    def translate(some):
        seen.extend(some)
        return upper(some)

    text = f"1\n00:01,000 --> 00:02,000\nIch glaube, dass mein\n\n2\n00:02,000 --> 00:03,000\n{second}\n\n"
    text += "3\n01:00,000 --> 01:01,000\nso keine.\n"
    translate_document("a.srt", text.encode(), translate, SPLIT, target_lang=None, source_lang=language)
    assert seen == [*lines, "so keine."]


def test_a_reading_above_a_word_is_no_part_of_the_sentence():
    lines: list[str] = []

    def translate(some):
        lines.extend(some)
        return upper(some)

    cue = "WEBVTT\n\n00:01.000 --> 00:02.000\nThe <ruby>red<rt>boat</rt></ruby> car.\n"
    done = subtitles(cue, translate, "a.vtt")
    assert lines == ["The red car."]
    assert done == cue.replace("The", "THE").replace(">red<", ">RED<").replace("car.", "CAR.")


@pytest.mark.parametrize("sign", [">> ", "> > ", "-> "])
def test_a_sign_of_a_speaker_stays(sign: str):
    cue = f"1\n00:00:01,000 --> 00:00:02,000\n{sign}Where is it?\n"
    assert subtitles(cue) == cue.replace("Where is it", "WHERE IS IT")
