"""How a translation is written: text, JSON lines, Moses n-best lists."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from nmt_cli.translation.alignment import Matrix, pharaoh
from nmt_cli.translation.results import Translated, Translation

Formatter = Callable[[int, Translated], str]
"""From a line's number (from 0) and its translations to the output, which ends in a line feed."""


def formatter(name: str, *, n_best: int = 1, alignment: str = "none") -> Formatter:
    """The formatter `text`, `jsonl` or `moses`; `alignment` is none, hard or soft."""

    def suffix(translation: Translation) -> str:
        shown = _aligned(translation, alignment)
        return "" if alignment == "none" else f" ||| {shown if isinstance(shown, str) else json.dumps(shown or [])}"

    def text(_: int, translated: Translated) -> str:
        lines = [translation.text + suffix(translation) for translation in translated.translations[:n_best]]
        return "".join(f"{line}\n" for line in lines + [""] * (n_best - len(lines)))

    def jsonl(number: int, translated: Translated) -> str:
        best = translated.translations[0]
        record: dict[str, Any] = {
            "id": number,
            "source": translated.source,
            "translation": best.text,
            "score": best.score,
            "hypotheses": [
                {"translation": t.text, "score": t.score, "alignment": _aligned(t, alignment)}
                for t in translated.translations
            ],
            "alignment": _aligned(best, alignment),
        }
        return json.dumps(record, ensure_ascii=False) + "\n"

    def moses(number: int, translated: Translated) -> str:
        return "".join(
            f"{number} ||| {t.text} ||| F0= {t.log_prob:.6f} ||| {t.score:.6f}{suffix(t)}\n"
            for t in translated.translations[:n_best]
        )

    return {"text": text, "jsonl": jsonl, "moses": moses}[name]


def _aligned(translation: Translation, kind: str) -> str | list[list[float]] | None:
    """`hard`: Pharaoh pairs; `soft`: the matrix, a row a target word; None where there is none."""
    if kind == "hard" and translation.links is not None:
        return pharaoh(translation.links)
    return _rounded(translation.weights) if kind == "soft" and translation.weights is not None else None


def _rounded(weights: Matrix) -> list[list[float]]:
    rows: list[list[float]] = weights.round(6).tolist()
    return rows
