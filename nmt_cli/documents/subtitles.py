"""Subtitles, SRT and WebVTT: a sentence that goes on in the next cue is translated whole and divided again."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from nmt_cli.documents import encoding
from nmt_cli.documents.codes import with_codes
from nmt_cli.documents.encoding import Characters
from nmt_cli.documents.references import spelled, written
from nmt_cli.documents.segments import Atom, Kind, Located, Segment
from nmt_cli.documents.work import SEGMENT, Work
from nmt_cli.formats.encoding import LINE
from nmt_cli.formats.subtitles import ASIDE, MARKUP, TIMES, end_of_text, seconds_of
from nmt_cli.system.console import counted

HAS_REFERENCES = False
MAX_CUES = 8
"""Cues that a sentence may span; without a full stop they go on and on."""
MAX_PAUSE = 3.0
"""Seconds between two cues of one sentence."""
_ENDS = (".", "!", "?", "…", ":", "♪", "♫", "。", "！", "？")
_CLOSING = "\"'»”’)]"
_SPEAKER = re.compile(r"\s*(?:[-–—]\s?\S|[♪♫]|\[|\()")
_MARK = re.compile(rf"{MARKUP.pattern}|\r\n|[\r\n♪♫\[\]()]|[-–—]+(?!\d)[^\S\r\n]*", re.I)
_BRACKETS = {"[": "]", "(": ")"}


@dataclass(frozen=True, slots=True)
class _Cue:
    """A cue with text: its range, and when it is shown."""

    start: int
    end: int
    """After the text of its last line."""
    begins: float
    ends: float
    lines: tuple[str, ...]
    """Its lines, each with its line end except the last."""

    @property
    def bare(self) -> list[str]:
        """The lines without markup."""
        return [MARKUP.sub("", line) for line in self.lines]


def decoded(name: str, data: bytes) -> Characters:
    """Return the characters of a file in UTF-8, or UTF-16 with its mark."""
    return encoding.decoded(name, data, None)


def locate(document: Characters, target_lang: str | None, work: Work, *, overwrite: bool) -> Located:
    """Return the sentences of all cues; neither option changes anything here.

    Raises:
        InputError: the times of a block lack or are damaged, or the file has text and no cue.
    """
    del target_lang, overwrite
    is_vtt = document.text.lstrip("\ufeff").startswith("WEBVTT")
    chains: list[list[_Cue]] = []
    notes: list[str] = []
    for cue in _cues(document, notes, work, is_vtt=is_vtt):
        if chains and _goes_on(chains[-1], cue):
            chains[-1].append(cue)
        else:
            chains.append([cue])
    return Located([_segment(document.text, chain, work, is_vtt=is_vtt) for chain in chains], notes=notes)


def _cues(document: Characters, notes: list[str], work: Work, *, is_vtt: bool) -> Iterator[_Cue]:
    """Yield the cues that have text; what is left out is noted."""
    text = document.text
    starts: list[int] = []
    lines: list[str] = []
    for match in work.each(LINE.finditer(text)):
        starts.append(match.start())
        lines.append(match[0])
    number = num_cues = num_others = 0
    while number < len(lines):
        work.step()
        start, line = starts[number], lines[number]
        if not line.strip("\ufeff \t\r\n"):
            number += 1
            continue
        if is_vtt and ASIDE.match(line.lstrip("\ufeff")):
            number = end_of_text(lines, number + 1)
            continue
        if TIMES.match(line.lstrip("\ufeff")) is None:
            number += 1  # the number or the name of the cue
        times = TIMES.match(lines[number].lstrip("\ufeff")) if number < len(lines) else None
        end = end_of_text(lines, number)
        # In SRT, a number without times is where a file was cut off, and other lines are text behind an empty line.
        is_other = is_vtt or (num_cues and not line.strip().isdecimal())
        if times is None and is_other and not any("->" in line for line in lines[number - 1 : end]):
            num_others, number = num_others + 1, end
            continue
        if times is None:
            document.refuse(
                start, "a cue with times such as 00:00:01,000 --> 00:00:02,500 should begin here; the file is damaged "
                "or cut off"
            )  # fmt: skip
        number += 1
        first, number = number, end_of_text(lines, number)
        num_cues += 1
        if number > first:
            own = lines[first:number]
            own[-1] = own[-1].rstrip("\r\n")
            begin = starts[first]
            moments = seconds_of(times.groups()[:4]), seconds_of(times.groups()[4:])
            yield _Cue(begin, begin + sum(map(len, own)), *moments, tuple(own))
    if num_others:
        why = "which players do not show, " if is_vtt else ""
        notes.append(f"{counted(num_others, 'block')} without times, {why}left as it stands")
    if not num_cues and (num_others or not is_vtt):
        document.refuse(0, "has no cue with times such as 00:00:01,000 --> 00:00:02,500")


def _goes_on(chain: Sequence[_Cue], cue: _Cue) -> bool:
    """Return whether the sentence at the end of a chain goes on in the cue."""
    last = chain[-1]
    return (
        len(chain) < MAX_CUES
        and 0 <= cue.begins - last.ends <= MAX_PAUSE
        and not _is_end(last.bare[-1])
        and not any(_SPEAKER.match(line) for line in (*last.bare, *cue.bare))
    )


def _is_end(line: str) -> bool:
    """Return whether a line ends with a sentence, or with what stands in brackets."""
    whole = line.rstrip()
    bare = whole.rstrip(_CLOSING)
    return bare.endswith(_ENDS) or not {")", "]"}.isdisjoint(whole[len(bare) :])


def _segment(text: str, chain: Sequence[_Cue], work: Work, *, is_vtt: bool) -> Segment:
    work.count(SEGMENT)
    atoms: list[Atom] = []
    seams = []
    for number, cue in enumerate(chain):
        if number:
            seams.append(text[chain[number - 1].end : cue.start])
            atoms.append(Atom(seams[-1], "", Kind.SEAM))
        atoms += work.each(_atoms(cue, is_vtt=is_vtt))
    finish = partial(_finished, [(cue, text[cue.start : cue.end]) for cue in chain], [*seams, ""])
    seconds = tuple(max(0.0, cue.ends - cue.begins) for cue in chain)
    spell = written if is_vtt else str
    return Segment(chain[0].start, chain[-1].end, with_codes(atoms, work=work), spell, finish, seconds)


def _atoms(cue: _Cue, *, is_vtt: bool) -> Iterator[Atom]:
    """Yield the text and the marks of a cue; where people take turns, each line stays one."""
    text, position = "".join(cue.lines), 0
    has_speakers = any(_SPEAKER.match(line) for line in cue.bare[1:])
    for mark in [*_marks(text), None]:
        plain = text[position : mark.start() if mark else len(text)]
        yield from spelled(plain) if is_vtt else [Atom(plain, plain)] * bool(plain)
        if mark is not None:
            position = mark.end()
            is_line_end = mark[0] in ("\r\n", "\r", "\n")
            yield Atom(mark[0], " ", Kind.BREAK if has_speakers else Kind.TEXT) if is_line_end else _atom_of(mark[0])


def _marks(text: str) -> Iterator[re.Match[str]]:
    """Yield the markup, line ends and signs of music, and from the start of a line dashes and a pair of brackets.

    Such a dash says that another person speaks, and such brackets enclose a sound or the name of the speaker.
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
    if found is None:
        return Atom(mark, "", Kind.ALONE if mark.startswith("<") else Kind.BREAK)
    return Atom(mark, found[2].lower(), Kind.CLOSE if found[1] else Kind.OPEN)


def _finished(cues: Sequence[tuple[_Cue, str]], seams: Sequence[str], chunks: Sequence[str]) -> str:
    return "".join(
        (chunk if chunk == raw else _wrapped(chunk, cue)) + seam
        for (cue, raw), chunk, seam in zip(cues, chunks, seams, strict=True)
    )


def _wrapped(chunk: str, cue: _Cue) -> str:
    """Return the text on as many lines as the cue had, of like length."""
    if len(cue.lines) == 1 or any(_SPEAKER.match(line) for line in cue.bare[1:]):
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
