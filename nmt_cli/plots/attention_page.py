"""Writes attention weights as one self-contained HTML page; defines the classes for the values that are drawn.

The page needs no network, no server and no drawing library. The sentences travel as JSON in a script element of a type
that no browser runs, with every character escaped that could end it; the page shows them as text, never as markup.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources

EOS_LABEL = "</s>"
"""Label of the attention on the end-of-sentence mark of the source."""
_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
_UNSAFE = re.compile("[<>&\u2028\u2029\ud800-\udfff]")  # lone surrogates cannot be written as UTF-8


@dataclass(frozen=True, slots=True)
class Candidate:
    """A piece that the beam search considered after a prefix; `score` is the natural log-probability of the two."""

    text: str
    """The piece, as text."""
    probability: float
    """Probability of this piece, given those before it."""
    score: float
    prefix: str
    """The text before the piece."""
    kept: bool
    """True if the beam search kept it for the next step."""
    has_ended: bool = False
    """True if this piece ended a translation. The best ended translation is the result of the search."""
    beam: int = 0
    """Index, from 0, of the prefix among the prefixes of its step. Two prefixes may have the same text, but different
    pieces."""


@dataclass(frozen=True, slots=True)
class SearchStep:
    """The candidates of one step of the beam search, best first."""

    candidates: tuple[Candidate, ...]


@dataclass(frozen=True, slots=True)
class AttentionPicture:
    """A sentence pair with its attention weights, which have a row for each target word.

    A row has a weight for each source word, and a last one for the end-of-sentence mark of the source.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    weights: tuple[tuple[float, ...], ...]
    translation: str = ""
    steps: tuple[SearchStep, ...] = ()

    def __post_init__(self) -> None:
        if len(self.weights) != len(self.target) or any(len(row) != len(self.source) + 1 for row in self.weights):
            raise ValueError(
                f"weights must have a row for each of {len(self.target)} target words and in it a number for each of "
                f"{len(self.source)} source words and for their end"
            )


def render_page(pictures: Sequence[AttentionPicture]) -> str:
    """Return a self-contained HTML page on which the pictures can be explored."""
    template, words = (
        resources.files("nmt_cli.plots").joinpath(name).read_text(encoding="utf-8")
        for name in ("attention_page.html", "attention_words.js")
    )
    before, after = template.replace("{{words}}", words).split("{{data}}")
    return before + _script_json(pictures) + after


def _script_json(pictures: Sequence[AttentionPicture]) -> str:
    """Return the pictures as JSON that is inert inside a script element."""
    text = json.dumps([_record(picture) for picture in pictures], ensure_ascii=False, separators=(",", ":"))
    return _UNSAFE.sub(lambda match: _ESCAPES.get(match[0]) or f"\\u{ord(match[0]):04x}", text)


def _record(picture: AttentionPicture) -> dict[str, object]:
    return {
        "translation": picture.translation,
        "source": picture.source,
        "target": picture.target,
        "weights": [[_number(weight) for weight in row] for row in picture.weights],
        "steps": [
            [
                {
                    "text": candidate.text,
                    "prefix": candidate.prefix,
                    "beam": candidate.beam,
                    "probability": _number(candidate.probability),
                    "score": _number(candidate.score),
                    "kept": candidate.kept,
                    "ended": candidate.has_ended,
                }
                for candidate in step.candidates
            ]
            for step in picture.steps
        ],
    }


def _number(value: float) -> float | None:
    """Return the value rounded to four decimals, more than the page shows; None if it is not finite, as JSON needs."""
    return round(float(value), 4) if math.isfinite(value) else None
