"""Profiles of languages: which of them a text is in, and how sure that is."""

from __future__ import annotations

import json

import pytest

from nmt_cli.data.language_profile import LanguageProfile, language_probabilities
from nmt_cli.system.errors import ModelError


@pytest.fixture(scope="module")
def profiles(corpus):
    return {code: LanguageProfile.of((corpus / f"train.{code}").read_text().splitlines()) for code in ("en", "fr")}


def test_lines_are_told_apart(profiles, corpus):
    for code in ("en", "fr"):
        lines = (corpus / f"test.{code}").read_text().splitlines()
        right = [next(iter(language_probabilities(line, profiles))) == code for line in lines]
        assert sum(right) >= 0.95 * len(lines)


def test_text_in_neither_language_has_little_confidence(profiles):
    for text in ("一隻貓在桌子上", "Кошка сидит на столе", "Kissa istuu pöydällä ja katselee lintuja"):
        assert sum(language_probabilities(text, profiles).values()) < 0.3


def test_text_without_letters_has_none(profiles):
    assert language_probabilities("12 + 3 = 15 !?", profiles) == {"en": 0.0, "fr": 0.0}
    assert language_probabilities("", profiles) == {"en": 0.0, "fr": 0.0}


def test_more_text_makes_surer(profiles):
    short, long = (language_probabilities(text, profiles)["en"] for text in ("the", "the car is in the house"))
    assert short < long


def test_a_profile_comes_back_from_json(profiles):
    stored = json.loads(json.dumps(profiles["en"].to_json()))
    assert LanguageProfile.from_json(stored, "x") == profiles["en"]


@pytest.mark.parametrize("wrong", [None, [], {}, {"trigrams": [], "total": 1}, {"trigrams": {"a": "b"}, "total": 1},
                                   {"trigrams": {"abc": -5}, "total": 1}])  # fmt: skip
def test_a_damaged_profile_is_refused(wrong):
    with pytest.raises(ModelError, match=r"^languages.json: "):
        LanguageProfile.from_json(wrong, "languages.json")
