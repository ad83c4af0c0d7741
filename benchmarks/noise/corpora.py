"""The corpora into which noise is injected."""

from __future__ import annotations

import zipfile
from pathlib import Path

Pair = tuple[str, str]
LONG_ENOUGH = 25
"""Characters of a French sentence that can stand for a wrong translation."""


def multi30k(directory: Path, ending: str = "") -> list[Pair]:
    """Return the training pairs of Multi30K English-German; `ending` is that of a form, such as `.lc.tok`."""
    english, german = (lines_of(directory / f"multi30k/train{ending}.{language}") for language in ("en", "de"))
    return list(zip(english, german, strict=True))


def tatoeba(directory: Path, language: str) -> list[Pair]:
    """Return the pairs of Tatoeba from English, as manythings.org packs them."""
    with zipfile.ZipFile(directory / f"tatoeba/{language}-eng.zip") as archive:
        name = next(name for name in archive.namelist() if name.endswith(".txt") and "_about" not in name)
        lines = archive.read(name).decode("utf-8").split("\n")
    return [(columns[0], columns[1]) for columns in (line.split("\t") for line in lines) if len(columns) > 1]


def french(directory: Path) -> list[str]:
    """Return sentences of a third language."""
    return [target for _, target in tatoeba(directory, "fra") if len(target) > LONG_ENOUGH]


def lines_of(path: Path) -> list[str]:
    """Return the lines of a file."""
    return path.read_text(encoding="utf-8").split("\n")[:-1]


def write_pairs(pairs: list[Pair], source: Path, target: Path) -> None:
    """Write pairs as two files of lines."""
    for side, path in enumerate((source, target)):
        path.write_text("".join(f"{pair[side]}\n" for pair in pairs), encoding="utf-8")
