"""Pairs the cues of two files of subtitles that are shown at the same time."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace

from nmt_cli.formats.report import ImportedPair, ImportReport
from nmt_cli.formats.segments import Content
from nmt_cli.formats.subtitle_timing import IDENTITY, Timing, estimate_timing
from nmt_cli.system.console import warn
from nmt_cli.system.errors import InputError

MIN_OVERLAP = 0.5
"""Share of the shorter cue's time that two cues must have in common to be a pair."""
MAX_GROUP = 4
"""Largest number of cues on a side of a pair; longer chains of cues that overlap are not one sentence."""


@dataclass(frozen=True, slots=True)
class Cue:
    """A text of a subtitle file, with the times at which it appears and disappears, in seconds."""

    line: int
    begin: float
    end: float
    text: str


def cues_of(content: Content, report: ImportReport) -> list[Cue]:
    """Return the cues of a file in the order of their times; cues without new text are counted as skipped.

    Raises:
        InputError: the file has no cue with text.
    """
    name, cues = content.document.name, []
    for segment in content.segments():
        if segment.reason or segment.time is None:
            report.skip(segment.reason, f"{name}:{segment.line}")
            continue
        lines = [line.strip() for line in segment.text.split("\n")]
        new = [line for line in lines if line][segment.num_repeated :] if segment.num_repeated else lines
        cues.append(Cue(segment.line, *segment.time, "\n".join(new)))
    for line, what in content.unreadable_parts:
        report.skip(what, f"{name}:{line}")
    if not cues:
        content.document.refuse(0, "has no cue with times such as 00:00:01,000 --> 00:00:02,500, and with text")
    return sorted(cues, key=lambda cue: (cue.begin, cue.end))


def match_cues(
    sources: list[Cue], targets: list[Cue], names: tuple[str, str], report: ImportReport
) -> Iterator[ImportedPair]:
    """Yield the texts that are shown at the same time in both files; several cues of a file are joined by line ends.

    Counted as skipped are cues without a partner, cues shown during many others, and long chains of cues that overlap.

    Raises:
        InputError: the times of the files have nothing in common.
    """
    targets = _synchronise_cues(targets, sources, names, report)
    short_sources, short_targets = (
        _drop_long_cues(cues, others, name, report)
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
                report.count_note("pairs of several cues")
            yield ImportedPair(own[0].line, "\n".join(c.text for c in own), "\n".join(c.text for c in others))


def _synchronise_cues(cues: list[Cue], others: list[Cue], names: tuple[str, str], report: ImportReport) -> list[Cue]:
    """Return `cues`, those of the second file, with their times changed to fit `others`, those of the first.

    The second file may run faster, begin later, or lack a part.

    Raises:
        InputError: the times of the files have nothing in common.
    """
    found = estimate_timing([cue.begin for cue in cues], [cue.begin for cue in others])
    if found is None:
        raise InputError(
            f"{names[0]} and {names[1]}: their times have nothing in common, whatever the frame rate and the shift; "
            "give two files of the same film"
        )
    if not found.is_certain:
        warn(f"{names[0]} and {names[1]}: their times have little in common, so many of the pairs may be wrong")
    if found.fits == (IDENTITY,):
        return cues
    first, *later = [
        {"from": round(begin, 3), "scale": round(fit.scale, 6), "shift": round(fit.shift, 3)}
        for begin, fit in zip(found.begins, found.fits, strict=True)
    ]
    report.inputs[-1]["times"] = {"scale": first["scale"], "shift": first["shift"]} | (
        {"changes": later} if later else {}
    )
    warn(f"{names[1]}: its times do not fit those of {names[0]}; {_correction(found)}")
    fits = [found.fit_at(cue.begin) for cue in cues]
    moved = [
        replace(cue, begin=fit.apply(cue.begin), end=fit.apply(cue.end)) for cue, fit in zip(cues, fits, strict=True)
    ]
    return sorted(moved, key=lambda cue: (cue.begin, cue.end))


def _correction(found: Timing) -> str:
    """Return how the times were corrected, for a message."""
    parts = list[str]()
    for begin, fit in zip(found.begins, found.fits, strict=True):
        minutes, seconds = divmod(begin, 60)
        after = f"from {minutes // 60:.0f}:{minutes % 60:02.0f}:{seconds:02.0f} on " if parts else ""
        factor = f"multiplied by {fit.scale:.5f} and " if fit.scale != 1 else ""
        parts.append(f"{after}left as they are" if fit == IDENTITY else f"{after}{factor}shifted by {fit.shift:+.2f} s")
    return f"they were {'; '.join(parts)}"


def _drop_long_cues(cues: list[Cue], others: list[Cue], name: str, report: ImportReport) -> list[Cue]:
    """Return the cues that are shown during at most `MAX_GROUP` cues of the other file.

    Another one, such as the name of a station, would join all of them into one chain. It is counted as skipped.
    """
    begins = [other.begin for other in others]
    kept = []
    for cue in cues:
        if bisect_right(begins, cue.end) - bisect_left(begins, cue.begin) > MAX_GROUP:
            report.skip(f"a cue shown during more than {MAX_GROUP} of the other file", f"{name}:{cue.line}")
        else:
            kept.append(cue)
    return kept


def _groups(sources: list[Cue], targets: list[Cue]) -> Iterator[tuple[list[Cue], list[Cue]]]:
    """Yield the source cues and the target cues of each group connected by overlaps in time, in the order of time."""
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
