"""The directions that a server has, their languages, and the detection of the language of a text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from nmt_cli.data.language_profile import LanguageProfile, language_probabilities
from nmt_cli.serve.texts import Direction
from nmt_cli.system.errors import InputError
from nmt_cli.text.language_codes import english_name, primary_language

MIN_DETECTION_CHARACTERS = 40
"""Number of characters beyond which the language of a text is detected from this text alone. The shorter texts of a
request may be judged together."""
MIN_DETECTION_CONFIDENCE = 99.0
"""Confidence (0 to 100) from which on a shorter text is judged alone too. A single word may have a confidence of 95
for the wrong language."""


_CODE_ALIASES = {"pb": "pt-br", "zt": "zh-hant", "iw": "he", "in": "id", "ji": "yi", "jw": "jv"}
"""Standard codes by the codes that clients use instead: those of LibreTranslate, and old ones that Android and Java
kept."""
_SCRIPTS = {"cn": "hans", "sg": "hans", "tw": "hant", "hk": "hant", "mo": "hant"}
"""The script of Chinese by region: simplified (`hans`) or traditional (`hant`)."""


def _distance(own: str, code: str) -> int | None:
    """Return how far two language codes are apart: 0 for the same variant of a language, 1 for variants in the same
    script, 2 for variants in different scripts, None for different languages."""
    first, second = _canonical_code(own), _canonical_code(code)
    if first == second:
        return 0
    if primary_language(first) != primary_language(second):
        return None
    return 1 if _script(first) == _script(second) else 2


def _canonical_code(code: str) -> str:
    """Return a code in the form of the standard (BCP 47), in small letters."""
    language, *others = code.strip().replace("_", "-").lower().split("-")
    return "-".join([_CODE_ALIASES.get(language, language), *others])


def _script(code: str) -> str:
    """Return the script in a language code, such as `latn`; for Chinese without one, the script of its region
    (`hans` by default); otherwise an empty string."""
    language, *others = code.split("-")
    named = (part for part in others if len(part) == 4)
    return next(
        named, next((_SCRIPTS[part] for part in others if part in _SCRIPTS), "hans") if language == "zh" else ""
    )


class Directions:
    """All pairs of a source and a target language that a server translates."""

    def __init__(self, directions: Sequence[Direction], profiles: Mapping[str, LanguageProfile]) -> None:
        self.profiles = profiles
        self._by_pair: dict[tuple[str, str], Direction] = {}
        for direction in directions:
            pair = (direction.source, direction.target)
            if pair in self._by_pair:
                raise InputError(f"two models translate from {pair[0]} to {pair[1]}; serve one of them")
            self._by_pair[pair] = direction
        self.codes = list(dict.fromkeys(code for pair in self._by_pair for code in pair))

    def __iter__(self) -> Iterator[Direction]:
        return iter(self._by_pair.values())

    def languages(self) -> list[dict[str, Any]]:
        """Return the code, the English name and the codes of the target languages of each language."""
        return [
            {
                "code": code,
                "name": english_name(code),
                "targets": [target for source, target in self._by_pair if source == code],
            }
            for code in self.codes
        ]

    def find(self, code: str) -> str | None:
        """Return the code of the served language that a client means: `en` for `EN` and `en-US`, `pt-BR` for `pb`;
        or None."""
        distances = {own: distance for own in self.codes if (distance := _distance(own, code)) is not None}
        return min(distances, key=distances.__getitem__, default=None)

    def pair(self, source: str, target: str) -> tuple[str, str] | None:
        """Return the languages of the direction that is closest to what a client means, such as `en-GB` for `en`.

        None if there is no such direction, or if both codes are the same language.
        """
        if _distance(source, target) == 0:  # a text stays as it is in its own language
            return None
        distances = {
            pair: first + second
            for pair in self._by_pair
            if (first := _distance(pair[0], source)) is not None and (second := _distance(pair[1], target)) is not None
        }
        return min(distances, key=distances.__getitem__, default=None)

    def get_direction(self, source: str, target: str) -> Direction | None:
        """Return the direction from one served language to another; None if no model translates it."""
        return self._by_pair.get((source, target))

    def detect(self, text: str) -> list[dict[str, Any]]:
        """Return the languages that a text may be in, most probable first: dicts with `language`, a code, and
        `confidence`, from 0 to 100."""
        found = language_probabilities(text, self.profiles)
        shown = [{"confidence": round(100 * value, 1), "language": code} for code, value in found.items()]
        return [one for place, one in enumerate(shown) if place == 0 or one["confidence"]]

    def detect_each(self, texts: Sequence[str], target: str) -> list[dict[str, Any]]:
        """Return for each text a dict with its `language`, a code, and the `confidence`, from 0 to 100.

        Only the target language and the languages that are translated into it are considered, unless there are none of
        the latter, or a text is clearly in another language. Short texts whose language is not clear all get the
        language that is most probable for the short texts together.
        """
        sources = {source for source, other in self._by_pair if other == target}
        together = self._likeliest(
            "\n".join(text for text in texts if len(text) <= MIN_DETECTION_CHARACTERS), sources, target
        )
        alone = [self._likeliest(text, sources, target) for text in texts]
        return [
            found
            if len(text) > MIN_DETECTION_CHARACTERS or found["confidence"] >= MIN_DETECTION_CONFIDENCE
            else together
            for text, found in zip(texts, alone, strict=True)
        ]

    def _likeliest(self, text: str, sources: set[str], target: str) -> dict[str, Any]:
        all_detected = self.detect(text)
        considered = (sources or {*self.codes}) | {target}
        detected = [one for one in all_detected if one["language"] in considered]
        if all_detected and all_detected[0]["confidence"] >= MIN_DETECTION_CONFIDENCE:
            return all_detected[0]
        if detected and detected[0]["confidence"]:
            return detected[0]
        # Nothing speaks for any language, and only a text in another one than the target is worth asking for.
        languages = [one["language"] for one in detected if one["language"] in sources] or sorted(sources) or [target]
        return {"confidence": 0.0, "language": languages[0]}
