"""Subtitles, SRT and WebVTT: cues of two files that are shown at the same time."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from nmt_cli.formats.encoding import TextFacts, read_lines
from nmt_cli.formats.opening import Input
from nmt_cli.formats.references import unescape
from nmt_cli.formats.report import Found, ImportReport
from nmt_cli.system.errors import InputError

_TIME = r"(?:(\d{1,6}):)?(\d{1,2}):(\d{2})[,.](\d{1,3})"
TIMES = re.compile(rf"\s*{_TIME}\s*-->\s*{_TIME}")
MARKUP = re.compile(r"</?(?:[bius]|font|c|v|lang|ruby|rt)(?:[.\s][^<>]*)?>|<\d+:[\d:.]+>|\{\\[^{}]*\}", re.I)
ASIDE = re.compile(r"(?:WEBVTT|NOTE|STYLE|REGION)(?:\s|$)")
"""Beginning of a block of VTT that is no cue."""
MIN_OVERLAP = 0.5
"""Share of the shorter cue's time that two cues must have in common to be a pair."""
MAX_GROUP = 4
"""Cues on a side; longer chains of cues that overlap are not one sentence."""


@dataclass(frozen=True, slots=True)
class Cue:
    """A text and when it is shown, in seconds."""

    line: int
    begin: float
    end: float
    text: str


def read_cues(given: Input, facts: TextFacts, report: ImportReport) -> list[Cue]:
    """Return the cues of a file without their markup, in the order of their times; text outside of them is counted."""
    lines = [line.rstrip("\r\n") for line in read_lines(given, facts, universal=True)]
    is_vtt = bool(lines) and lines[0].startswith("WEBVTT")
    cues = []
    number = 0
    while number < len(lines):
        times, line = TIMES.match(lines[number]), lines[number].strip()
        number += 1
        if times is None:
            is_name = line.isdecimal() or (number < len(lines) and TIMES.match(lines[number]))
            if is_vtt and ASIDE.match(line):
                number = end_of_text(lines, number)
            elif line and not is_name:
                report.skip("text after the blank line that ends a cue", f"{given.name}:{number}")
                number = end_of_text(lines, number)
            continue
        first, number = number, end_of_text(lines, number)
        bare = unescape(MARKUP.sub("", "\n".join(lines[first:number])))
        begin, end = seconds_of(times.groups()[:4]), seconds_of(times.groups()[4:])
        cues.append(Cue(first, begin, max(begin, end), "\n".join(line.strip() for line in bare.split("\n"))))
    if not cues:
        raise InputError(f"{given.name}: has no cue with times such as 00:00:01,000 --> 00:00:02,500")
    return sorted(cues, key=lambda cue: (cue.begin, cue.end))


def end_of_text(lines: Sequence[str], first: int) -> int:
    """Return the number of the line after the text of a cue, whose first line is given.

    A blank line ends the text. If it is missing, the times of the next cue do, with the cue's number before them.
    """
    end = first
    while end < len(lines) and lines[end].strip() and not TIMES.match(lines[end]):
        end += 1
    has_number = first < end < len(lines) and lines[end - 1].strip().isdecimal() and TIMES.match(lines[end])
    return end - 1 if has_number else end


def seconds_of(parts: Sequence[str | None]) -> float:
    hours, minutes, seconds, fraction = (part or "0" for part in parts)
    return int(hours) * 3600 + int(minutes) * 60 + int(seconds) + float(f"0.{fraction}")


def matched(sources: list[Cue], targets: list[Cue], names: tuple[str, str], report: ImportReport) -> Iterator[Found]:
    """Yield the texts that are shown at the same time; several cues of a side are joined if the other has one.

    Cues without a partner are counted, and so are those shown during many others and chains of cues that overlap.
    """
    short_sources, short_targets = (
        _without_long(cues, others, name, report)
        for cues, others, name in ((sources, targets, names[0]), (targets, sources, names[1]))
    )
    for group in _groups(short_sources, short_targets):
        own, others = group
        if not own or not others:
            side = 0 if own else 1
            for cue in own or others:
                report.skip(f"no cue of the other file at the same time ({'source' if own else 'target'})",
                            f"{names[side]}:{cue.line}")  # fmt: skip
        elif max(len(own), len(others)) > MAX_GROUP:
            for cue in own:
                report.skip("cues that overlap in long chains", f"{names[0]}:{cue.line}")
        else:
            if max(len(own), len(others)) > 1:
                report.note("pairs of several cues")
            yield Found(own[0].line, "\n".join(c.text for c in own), "\n".join(c.text for c in others))


def _without_long(cues: list[Cue], others: list[Cue], name: str, report: ImportReport) -> list[Cue]:
    """Return the cues without those that are shown during many of the other file, such as the name of a station.

    Such a cue would join all of them to one chain. It is counted.
    """
    begins = [other.begin for other in others]
    kept = []
    for cue in cues:
        first, end = bisect_left(begins, cue.begin), bisect_right(begins, cue.end)
        partners = (place for place in range(first, end) if _overlaps(cue, others[place]))
        if sum(1 for _ in islice(partners, MAX_GROUP + 1)) > MAX_GROUP:
            report.skip(f"a cue shown during more than {MAX_GROUP} of the other file", f"{name}:{cue.line}")
        else:
            kept.append(cue)
    return kept


def _groups(sources: list[Cue], targets: list[Cue]) -> Iterator[tuple[list[Cue], list[Cue]]]:
    """Yield sets of cues that are connected by overlaps, in the order of time."""
    links: list[list[int]] = [[] for _ in sources]
    first = 0
    for index, cue in enumerate(sources):
        while first < len(targets) and targets[first].end < cue.begin - 60:
            first += 1
        for other in range(first, len(targets)):
            if targets[other].begin > cue.end:
                break
            if _overlaps(cue, targets[other]):
                links[index].append(other)
    used: dict[int, int] = {}
    groups: list[tuple[list[int], list[int]]] = []
    for index, others in enumerate(links):
        known = sorted({used[other] for other in others if other in used})
        if known:
            group = known[0]
            for later in known[1:]:
                for moved, side in zip(groups[later], groups[group], strict=True):
                    side += moved
                for other in groups[later][1]:
                    used[other] = group
                groups[later] = ([], [])
        else:
            group = len(groups)
            groups.append(([], []))
        groups[group][0].append(index)
        for other in others:
            if other not in used:
                groups[group][1].append(other)
            used[other] = group
    groups += [([], [other]) for other in range(len(targets)) if other not in used]
    whole = [([sources[i] for i in sorted(own)], [targets[i] for i in sorted(others)]) for own, others in groups]
    yield from sorted(
        (group for group in whole if group[0] or group[1]), key=lambda group: (group[0] or group[1])[0].begin
    )


def _overlaps(first: Cue, second: Cue) -> bool:
    common = min(first.end, second.end) - max(first.begin, second.begin)
    shorter = min(first.end - first.begin, second.end - second.begin)
    return (common > 0 and common >= MIN_OVERLAP * shorter) or first.begin == second.begin
