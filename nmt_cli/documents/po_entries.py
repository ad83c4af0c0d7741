"""The entries of a catalogue, with the places of their strings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from nmt_cli.documents.encoding import Characters
from nmt_cli.documents.work import Work

_LINE = re.compile(
    r'\s*+(?:(?P<comment>\#.*)|(?P<name>msgctxt|msgid_plural|msgid|msgstr(?:\[\d+\])?)?\s*+(?P<quoted>"[^"\\]*+(?:\\.[^"\\]*+)*+"))?\s*'
)
_TEXT_LINE = re.compile(r"^[^\S\n]*+\S[^\n]*+\n?", re.M)
"""A line that is not blank. Other separators are characters of a line."""
_MANY = 100
"""Lines of a text, from which on they are counted: of an ordinary entry little is held in memory."""


@dataclass(slots=True)
class Text:
    """A string of an entry: the range of its quoted lines, and what stands in the quotes."""

    start: int
    end: int
    lines: list[str]

    @property
    def raw(self) -> str:
        """Return the text within the quotes of all lines."""
        return "".join(self.lines)


@dataclass(slots=True)
class Entry:
    """A message with its flags and its strings, by their keywords."""

    place: int
    flags: set[str] = field(default_factory=set)
    flag_lines: list[tuple[int, int]] = field(default_factory=list)
    previous_lines: list[tuple[int, int]] = field(default_factory=list)
    """The lines `#|`: what the message was when it got the translation that is fuzzy now."""
    texts: dict[str, Text] = field(default_factory=dict)


def entries_of(document: Characters, work: Work) -> Iterator[Entry]:
    """Yield the entries that are not obsolete.

    Raises:
        InputError: a line is not one of a catalogue.
    """
    entry: Entry | None = None
    last: Text | None = None
    is_over = False
    """True if the entry has a translation."""
    for match in _TEXT_LINE.finditer(document.text):
        work.step()
        line, start, position = match[0], match.start(), match.end()
        found = _LINE.fullmatch(line.lstrip("\ufeff")) if start == 0 else _LINE.fullmatch(line)
        if found is None:
            document.refuse(start, "is no line of a PO file: msgid, msgstr, a text in quotes, or a comment; mend it")
        name, quoted, comment = found["name"], found["quoted"], found["comment"]
        if entry is not None and (is_over and (comment is not None or name in ("msgctxt", "msgid"))):
            yield entry
            entry, is_over = None, False
        if comment is not None:
            last = None
            if comment.startswith("#~"):
                if entry is not None and not entry.texts:  # its comments belong to the obsolete entry
                    entry = None
                continue
            entry = entry or Entry(start)
            if comment.startswith("#,"):
                entry.flags |= {flag.strip() for flag in comment[2:].split(",")}
                entry.flag_lines.append((start, position))
                work.count(len(entry.flag_lines) > _MANY)
            elif comment.startswith("#|"):
                entry.previous_lines.append((start, position))
                work.count(len(entry.previous_lines) > _MANY)
        elif quoted is not None:
            end = start + line.rindex('"') + 1
            if name is not None:
                entry = entry or Entry(start)
                is_over |= name.startswith("msgstr")
                if name in entry.texts:
                    document.refuse(start, f"{name} stands twice in an entry; mend it")
                last = entry.texts[name] = Text(start + line.index('"'), end, [quoted[1:-1]])
            elif last is None:
                document.refuse(start, "a text in quotes belongs to no msgid or msgstr; mend it")
            else:
                last.lines.append(quoted[1:-1])
                last.end = end
                work.count(len(last.lines) > _MANY)
    if entry is not None and entry.texts:
        yield entry
