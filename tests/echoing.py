"""A stand-in for the search with the model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import SimpleNamespace


class Echo:
    """Translates each line as itself."""

    def __init__(self, *_: object, **__: object) -> None:
        self.counts = SimpleNamespace(empty=0, repeated=0)

    def translate(self, lines: Iterable[str]) -> Iterator[SimpleNamespace]:
        return (SimpleNamespace(translations=[SimpleNamespace(text=line)]) for line in lines)
