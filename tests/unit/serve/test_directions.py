"""The language of a text whose client does not know it."""

from __future__ import annotations

import pytest

from nmt_cli.data.profile import LanguageProfile
from nmt_cli.serve.directions import Directions
from nmt_cli.serve.texts import Direction

TEXTS = {
    "en": ["where is the red car", "the house of the cat is small", "we have the keys and the flowers"] * 20,
    "de": ["wo ist das rote auto", "das haus der katze ist klein", "wir haben die schlüssel und blumen"] * 20,
}


class Same:
    """A model that nobody asks."""


@pytest.fixture
def directions():
    pairs = [("en", "de"), ("de", "en")]
    profiles = {language: LanguageProfile.of(lines) for language, lines in TEXTS.items()}
    return Directions([Direction(source, target, Same(), list) for source, target in pairs], profiles)


@pytest.mark.parametrize("target", ["en", "de"])
def test_a_text_of_no_known_language_is_translated_from_one_that_is_not_the_target(directions, target):
    (found,) = directions.detect_each(["Привет, как дела"], target)
    assert found == {"confidence": 0.0, "language": "de" if target == "en" else "en"}


def test_a_text_in_the_target_language_is_known_as_such(directions):
    (found,) = directions.detect_each(["das haus ist rot, und das auto ist klein, und wir haben blumen"], "de")
    assert found["language"] == "de"
    assert found["confidence"] > 50
