"""Formats of translations: text, JSON lines, Moses n-best lists."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from nmt_cli.text.alignment import AlignmentMatrix, format_pharaoh
from nmt_cli.translation.results import TranslatedLine, Translation

Formatter = Callable[[int, TranslatedLine], str]
"""A function from a line's number (from 0) and its translations to the output, which ends in a line feed."""


def formatter(name: str, *, n_best: int = 1, alignment: str = "none", glossary: bool = False) -> Formatter:
    """Return the formatter `text`, `jsonl` or `moses`; `alignment` is none, hard or soft.

    Text and Moses have at most `n_best` translations of each line, and text has empty lines for missing ones. With
    `glossary`, JSON lines list the terms of the source and their translations.
    """

    def suffix(translation: Translation) -> str:
        shown = _format_alignment(translation, alignment)
        return "" if alignment == "none" else f" ||| {shown if isinstance(shown, str) else json.dumps(shown or [])}"

    def text(_: int, translated: TranslatedLine) -> str:
        lines = [translation.text + suffix(translation) for translation in translated.translations[:n_best]]
        return "".join(f"{line}\n" for line in lines + [""] * (n_best - len(lines)))

    def jsonl(number: int, translated: TranslatedLine) -> str:
        best = translated.translations[0]
        record: dict[str, Any] = {
            "id": number,
            "source": translated.source,
            "translation": best.text,
            "score": best.score,
            "hypotheses": [
                {
                    "translation": t.text,
                    "score": t.score,
                    "alignment": _format_alignment(t, alignment),
                    **confidence_of(t),
                }
                for t in translated.translations
            ],
            "alignment": _format_alignment(best, alignment),
            **confidence_of(best),
        }
        if glossary:
            record["glossary"] = [asdict(use) for use in best.terms]
        return json.dumps(record, ensure_ascii=False) + "\n"

    def moses(number: int, translated: TranslatedLine) -> str:
        return "".join(
            f"{number} ||| {t.text} ||| F0= {t.log_prob:.6f} ||| {t.score:.6f}{suffix(t)}\n"
            for t in translated.translations[:n_best]
        )

    return {"text": text, "jsonl": jsonl, "moses": moses}[name]


def _format_alignment(translation: Translation, kind: str) -> str | list[list[float]] | None:
    """Return Pharaoh pairs (`hard`), or the attention with a row for each target word (`soft`); None without any."""
    if kind == "hard" and translation.links is not None:
        return format_pharaoh(translation.links)
    return _rounded(translation.weights) if kind == "soft" and translation.weights is not None else None


def confidence_of(translation: Translation) -> dict[str, Any]:
    """Return the fields of JSON lines with the confidence of a translation; none if confidence was not asked for."""
    if translation.confidence is None or translation.word_confidence is None:
        return {}
    return {
        "confidence": round(translation.confidence, 6),
        "word_confidence": [round(value, 6) for value in translation.word_confidence],
    }


def _rounded(weights: AlignmentMatrix) -> list[list[float]]:
    rows: list[list[float]] = weights.round(6).tolist()
    return rows
