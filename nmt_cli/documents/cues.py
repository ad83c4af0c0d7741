"""Cues that are translated together, because a sentence goes on in the next one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from nmt_cli.formats.segments import Atom, Kind, Segment
from nmt_cli.formats.subtitles import MARKUP, SPEAKER

MAX_CUES = 8
"""Cues that a sentence may span; without a full stop they go on and on."""
MAX_PAUSE = 3.0
"""Seconds between two cues of one sentence."""
_ENDS = (".", "!", "?", "…", ":", "♪", "♫", "。", "！", "？")
_I = re.compile(r"I\b")
"""A word that is written with a capital letter within sentences."""
_CLOSING = "\"'»”’)]"


def with_cues_joined(segments: Iterable[Segment]) -> Iterator[Segment]:
    """Yield the segments; those with times that a sentence spans come as one, with seams between its parts."""
    chain: list[Segment] = []
    for segment in segments:
        if chain and not _goes_on(chain, segment):
            yield _joined(chain)
            chain = []
        chain.append(segment)
    if chain:
        yield _joined(chain)


def _goes_on(chain: Sequence[Segment], cue: Segment) -> bool:
    """Return whether the sentence at the end of a chain goes on in the cue."""
    last = chain[-1]
    if last.time is None or cue.time is None or last.is_alone or cue.is_alone:
        return False
    lines = [_bare_lines(one) for one in (last, cue)]
    return (
        len(chain) < MAX_CUES
        and 0 <= cue.time[0] - last.time[1] <= MAX_PAUSE
        and not _is_end(lines[0][-1])
        and not _begins_anew(lines[1][0], lines[0][-1])
        and not any(SPEAKER.match(line) for line in (*lines[0], *lines[1]))
    )


def _bare_lines(segment: Segment) -> list[str]:
    return MARKUP.sub("", "".join(atom.raw for atom in segment.atoms)).splitlines() or [""]


def _begins_anew(line: str, before: str) -> bool:
    """Return whether a line after another begins a sentence: with a capital letter, or as nothing but a number."""
    if line.strip(" .,:;!?").isdecimal():
        return True
    letter = next(filter(str.isalnum, line), "")
    is_capital = letter.isupper() and not before.isupper() and _I.match(line.lstrip()) is None
    return is_capital and not before.rstrip().endswith((",", ";", "-", "–", "—"))


def _is_end(line: str) -> bool:
    """Return whether a line ends with a sentence, or with what stands in brackets."""
    whole = line.rstrip()
    bare = whole.rstrip(_CLOSING)
    return bare.endswith(_ENDS) or not {")", "]"}.isdisjoint(whole[len(bare) :])


def _joined(chain: Sequence[Segment]) -> Segment:
    if len(chain) == 1:
        return chain[0]
    atoms: list[Atom] = []
    for number, cue in enumerate(chain):
        atoms += [Atom("\n", "", Kind.SEAM)] * bool(number)
        atoms += cue.atoms
    seconds = tuple(0.0 if cue.time is None else cue.time[1] - cue.time[0] for cue in chain)
    first, last = chain[0], chain[-1]
    return Segment(first.start, last.end, tuple(atoms), first.spell, seconds=seconds, parts=tuple(chain))
