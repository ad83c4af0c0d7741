"""The file of a glossary, and where its terms stand in a text."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from unicodedata import normalize

import pytest

from nmt_cli.system.errors import InputError
from nmt_cli.translation.glossary import Entry, Glossary


def glossary(*terms: str, exact: bool = False) -> Glossary:
    return Glossary.of("g", [Entry(term, ("x",), exact, line) for line, term in enumerate(terms, start=1)])


def found(text: str, *terms: str, exact: bool = False) -> list[str]:
    return [text[match.begin : match.end] for match in glossary(*terms, exact=exact).matches(text)]


def test_terms_are_found_as_whole_words_whatever_their_case():
    assert found("The dog, a DOG and dogs. hotdog dog_house do\u0301g", "dog") == ["dog", "DOG"]
    assert found("The dog, a DOG", "DOG", exact=True) == ["DOG"]
    assert found("Straße STRASSE strasse", "straße") == ["Straße", "STRASSE", "strasse"]


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("word", ["café", "Việt", "한국", "ガイド", "நாடு", "naïveté"])
def test_a_letter_in_parts_is_the_letter(word, exact):
    """As macOS writes file names and some of its programs text."""
    for term, written in product((word, normalize("NFD", word)), repeat=2):
        assert found(f"a {written}, {written} b", term, exact=exact) == [written, written]
    assert found(f"{word[:-1]}e\u0323 x", word) == []


def test_the_longest_term_wins_and_terms_do_not_overlap():
    assert found("a hot  dog stand and a dog", "dog", "hot dog", "hot dog stand now") == ["hot  dog", "dog"]
    assert found("hot dog dog", "dog dog", "hot dog") == ["hot dog"]


def test_scripts_without_spaces_are_matched_by_characters():
    assert found("我喜欢狗和猫", "狗", "猫") == ["狗", "猫"]
    assert found("東京タワーtower", "タワー") == ["タワー"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\tb\tc\td\n", "1: has 4 columns instead of 2 or 3."),
        ("# x\n\na\n", "3: has 1 column instead of 2 or 3."),
        ("\tb\n", "1: the source term is empty"),
        ("a\tb||c\n", "1: a translation of 'a' is empty"),
        ("a\t\n", "1: a translation of 'a' is empty"),
        ("a\tb\tmaybe\n", "1: the third column is 'maybe'; it must be exact, or be left out"),
        ("a\tb\n# \nA\tc\n", "3: 'A' has another translation than in line 1."),
        ("a\tb\nx\t\udcff\n", "2: is not valid UTF-8"),
    ],
)
def test_a_wrong_line_is_refused_with_file_and_line(tmp_path: Path, text: str, message: str):
    path = tmp_path / "g.tsv"
    path.write_bytes(text.encode("utf-8", errors="surrogateescape"))
    with pytest.raises(InputError) as error:
        Glossary.read(path)
    assert str(error.value).startswith(f"{path}:{message}")


def test_comments_blank_lines_repeats_and_both_cases_are_allowed(tmp_path: Path):
    path = tmp_path / "g.tsv"
    path.write_bytes(b"# terms\n\nPolish\tpolnisch\texact\r\npolish\tputzen | polieren\npolish\tputzen|polieren\n")
    own = Glossary.read(path)
    assert [match.forms for match in own.matches("Polish polish")] == [("polnisch",), ("putzen", "polieren")]
