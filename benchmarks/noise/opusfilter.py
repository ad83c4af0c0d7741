"""OpusFilter beside `nmt clean`: another program that filters parallel text, in an environment of its own."""

from __future__ import annotations

import gzip
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple


class Dropped(NamedTuple):
    """Pairs that a program leaves out, and the time that it takes."""

    rows: set[int]
    """Count from 0."""
    seconds: float


def dropped_by_opusfilter(environment: Path, files: tuple[Path, Path], languages: tuple[str, str]) -> Dropped:
    """Filter two files with what `opusfilter-autogen --method defaults` proposes (`DefaultParameterFilters`)."""
    directory = files[0].parent / "opusfilter"
    config = files[0].parent / "opusfilter.yaml"
    proposal = [
        "opusfilter-autogen", "--files", *map(str, files), "--langs", *languages, "--scripts", "Latin", "Latin",
        "--method", "defaults", "--work-dir", str(directory), "-o", str(config),
    ]  # fmt: skip
    _run(environment, proposal)
    began = time.perf_counter()
    _run(environment, ["opusfilter", "--overwrite", str(config)])
    seconds = time.perf_counter() - began
    kept = zip(*(_lines(directory / f"filtered.{language}.gz") for language in languages), strict=True)
    return Dropped(_missing(zip(*map(_lines, files), strict=True), kept), seconds)


def _run(environment: Path, command: list[str]) -> None:
    done = subprocess.run(
        [environment / "bin" / command[0], *command[1:]], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False
    )
    if done.returncode:
        raise SystemExit(f"failed ({done.returncode}): {' '.join(command)}\n{done.stderr.decode(errors='replace')}")


def _lines(path: Path) -> list[str]:
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
    return [line.rstrip() for line in text.split("\n")[:-1]]


def _missing(pairs: Iterable[tuple[str, str]], kept: Iterable[tuple[str, str]]) -> set[int]:
    """Return the rows of `pairs` that are not in `kept`, which has the others in order."""
    rest = iter(kept)
    expected = next(rest, None)
    missing = set()
    for row, pair in enumerate(pairs):
        if pair == expected:
            expected = next(rest, None)
        else:
            missing.add(row)
    assert expected is None, f"{expected} was written but not read"
    return missing
