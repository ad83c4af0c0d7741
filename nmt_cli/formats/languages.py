"""Names of languages in file names and column headers, and which of two texts is in which language.

The evidence is the script for languages that have their own, and frequent words for some that share the Latin or the
Cyrillic one. Nothing is guessed of other languages.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import islice
from typing import NamedTuple
from unicodedata import normalize

from nmt_cli.system.console import warn
from nmt_cli.text.language_codes import ALIASES, primary_language

_SCRIPTS = {
    "zh": r"[\u3400-\u9fff]", "ja": r"[\u3040-\u30ff\u3400-\u9fff]", "ko": r"[\uac00-\ud7a3]",
    "ar": r"[\u0600-\u06ff]", "fa": r"[\u0600-\u06ff]", "he": r"[\u0590-\u05ff]", "el": r"[\u0370-\u03ff]",
    "hi": r"[\u0900-\u097f]", "th": r"[\u0e00-\u0e7f]",
    "ru": r"[\u0400-\u04ff]", "uk": r"[\u0400-\u04ff]", "bg": r"[\u0400-\u04ff]", "sr": r"[\u0400-\u04ffA-Za-z]",
}  # fmt: skip
_WORDS = {
    "en": "the of and to is you that it he was for are with they this have i my not do what we she",
    "fr": "le la les de des est et un une je il que pas vous ne ce pour dans tu elle nous qui ai mon",
    "de": "der die das und ist ich nicht ein eine sie zu es wir den mit er auf du hat für im von dem",
    "es": "el los las es y que en una por con no su para lo está un te ella qué mi muy se yo",
    "it": "il di che è la un una non per sono mi ha si gli le con questo del ho lo cosa tu è",
    "pt": "o os as de que é e um uma não para com ele ela você eu em está do da isso meu no tom",
    "nl": "de het een en is ik van dat niet je in zijn op te hij we dit met voor ze heb er naar",
    "vi": "tôi là không của và có anh bạn cô ấy đã một các được cho người này đang với rất nó ở",
    "ru": "и в не на я что он это с как ты мы она у меня был но они его том есть за по",
    "uk": "і в не на я що він це з як ти ми вона у мене був але вони його є за та до",
    "tr": "bir ve bu ne ben için o çok değil mi var da de onun bana gibi tom sen benim",
    "pl": "nie i w na się to jest że z do jak co tom ja mi po czy ma on był jego tego",
    "sv": "och att det är i en jag på inte som han den med för har till vi hon av ett du om",
    "cs": "je se na to že v jsem si co tom ne s do jak mi má by ale a za tak už není",
    "fi": "on ja ei se hän että minä oli en tämä mutta ovat sen tom mitä olen voi kun sinä",
    "hu": "a az és nem hogy van egy ez is meg tom én volt mit de csak itt nagyon azt",
    "id": "yang dan di itu tidak saya ini aku dia untuk dengan ada dari ke tom akan kamu apa",
}
_WORD = re.compile(r"\w+")
_NUM_SAMPLED_TEXTS = 2_000
AMBIGUOUS_CODES = ("id", "no")
"""Codes of languages (Indonesian, Norwegian) that in many tables are the header of a column of numbers."""


class Languages(NamedTuple):
    """The two languages that the user asks for."""

    source: str
    target: str


def is_exactly(code: str, language: str) -> bool:
    """Return whether two language codes are the same apart from case and the separator."""
    return code.strip().lower().replace("_", "-") == language.lower().replace("_", "-")


def conflicting_language(declared: Iterable[str], language: str) -> str | None:
    """Return the first declared language that differs from `language` in more than its region; None if none does."""
    return next(
        (code for code in declared if code.strip() and primary_language(code) != primary_language(language)), None
    )


def warn_of_region(name: str, code: str, language: str) -> None:
    """Warn if a file marks its text with `code`, another region or script than that of the language asked for."""
    if not is_exactly(code, language) and all(re.search(r"\w[-_@]\w", given) for given in (code, language)):
        warn(f"{name}: text marked {code.strip()} is used as {language}")


def warn_of_mixture(name: str, codes: Mapping[str, int], language: str) -> None:
    """Warn if texts in several regions or scripts are taken for one language; `codes` has the texts of each code."""
    if len({code.strip().lower().replace("_", "-") for code in codes}) > 1:
        each = ", ".join(f"{number:,} in {code.strip()}" for code, number in codes.items())
        warn(
            f"{name}: mixes regions or scripts of {language}: {each}; to use only one, give it as "
            "--source-lang, --target-lang or --lang"
        )


def updated_language(declared: str, code: str) -> str:
    """Return the language that a document should declare after it is translated into the language `code`.

    If it declares this language with a region, that stays: programs know a catalogue for pt_BR by this name, and the
    model may know pt alone.
    """
    return declared if re.match(rf"{re.escape(code)}[-_@.]\w", declared, re.IGNORECASE) else code


def language_in(text: str) -> str | None:
    """Return the code of the language that a column header or a part of a file name names; None for none or several."""
    text = text.strip().lower()
    if text in ALIASES or re.fullmatch(r"[a-z]{2,3}[-_][a-z]{2,4}", text):
        return ALIASES.get(text) or (primary_language(text) if primary_language(text) in ALIASES.values() else None)
    found = {ALIASES[word] for word in re.split(r"[\W_]+", text) if word in ALIASES}
    return found.pop() if len(found) == 1 else None


def language_of_name(name: str, languages: Languages, *, at_end: bool = False) -> str | None:
    """Return which of two languages a file name contains, as `train.en` or `movie.fr.srt`; None if it has neither.

    With `at_end`, the name must end with the language, before an ending such as `.srt`.
    """
    name = _without_format(name)
    whole = [language for language in languages if name.endswith(f".{language.lower()}")]
    if len({*whole}) == 1:
        return whole[0]
    parts = [part for part in re.split(r"[/._ -]+", name) if part]
    for part in parts[-1:] if at_end else reversed(parts):
        for language in languages:
            if part == language.lower() or ALIASES.get(part) == primary_language(language):
                return language
    return None


def language_of_path(path: str, languages: Languages, *, at_end: bool = False) -> str | None:
    """Return which of two languages a path contains: in the name of the file, or else the nearest folder has it."""
    folder, name = os.path.split(path)
    if (found := language_of_name(name, languages, at_end=at_end)) is not None:
        return found
    named = (_language_of_folder(part, languages) for part in reversed(folder.split("/")))
    return next((language for language in named if language is not None), None)


def stem_of_path(path: str, languages: Languages) -> str:
    """Return a path without the language in it: `movie` for `movie.fr.srt`, and `a` for `fr/a`."""
    folder, name = os.path.split(path)
    if language_of_name(name, languages, at_end=True) is not None:
        return _stem_of_name(name, languages)
    return "/".join(part for part in (*folder.split("/"), name.lower()) if not _language_of_folder(part, languages))


def _language_of_folder(name: str, languages: Languages) -> str | None:
    """Return which of two languages the name of a folder is, as `fr` or `pt_BR`; None for `en-fr` and other names."""
    own = {primary_language(part) for part in re.split(r"[-_@]", name)}
    named = [language for language in languages if primary_language(language) in own]
    return named[0] if len({*named}) == 1 and primary_language(name) == primary_language(named[0]) else None


def _stem_of_name(name: str, languages: Languages) -> str:
    """Return a file name without the language with which it ends: `movie` for `movie.fr.srt`."""
    name = _without_format(name)
    for language in languages:
        if name.endswith(f".{language.lower()}"):
            return name.removesuffix(f".{language.lower()}")
    return re.sub(r"(?:^|[/._ -]+)[^/._ -]+$", "", name)


def _without_format(name: str) -> str:
    return re.sub(r"\.(?:txt|text|srt|vtt)$", "", name.lower())


def headers_naming(names: Sequence[str], language: str) -> list[int]:
    """Return the indices of the column headers or fields that name a language.

    If some are its very code, only these count. For `id` and `no`, which often name a number in tables, any other name
    of the language goes first instead.
    """
    exact = [place for place, name in enumerate(names) if name.strip().lower() == language.lower()]
    named = [place for place, name in enumerate(names) if language_in(name) == primary_language(language)]
    others = [place for place in named if place not in exact]
    return others or exact if language.lower() in AMBIGUOUS_CODES else exact or others


def other_language_of_name(name: str, languages: Languages) -> str | None:
    """Return the code with which a file name such as `train.de` ends, if it is none of two languages; else None."""
    ending = _without_format(name).rpartition(".")[2]
    is_other = primary_language(ending) not in map(primary_language, languages)
    is_code = ending in ALIASES and len(ending) < 4 and ending not in AMBIGUOUS_CODES
    return ending if is_other and is_code and "." in name else None


def is_language_name(text: str) -> bool:
    """Return whether a text is nothing but the name or the code of a language."""
    return text.strip().lower() in ALIASES


class Order(NamedTuple):
    """The order of two texts: whether the first is in the source language or in the target language."""

    is_swapped: bool
    is_certain: bool
    """False if the texts suggest that they are swapped, but not clearly."""


def order_of(first: Iterable[str], second: Iterable[str], languages: Languages) -> Order:
    """Return the order of two texts by their words or letters; without evidence, they are not swapped."""
    source, target = map(primary_language, languages)
    if source == target:
        return Order(False, True)
    scores = [language_scores(side, languages) for side in (first, second)]
    straight, swapped = scores[0][0] + scores[1][1], scores[1][0] + scores[0][1]
    if swapped <= 1.5 * straight or swapped < 2:
        return Order(False, True)
    return Order(True, swapped >= 4 * straight and swapped >= 6)


def language_scores(texts: Iterable[str], languages: Languages) -> tuple[float, float]:
    """Return the evidence that texts are in the source language and in the target language: two scores, 0 or more."""
    # In decomposed text, a word ends before a mark: the Vietnamese `tôi` would be the English words `to` and `i`.
    sample = [normalize("NFC", text) for text in islice(texts, _NUM_SAMPLED_TEXTS)]
    source, target = map(primary_language, languages)
    return _evidence(sample, source, target), _evidence(sample, target, source)


def _evidence(texts: Sequence[str], language: str, other: str) -> float:
    """Return a score, from words or letters of the texts, for one language against the other; 0 or more."""
    script, script_of_other = _SCRIPTS.get(language), _SCRIPTS.get(other)
    if script != script_of_other and (script or script_of_other):
        joined = "".join(texts)
        if script is not None:
            return len(re.findall(script, joined)) / 2
        return sum(letter.isascii() and letter.isalpha() for letter in joined) / 5
    own, others = _frequent_words(language), _frequent_words(other)
    if not own or not others:
        return 0
    return sum(word in own and word not in others for text in texts for word in _WORD.findall(text.lower()))


@cache
def _frequent_words(language: str) -> frozenset[str]:
    return frozenset(_WORDS.get(language, "").split())
