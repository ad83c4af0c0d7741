"""The report of an import: the pairs found, and those left out with the reason. Texts become one line here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

NUM_EXAMPLES = 5
MAX_CONTRIBUTORS = 100_000
_LINE_END = re.compile("\r\n|[\r\n\v\f\x1c-\x1e\x85\u2028\u2029]")
"""Characters that some program reads as the end of a line."""
_CONTRIBUTOR = re.compile(r"(?<!\s)\s*+(?:&\s*+)?#\d++ \(([^()]*+)\)")


class ImportedPair(NamedTuple):
    """A source text and its translation, as a file has them, and their place in it."""

    place: str | int
    """Number of the line, from 1, or sheet and row, such as `Sheet1!3`."""
    source: str
    target: str


@dataclass(slots=True)
class ImportReport:
    """Counts of the pairs in the files, and the properties of the files."""

    pairs: int = 0
    formats: list[str] = field(default_factory=list)
    encodings: list[str] = field(default_factory=list)
    inputs: list[dict[str, Any]] = field(default_factory=list)
    """For each input, its format, encoding, members and columns."""
    skipped: dict[str, int] = field(default_factory=dict)
    """Number of pairs that are not in the output, by reason."""
    examples: dict[str, list[str]] = field(default_factory=dict)
    """The first places of skipped pairs, by reason."""
    num_joined: int = 0
    """Pairs in which line ends became spaces."""
    notes: dict[str, int] = field(default_factory=dict)
    """Further counts, by their description."""
    attribution: dict[str, int] = field(default_factory=dict)
    contributors: dict[str, int] = field(default_factory=dict)

    def skip(self, reason: str, place: str, number: int = 1) -> None:
        """Count `number` pairs that are left out for a reason; the first few places become examples in the report."""
        self.skipped[reason] = self.skipped.get(reason, 0) + number
        places = self.examples.setdefault(reason, [])
        if len(places) < NUM_EXAMPLES:
            places.append(place)

    def count_note(self, what: str) -> None:
        """Add 1 to the count of a remark in the report, such as `blank lines`."""
        self.notes[what] = self.notes.get(what, 0) + 1

    def add_attribution(self, text: str) -> None:
        """Count the licence, and each contributor, that the text in a table's attribution column names for a pair."""
        licence, *parts = _CONTRIBUTOR.split(text)
        for name in parts[::2]:
            if name in self.contributors or len(self.contributors) < MAX_CONTRIBUTORS:
                self.contributors[name] = self.contributors.get(name, 0) + 1
        licence = (licence + "".join(parts[1::2])).strip()
        if licence in self.attribution or len(self.attribution) < MAX_CONTRIBUTORS:
            self.attribution[licence] = self.attribution.get(licence, 0) + 1

    def as_values(self) -> dict[str, Any]:
        """Return the report as the JSON object that is written to `PREFIX.report.json`."""
        values: dict[str, Any] = {
            "pairs": self.pairs,
            "format": ", ".join(dict.fromkeys(self.formats)),
            "encoding": ", ".join(dict.fromkeys(self.encodings)),
            "skipped": self.skipped,
            "skipped_places": self.examples,
            "pairs_with_joined_lines": self.num_joined,
            "notes": self.notes,
            "inputs": self.inputs,
        }
        if self.attribution:
            values["attribution"] = {"texts": self.attribution, "contributors": self.contributors}
        return values


def clean_pairs(
    found: Iterable[ImportedPair], name: str, report: ImportReport, *, is_single: bool = False
) -> Iterator[tuple[str, str]]:
    """Yield the pairs that have text on both sides and no zero byte, and count the others as skipped.

    Each side becomes one line: line ends around it are removed, and each one within becomes a space. With `is_single`,
    both sides are the same text, and the report does not tell them apart.
    """
    for place, source, target in found:
        has_source = bool(source) and not source.isspace()
        has_target = bool(target) and not target.isspace()
        if not (has_source and has_target):
            side = (
                "empty on both sides" if has_source == has_target else f"empty {'target' if has_source else 'source'}"
            )
            report.skip("empty" if is_single else side, f"{name}:{place}")
            continue
        if not _is_encodable(source) or not _is_encodable(target):
            report.skip("not valid in its encoding", f"{name}:{place}")
            continue
        if "\0" in source or "\0" in target:
            report.skip("a zero byte, which is no text", f"{name}:{place}")
            continue
        if _LINE_END.search(source) or _LINE_END.search(target):
            source, target = _without_outer_line_ends(source), _without_outer_line_ends(target)
            report.num_joined += bool(_LINE_END.search(source) or _LINE_END.search(target))
            source, target = _LINE_END.sub(" ", source), _LINE_END.sub(" ", target)
        report.pairs += 1
        yield source, target


def _without_outer_line_ends(text: str) -> str:
    """Return the text without the white space at its beginning, or at its end, if this white space has a line end."""
    begin = len(text) - len(text.lstrip())
    if _LINE_END.search(text, 0, begin):
        text = text[begin:]
    end = len(text.rstrip())
    return text[:end] if _LINE_END.search(text, end) else text


def _is_encodable(text: str) -> bool:
    """Return whether a text has no bytes that could not be decoded, and no half of a surrogate pair."""
    if text.isascii():
        return True
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
