"""One reader for a format: what `nmt import` takes and what `nmt translate` fills are the same messages."""

from __future__ import annotations

import numpy as np
import pytest
from importing_here import imported

from nmt_cli.documents.document import translate_document
from nmt_cli.documents.sentences import splitter
from nmt_cli.system.errors import InputError
from nmt_cli.translation.results import Translation

SPLIT = splitter("en")
HEADER = 'msgid ""\nmsgstr ""\n"Language: fr\\n"\n"Content-Type: text/plain; charset=UTF-8\\n"\n\n'


def shouted(lines):
    """Translate each word into capitals."""
    for line in lines:
        words = line.upper().split()
        yield Translation(" ".join(words), 0.0, 0.0, np.eye(len(words), len(words) + 1), None, len(words))


def translated(data: bytes, name: str = "m.po", **options):
    return translate_document(name, data, shouted, SPLIT, **{"target_lang": "fr", "source_lang": "en", **options})


@pytest.mark.parametrize("sign", ["\v", "\f", "\u2028", "\x85", "\x1c", "\r"])
def test_a_message_may_hold_any_character_but_a_line_end(tmp_path, sign):
    path = tmp_path / "m.po"
    message = f'msgid ""\n"{sign}A red car\\n"\nmsgstr "'
    path.write_bytes((HEADER + message + 'Une voiture rouge\\n"\n').encode())
    ((source, target),) = imported(path).pairs
    assert (source.strip(sign + " "), target) == ("A red car", "Une voiture rouge")
    new = translated((HEADER + message + '"\n').encode()).content.decode()
    assert new == f'{HEADER}{message}"\n"{sign}A RED CAR\\n"\n'


@pytest.mark.parametrize(
    ("layout", "filled"),
    [
        ('msgid "a " "dog"\nmsgstr "{}"\n', 'msgid "a " "dog"\nmsgstr ""\n"A DOG"\n'),
        ('msgid\n"a dog"\nmsgstr\n"{}"\n', 'msgid\n"a dog"\nmsgstr\n"A DOG"\n'),
        ('msgid"a dog"msgstr"{}"msgid "b"msgstr "c"', 'msgid"a dog"msgstr"A DOG"msgid "b"msgstr "c"'),
        ('  msgid "a dog"\n\n\tmsgstr "{}"\n', '  msgid "a dog"\n\n\tmsgstr "A DOG"\n'),
        ('msgid "a dog"\rmsgstr "{}"\r', 'msgid "a dog"\rmsgstr "A DOG"\r'),
    ],
)
def test_a_valid_catalogue_may_have_any_layout(tmp_path, layout, filled):
    header = HEADER.replace("\n", "\r") if "\r" in layout else HEADER
    (tmp_path / "m.po").write_bytes((header + layout.format("un chien")).encode())
    assert imported(tmp_path / "m.po").pairs[0] == ("a dog", "un chien")
    assert translated((header + layout.format("")).encode()).content.decode() == header + filled


@pytest.mark.parametrize(
    ("damage", "line", "what"),
    [
        ('msgid "bonjour\nmsgstr "x"\n', 7, "is not a line of a PO file"),
        ('msgid "bonjour"\nmsgstr salut\n', 8, "is not a line of a PO file"),
        ('msgid "bonjour"\nmsgstr "a"b"\n', 8, "is not a line of a PO file"),
        ('msgid "bonjour"\nmsgstr "a"\n"\n', 9, "is not a line of a PO file"),
        ('msgid "bonjour"\n', 10, "msgid is given twice in an entry"),
        ('msgid "bonjour"\nmsgid_plural "b"\nmsgstr "a"\nmsgstr "b"\n', 10, "msgstr is given twice in an entry"),
        ("<<<<<<< HEAD\n", 7, "is not a line of a PO file"),
        ('# c\n"a"\n', 8, "a text in quotes belongs to no msgid or msgstr"),
    ],
)
def test_a_damaged_message_costs_that_one_and_is_named(tmp_path, damage, line, what):
    data = f'{HEADER}#: a\n{damage}\n#: b\nmsgid "a dog"\nmsgstr "{{}}"\n'
    (tmp_path / "m.po").write_text(data.replace("{}", "un chien"))
    made = imported(tmp_path / "m.po")
    assert made.pairs[-1] == ("a dog", "un chien")
    ((reason, number),) = made.report["skipped"].items()
    assert (what in reason, number) == (True, 1)
    assert made.report["skipped_places"][reason] == [f"{tmp_path / 'm.po'}:{line}"]
    done = translated(data.replace("{}", "").encode())
    assert done.content.decode() == data.replace("{}", "A DOG")
    (note,) = done.counts.notes
    assert note.startswith(f"line {line}, left as it is: {what}")


def test_a_file_without_a_whole_message_is_refused_by_both_in_the_same_words(tmp_path):
    path = tmp_path / "m.po"
    path.write_text(f'{HEADER}msgid "bonjour\nmsgstr "x"\n')
    said = []
    for read in (lambda: imported(path), lambda: translated(path.read_bytes(), str(path))):
        with pytest.raises(InputError) as refusal:
            read()
        said.append(str(refusal.value))
    assert said == [f"{path}:6: is not a line of a PO file (msgid, msgstr, a text in quotes, or a comment); fix it"] * 2


MESSAGES = 'msgid "the café"\nmsgstr "le café"\n\nmsgid "a naïve dog"\nmsgstr ""\n'


@pytest.mark.parametrize("declared", ["CP1251", "ISO-8859-1", "KLINGON", "UTF-16", "UTF-8"])
def test_valid_utf_8_is_read_so_whatever_is_declared(tmp_path, declared):
    header = HEADER.replace("UTF-8", declared)
    (tmp_path / "m.po").write_bytes((header + MESSAGES).encode())
    assert imported(tmp_path / "m.po").pairs == [("the café", "le café")]
    done = translated((header + MESSAGES).encode())
    is_wrong = not declared.startswith("UTF")
    assert done.content.decode() == (HEADER if is_wrong else header) + MESSAGES.replace('""', '"A NAÏVE DOG"')
    said = [f"declares the encoding {declared}, but is in UTF-8 and is read as such"] if is_wrong else []
    assert done.counts.notes == said


@pytest.mark.parametrize(
    ("declared", "encoding"),
    [("ISO-8859-1", "latin-1"), ("ISO-8859-15", "iso8859-15"), ("CP1252", "cp1252"), ("windows-1252", "cp1252")],
)
def test_what_is_declared_and_valid_keeps_its_encoding(declared, encoding):
    data = (HEADER.replace("UTF-8", declared) + MESSAGES).encode(encoding)
    done = translated(data)
    assert done.content == data.removesuffix(b'""\n') + '"A NAÏVE DOG"\n'.encode(encoding)
    assert done.counts.notes == []


def test_what_is_not_as_declared_is_guessed_and_becomes_utf_8(tmp_path):
    data = (HEADER + MESSAGES).encode("cp1252")
    (tmp_path / "m.po").write_bytes(data)
    made = imported(tmp_path / "m.po")
    assert (made.pairs, made.report["encoding"]) == ([("the café", "le café")], "cp1252")
    done = translated(data)
    assert done.content.decode() == HEADER + MESSAGES.replace('""', '"A NAÏVE DOG"')
    assert done.counts.notes == ["is not valid UTF-8; it is read as cp1252; the output is in UTF-8"]


def test_bytes_that_are_not_valid_cost_their_message_and_stay(tmp_path):
    text = MESSAGES + '\nmsgid "odd: @"\nmsgstr "{}"\n'
    (tmp_path / "m.po").write_bytes((HEADER + text.replace("{}", "@")).encode().replace(b"@", b"\xe9"))
    made = imported(tmp_path / "m.po")
    assert (made.pairs, made.report["skipped"]["not valid in its encoding"]) == ([("the café", "le café")], 1)
    done = translated((HEADER + text.replace("{}", "")).encode().replace(b"@", b"\xe9"))
    filled = (HEADER + text.replace("{}", "")).replace('dog"\nmsgstr ""', 'dog"\nmsgstr "A NAÏVE DOG"')
    assert done.content == filled.encode().replace(b"@", b"\xe9")
    assert done.counts.notes == ["line 12, left as it is: has a byte that is not valid in its encoding; fix the line"]


def test_fuzzy_messages_are_pairs_only_if_they_are_asked_for(tmp_path):
    (tmp_path / "m.po").write_text(HEADER + '#, fuzzy\nmsgid "a"\nmsgstr "b"\n\nmsgid "c"\nmsgstr "d"\n')
    made = imported(tmp_path / "m.po")
    assert (made.pairs, made.report["skipped"]) == ([("c", "d")], {"fuzzy": 1})
    assert imported(tmp_path / "m.po", with_unfinished=True).pairs == [("a", "b"), ("c", "d")]
