"""Decisions that follow from the code of a language."""

from __future__ import annotations

import pytest

from nmt_cli.text.language_codes import (
    bleu_tokenizer,
    english_name,
    is_turkic,
    primary_language,
    separates_words_by_spaces,
)


@pytest.mark.parametrize(
    ("codes", "tokenizer", "has_spaces"),
    [
        (("zh", "zho", "chi", "cmn", "zh-TW", "ZH_hant", "yue", "Chinese"), "zh", False),
        (("ja", "jpn", "ja-JP"), "char", False),
        (("th", "tha", "lo", "lao", "km", "khm", "my", "mya", "bur"), "char", False),
        (("ko", "kor"), "char", True),
        (("en", "eng", "de-AT", "quz", "x"), None, True),
    ],
)
def test_a_language_is_known_by_each_of_its_codes(codes, tokenizer, has_spaces):
    for code in codes:
        assert bleu_tokenizer(code) == tokenizer, code
        assert separates_words_by_spaces(code) == has_spaces, code


def test_variants_of_a_language_have_names_of_their_own():
    names = {
        "pt": "Portuguese", "pt-BR": "Portuguese (Brazil)", "zh": "Chinese", "zh_Hant": "Chinese (Traditional)",
        "zh-Hans": "Chinese (Simplified)", "no": "Norwegian", "nb": "Norwegian (Bokmål)", "sr@latin": "Serbian (latin)",
        "en-GB": "English (GB)", "quz": "quz", "quz-PE": "quz-PE",
    }  # fmt: skip
    assert {code: english_name(code) for code in names} == names


def test_turkic_languages_have_an_i_without_a_dot():
    assert [code for code in ("tr", "tur", "tr-TR", "az", "aze", "crh", "de", "en") if is_turkic(code)] == [
        "tr", "tur", "tr-TR", "az", "aze", "crh",
    ]  # fmt: skip


def test_region_and_script_are_no_other_language():
    assert {primary_language(code) for code in ("sr", "srp", "sr-RS", "sr@latin", "Serbian")} == {"sr"}
