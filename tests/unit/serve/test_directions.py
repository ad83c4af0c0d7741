"""The language of a text whose client does not know it."""

from __future__ import annotations

import pytest

from nmt_cli.data.language_profile import LanguageProfile
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


def test_a_text_that_no_model_translates_into_the_target_is_known_as_such(directions):
    one_way = Directions([Direction("en", "de", Same(), list)], directions.profiles)
    german, english = TEXTS["de"][0], TEXTS["en"][0]
    assert [one["language"] for one in one_way.detect_each([german, english], "en")] == ["de", "en"]
    assert one_way.detect_each(["123"], "en") == [{"confidence": 0.0, "language": "en"}]
    # A third language that is clearly another one than those that are translated.
    profiles = directions.profiles | {"ru": LanguageProfile.of(["где красная машина", "дом кошки маленький"] * 20)}
    pairs = [("en", "de"), ("de", "en"), ("ru", "en")]
    third = Directions([Direction(source, target, Same(), list) for source, target in pairs], profiles)
    assert third.detect_each(["где красная машина, дом кошки маленький"], "de")[0]["language"] == "ru"


def test_a_short_text_keeps_the_language_that_it_clearly_is_in(directions):
    english, german = "where is the red car", "wir haben die schlüssel und blumen, und das haus der katze ist klein"
    found = directions.detect_each([english, german], "de")
    assert [one["language"] for one in found] == ["en", "de"]
    assert found[0] == directions.detect_each([english], "de")[0]


def test_short_texts_that_are_clearly_in_no_language_are_judged_together(directions):
    texts = ["car", "cat", "the", "wo", "the house of the cat"]
    found = directions.detect_each(texts, "de")
    assert [one["language"] for one in found] == ["en"] * 5
    assert directions.detect_each(["wo"], "de")[0]["language"] != "en"


@pytest.mark.parametrize(
    ("served", "asked", "found"),
    [
        (("en-pt", "en-pt-BR"), "pb", "pt-BR"),
        (("en-pt-BR",), "pt-PT", "pt-BR"),
        (("en-zh", "en-zh-Hant"), "zt", "zh-Hant"),
        (("en-zh", "en-zh-Hant"), "zh_TW", "zh-Hant"),
        (("en-zh-Hant", "en-zh"), "zh-Hans", "zh"),
        (("en-zh-Hant", "en-zh_CN"), "zh", "zh_CN"),
        (("en-zh",), "zt", "zh"),
        (("en-sr-Latn", "en-sr-Cyrl"), "sr-Cyrl-RS", "sr-Cyrl"),
        (("en-he",), "iw", "he"),
        (("en-he",), "iw-IL", "he"),
        (("en-id",), "in_ID", "id"),
        (("en-id",), "in", "id"),
        (("en-no",), "nb", "no"),
        (("en-nb",), "no", "nb"),
        (("en-de",), "pb", None),
    ],
)
def test_a_language_is_found_by_the_codes_that_clients_use(served, asked, found):
    directions = Directions([Direction(*pair.split("-", 1), Same(), list) for pair in served], {})
    assert directions.find(asked) == found
    assert (directions.pair("en", asked) or ("en", None)) == ("en", found)
