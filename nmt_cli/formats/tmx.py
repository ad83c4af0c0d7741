"""Translation memories: TMX 1.1 to 1.4."""

from __future__ import annotations

import re
from itertools import chain, islice, product
from math import prod

from nmt_cli.formats.inline import SUBFLOW_NOTE, SegmentText
from nmt_cli.formats.languages import Languages, is_exactly, warn_of_mixture, warn_of_region
from nmt_cli.formats.report import ImportedPair, ImportReport
from nmt_cli.formats.xml import INVALID_MARKER, XML_ENCODING
from nmt_cli.system.errors import InputError
from nmt_cli.text.language_codes import primary_language

MAX_VARIANTS = 4
"""Largest number of pairs from a unit with several variants; more of them would outweigh all other units."""


class TmxHandler:
    """Collects one pair for each pair of segments of a unit in the two languages.

    The text of `hi` belongs to the segment. What `bpt`, `ept`, `it`, `ph` and `ut` hold is markup and is left out.
    """

    def __init__(self, name: str, languages: Languages, report: ImportReport, *, is_single: bool = False) -> None:
        self.items: list[ImportedPair] = []
        self._name, self._languages, self._report = name, languages, report
        self._is_single = is_single
        self._primaries = [primary_language(language) for language in languages]
        self._seen: dict[str, int] = {}
        self._taken: dict[str, dict[str, int]] = {}
        """For each language asked for, the language codes of the segments taken for it, and how many had each code."""
        self._line = 0
        self._segments: list[tuple[str, SegmentText]] = []
        self._language = ""
        self._text: SegmentText | None = None

    @staticmethod
    def charset(data: bytes) -> re.Match[bytes] | None:
        """Return a match whose first group is the encoding in the XML declaration, or None."""
        return XML_ENCODING.search(data)

    def start(self, name: str, attributes: dict[str, str], line: int) -> None:
        """Begin a unit, a variant, a segment or an inline element."""
        if self._text is not None:
            self._text.start(name, attributes)
        elif name == "seg":
            self._text = SegmentText()
        elif name == "tuv":
            self._language = attributes.get("xml:lang") or attributes.get("lang") or ""
        elif name == "tu":
            self._line, self._segments = line, []

    def text(self, data: str) -> None:
        """Keep text of a segment that is outside of codes."""
        if self._text is not None:
            self._text.add(data)

    def end(self, name: str) -> None:
        """End a segment or a unit."""
        if name == "seg" and self._text is not None:
            self._segments.append((self._language, self._text))
            self._text = None
        elif self._text is not None:
            self._text.end()
        elif name == "tu":
            self._end_unit()

    def _end_unit(self) -> None:
        for language in {language for language, _ in self._segments}:
            self._seen[language] = self._seen.get(language, 0) + 1
        sides = [self._side_segments(number) for number in (0, 1)][: 1 if self._is_single else 2]
        place = f"{self._name}:{self._line}"
        if not all(sides):
            missing = " and ".join(language for language, side in zip(self._languages, sides, strict=False) if not side)
            self._report.skip(f"no {missing} segment in the unit", place)
            return
        if any(INVALID_MARKER in str(text) for side in sides for text in side):
            self._report.skip(
                "a character that XML does not allow, a byte that is not valid, or an & of no reference", place
            )
            return
        pairs = list(islice(product(*sides), MAX_VARIANTS))
        num_pairs = prod(map(len, sides))
        if num_pairs > 1:
            self._report.count_note("units with several variants of a side, each a pair")
        num_left = num_pairs - len(pairs)
        if num_left:
            self._report.skip(f"combinations of variants beyond {MAX_VARIANTS} in a unit", place, num_left)
        for text in chain(*sides):
            if text.has_subflow:
                self._report.count_note(SUBFLOW_NOTE)
        self.items += [ImportedPair(self._line, str(pair[0]), str(pair[-1])) for pair in pairs]

    def _side_segments(self, number: int) -> list[SegmentText]:
        """Return the segments of a unit in the language of side `number`; 0 is the source, 1 the target.

        If none is in exactly this language, those in one of its regions are taken, unless source and target are regions
        of one language.
        """
        language = self._languages[number]
        found = [(code, text) for code, text in self._segments if is_exactly(code, language)]
        if not found and (self._primaries[0] != self._primaries[1] or self._is_single):
            found = [(code, text) for code, text in self._segments if primary_language(code) == self._primaries[number]]
        taken = self._taken.setdefault(language, {})
        for code, _ in found:
            taken[code] = taken.get(code, 0) + 1
        return [text for _, text in found]

    def finish(self) -> None:
        """Put the languages seen into the report, and warn of regions taken for a language.

        Raises:
            InputError: the file has no segment in one of the two languages.
        """
        self._report.inputs[-1]["languages"] = self._seen
        regions = [
            [code for code in self._seen if primary_language(code) == one and not is_exactly(code, asked)]
            for one, asked in zip(self._primaries, self._languages, strict=True)
        ]
        exact = [any(is_exactly(code, language) for code in self._seen) for language in self._languages]
        for is_there, others, language in zip(exact, regions, self._languages, strict=True):
            if not is_there and not others:
                there = ", ".join(f"{code or 'none'} ({count:,} units)" for code, count in sorted(self._seen.items()))
                raise InputError(
                    f"{self._name}: has no segment in {language}; the languages in it are {there or 'none'}. Give two "
                    "of them as --source-lang and --target-lang"
                )
        for language, codes in self._taken.items():
            warn_of_mixture(self._name, codes, language)
            for code in codes:
                warn_of_region(self._name, code, language)
