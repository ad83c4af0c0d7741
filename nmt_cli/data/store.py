"""The training corpora as piece ids on disk, memory-mapped, made once.

A store belongs to the content of its corpora, its tokenizers and its filters, and is made again when one of them
changes and only then. It is whole or absent.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nmt_cli.console import Progress, log
from nmt_cli.data.corpus import Corpus, FilterReport, Pair, parse_links, read_pairs
from nmt_cli.data.tokenizer import Tokenizer
from nmt_cli.errors import InputError
from nmt_cli.files import atomic_directory, atomic_path, make_directory

FORMAT = 2
MANIFEST = "manifest.json"
CHUNK = 4096
Int64s = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Filters:
    """What keeps a pair out of training."""

    max_length: int = 100
    """Pieces on either side."""
    max_length_ratio: float | None = None
    invalid_utf8: str = "error"


@dataclass(frozen=True, slots=True)
class _Ragged:
    """Rows of different lengths in one memory-mapped array."""

    values: NDArray[Any]
    bounds: Int64s

    @classmethod
    def open(cls, path: Path, dtype: str) -> _Ragged:
        bounds = np.fromfile(path.with_name(f"{path.name}.bounds"), dtype=np.int64)
        empty = path.stat().st_size == 0  # which cannot be mapped
        return cls(np.zeros(0, dtype) if empty else np.memmap(path, dtype=dtype, mode="r"), bounds)

    def __getitem__(self, row: int) -> NDArray[Any]:
        return self.values[self.bounds[row] : self.bounds[row + 1]]

    @property
    def lengths(self) -> Int64s:
        return np.diff(self.bounds)


class PairStore:
    """Tokenised training pairs by number, from 0."""

    def __init__(self, directory: Path) -> None:
        manifest = json.loads((directory / MANIFEST).read_text(encoding="utf-8"))
        self.reports = {name: FilterReport(**report) for name, report in manifest["reports"].items()}
        self.bounds: list[int] = manifest["bounds"]
        """Where each corpus begins, and the end of the last."""
        self._ids = [_Ragged.open(directory / f"{side}.ids", manifest["dtype"]) for side in ("source", "target")]
        has_text = manifest["key"]["with_text"]
        self._texts = [_Ragged.open(directory / f"{side}.text", "uint8") for side in ("source", "target") if has_text]
        self._links = _Ragged.open(directory / "alignment.links", "uint16") if has_text else None

    def __len__(self) -> int:
        return self.bounds[-1]

    @property
    def source_lengths(self) -> Int64s:
        """Pieces of each source, </s> not counted."""
        return self._ids[0].lengths

    @property
    def target_lengths(self) -> Int64s:
        """Pieces of each target, </s> not counted."""
        return self._ids[1].lengths

    def ids(self, number: int) -> tuple[list[int], list[int]]:
        """The pieces of a pair in their best segmentation."""
        source, target = (ragged[number].tolist() for ragged in self._ids)
        return source, target

    def texts(self, number: int) -> tuple[str, str]:
        """The text of a pair; only where the store was made with text."""
        source, target = (ragged[number].tobytes().decode("utf-8") for ragged in self._texts)
        return source, target

    def links(self, number: int) -> list[tuple[int, int]]:
        """The word alignment of a pair; only where the store was made with text."""
        assert self._links is not None
        return [(source, target) for source, target in self._links[number].reshape(-1, 2).tolist()]


def open_store(
    root: Path,
    corpora: Sequence[Corpus],
    tokenizers: tuple[Tokenizer, Tokenizer],
    filters: Filters,
    *,
    with_text: bool = False,
) -> PairStore:
    """The store of these corpora below `root`, made now if it is not there.

    Raises:
        InputError: a corpus cannot be read, has unequal line counts, or nothing is left of all of them.
    """
    key = {
        "format": FORMAT,
        "tokenizers": [tokenizer.fingerprint for tokenizer in tokenizers],
        "filters": asdict(filters),
        "with_text": with_text,
        "content": [_content(corpus, root) for corpus in corpora],
    }
    directory = root / hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:16]
    if not _is_whole(directory):
        if directory.exists():
            log(f"{directory}: is damaged; it is made again")
        _make(directory, key, corpora, tokenizers, filters, with_text=with_text)
    store = PairStore(directory)
    if len(store) == 0:
        described = "; ".join(f"{name}: {report}" for name, report in store.reports.items())
        raise InputError(f"no training pairs are left ({described})")
    return store


def _is_whole(directory: Path) -> bool:
    try:
        sizes = json.loads((directory / MANIFEST).read_text(encoding="utf-8"))["sizes"]
        return all((directory / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def _content(corpus: Corpus, root: Path) -> list[str]:
    """SHA-256 of each file of a corpus; files of the same size and time as when last seen are not read again."""
    memory_path = root / "files.json"
    try:
        memory: dict[str, list[Any]] = json.loads(memory_path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        memory = {}
    digests = []
    for path in filter(None, (corpus.source, corpus.target, corpus.alignment)):
        try:
            status = Path(path).stat()
            stamp = [status.st_size, status.st_mtime_ns]
            known = memory.get(str(Path(path).absolute()))
            if known is None or known[:2] != stamp:
                with Path(path).open("rb") as file:
                    known = [*stamp, hashlib.file_digest(file, "sha256").hexdigest()]
                memory[str(Path(path).absolute())] = known
        except FileNotFoundError:
            raise InputError(f"{path}: there is no such file") from None
        except IsADirectoryError:
            raise InputError(f"{path}: is a directory; give a text file") from None
        except OSError as error:
            raise InputError(f"{path}: cannot be read: {error.strerror}") from error
        digests.append(str(known[2]))
    make_directory(root)
    with atomic_path(memory_path) as temporary:
        temporary.write_text(json.dumps(memory), encoding="utf-8")
    return digests


def _make(
    directory: Path,
    key: dict[str, Any],
    corpora: Sequence[Corpus],
    tokenizers: tuple[Tokenizer, Tokenizer],
    filters: Filters,
    *,
    with_text: bool,
) -> None:
    with atomic_directory(directory) as temporary:
        dtype = "uint16" if max(tokenizer.vocab_size for tokenizer in tokenizers) <= 2**16 else "uint32"
        sides = [_Writer(temporary / f"{side}.ids", dtype) for side in ("source", "target")]
        texts = [_Writer(temporary / f"{side}.text", "uint8") for side in ("source", "target") if with_text]
        links = [_Writer(temporary / "alignment.links", "uint16")] if with_text else []
        reports: dict[str, FilterReport] = {}
        bounds = [0]
        with Progress("tokenizing", unit="pair") as progress:
            for corpus in corpora:
                report = reports.setdefault(f"{corpus.source} | {corpus.target}", FilterReport())
                pairs = read_pairs(corpus, invalid_utf8=filters.invalid_utf8, report=report)
                while chunk := list(islice(pairs, CHUNK)):
                    for pair, ids in _kept(chunk, tokenizers, filters, report):
                        for writer, row in zip(sides, ids, strict=True):
                            writer.add(row)
                        for writer, text in zip(texts, (pair.source, pair.target), strict=False):
                            writer.add(np.frombuffer(text.encode("utf-8"), dtype=np.uint8))
                        for writer in links:
                            place = f"{corpus.alignment}:{pair.number}"
                            writer.add([index for link in parse_links(pair.alignment, place) for index in link])
                    progress.advance(len(chunk))
                bounds.append(bounds[-1] + report.kept)
        for writer in (*sides, *texts, *links):
            writer.close()
        manifest = {
            "key": key,
            "dtype": dtype,
            "bounds": bounds,
            "reports": {name: asdict(report) for name, report in reports.items()},
        }
        # Last, with the sizes of the others: what a crash or a full disk has cut is seen when the store is opened.
        manifest["sizes"] = {path.name: path.stat().st_size for path in sorted(temporary.iterdir())}
        (temporary / MANIFEST).write_text(json.dumps(manifest, ensure_ascii=False, indent=1), encoding="utf-8")


def _kept(
    chunk: list[Pair], tokenizers: tuple[Tokenizer, Tokenizer], filters: Filters, report: FilterReport
) -> Iterator[tuple[Pair, tuple[list[int], list[int]]]]:
    sources = tokenizers[0].encode_all([pair.source for pair in chunk])
    targets = tokenizers[1].encode_all([pair.target for pair in chunk])
    for pair, source, target in zip(chunk, sources, targets, strict=True):
        longer, shorter = max(len(source), len(target)), min(len(source), len(target))
        if shorter == 0:
            report.leave_out("with an empty side")
        elif longer > filters.max_length:
            report.leave_out(f"longer than {filters.max_length} pieces")
        elif filters.max_length_ratio is not None and longer > filters.max_length_ratio * shorter:
            report.leave_out(f"with a length ratio above {filters.max_length_ratio:g}")
        else:
            report.kept += 1
            yield pair, (source, target)


class _Writer:
    """Appends rows to a file, and their bounds to one beside it."""

    def __init__(self, path: Path, dtype: str) -> None:
        self._path, self._dtype = path, dtype
        self._file = path.open("wb")
        self._bounds = [0]

    def add(self, row: Sequence[int] | NDArray[Any]) -> None:
        values = np.asarray(row, dtype=self._dtype)
        self._file.write(values.tobytes())
        self._bounds.append(self._bounds[-1] + len(values))

    def close(self) -> None:
        self._file.close()
        np.asarray(self._bounds, dtype=np.int64).tofile(self._path.with_name(f"{self._path.name}.bounds"))
