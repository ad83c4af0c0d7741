"""An import of small files, called from tests."""

import json
from pathlib import Path
from typing import Any, NamedTuple

from nmt_cli.assembly.imported_pairs import import_pairs
from nmt_cli.formats.languages import Languages
from nmt_cli.formats.members import Settings


class Made(NamedTuple):
    pairs: list[tuple[str, ...]]
    report: dict[str, Any]


def imported(*paths: Path, source: str = "en", target: str = "fr", **settings: str | None) -> Made:
    """Import files into the directory of the first, and remove what was written."""
    prefix = paths[0].parent / "made"
    made = import_pairs(list(map(str, paths)), str(prefix), Settings(Languages(source, target), **settings))
    sides = [path.read_bytes().decode().split("\n") for path in (made.source, made.target)]
    assert [side.pop() for side in sides] == ["", ""]
    report = json.loads(made.report.read_text(encoding="utf-8"))
    for path in made:
        path.unlink()
    return Made(list(zip(*sides, strict=True)), report)
