"""Words with typing errors are led back to known words, and others stay."""

from __future__ import annotations

import pytest

from nmt_cli.normalization.known_words import MAX_ALPHABET, KnownWords

WORDS = ["the", "because", "letter", "Tom", "Boston", "form", "from", "weather", "whether"]
KNOWN = KnownWords({word.lower(): word for word in WORDS}, "en")


@pytest.mark.parametrize(
    ("word", "corrected"),
    [
        ("becuase", "because"),  # two letters exchanged
        ("becausee", "because"),
        ("beccause", "because"),  # a letter doubled
        ("leter", "letter"),  # a letter left out
        ("Becuase", "Becuase"),  # within a sentence it may be a name
        ("BECUASE", "BECUASE"),
        ("Botson", "Boston"),
        ("botson", "botson"),  # Boston has a capital
        ("Bostton", "Boston"),
        ("fom", "fom"),  # too short
        ("frrom", "from"),
        ("weathr", "weather"),
        ("wether", "weather"),  # whether is as near, but less frequent
        ("form", "form"),  # known
        ("bxcause", "bxcause"),  # a wrong letter
        ("x" * 100, "x" * 100),
        ("", ""),
        ("be3cause", "be3cause"),
    ],
)
def test_one_slip_is_mended(word, corrected):
    assert KNOWN.correct(word) == corrected


@pytest.mark.parametrize(
    ("word", "corrected"),
    [
        ("dont", "don't"),
        ("DONT", "DON'T"),
        ("Dont", "Dont"),  # within a sentence it may be a name
        ("im", "i'm"),
        ("Im", "I'm"),
        ("IM", "IM"),  # an acronym
        ("oneil", "o'neil"),
        ("Oneil", "O'neil"),
        ("its", "its"),  # known
        ("thats", "that's"),
        ("dos", "dos"),  # rather a plural than the rare "do's"
        ("do’nt", "do’nt"),
    ],
)
def test_an_apostrophe_that_was_left_out_is_put_back(word, corrected, monkeypatch):
    monkeypatch.setattr("nmt_cli.normalization.known_words.MAX_RANK_WITH_S", 7)
    words = ["do", "don't", "I'm", "O'Neil", "its", "it's", "that's", "do's"]
    assert KnownWords({word.lower(): word for word in words}, "en").correct(word) == corrected


def test_an_apostrophe_is_put_back_into_a_first_word():
    assert KnownWords({"don't": "don't"}, "en").correct("Dont", any_case=True) == "Don't"


def test_a_first_word_and_one_in_capitals_keep_their_case():
    assert KNOWN.correct("Becuase", any_case=True) == "Because"
    assert KNOWN.correct("BECUASE", any_case=True) == "BECAUSE"
    assert KNOWN.correct("botson", any_case=True) == "boston"


def test_every_slip_in_a_long_word_is_mended():
    word = "weather"
    slips = {word[:place] + word[place + 1] + word[place] + word[place + 2 :] for place in range(len(word) - 1)}
    slips |= {word[:place] + word[place] + word[place:] for place in range(len(word) - 1)}
    slips |= {word[:place] + word[place + 1 :] for place in range(1, len(word) - 1)}
    assert {KNOWN.correct(slip) for slip in slips - set(KNOWN._forms)} == {word}


def test_scripts_that_are_not_written_letter_by_letter_are_left_alone():
    words = [chr(0x4E00 + number) + "天气很好" for number in range(MAX_ALPHABET)]
    assert KnownWords({word: word for word in words}, "zh").correct("天气很很好的") == "天气很很好的"
