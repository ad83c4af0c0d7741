"""Joins the subtitle cues over which one sentence runs, so that they are translated together."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from nmt_cli.formats.segments import Atom, Kind, Segment
from nmt_cli.formats.subtitles import MARKUP, SPEAKER
from nmt_cli.text.language_codes import primary_language

MAX_CUES = 8
"""Largest number of cues that are joined; subtitles without full stops would give chains without end."""
MAX_PAUSE = 3.0
"""Longest pause between two cues of one sentence, in seconds."""
_ENDS = (".", "!", "?", "…", ":", "♪", "♫", "。", "！", "？")
_I = re.compile(r"I\b")
"""The English word `I`, whose capital letter does not show the beginning of a sentence."""
_CAPITAL_NOUNS = ("de", "lb")
_BEGINNINGS = """
aber als also auch auf aus bei da dann das dein deine dem den denn der des die dies diese dieser doch du ein eine
einen einer er es für gibt hab habe haben hat hier hör ich ihr ihre im immer in ist ja jetzt kann kannst kein komm
können lass mach man mein meine mit muss nein nicht nichts noch nun nur ob oder schon sei sein seine sie sind so und
uns unser vielleicht vom von vor war warte warum was weil weißt wenn wer wie wieso will willst wir wo zu zum
"""
"""Frequent German words that begin sentences: a cue that begins with one in a capital letter hardly ever continues the
sentence before it."""
_CLOSING = "\"'»”’)]"


def join_cues(segments: Sequence[Segment], language: str) -> Iterator[Segment]:
    """Yield the segments; cues over which one sentence runs are joined into one, with a `Kind.SEAM` between two cues.

    A capital letter at the beginning of a cue begins a sentence. In languages that capitalise nouns, it does so only if
    the word is a frequent beginning of sentences, or is written with a small letter elsewhere.
    """
    chain: list[Segment] = []
    beginnings = _sentence_beginnings(segments) if primary_language(language) in _CAPITAL_NOUNS else None
    for segment in segments:
        if chain and not _continues_sentence(chain, segment, beginnings):
            yield _join_chain(chain)
            chain = []
        chain.append(segment)
    if chain:
        yield _join_chain(chain)


def _sentence_beginnings(segments: Sequence[Segment]) -> frozenset[str]:
    """Return the words that begin a sentence if capitalised: `_BEGINNINGS`, and words that a cue writes small."""
    texts = (line for segment in segments if segment.time is not None for line in _bare_lines(segment))
    return frozenset(_BEGINNINGS.split()) | {
        word for text in texts for word in re.findall(r"\w+", text) if word[0].islower()
    }


def _continues_sentence(chain: Sequence[Segment], cue: Segment, beginnings: frozenset[str] | None) -> bool:
    """Return whether the last sentence of a chain of cues continues in the given cue."""
    last = chain[-1]
    if last.time is None or cue.time is None or last.is_self_contained or cue.is_self_contained:
        return False
    lines = [_bare_lines(one) for one in (last, cue)]
    return (
        len(chain) < MAX_CUES
        and 0 <= cue.time[0] - last.time[1] <= MAX_PAUSE
        and not _is_end(lines[0][-1])
        and not _begins_sentence_anew(lines[1][0], lines[0][-1], beginnings)
        and not any(SPEAKER.match(line) for line in (*lines[0], *lines[1]))
    )


def _bare_lines(segment: Segment) -> list[str]:
    return MARKUP.sub("", "".join(atom.raw for atom in segment.atoms)).splitlines() or [""]


def _begins_sentence_anew(line: str, before: str, beginnings: frozenset[str] | None) -> bool:
    """Return whether a line begins a new sentence: it starts with a capital letter, or is nothing but a number.

    A capital letter does not count if `before`, the line before it, is in capitals or ends with a comma or a semicolon.
    With `beginnings`, it counts only in one of these words.
    """
    if line.strip(" .,:;!?").isdecimal():
        return True
    word = re.search(r"\w+", line)
    if beginnings is not None and word is not None and word[0].lower() not in beginnings:
        return False
    letter = next(filter(str.isalnum, line), "")
    is_capital = letter.isupper() and not before.isupper() and _I.match(line.lstrip()) is None
    return is_capital and not before.rstrip().endswith((",", ";"))


def _is_end(line: str) -> bool:
    """Return whether a line ends with the end of a sentence, a colon, a sign of music or a closing bracket."""
    whole = line.rstrip()
    bare = whole.rstrip(_CLOSING)
    return bare.endswith(_ENDS) or not {")", "]"}.isdisjoint(whole[len(bare) :])


def _join_chain(chain: Sequence[Segment]) -> Segment:
    if len(chain) == 1:
        return chain[0]
    atoms: list[Atom] = []
    for number, cue in enumerate(chain):
        atoms += [Atom("\n", "", Kind.SEAM)] * bool(number)
        atoms += cue.atoms
    seconds = tuple(0.0 if cue.time is None else cue.time[1] - cue.time[0] for cue in chain)
    first, last = chain[0], chain[-1]
    return Segment(first.start, last.end, tuple(atoms), first.escape, seconds=seconds, parts=tuple(chain))
