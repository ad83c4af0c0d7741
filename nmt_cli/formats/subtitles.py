"""Subtitles, SRT and WebVTT: each cue is a segment. Times and settings stay as they are written, byte for byte."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from nmt_cli.formats.encoded_text import EncodedText
from nmt_cli.formats.encoding import LINE
from nmt_cli.formats.recognise import CUE_TIME
from nmt_cli.formats.references import escape_markup, parse_references
from nmt_cli.formats.segments import Atom, Content, Edit, Kind, Segment, State, UnreadablePart
from nmt_cli.formats.work import SEGMENT_PARTS, Work

_TIMES = re.compile(rf"\ufeff?[ \t]*{CUE_TIME}[ \t]*[-–—]+[ \t]?>[ \t]*{CUE_TIME}(?!\d)")
MARKUP = re.compile(
    r"<rt>[^<>]*</rt>|</?(?:[bius]|font|color|c|v|lang|ruby|rt)(?:[.\s=][^<>]*)?>|<\d+:[\d:.]+>|\{\\[^{}]*\}", re.I
)
SPEAKER = re.compile(r"\s*(?:[-–—]\s*\S|(?:>|&gt;){2,3}|[♪♫]|\[|\()")
"""Beginning of a line that another person says, or that stands for music or a sound."""
_NON_CUE_BLOCK = re.compile(r"(?:WEBVTT|NOTE|STYLE|REGION)(?:\s|$)")
"""Beginning of a block of VTT that is no cue."""
_MARK = re.compile(rf"{MARKUP.pattern}|\r\n|[\r\n♪♫\[\]()]|(?:(?:>|&gt;){{2,3}}|[-–—]+(?!\d))[^\S\r\n]*", re.I)
_BRACKETS = {"[": "]", "(": ")"}
_ASIDE = re.compile(r"\[[^\[\]]*\]:?|\([^()]*\):?")
_NO_TIMES = "a cue with times such as 00:00:01,000 --> 00:00:02,500 should begin here; the file is damaged or cut off"
_TEXT_AFTER_CUE = "text after the blank line that ends a cue"
_NO_CUE = "has no cue with times such as 00:00:01,000 --> 00:00:02,500"


@dataclass(frozen=True, slots=True)
class _Cue:
    """A cue: the range of its text, and when it is shown."""

    place: int
    """Offset of the line with its times."""
    start_seconds: float
    end_seconds: float
    start: int
    end: int
    """Offset after the text of its last line, without the line end."""
    lines: tuple[str, ...]
    """The lines, each with its line end except the last."""

    @property
    def plain_lines(self) -> list[str]:
        """The lines without markup."""
        return [MARKUP.sub("", line).strip() for line in self.lines]

    @property
    def is_of_turns(self) -> bool:
        """True if a line after the first is another person's, or a line before the last is a sound or a name alone."""
        lines = self.plain_lines
        return any(map(SPEAKER.match, lines[1:])) or any(map(_ASIDE.fullmatch, lines[:-1]))


class _Lines(NamedTuple):
    """The lines of a file, and the offsets at which they begin."""

    starts: list[int]
    texts: list[str]


class Subtitles(Content):
    """The cues of a file; text outside of them, and cues without times, are left out."""

    def __init__(self, document: EncodedText, work: Work | None = None) -> None:
        super().__init__(document, work)
        self._is_vtt = document.text[:8].lstrip("\ufeff").startswith("WEBVTT")

    def segments(self) -> Iterator[Segment]:
        """Yield the cues in their order in the file; a cue without text has the state `EXCLUDED`.

        Raises:
            InputError: the file has no cue with times.
        """
        cues = list(self._cues())
        if not cues and (broken := [one for one in self.unreadable_parts if one.problem == _NO_TIMES]):
            self.document.refuse_line(*broken[0])
        if not cues and (self.unreadable_parts or not self._is_vtt):
            self.document.refuse(0, _NO_CUE)
        is_rolling = _is_rolling(cues)
        last: list[str] = []
        for cue in cues:
            self.work.count(SEGMENT_PARTS)
            plain_lines = [line for line in cue.plain_lines if line]
            is_old = bool(plain_lines) and is_rolling and plain_lines == last[-len(plain_lines) :]
            reason = "a cue without text" if not plain_lines else "repeats the line before (rolling captions)" * is_old
            yield Segment(
                cue.start,
                cue.end,
                tuple(self.work.each(self._atoms(cue, is_apart=is_rolling))),
                escape_markup if self._is_vtt else str,
                line=self.line_at(cue.place),
                state=State.NEW if plain_lines else State.EXCLUDED,
                reason=reason,
                time=(cue.start_seconds, max(cue.start_seconds, cue.end_seconds)),
                num_repeated=int(is_rolling and not is_old and plain_lines[:1] == last[-1:]),
                is_self_contained=is_rolling,
                unit=cue,
            )
            last = plain_lines or last

    def translation_edits(self, segment: Segment, chunks: Sequence[str]) -> Iterator[Edit]:
        """Yield the edit that writes a translation on as many lines as the cue had; blank lines are removed."""
        cue, (chunk,) = segment.unit, chunks
        assert isinstance(cue, _Cue)
        if chunk != self.document.text[cue.start : cue.end]:
            whole = "".join(line for line in LINE.findall(chunk) if line.strip())
            yield Edit(segment.start, segment.end, _wrapped(whole.rstrip("\r\n"), cue))

    def _cues(self) -> Iterator[_Cue]:
        text, is_vtt = self.document.text, self._is_vtt
        lines = _Lines([], [])
        for match in self.work.each(LINE.finditer(text)):
            lines.starts.append(match.start())
            lines.texts.append(match[0])
        texts = lines.texts
        number = 0
        pending: tuple[re.Match[str], int] | None = None
        """The times of a cue that has no text yet, and their offset."""
        while number < len(texts):
            self.work.step()
            line = texts[number].strip("\ufeff \t\r\n")
            if not line:
                number += 1
                continue
            if is_vtt and _NON_CUE_BLOCK.match(line):
                number = _end_of_text(texts, number + 1, is_vtt=is_vtt)
                continue
            at = number if _TIMES.match(texts[number]) else number + 1
            while at < len(texts) and line.isdecimal() and not texts[at].strip():  # as in files with doubled line ends
                at += 1
            times = _TIMES.match(texts[at]) if at < len(texts) else None
            if times is None:
                end = _end_of_text(texts, number, is_vtt=is_vtt)
                end = max(end, number + 1)
                if pending is not None and not is_vtt and (end - number > 1 or not line.isdecimal()):
                    yield self._cue(*pending, lines, number, end)
                    pending = None
                else:
                    is_cue = line.isdecimal() or any("->" in other for other in texts[number:end])
                    self.unreadable_parts.append(
                        UnreadablePart(self.line_at(lines.starts[number]), _NO_TIMES if is_cue else _TEXT_AFTER_CUE)
                    )
                number = end
                continue
            if pending is not None:
                yield self._cue(*pending, lines, number, number)
            pending = times, lines.starts[at]
            first, number = at + 1, _end_of_text(texts, at + 1, is_vtt=is_vtt)
            if number > first:
                yield self._cue(*pending, lines, first, number)
                pending = None
        if pending is not None:
            yield self._cue(*pending, lines, len(texts), len(texts))

    def _cue(self, times: re.Match[str], place: int, lines: _Lines, first: int, end: int) -> _Cue:
        """Return a cue with the text of the lines from `first` up to `end`, without blank lines at the edges."""
        moments = seconds_of(times.groups()[:5]), seconds_of(times.groups()[5:])
        while first < end and not lines.texts[first].strip():
            first += 1
        while first < end and not lines.texts[end - 1].strip():
            end -= 1
        if first == end:
            return _Cue(place, *moments, place, place, ())
        own = lines.texts[first:end]
        own[-1] = own[-1].rstrip("\r\n")
        start = lines.starts[first]
        return _Cue(place, *moments, start, start + sum(map(len, own)), tuple(own))

    def _atoms(self, cue: _Cue, *, is_apart: bool) -> Iterator[Atom]:
        """Yield the texts, tags and line ends of a cue.

        If people take turns, or with `is_apart`, its line ends are breaks, which no sentence crosses.
        """
        text, position = "".join(cue.lines), 0
        is_apart = is_apart or cue.is_of_turns
        for mark in [*_marks(text), None]:
            yield from parse_references(text[position : mark.start() if mark else len(text)])
            if mark is not None:
                position = mark.end()
                is_line_end = mark[0] in ("\r\n", "\r", "\n")
                yield Atom(mark[0], " ", Kind.BREAK if is_apart else Kind.TEXT) if is_line_end else _atom_of(mark[0])


def seconds_of(parts: Sequence[str | None]) -> float:
    """Return a time in seconds; `parts` are its sign, hours, minutes, seconds and fraction, None where missing."""
    sign, hours, minutes, seconds, fraction = (part or "0" for part in parts)
    total = int(hours) * 3600 + int(minutes) * 60 + int(seconds) + float(f"0.{fraction}")
    return -total if sign == "-" else total


def _end_of_text(lines: Sequence[str], first: int, *, is_vtt: bool) -> int:
    """Return the index of the line after the text of a cue; `first` is the index of its first line.

    A blank line ends the text; in VTT only an empty one does. If it is missing, the text ends before the times of the
    next cue, and before the number above them.
    """
    end = first
    blank = "\r\n" if is_vtt else None
    while end < len(lines) and lines[end].strip(blank) and not _TIMES.match(lines[end]):
        end += 1
    has_number = first < end < len(lines) and lines[end - 1].strip().isdecimal() and _TIMES.match(lines[end])
    return end - 1 if has_number else end


def _is_rolling(cues: Sequence[_Cue]) -> bool:
    """Return whether most cues begin with the last line of the cue before, as in captions that roll up."""
    texts = [lines for cue in cues if (lines := [line for line in cue.plain_lines if line])]
    same = [own for before, own in pairwise(texts) if own[0] == before[-1]]
    num_rolled = sum(len(own) > 1 for own in same)
    return len(same) > 1 and 2 * len(same) >= len(texts) - 1 and 3 * num_rolled >= len(texts) - 1


def _marks(text: str) -> Iterator[re.Match[str]]:
    """Yield the markup, line ends and signs of music, and at the start of a line dashes, `>>` and a pair of brackets.

    Such a dash or `>>` shows that another person speaks; such brackets enclose a sound or the name of the speaker.
    """
    position, closing, is_start = 0, "", True
    for mark in _MARK.finditer(text):
        sign = mark[0]
        is_start = is_start and not text[position : mark.start()].strip()
        if not is_start and sign != closing and sign[0] not in "<{♪♫\r\n":
            continue
        if sign[0] in "\r\n" or sign == closing:
            is_start = True
        closing = _BRACKETS.get(sign, "" if sign == closing else closing)
        position = mark.end()
        yield mark


def _atom_of(mark: str) -> Atom:
    found = re.match(r"<(/?)([a-z]+)", mark, re.I)
    if found is not None and "</" not in mark[1:]:  # a reading above a word is no part of the sentence
        return Atom(mark, found[2].lower(), Kind.CLOSE if found[1] else Kind.OPEN)
    if mark.startswith("<"):
        return Atom(mark, "", Kind.STANDALONE)
    return Atom(mark, "" if mark.startswith("{") else mark, Kind.BREAK)


def _wrapped(chunk: str, cue: _Cue) -> str:
    """Return the text on as many lines as the cue had, of similar length; unchanged if people take turns in the cue."""
    if len(cue.lines) == 1 or cue.is_of_turns:
        return chunk
    words = re.findall(r"(?:<[^<>]*>|\{[^{}]*\}|[^\s<{]|[<{])+", chunk)
    line_end = cue.lines[0][len(cue.lines[0].rstrip("\r\n")) :]
    lengths = [len(MARKUP.sub("", word)) + 1 for word in words]
    lines: list[str] = []
    start, rest = 0, sum(lengths)
    for left in range(len(cue.lines), 0, -1):
        wanted, end, total = rest / left, start, 0
        while end < len(words) - (left - 1) and (left == 1 or end == start or total + lengths[end] / 2 <= wanted):
            total += lengths[end]
            end += 1
        lines.append(" ".join(words[start:end]))
        start, rest = end, rest - total
    return line_end.join(line for line in lines if line)
