"""XLIFF 1.2 and 2.x, the exchange format of translation programs."""

from __future__ import annotations

from nmt_cli.formats.inline import SUBFLOW_NOTE, InlineText
from nmt_cli.formats.languages import Languages, warn_of_region
from nmt_cli.formats.report import Found, ImportReport
from nmt_cli.system.errors import InputError
from nmt_cli.text.language_codes import primary

UNTRANSLATED = frozenset(("new", "needs-translation", "initial"))
UNFINISHED = frozenset(
    ("needs-adaptation", "needs-l10n", "needs-review-adaptation", "needs-review-l10n", "needs-review-translation")
)
"""States of translations that somebody has to look at."""
UNITS = ("trans-unit", "segment")
SIDES = ("source", "seg-source", "target")
"""Children of a unit with its texts. Elsewhere such elements hold suggestions, or what the texts were before."""


class XliffEvents:
    """Collects a pair for each unit (1.2) or segment (2.x) with a target.

    If a unit is divided into marked segments, as Trados and Okapi do it, each of them is a pair. The text of `g`, `mrk`
    and `pc` belongs to the sentence. What `bpt`, `ept`, `it` and `ph` hold is markup.
    """

    def __init__(self, name: str, languages: Languages, report: ImportReport, *, with_unfinished: bool = False) -> None:
        self.found: list[Found] = []
        self._name, self._languages, self._report = name, languages, report
        self._with_unfinished = with_unfinished
        self._texts: dict[str, InlineText] = {}
        self._side: str | None = None
        self._opened: list[str] = []
        self._line = 0
        self._state = ""
        self._is_swapped = self._is_header = False
        self._declared: tuple[str, str] = ("", "")

    def start(self, name: str, attributes: dict[str, str], line: int) -> None:
        """Begin a file, a unit, a side or an inline element."""
        parent = self._opened[-1] if self._opened else ""
        self._opened.append(name)
        if self._side is not None:
            self._texts[self._side].start(name, attributes)
            if name == "cp" and "hex" in attributes:
                self.text(_character(attributes["hex"]))
        elif name in ("xliff", "file"):
            names = ("srcLang", "trgLang") if name == "xliff" else ("source-language", "target-language")
            if names[0] in attributes:
                self._declare(attributes[names[0]], attributes.get(names[1], ""), line)
        elif name in UNITS:
            self._line, self._texts = line, {}
            self._state = attributes.get("state", "")
            self._is_header = attributes.get("restype") == "x-gettext-domain-header"
        elif name in SIDES and parent in UNITS:
            self._side = name
            self._texts[name] = InlineText()
            self._state = attributes.get("state", self._state)

    def text(self, data: str) -> None:
        """Keep text that stands in a side and outside codes."""
        if self._side is not None:
            self._texts[self._side].add(data)

    def end(self, name: str) -> None:
        """End a side or a unit."""
        self._opened.pop()
        if self._side is not None and self._opened[-1] in UNITS:
            self._side = None
        elif self._side is not None:
            self._texts[self._side].end()
        elif name in UNITS:
            self._end_unit()

    def _end_unit(self) -> None:
        place = f"{self._name}:{self._line}"
        target = str(self._texts.get("target", ""))
        if self._is_header:
            self._report.note("headers of a PO file, which are no text")
        elif "target" not in self._texts:
            self._report.skip("no target in the unit", place)
        elif self._state in UNTRANSLATED and target.strip():
            self._report.skip(f"not translated yet (state {self._state})", place)
        elif self._state in UNFINISHED and not self._with_unfinished and target.strip():
            self._report.skip(f"unfinished (state {self._state})", place)
        else:
            pairs = self._segments() or [(str(self._texts.get("source", "")), target)]
            for side in ("source", "target"):
                if side in self._texts and self._texts[side].has_subflow:
                    self._report.note(SUBFLOW_NOTE)
            self.found += [Found(self._line, *(pair[::-1] if self._is_swapped else pair)) for pair in pairs]

    def _segments(self) -> list[tuple[str, str]]:
        """Return the pairs of segments if the marks of both sides have the same numbers and all text is in them."""
        source, target = self._texts.get("seg-source"), self._texts["target"]
        if source is None or not target.segments or not target.segments.keys() <= source.segments.keys():
            return []
        if any(_letters("".join(side.segments.values())) != _letters(str(side)) for side in (source, target)):
            return []
        return [(text, target.segments.get(mid, "")) for mid, text in source.segments.items()]

    def _declare(self, source: str, target: str, line: int) -> None:
        declared = primary(source), primary(target)
        asked = primary(self._languages.source), primary(self._languages.target)
        fits = [not there or there == wanted for there, wanted in zip(declared, asked, strict=True)]
        reverse = [not there or there == wanted for there, wanted in zip(declared, reversed(asked), strict=True)]
        if not all(fits) and not all(reverse):
            raise InputError(
                f"{self._name}:{line}: translates from {source} to {target or 'a language without a name'}, not from "
                f"{self._languages.source} to {self._languages.target}; give its languages as --source-lang and "
                "--target-lang"
            )
        self._is_swapped = not all(fits)
        seen = self._report.inputs[-1].setdefault("languages", [])
        if (both := f"{source} to {target}") not in seen:
            seen.append(both)
            asked_codes = self._languages[::-1] if self._is_swapped else self._languages
            for code, language in zip((source, target), asked_codes, strict=True):
                warn_of_region(self._name, code, language)

    def finish(self) -> None:
        """Do nothing: a file in other languages was refused where it began."""


def _letters(text: str) -> str:
    return "".join(text.split())


def _character(code: str) -> str:
    try:
        return chr(int(code, 16))
    except (ValueError, OverflowError):
        return "\ufffd"
