"""Tags and placeholders that stand in plain text: `%s`, `%(n)d`, `{name}`, `<0>`, `{n, plural, ...}`, addresses."""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from functools import cache

from nmt_cli.formats.references import unescape
from nmt_cli.formats.segments import Atom, Kind
from nmt_cli.formats.work import Work
from nmt_cli.text.letters import WITHOUT_SPACES

_PRINTF = (  # `*+` and `++` give nothing back: else many zeros after a `%` would take quadratic time
    r"%(?:<\w+>|(?:\d++\$)?(?:\([^()%]*\))?[-+#0'I{flags}]*+(?:\d++|\*(?:\d++\$)?)?(?:\.(?:\d++|\*(?:\d++\$)?)?)?"
    r"(?:hh|ll|[hlLqjzt])?[diouxXDOUeEfFgGaAcsrCSpnm%@](?![A-Za-z]{{3}}))"
)
_UNSPACED = rf"(?:{WITHOUT_SPACES.pattern}|[\uff00-\uffef])"
"""Letters and signs of scripts that write no spaces: they may touch an address that they do not belong to."""
_ANY = rf"(?:(?!{_UNSPACED})[^\s<>\"'])"
_NAME = rf"(?<=[/=])(?:(?={_UNSPACED})\w)+(?=[\s\x00-\x7f]|$)"
"""A part of an address in such a script, as in links to Wikipedia."""
_WORD, _LOCAL = rf"(?:(?!{_UNSPACED})[\w-])", rf"(?:(?!{_UNSPACED})[\w.+-])"
_SCHEME = r"(?:https?|ftp)://"
_ADDRESS = (
    rf"(?<![A-Za-z0-9_])(?:(?<={_UNSPACED}){_SCHEME}{_ANY}*|(?<!{_UNSPACED}){_SCHEME}(?:{_NAME}|{_ANY})*)"
    rf"(?<![.,;:!?()\[\]])(?<!//)|(?<!{_LOCAL}){_LOCAL}+@{_WORD}+(?:\.{_WORD}+)+"
)
ADDRESS = re.compile(_ADDRESS)
"""An address of a page or of mail."""
_VARIABLE = rf"\$(?!(?:US|CAN?|AUD?|NZ)\b)[A-Za-z_](?:(?!{_UNSPACED})\w)*"
"""`$name`, but not the name of a currency."""
_OTHERS = rf"__[A-Za-z0-9]+(?:_[A-Za-z0-9]+)*__|{_VARIABLE}|{_ADDRESS}"
_TAG = r"</?(?:[A-Za-z][^<>]*|\d+\s*/?)>"
CODE = re.compile(f"{_PRINTF.format(flags='')}|{_OTHERS}|{_TAG}")
"""A placeholder or a tag in any text. `{...}` is found by its pairs of braces."""
TEXT_CODE = re.compile(rf"(?:(?<!\d){_PRINTF.format(flags='')})|{_OTHERS}|{_TAG}")
"""The same in a translation whose source has no `%`: there `50%ige` is a word."""
_DIRECTIVE = r"%(?:\d++[$:])?[-+#0 ]*+\d*+(?:\.\d++)?[A-Za-z]"
"""A directive with any letter: each language has some of its own, such as `%q` in Lua and `%0:s` in Pascal."""
FORMAT_CODE = re.compile(f"{_PRINTF.format(flags=' ').replace('(?![A-Za-z]{3})', '')}|{_DIRECTIVE}|{_OTHERS}|{_TAG}")
"""The same in a text of which it is known that a `%` begins a directive of printf."""
NUMBERED_CODE = re.compile(rf"%L?(?:\d{{1,2}}(?!\d)|n)|{CODE.pattern}")
"""The same as `CODE` where `%1` stands for the first argument, as in Qt and KDE."""
ANY_CODE = re.compile(rf"%\d{{1,2}}(?=%\d)|{CODE.pattern}|%\d{{1,2}}(?!\d)")
"""The same where nothing tells if `%1$s` or `%1` stands for the first argument."""
REFERENCE = re.compile(r"&(?:#\d{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
"""A reference to a character, such as `&nbsp;`, that is text itself, in a message that becomes a part of a page."""
BY_ORDER = re.compile(r"%(?!%|<\w|\d+[$:]|\(|L?(?:\d+|n)$)|~(?![%&~])")
"""Beginning of a directive that takes the next argument; the order of such directives must not change."""
_TAG_NAME = re.compile(r"</?\s*([^\s/>]+)")
_LINE_ENDS = frozenset(("br", "hr"))
"""Tags across which no sentence goes."""
_WINDOW, _OVERLAP = 100_000, 5_000
"""Characters that are searched at once, as no other thread runs meanwhile, and those that the next search repeats."""
_MAX_BRACES = 4000
_MAX_SHOWN = 40
_SIGNS = "%{}<>"


def codes_of(text: str, pattern: re.Pattern[str] = CODE, work: Work | None = None) -> Iterator[tuple[int, int]]:
    """Yield the beginning and the end of each tag and placeholder of a text."""
    position = 0
    braces = deque(_braces(text, work or Work()))
    found = _first(pattern, text, 0)
    while True:
        if found is not None and found.start() < position:
            found = _first(pattern, text, position)
        while braces and braces[0][0] < position:
            braces.popleft()
        brace = braces[0] if braces else None
        if brace is not None and (found is None or brace[0] <= found.start() or brace[0] < found.end() <= brace[1]):
            start, end = brace
            if start > position and text[start - 1] in "$%#":
                start -= 1
        elif found is not None:
            start, end = found.span()
        else:
            return
        yield start, end
        position = end


def addresses_of(text: str) -> Iterator[re.Match[str]]:
    """Yield the addresses of a text."""
    found = _first(ADDRESS, text, 0)
    while found is not None:
        yield found
        found = _first(ADDRESS, text, found.end())


def _first(pattern: re.Pattern[str], text: str, start: int) -> re.Match[str] | None:
    """Return the first match from a place on, which is not empty; one longer than `_OVERLAP` may be overlooked."""
    while start + _WINDOW < len(text):
        end = start + _WINDOW
        found = pattern.search(text, start, end)
        if found is not None and found.end() + _OVERLAP < end:  # what follows may decide whether it is one
            return found
        if found is not None and found.start() == start:
            break
        start = end - _OVERLAP if found is None else found.start()
    return pattern.search(text, start)


def _braces(text: str, work: Work) -> list[tuple[int, int]]:
    """Return the outermost pairs of braces that are closed."""
    if "{" not in text:
        return []
    found: list[tuple[int, int]] = []
    opened: list[int] = []
    for match in work.each(re.finditer(r"[{}]", text)):
        if match[0] == "{":
            opened.append(match.start())
        elif opened:
            start = opened.pop()
            if match.end() - start <= _MAX_BRACES:
                while found and found[-1][0] > start:
                    found.pop()
                found.append((start, match.end()))
    return found


def counts_of(text: str, pattern: re.Pattern[str] = CODE) -> Counter[str]:
    """Return how often each tag and placeholder stands in a text."""
    return Counter(text[start:end] for start, end in codes_of(text, pattern))


def with_codes(
    atoms: Iterable[Atom], pattern: re.Pattern[str] = CODE, *, work: Work, has_line_ends: bool = True
) -> tuple[Atom, ...]:
    """Return the atoms with the tags and placeholders that stand in their text as atoms of their own.

    With `has_line_ends`, `<br>` in the text ends a line; in a page, where it has to be escaped, it is a word.
    """
    result: list[Atom] = []
    run: list[Atom] = []
    for atom in [*atoms, None]:
        if atom is not None and atom.kind is Kind.TEXT:
            run.append(atom)
            continue
        for code in _cut_out(run, pattern, work):
            is_line_end = code.kind is Kind.BREAK and not has_line_ends
            result.append(Atom(code.raw, "", Kind.ALONE) if is_line_end else code)
        run = []
        if atom is not None:
            result.append(atom)
    return tuple(result)


def _cut_out(run: Sequence[Atom], pattern: re.Pattern[str], work: Work) -> Iterator[Atom]:
    text = "".join(atom.text for atom in run)
    is_plain = [atom.raw == atom.text for atom in run]
    number = offset = 0
    """The next atom, and what is taken of its text; no rest is copied, because an atom may hold many codes."""

    def take(length: int) -> list[Atom]:
        nonlocal number, offset
        taken = []
        while length > 0 and number < len(run):
            atom = run[number]
            end = min(offset + length, len(atom.text))
            if is_plain[number]:
                atom = Atom(atom.raw[offset:end], atom.text[offset:end])
            taken.append(atom)
            length -= len(atom.text)
            offset += len(atom.text)
            if offset >= len(run[number].text):
                number, offset = number + 1, 0
        return taken

    position = 0
    for start, end in codes_of(text, pattern, work):
        work.count(2)  # this, and the text after it
        if start < position:  # within what is spelled as one
            continue
        yield from take(start - position)
        inside = take(end - start)
        shown = "".join(atom.text for atom in inside)
        position = start + len(shown)
        yield as_code("".join(atom.raw for atom in inside), shown)
    yield from take(len(text))


@cache
def with_references_last(pattern: re.Pattern[str]) -> re.Pattern[str]:
    """Return a pattern of placeholders that finds references to characters too."""
    return re.compile(f"{pattern.pattern}|{REFERENCE.pattern}")


def as_code(raw: str, text: str) -> Atom:
    """Return the atom of a tag or a placeholder."""
    if text.startswith("<") and (name := _TAG_NAME.match(text)):
        if name[1].lower() in _LINE_ENDS:
            return Atom(raw, "", Kind.BREAK)
        if text.endswith("/>"):
            return Atom(raw, "", Kind.ALONE)
        return Atom(raw, name[1].lower(), Kind.CLOSE if text.startswith("</") else Kind.OPEN)
    # A blank may be lost, and as a placeholder it would hold two words together.
    if REFERENCE.fullmatch(text) and unescape(text).isspace():
        return Atom(raw, unescape(text))
    return Atom(raw, shown(text), Kind.PLACEHOLDER)


def untranslated(atom: Atom) -> Atom:
    """Return the atom of an element whose text stays as it is."""
    return Atom(atom.raw, shown(atom.text), Kind.PLACEHOLDER if atom.text.strip() else Kind.ALONE)


def shown(text: str) -> str:
    """Return the one word by which the model sees a placeholder."""
    if plural := re.match(r"\{\s*(\w+)\s*,", text):
        return f"{{{plural[1]}}}"
    word = re.sub(r"\s+", "_", text.strip())
    return word if len(word) <= _MAX_SHOWN else word[:_MAX_SHOWN]


def without_strays(word: str, allowed: str) -> str:
    """Return a word without the signs that might make a placeholder, except those that the source uses as text."""
    return "".join(character for character in word if character not in _SIGNS or character in allowed)
