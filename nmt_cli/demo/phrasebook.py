"""The built-in English-French corpus: a random sample, without repetition, of all sentences of the demo's grammar."""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from nmt_cli.demo.grammar import PhrasePair, spell
from nmt_cli.demo.sentence_kinds import KINDS
from nmt_cli.system.errors import InputError
from nmt_cli.system.files import atomic_path, make_directory, no_space


@dataclass(frozen=True, slots=True)
class PhraseBook:
    """A corpus in three parts; no source and no target sentence occurs twice, within a part or across the parts."""

    train: tuple[PhrasePair, ...]
    dev: tuple[PhrasePair, ...]
    test: tuple[PhrasePair, ...]


def generate(*, seed: int = 1, num_train: int = 20_000, num_dev: int = 500, num_test: int = 500) -> PhraseBook:
    """Return a randomly drawn corpus with the given numbers of sentence pairs; equal arguments give an equal corpus.

    Raises:
        InputError: the grammar cannot make that many pairs.
    """
    wanted = num_train + num_dev + num_test
    if wanted > capacity():
        raise InputError(
            f"the phrase book has {capacity()} distinct sentence pairs, but {wanted} were asked for "
            f"({num_train} train, {num_dev} dev, {num_test} test); ask for fewer"
        )
    generator = random.Random(seed)
    pairs = [
        spell(phrases[index])
        for (_, phrases), share in zip(KINDS, _shares(wanted), strict=True)
        for index in generator.sample(range(len(phrases)), share)
    ]
    generator.shuffle(pairs)
    dev_start, test_start = num_train, num_train + num_dev
    return PhraseBook(tuple(pairs[:dev_start]), tuple(pairs[dev_start:test_start]), tuple(pairs[test_start:]))


def write(book: PhraseBook, directory: Path) -> list[Path]:
    """Write the three parts into `directory` as `train.en`, `train.fr`, `train.align` and so on, a sentence a line.

    The `.align` files have the links in the Pharaoh format. Files that exist with the right content are kept.

    Returns:
        the directories and files that were not there before; a directory comes before its files.

    Raises:
        InputError: a file of one of these names has other contents, so that nothing is written; or the directory cannot
            be written to.
    """
    texts = {directory / name: text for name, text in _texts(book)}
    try:
        missing = [path for path in texts if not os.path.lexists(path)]
        if others := [
            str(path) for path, text in texts.items() if path not in missing and not _has_content(path, text)
        ]:
            raise InputError(
                f"{', '.join(others)}: exists already with other text than the phrase book's, and is not overwritten; "
                "choose another --dir, or move it away"
            )
        made = make_directory(directory)
        for path in missing:
            with atomic_path(path) as temporary:
                temporary.write_bytes(texts[path])
        return [*made, *missing]
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise no_space(error) or InputError(f"{directory}: cannot be written: {reason}") from error


def _texts(book: PhraseBook) -> Iterator[tuple[str, bytes]]:
    """Yield the name and the content of each file of the phrase book."""
    for name, pairs in (("train", book.train), ("dev", book.dev), ("test", book.test)):
        yield f"{name}.en", _as_lines(pair.source for pair in pairs)
        yield f"{name}.fr", _as_lines(pair.target for pair in pairs)
        yield f"{name}.align", _as_lines(" ".join(f"{s}-{t}" for s, t in pair.links) for pair in pairs)


def _as_lines(lines: Iterable[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def _has_content(path: Path, text: bytes) -> bool:
    return path.is_file() and path.stat().st_size == len(text) and path.read_bytes() == text


def capacity() -> int:
    """Return the number of distinct sentence pairs that the grammar can make."""
    return sum(len(phrases) for _, phrases in KINDS)


def _shares(wanted: int) -> list[int]:
    """Return for each of `KINDS` the number of sentences to draw, `wanted` in all, in proportion to the weights.

    If a kind has too few sentences, more are drawn of the others.
    """
    shares = [0] * len(KINDS)
    open_weight = sum(weight for weight, _ in KINDS)
    for i in sorted(range(len(KINDS)), key=lambda i: len(KINDS[i][1]) / KINDS[i][0]):
        weight, phrases = KINDS[i]
        fair = -(-wanted * weight // open_weight)
        shares[i] = min(len(phrases), fair)
        wanted -= shares[i]
        open_weight -= weight
    return shares
