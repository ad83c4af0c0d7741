"""The training corpora as piece ids on disk, made once; each pair is read from there when it is needed.

A store is made for the content of its corpora, its tokenizers and its length limits, and is made again only when one of
them changes. It is whole or absent.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple
from weakref import finalize

import numpy as np
from numpy.typing import NDArray

from nmt_cli.data.pairs import (
    Corpus,
    FilterReport,
    LengthLimits,
    Pair,
    check_invalid_links,
    first_invalid_link,
    parse_links,
    read_pairs,
)
from nmt_cli.data.sampler import Lengths
from nmt_cli.data.tokenizer import EOS, PieceWords, Tokenizer
from nmt_cli.system.console import Progress, log, warn
from nmt_cli.system.errors import InputError
from nmt_cli.system.files import atomic_directory, atomic_path, make_directory, sha256_of

FORMAT_VERSION = 4
MANIFEST = "manifest.json"
CHUNK = 4096
BYTES_AT_ONCE = 1 << 24
NumberArray = NDArray[Any]


class _RaggedArray:
    """Reads rows of different lengths from a file; a second file has the positions where the rows begin and end.

    Only the requested rows are read, and nothing is mapped into memory: pages in random order would cost a fault each
    and stay resident until they are given back (docs/adr/0016).
    """

    def __init__(self, path: Path, dtype: str) -> None:
        self._dtype = np.dtype(dtype)
        self._values, self._bounds = (os.open(name, os.O_RDONLY | os.O_CLOEXEC) for name in (path, _bounds_of(path)))
        for descriptor in (self._values, self._bounds):
            finalize(self, os.close, descriptor)

    def row(self, number: int) -> NumberArray:
        (start, end), size = self._limits([number])[0], self._dtype.itemsize
        return np.frombuffer(os.pread(self._values, (end - start) * size, start * size), dtype=self._dtype)

    def counts(self, num_values: int) -> NumberArray:
        """Return the number of occurrences (num_values,) of each value in all rows; values are below `num_values`."""
        counts, place = np.zeros(num_values, dtype=np.int64), 0
        while values := os.pread(self._values, BYTES_AT_ONCE, place):
            counts += np.bincount(np.frombuffer(values, dtype=self._dtype), minlength=num_values)
            place += len(values)
        return counts

    def __getitem__(self, numbers: NumberArray) -> NumberArray:
        """Return the numbers of values (N,) in the rows with these numbers (N,), from 0."""
        limits = self._limits(numbers.tolist())
        return np.subtract(limits[:, 1], limits[:, 0])

    def _limits(self, numbers: Sequence[int]) -> NumberArray:
        """Return the positions, counted in values of the file, where each of N rows begins and ends (N, 2)."""
        size = np.dtype(np.int64).itemsize
        found = b"".join([os.pread(self._bounds, 2 * size, number * size) for number in numbers])
        return np.frombuffer(found, dtype=np.int64).reshape(-1, 2)


def _bounds_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.bounds")


class PairStore:
    """Reads tokenised training pairs from disk by their number, which counts from 0 through all corpora."""

    def __init__(self, directory: Path) -> None:
        manifest = json.loads((directory / MANIFEST).read_text(encoding="utf-8"))
        self.reports = {name: FilterReport(**report) for name, report in manifest["reports"].items()}
        self.bounds: list[int] = manifest["bounds"]
        """The number of each corpus's first pair, and the number of all pairs."""
        self.target_pieces: list[int] = manifest["target_pieces"]
        """Target pieces of each corpus, </s> not counted."""
        self.contents = [digest[:16] for corpus in manifest["key"]["content"] for digest in corpus]
        """The first 16 hexadecimal digits of the SHA-256 of each file of the corpora."""
        self._ids = [_RaggedArray(directory / f"{side}.ids", manifest["dtype"]) for side in ("source", "target")]
        has_links = manifest["key"]["with_links"]
        self._words = [
            _RaggedArray(directory / f"{side}.words", "uint32") for side in ("source", "target") if has_links
        ]
        self._links = _RaggedArray(directory / "alignment.links", "uint16") if has_links else None

    def __len__(self) -> int:
        return self.bounds[-1]

    @property
    def source_lengths(self) -> Lengths:
        """Number of pieces of each source, by pair number, without </s>."""
        return self._ids[0]

    @property
    def target_lengths(self) -> Lengths:
        """Number of pieces of each target, by pair number, without </s>."""
        return self._ids[1]

    def ids(self, number: int) -> tuple[list[int], list[int]]:
        """Return the piece ids of source and target of a pair, in the best segmentation, without </s>."""
        source, target = (ragged.row(number).tolist() for ragged in self._ids)
        return source, target

    def target_counts(self, vocab_size: int) -> NumberArray:
        """Return the frequency (V,) of each piece in the targets, with one </s> for each; all corpora count once."""
        counts = self._ids[1].counts(vocab_size)
        counts[EOS] += len(self)
        return counts

    def pieces(self, number: int) -> tuple[PieceWords, PieceWords]:
        """Return source and target of a pair as pieces with their words; possible only in a store with links."""
        words = (ragged.row(number).tolist() for ragged in self._words)
        sides = zip(self.ids(number), words, strict=True)
        source, target = (PieceWords(tuple(ids), tuple(rest), num_words) for ids, (num_words, *rest) in sides)
        return source, target

    def links(self, number: int) -> list[tuple[int, int]]:
        """Return the word alignment of a pair as (source word, target word); possible only in a store with links."""
        assert self._links is not None
        return [(source, target) for source, target in self._links.row(number).reshape(-1, 2).tolist()]


def open_store(
    root: Path,
    corpora: Sequence[Corpus],
    tokenizers: tuple[Tokenizer, Tokenizer],
    limits: LengthLimits,
    *,
    with_links: bool = False,
    threads: int = 1,
) -> PairStore:
    """Return the store of these corpora below `root`; if there is none, tokenise them with `threads` threads.

    Raises:
        InputError: a corpus cannot be read or has unequal line counts, an alignment is invalid, or no pair is left
            within the limits.
    """
    key = {
        "format": FORMAT_VERSION,
        "tokenizers": [tokenizer.fingerprint for tokenizer in tokenizers],
        "filters": asdict(limits),
        "with_links": with_links,
        "content": [_content_digests(corpus, root) for corpus in corpora],
        **({"tags": tags} if any(tags := [tokenizers[0].with_tags(corpus.tags).tags for corpus in corpora]) else {}),
    }
    directory = root / hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:16]
    if not _is_complete(directory):
        if directory.exists():
            log(f"{directory}: is damaged and is written again")
        _remove_unfinished(root)
        _write_store(directory, key, corpora, tokenizers, limits, with_links=with_links, threads=threads)
    store = PairStore(directory)
    if len(store) == 0:
        described = "; ".join(f"{name}: {report}" for name, report in store.reports.items())
        raise InputError(f"no training pairs are left ({described})")
    return store


class CorpusRecord(NamedTuple):
    """A training corpus in the index of a store: its name, what was left out of it, and the digests of its files."""

    name: str
    """The paths of the corpus, as `source | target`."""
    report: FilterReport
    digests: tuple[str, ...]
    """SHA-256 of each file of the corpus; empty if the store has a corpus twice, so that they are not assigned."""


def records(root: Path, tokenizers: Sequence[str], limits: LengthLimits) -> list[CorpusRecord]:
    """Return the records of the corpora in all stores below `root` with these tokenizers (fingerprints) and limits."""
    found, kept_by = [], asdict(limits)
    for path in sorted(root.glob(f"*/{MANIFEST}")):
        try:
            manifest = json.loads(path.read_text(encoding="utf-8"))
            key, reports = manifest["key"], manifest["reports"]
            if key["tokenizers"] == list(tokenizers) and key.get("filters", kept_by) == kept_by:
                # A corpus that is named twice has one report, so the places no longer tell whose content is whose.
                contents = key["content"] if len(key["content"]) == len(reports) else [()] * len(reports)
                pairs = zip(reports.items(), contents, strict=True)
                found += [CorpusRecord(name, FilterReport(**report), tuple(own)) for (name, report), own in pairs]
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue  # of another version, or not whole
    return found


def _remove_unfinished(root: Path) -> None:
    """Remove the unfinished stores below `root` that killed runs left; they may be as large as the training text."""
    for path in root.glob(".*.tmp"):
        if re.fullmatch(r"\.[0-9a-f]{16}(\.old)?\.tmp", path.name) and path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)


def _is_complete(directory: Path) -> bool:
    try:
        manifest = json.loads((directory / MANIFEST).read_text(encoding="utf-8"))
        is_whole = all((directory / name).stat().st_size == size for name, size in manifest["sizes"].items())
        return is_whole and manifest.keys() >= {"key", "dtype", "bounds", "target_pieces", "reports"}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def _content_digests(corpus: Corpus, root: Path) -> list[str]:
    """Return the SHA-256 of each file of a corpus. A file whose size and time have not changed is not read again."""
    memory_path = root / "files.json"
    try:
        memory = json.loads(memory_path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        memory = {}
    if not isinstance(memory, dict):
        memory = {}
    digests, before = [], dict(memory)
    for path in corpus.paths:
        try:
            status = Path(path).stat()
            stamp = [status.st_size, status.st_mtime_ns]
            known = memory.get(str(Path(path).absolute()))
            if not (isinstance(known, list) and len(known) == 3 and known[:2] == stamp):
                known = [*stamp, sha256_of(Path(path))]
                memory[str(Path(path).absolute())] = known
        except FileNotFoundError:
            raise InputError(f"{path}: there is no such file") from None
        except IsADirectoryError:
            raise InputError(f"{path}: is a directory; give a text file") from None
        except OSError as error:
            raise InputError(f"{path}: cannot be read: {error.strerror}") from error
        digests.append(str(known[2]))
    if memory != before:
        make_directory(root)
        with atomic_path(memory_path) as temporary:
            temporary.write_text(json.dumps(memory), encoding="utf-8")
    return digests


def _write_store(
    directory: Path,
    key: dict[str, Any],
    corpora: Sequence[Corpus],
    tokenizers: tuple[Tokenizer, Tokenizer],
    limits: LengthLimits,
    *,
    with_links: bool,
    threads: int,
) -> None:
    with atomic_directory(directory) as temporary:
        dtype = "uint16" if max(tokenizer.vocab_size for tokenizer in tokenizers) <= 2**16 else "uint32"
        reports: dict[str, FilterReport] = {}
        bounds, target_pieces = [0], []
        with ExitStack() as stack:

            def writer(name: str, dtype: str) -> _Writer:
                return stack.enter_context(closing(_Writer(temporary / name, dtype)))

            sides = [writer(f"{side}.ids", dtype) for side in ("source", "target")]
            words = [writer(f"{side}.words", "uint32") for side in ("source", "target") if with_links]
            links = [writer("alignment.links", "uint16")] if with_links else []
            progress = stack.enter_context(Progress("tokenising", unit="pair"))
            for corpus in corpora:
                report = reports.setdefault(f"{corpus.source} | {corpus.target}", FilterReport())
                pairs = read_pairs(corpus, invalid_utf8=limits.invalid_utf8, report=report)
                first, first_piece, num_invalid = sides[1].num_rows, sides[1].num_values, 0
                source, target = tokenizers[0].with_tags(corpus.tags), tokenizers[1]
                while chunk := list(islice(pairs, CHUNK)):
                    kept = list(_encode_and_filter(chunk, (source, target), limits, report, threads))
                    for ids_of_side, rows in zip(sides, zip(*(ids for _, ids in kept), strict=True), strict=False):
                        ids_of_side.add(rows)
                    in_words = [_encode_words(pair, source, target) for pair, _ in kept] if words else []
                    for side, words_of_side in enumerate(words):
                        words_of_side.add([[of_pair[side].num_words, *of_pair[side].words] for of_pair in in_words])
                    for alignment in links:
                        linked = [(pair, _links(corpus, pair)) for pair, _ in kept]
                        alignment.add([list(chain.from_iterable(own)) for _, own in linked])
                        num_invalid += sum(
                            bool(first_invalid_link(own, pair.source, pair.target)) for pair, own in linked
                        )
                    progress.advance(len(chunk))
                if num_invalid:
                    message = check_invalid_links(str(corpus.alignment), num_invalid, sides[1].num_rows - first)
                    warn(f"{message}. Training leaves these links out")
                bounds.append(bounds[-1] + sides[1].num_rows - first)
                target_pieces.append(sides[1].num_values - first_piece)
        manifest = {
            "key": key,
            "dtype": dtype,
            "bounds": bounds,
            "target_pieces": target_pieces,
            "reports": {name: asdict(report) for name, report in reports.items()},
        }
        # Last, with the sizes of the others: what a crash or a full disk has cut is seen when the store is opened.
        manifest["sizes"] = {path.name: path.stat().st_size for path in sorted(temporary.iterdir())}
        (temporary / MANIFEST).write_text(json.dumps(manifest, ensure_ascii=False, indent=1), encoding="utf-8")


def _encode_and_filter(
    chunk: list[Pair],
    tokenizers: tuple[Tokenizer, Tokenizer],
    limits: LengthLimits,
    report: FilterReport,
    threads: int,
) -> Iterator[tuple[Pair, tuple[list[int], list[int]]]]:
    sources = map(
        tokenizers[0].prepend_tags, tokenizers[0].encode_all([pair.source for pair in chunk], threads=threads)
    )
    targets = tokenizers[1].encode_all([pair.target for pair in chunk], threads=threads)
    for pair, source, target in zip(chunk, sources, targets, strict=True):
        reason = limits.why_left_out(len(source), len(target))
        if reason is None:
            report.kept += 1
            yield pair, (source, target)
        else:
            report.count_left_out(reason)


def _encode_words(pair: Pair, source: Tokenizer, target: Tokenizer) -> tuple[PieceWords, PieceWords]:
    """Return both sides of a pair as pieces with the index of the word of each; the source begins with its tags."""
    return source.prepend_tags_to_words(source.encode_words(pair.source)), target.encode_words(pair.target)


def _links(corpus: Corpus, pair: Pair) -> list[tuple[int, int]]:
    return parse_links(pair.alignment, f"{corpus.alignment}:{pair.number}")


class _Writer:
    """Appends rows to a file, and the positions where they begin and end to a second file."""

    def __init__(self, path: Path, dtype: str) -> None:
        self._dtype = dtype
        self._files = path.open("wb"), _bounds_of(path).open("wb")
        self.num_rows = self.num_values = 0
        self._write_bounds(np.zeros(1, dtype=np.int64))

    def add(self, rows: Sequence[Sequence[int]]) -> None:
        """Append rows of whole numbers."""
        lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
        values = np.array(list(chain.from_iterable(rows)), dtype=self._dtype)
        self._files[0].write(values.tobytes())
        self._write_bounds(self.num_values + np.cumsum(lengths))
        self.num_rows += len(rows)
        self.num_values += len(values)

    def _write_bounds(self, bounds: NumberArray) -> None:
        self._files[1].write(bounds.tobytes())

    def close(self) -> None:
        for file in self._files:
            file.close()
