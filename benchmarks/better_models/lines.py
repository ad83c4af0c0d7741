"""Lines of text files, which end at a line feed and at nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path


def read_lines(path: Path) -> list[str]:
    """Return the lines of a file, the last of which ends too."""
    return path.read_bytes().decode("utf-8").split("\n")[:-1]


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write a file whole or not at all."""
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_bytes("".join(f"{line}\n" for line in lines).encode("utf-8"))
    temporary.replace(path)


def reversed_words(line: str) -> str:
    """Return a line with its words from the last to the first."""
    return " ".join(reversed(line.split(" ")))
