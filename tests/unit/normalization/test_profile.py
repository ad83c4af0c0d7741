"""Profiles of training texts: characters, case and words of a text."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest

from nmt_cli.data.tokenizer import train_tokenizer
from nmt_cli.normalization.profile import TextProfile
from nmt_cli.system.errors import ModelError
from nmt_cli.system.storage import read_json, write_json
from nmt_cli.text.letters import WORD, is_all_caps, lower, upper

LINES = [
    "The cat of Tom sleeps.",
    "The dog sees NATO. Cats and the dog see Tom.",
    "THE DOG OF TOM AND THE CAT.",
    "Where is the cat?",
    "Is NATO near the dog of Tom?",
]


@pytest.fixture(scope="module")
def profile():
    return TextProfile.of(LINES, "en")


def test_the_usual_form_of_a_word_is_the_one_within_sentences(profile):
    """The capitals of first words, and lines in capitals, say nothing."""
    expected = {"tom": "Tom", "nato": "NATO", "the": "the", "cat": "cat", "cats": "cats", "where": "where", "is": "is"}
    assert {key: profile.forms[key] for key in expected} == expected


def test_other_forms_are_those_within_sentences():
    """One in capitals must stand there twice, or it may be stress. A name must stand there three times."""
    lines = [
        "The US sees us.",
        "All see us in the US.",
        "I see Us and NOT THE cat, not Tom.",
        "Cats do not see the cat of us.",
    ]
    assert sorted(TextProfile.of(lines, "en").other_forms) == ["US", "Us", "tom"]
    assert sorted(TextProfile.of([*lines, "We see Tom and Tom."], "en").other_forms) == ["US", "Us"]


def test_characters_are_counted_as_they_are(profile):
    assert dict(profile.characters) == {one: "".join(LINES).count(one) for one in "".join(LINES)}


def test_a_text_without_capitals_has_no_case(profile):
    assert (profile.has_case, profile.begins_with_capital) == (True, True)
    found = TextProfile.of([line.lower() for line in LINES], "en")
    assert (found.has_case, found.begins_with_capital) == (False, False)
    assert found.forms["tom"] == "tom"


def test_a_profile_tells_whether_it_has_all_words(profile, monkeypatch):
    assert profile.has_all_words
    for name, limit in (("MAX_WORDS", 3), ("MAX_LINES", len(LINES))):
        with monkeypatch.context() as small:
            small.setattr(f"nmt_cli.normalization.profile.{name}", limit)
            assert not TextProfile.of(LINES, "en").has_all_words


def test_a_profile_comes_back_from_json(profile):
    assert TextProfile.from_json(json.loads(json.dumps(profile.to_json())), "x") == profile
    told = replace(profile, kept_numbers=("20",), rewritten_numbers=("10", "2:30"))
    assert TextProfile.from_json(json.loads(json.dumps(told.to_json())), "x") == told
    old = {
        key: value
        for key, value in profile.to_json().items()
        if not key.endswith("_numbers") and key not in ("has_all_words", "other_forms")
    }
    assert TextProfile.from_json(old, "x") == replace(profile, has_all_words=False, other_forms=None)


@pytest.mark.parametrize("wrong", [None, [], {}, {"characters": [], "forms": {}}, {"characters": {"a": "b"}}])
def test_a_damaged_profile_is_refused(wrong):
    with pytest.raises(ModelError, match=r"^writing.json: is damaged; train again, or delete it"):
        TextProfile.from_json(wrong, "writing.json")


def test_a_tokenizer_tells_characters_words_and_case(corpus):
    lines = (corpus / "train.en").read_text().splitlines()
    for text in (lines, [line.lower() for line in lines]):
        made = train_tokenizer(
            text, model_type="bpe", vocab_size=400, normalization="identity", character_coverage=1.0, symbols=["<TAG>"]
        )
        pieces = [piece for id_, piece in enumerate(made.pieces(range(400))) if id_ not in made.fixed_ids()]
        found, seen = TextProfile.of_pieces(pieces, "en"), TextProfile.of(text, "en")
        assert set(found.characters) == set(seen.characters)
        assert found.has_case == seen.has_case
        assert found.forms["the"] == "the"


@pytest.mark.parametrize(
    ("language", "small", "capital"),
    [
        ("de", "straße", "STRASSE"),
        ("tr", "ılık iş", "ILIK İŞ"),
        ("az-Latn", "dil ıq", "DİL IQ"),
        ("el", "όχι, ναί", "ΟΧΙ, ΝΑΙ"),
        ("ka", "თბილისი", "თბილისი"),
        ("vi", "tiếng việt", "TIẾNG VIỆT"),
    ],
)
def test_capitals_are_those_of_the_language(language, small, capital):
    assert upper(small, language) == capital


def test_small_letters_are_those_of_the_language():
    assert lower("ILIK İŞ", "tr") == "ılık iş"
    assert lower("ILIK", "en") == "ilik"
    assert lower("ΟΔΟΣ", "el") == "οδος"[:-1] + "ς"


def test_a_sharp_s_among_capitals_is_a_capital():
    assert is_all_caps("STRAßE 7")
    assert not is_all_caps("Straße")
    assert not is_all_caps("7")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("don't B2B my_name l’été 5km", ["don't", "l’été"]),
        ("हिन्दी मेरा पुस्तक है।", ["हिन्दी", "मेरा", "पुस्तक", "है"]),
        ("தமிழ் மொழி", ["தமிழ்", "மொழி"]),
        ("می\u200cخواهم שָׁלוֹם", ["می\u200cخواهم", "שָׁלוֹם"]),
        ("o\u0308rtlichen Schla\u0308fchen.", ["o\u0308rtlichen", "Schla\u0308fchen"]),
    ],
)
def test_a_word_has_its_accents_and_vowel_signs(text, words):
    assert WORD.findall(text) == words


@pytest.mark.slow
def test_the_profile_of_a_language_without_spaces_is_one_that_can_be_read_again(tmp_path):
    """Its words are whole clauses, which are all different. Fails if the number of words alone is bounded."""
    draw = random.Random(1)
    letters = [chr(one) for one in range(0x0E01, 0x0E2F)]
    lines = ["".join(draw.choices(letters, k=40)) for _ in range(70_000)]
    profile = TextProfile.of(lines, "th")
    assert 10_000 < len(profile.forms) < len(lines)
    assert not profile.has_all_words
    write_json(tmp_path / "writing.json", profile.to_json())
    assert TextProfile.from_json(read_json(tmp_path / "writing.json"), "") == profile
