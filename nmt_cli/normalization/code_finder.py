"""Finds the codes of a text (tags, placeholders, escapes) with the regular expressions of `conventions.py`."""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import cache

from nmt_cli.normalization.conventions import (
    ADDRESS_PATTERN,
    AMBIGUOUS_CONVENTIONS,
    BRACE_FLAGS,
    CHARACTER_REFERENCE,
    DIRECTIVE,
    FLAGGED_CONVENTIONS,
    LINE_BREAK_TAGS,
    NUMBERED_FLAGS,
    PRINTF_IN_TEXT,
    UNAMBIGUOUS_CONVENTIONS,
    WORD_WITH_ACCELERATOR,
    Convention,
)
from nmt_cli.text.line import Code, CodeKind

ADDRESS = re.compile(ADDRESS_PATTERN)
"""Address of a web page, or an e-mail address."""
_TAG_NAME = re.compile(r"[<\[]/?\s*([^\s/>=\]]+)")
_BBCODE = re.compile(r"\[(/?)([A-Za-z][A-Za-z0-9]*)(?:[= ][^\[\]\n]{0,2000})?\]")
_TEX_OR_WINDOWS_PATH = re.compile(r"(?<![{\\])\\(?![nNrtuh])[A-Za-z]|(?<![A-Za-z])[A-Za-z]:\\|\\\\[A-Za-z]")
"""A TeX command or a Windows path. In a text that has one, `\\n` is no line end but the beginning of a name."""
_IN_BRACKETS = ("BBCode", "end of BBCode")
_MIN_HABIT = 2
"""Least number of codes of an ambiguous convention from which a text is taken to use that convention."""
_WINDOW, _OVERLAP = 100_000, 5_000
"""Most characters that a regular expression searches at once, blocking other threads, and the overlap of two parts."""
_MAX_BRACES = 4000
_CODE_CHARACTERS = frozenset("%{<>[`*$_@\\|:&!~/+-")
"""Characters of which every code (tag, placeholder, escape) contains at least one."""
IteratorWrapper = Callable[[Iterable[re.Match[str]]], Iterable[re.Match[str]]]


class _Table:
    """Conventions joined into one regular expression, which is compiled once."""

    def __init__(self, conventions: Iterable[Convention]) -> None:
        self.rows = tuple(conventions)
        self.pattern = re.compile(
            "|".join(f"(?P<row{n}>{_numbered(row.pattern, n)})" for n, row in enumerate(self.rows))
        )

    def row_of(self, found: re.Match[str]) -> int:
        """Return the index in `rows` of the convention that has matched."""
        assert found.lastgroup is not None
        return int(found.lastgroup[3:])


ACCELERATORS = frozenset(row.name for row in AMBIGUOUS_CONVENTIONS if row.kind is CodeKind.ACCELERATOR)
"""Names of the ambiguous conventions that mark the letter of a keyboard shortcut, as in `_Open` and `&Open`."""


def _numbered(pattern: str, number: int) -> str:
    """Return a pattern with `number` added to the names of its groups, so that patterns can be joined."""
    return re.sub(r"\(\?P([<=])(\w+)([>)])", rf"(?P\g<1>\g<2>{number}\g<3>", pattern)


@cache
def _table(finder: CodeFinder) -> _Table:
    return _Table(finder.conventions)


@cache
def _ambiguous_table() -> _Table:
    return _Table(AMBIGUOUS_CONVENTIONS)


@dataclass(frozen=True)
class CodeFinder:
    """Finds the codes of a text: tags, placeholders, escapes and other characters that are not translated.

    The conventions that it recognises depend on the gettext flags of a message and on the habits of a text.
    """

    formats: frozenset[str] = frozenset()
    """Flags of gettext that name a programming language, such as `c-format`."""
    habits: frozenset[str] = frozenset()
    """Names of the ambiguous conventions (see `AMBIGUOUS_CONVENTIONS`) that the text has been found to use."""
    references: str = ""
    """`first` or `last`: character references such as `&nbsp;` are placeholders, tried before or after all others.

    If it is empty, they are ordinary text.
    """
    only_counted: bool = False
    """True to find only codes that a translation must have as often as its source, so no emphasis."""
    has_percentages: bool = False
    """True if `%` after a digit begins no directive of printf, as in `50%ige`."""
    has_numbered: bool = False
    """True if `%1` is an argument even next to letters or codes, as XLIFF from any program may have it."""

    @classmethod
    def of_flags(cls, flags: AbstractSet[str], habits: frozenset[str] = frozenset()) -> CodeFinder:
        """Return the finder for a message with these gettext flags; only those such as `c-format` count."""
        return cls(frozenset(filter(is_format, flags)), habits)

    def counted(self) -> CodeFinder:
        """Return a finder of only those codes that a translation must have as often as its source."""
        return replace(self, only_counted=True)

    @property
    def conventions(self) -> tuple[Convention, ...]:
        """The conventions that this finder recognises, in the order in which they are tried at each character."""
        rows = tuple(self._rows())
        if not self.references:
            return rows
        reference = Convention("reference", CHARACTER_REFERENCE, "", ())
        return (reference, *rows) if self.references == "first" else (*rows, reference)

    def _rows(self) -> Iterator[Convention]:
        own = [row for row in FLAGGED_CONVENTIONS if row.flags & self.formats]
        if self.formats & NUMBERED_FLAGS:
            yield from (row for row in own if row.flags & NUMBERED_FLAGS)
        elif self.formats and "python-brace-format" not in self.formats and not self.formats <= BRACE_FLAGS:
            yield from own
            yield Convention("directive", DIRECTIVE, "", ())
        elif self.has_numbered:
            yield Convention("numbered", r"%\d{1,2}(?=%\d)", "", ())
        for number, row in enumerate(UNAMBIGUOUS_CONVENTIONS):
            if self.has_percentages and row.name.startswith("printf"):
                row = row._replace(pattern=PRINTF_IN_TEXT)
            elif row.name == "name in a program" and "accelerator with _" in self.habits:
                row = row._replace(pattern=f"(?!{WORD_WITH_ACCELERATOR}){row.pattern}")
            yield row
            if not number and not self.formats:  # `%url` would begin with `%u`
                yield from (row for row in AMBIGUOUS_CONVENTIONS if row.name in self.habits)
        if self.has_numbered:
            yield Convention("numbered", r"%\d{1,2}(?!\d)", "", ())

    def codes(self, text: str, each: IteratorWrapper = iter) -> Iterator[Code]:
        """Yield the codes of a text from left to right.

        `each` gets the iterator of the matches of `{` and `}`, and returns it wrapped, for example to count them.
        """
        if not may_have_codes(text):  # as most: looking at each place takes long
            return
        bbcode = _paired_bbcode_names(text)
        has_escapes = "\\" in text and not _TEX_OR_WINDOWS_PATH.search(text)
        table = _table(self)
        braces = deque(_braces(text, each))
        closing: list[Code] = []
        """Ends of the pairs that are open, the innermost last."""
        position, found, limit = 0, None, -1
        while True:
            end = closing[-1].begin if closing else len(text)
            if limit != end or (found is not None and found.start() < position):
                found, limit = _first_match(table.pattern, text, position, end), end
            while braces and (braces[0][0] < position or braces[0][0] < end < braces[0][1]):
                braces.popleft()
            brace = braces[0] if braces and braces[0][1] <= end else None
            if brace is not None and (found is None or brace[0] <= found.start() or brace[0] < found.end() < brace[1]):
                begin = brace[0] - (brace[0] > position and text[brace[0] - 1] in "$%#")
                position = brace[1]
                is_style = text.startswith("\\", brace[0] + 1)  # as in {\an8} of SubStation
                yield Code(begin, position, CodeKind.STANDALONE if is_style else CodeKind.PLACEHOLDER)
            elif found is None:
                if not closing:
                    return
                code = closing.pop()
                position = code.end
                if not self.only_counted:
                    yield code
            else:
                number = table.row_of(found)
                row, position = table.rows[number], found.end()
                if row.name in _IN_BRACKETS and not _is_bbcode(found[0], bbcode):
                    position = found.start() + 1
                elif row.pattern.startswith(r"\\") and not has_escapes:
                    continue
                elif f"close{number}" in table.pattern.groupindex:
                    name = f"{row.name} {found.start()}"
                    closing.append(Code(*found.span(f"close{number}"), CodeKind.CLOSE, name))
                    if not self.only_counted:
                        yield Code(*found.span(), CodeKind.OPEN, name)
                elif row.is_counted or not self.only_counted:
                    yield _code(row, found)

    def counts(self, text: str) -> Counter[str]:
        """Return how often each code occurs in a text, by the characters of the code."""
        return Counter(text[code.begin : code.end] for code in self.codes(text))


def _code(row: Convention, found: re.Match[str]) -> Code:
    """Return the code that a match of a convention represents: its span, kind and name."""
    text = found[0]
    if row.name == "tag":
        named = _TAG_NAME.match(text)
        name = named[1].lower() if named else ""
        if name in LINE_BREAK_TAGS:
            kind = CodeKind.LINE_END
        elif text.endswith("/>"):
            kind = CodeKind.STANDALONE
        else:
            kind = CodeKind.CLOSE if text.startswith("</") else CodeKind.OPEN
        return Code(*found.span(), kind, "" if kind in (CodeKind.STANDALONE, CodeKind.LINE_END) else name)
    if row.kind in (CodeKind.OPEN, CodeKind.CLOSE):
        named = _TAG_NAME.match(text)
        return Code(*found.span(), row.kind, f"[{named[1].lower()}]" if named else "")
    return Code(*found.span(), row.kind)


def _is_bbcode(text: str, both: frozenset[str]) -> bool:
    """Return whether the name of a bracketed tag such as `[b]` is in `both`, the names that a text opens and closes."""
    named = _TAG_NAME.match(text)
    return named is not None and named[1].lower() in both


def _paired_bbcode_names(text: str) -> frozenset[str]:
    """Return the names, in small letters, of bracketed words that a text both opens (`[b]`) and closes (`[/b]`)."""
    if "[/" not in text:
        return frozenset()
    found = {(one[1], one[2].lower()) for one in _BBCODE.finditer(text)}
    return frozenset(name for slash, name in found if not slash and ("/", name) in found)


def _first_match(pattern: re.Pattern[str], text: str, start: int, end: int) -> re.Match[str] | None:
    """Return the first match from index `start` to before `end`, or None; one longer than `_OVERLAP` may be missed."""
    while start + _WINDOW < end:
        last = start + _WINDOW
        found = pattern.search(text, start, last)
        if found is not None and found.end() + _OVERLAP < last:  # what follows may decide whether it is one
            return found
        if found is not None and found.start() == start:
            break
        start = last - _OVERLAP if found is None else found.start()
    return pattern.search(text, start, end)


def _braces(text: str, each: IteratorWrapper) -> list[tuple[int, int]]:
    """Return the spans of pairs of braces of at most `_MAX_BRACES` characters, without those within another such pair.

    `each` wraps the iterator over the braces, for instance to count the work.
    """
    if "{" not in text:
        return []
    found: list[tuple[int, int]] = []
    opened: list[int] = []
    for match in each(re.finditer(r"[{}]", text)):
        if match[0] == "{":
            opened.append(match.start())
        elif opened:
            start = opened.pop()
            if match.end() - start <= _MAX_BRACES:
                while found and found[-1][0] > start:
                    found.pop()
                found.append((start, match.end()))
    return found


def addresses_of(text: str) -> Iterator[re.Match[str]]:
    """Yield the matches of web and e-mail addresses in a text."""
    found = _first_match(ADDRESS, text, 0, len(text))
    while found is not None:
        yield found
        found = _first_match(ADDRESS, text, found.end(), len(text))


def may_have_codes(text: str) -> bool:
    """Return whether a text has a character that codes contain; if it has none, it contains no code."""
    return not _CODE_CHARACTERS.isdisjoint(text)


def is_format(flag: str) -> bool:
    """Return whether a gettext flag, such as `c-format`, marks a message as a format string; `no-c-format` does not."""
    return flag.endswith("-format") and not flag.startswith("no-")


def find_used_conventions(texts: Iterable[str]) -> frozenset[str]:
    """Return the names of the ambiguous conventions (see `AMBIGUOUS_CONVENTIONS`) that some texts use.

    A convention is used if the texts have at least two codes of it. Accelerators are used if at least two texts have
    exactly one, and one of these begins a word. An accelerator may be within a word too, as in `E&xit`, but `rock&roll`
    alone shows none.
    """
    table = _ambiguous_table()
    counts: Counter[str] = Counter()
    begins_word = False
    for text in texts:
        if not any(sign in text for sign in ":@!%_&"):
            continue
        of_text: Counter[str] = Counter()
        begins = False
        taken = [(code.begin, code.end) for code in CodeFinder().codes(text)]
        for found in table.pattern.finditer(text):
            if not any(begin < found.end() and found.start() < end for begin, end in taken):
                name = table.rows[table.row_of(found)].name
                of_text[name] += 1
                begins = begins or (name in ACCELERATORS and not text[found.start() - 1 : found.start()].isalpha())
        keys = ACCELERATORS & of_text.keys()
        if sum(of_text[name] for name in keys) == 1:
            begins_word |= begins
        else:
            for name in keys:
                del of_text[name]
        counts += of_text
    keys = ACCELERATORS & counts.keys()
    shown = {name for name, count in counts.items() if count >= _MIN_HABIT} - ACCELERATORS
    return frozenset(shown | (keys if begins_word and sum(counts[name] for name in keys) >= _MIN_HABIT else set()))
