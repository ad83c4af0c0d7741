"""Files of a bulk translation. Inputs are cut into parts; translated parts are joined into shards, whole or absent.

Next to the finished shards, one hidden folder holds the files by which to resume after a stop at any moment:

    DIR/NAME                            a finished shard, under the name of its input
    DIR/.translate-corpus/record.json   the model, the options and the inputs with which this was begun
    DIR/.translate-corpus/parts/NAME/   the parts of a shard that are done

A shard that the record names and that has its file is finished; there is no other state to get out of step. Only one
process writes here. This module does not translate the parts itself.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

from nmt_cli.data.lines import input_name, is_special_file, is_standard_input, iter_lines, open_input
from nmt_cli.data.output import open_output
from nmt_cli.system.errors import InputError, NmtError
from nmt_cli.system.files import atomic_path, locked, remove_directory, remove_unfinished, sync
from nmt_cli.translation.json_lines import JsonField, LineFormat, PlainText, is_json_lines
from nmt_cli.translation.windows import batched

FOLDER = ".translate-corpus"
FORMAT_VERSION = 1
MAX_PART_BYTES = 16_000_000
"""Bytes at which a part ends even if it has few lines, so that a part of long lines fits into memory."""
CONDITION_OPTIONS = {
    "model": "--model or --checkpoint", "direction": "--source-lang or --target-lang", "beam_size": "--beam-size",
    "length_penalty": "--length-penalty", "max_source_pieces": "decoding.max_source_pieces",
    "max_length_a": "decoding.max_length_a", "max_length_b": "decoding.max_length_b",
    "no_repeat_ngram": "--no-repeat-ngram", "normalize_input": "decoding.normalize_input",
    "copy_unknown": "--copy-unknown", "keep_markup": "--markup", "sampling_temperature": "--sample or --temperature",
    "seed": "--seed", "shortlist": "--shortlist", "precision": "--precision", "device": "--device",
    "threads": "--threads", "part_lines": "--part-lines", "field": "--field", "output_field": "--output-field",
}  # fmt: skip
"""The command-line option or configuration key of each setting that a resumed translation must share, for messages."""
HASHED_CONDITIONS = ("model", "shortlist")
"""Settings in `CONDITION_OPTIONS` whose values are hashes, which messages leave out."""
DERIVED_CONDITIONS = ("with_alignment",)
"""Settings that follow from other settings; messages name them only if no other setting differs."""


# Shards and their parts --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Shard:
    """One input, as it was read when its translation began."""

    source: Path
    size: int
    """Size of the file in bytes."""
    modified: int
    """Time of the last change of the file, in nanoseconds since 1970."""
    part_lines: tuple[int, ...]
    """Number of lines in each part, in order."""

    @property
    def name(self) -> str:
        return self.source.name

    @property
    def num_lines(self) -> int:
        return sum(self.part_lines)

    def check_unchanged(self) -> None:
        """Check that the file still has the recorded size and time of its last change.

        Raises:
            InputError: it has changed, or is gone.
        """
        try:
            found = self.source.stat()
            is_unchanged = (found.st_size, found.st_mtime_ns) == (self.size, self.modified)
        except FileNotFoundError:
            is_unchanged = False
        if not is_unchanged:
            raise self.changed_error()

    def changed_error(self) -> InputError:
        """Return the error for an input that has changed since its translation began."""
        return InputError(f"{self.source}: has changed since its translation began; choose another --output")


@dataclass(frozen=True, slots=True)
class Part:
    """A unit of work: some consecutive lines of a shard."""

    shard: Shard
    number: int
    first_line: int
    """Number of the first line, from 0."""
    lines: list[bytes]

    def __str__(self) -> str:
        return f"lines {self.first_line + 1:,} to {self.first_line + len(self.lines):,} of {self.shard.source}"


def cut_into_parts(lines: Iterable[bytes], part_lines: int) -> Iterator[list[bytes]]:
    """Yield the lines in parts of `part_lines`, or fewer at `MAX_PART_BYTES`. The same lines are always cut alike."""
    return batched(lines, part_lines, len, MAX_PART_BYTES)


def scan_shard(source: Path, line_format: LineFormat, part_lines: int) -> Shard:
    """Return the shard of an input, which is read once to count the lines of its parts and to check each line.

    Raises:
        InputError: the input cannot be read, or a line does not have the format (file and line are named).
    """
    sizes: list[int] = []
    with open_input(source) as stream:
        found = source.stat()
        for part in cut_into_parts(iter_lines(stream), part_lines):
            for number, line in enumerate(part, start=sum(sizes) + 1):
                try:
                    line_format.text(line)
                except ValueError as error:
                    raise InputError(f"{source}:{number}: {error}") from None
            sizes.append(len(part))
    return Shard(source, found.st_size, found.st_mtime_ns, tuple(sizes))


# The directory -----------------------------------------------------------------------------------------------------


class BulkTranslation:
    """The translations of many inputs in one directory, finished or under way."""

    def __init__(
        self,
        directory: Path,
        sources: Sequence[Path],
        conditions: Mapping[str, Any],
        *,
        part_lines: int,
        json_field: JsonField | None = None,
    ) -> None:
        """Begin a bulk translation, or resume one with the same `conditions`, and check everything before any work.

        `conditions` are the settings that change the outputs, as JSON values. The directory must be held (`lock`).

        Raises:
            InputError: the directory was begun under other conditions; an input is wrong, has changed, or would
                overwrite a file that was not made here.
        """
        self.directory = directory
        self._part_lines, self._json_field = part_lines, json_field
        self._parts_path = directory / FOLDER / "parts"
        record_path = directory / FOLDER / "record.json"
        conditions = {
            **conditions,
            "part_lines": part_lines,
            "field": json_field and json_field.field,
            "output_field": json_field and json_field.output_field,
        }
        known = _read_record(record_path, conditions)
        self._check_names(sources, known)
        self.shards = [
            replace(known[source.name], source=source)
            if source.name in known
            else scan_shard(source, self._line_format(source), part_lines)
            for source in sources
        ]
        _write_record(record_path, conditions, known | {shard.name: shard for shard in self.shards})
        remove_unfinished(self._joined_path)
        found = {shard.name: self._missing_parts(shard) for shard in self.shards}
        self._missing = {name: missing for name, missing in found.items() if missing is not None}
        self.num_skipped = len(self.shards) - len(self._missing)
        """Number of shards that were finished before."""
        unfinished = [shard for shard in self.shards if shard.name in self._missing]
        self.num_parts_skipped = sum(len(shard.part_lines) for shard in unfinished) - self.num_parts
        """Number of parts of the other shards that were done before."""
        for shard in self.shards:
            self._join_if_whole(shard)

    @staticmethod
    @contextmanager
    def lock(directory: Path) -> Iterator[None]:
        """Lock a directory against a second process while the block runs.

        Raises:
            InputError: it is a file, cannot be written to, or is locked by another process.
        """
        if directory.exists() and not directory.is_dir():
            raise InputError(f"--output {directory}: is a file; give a directory")
        with locked(directory / FOLDER / "lock", "written to", "wait for it or choose another --output"):
            yield

    @property
    def num_parts(self) -> int:
        """Number of parts that are still to be translated."""
        return sum(map(len, self._missing.values()))

    @property
    def num_lines(self) -> int:
        """Number of lines that are still to be translated."""
        return sum(s.part_lines[number] for s in self.shards for number in self._missing.get(s.name, ()))

    def parts(self) -> Iterator[Part]:
        """Yield every part that is still to be translated, in order; each is read when it is asked for.

        Raises:
            InputError: an input has changed, or cannot be read.
        """
        for shard in self.shards:
            missing = self._missing.get(shard.name)
            if not missing:
                continue
            wanted = frozenset(missing)
            first_line = 0
            with open_input(shard.source) as stream:
                for number, lines in enumerate(cut_into_parts(iter_lines(stream), self._part_lines)):
                    if shard.part_lines[number : number + 1] != (len(lines),):
                        raise shard.changed_error()
                    if number in wanted:
                        yield Part(shard, number, first_line, lines)
                    first_line += len(lines)
            if first_line != shard.num_lines:
                raise shard.changed_error()

    def texts(self, part: Part) -> list[bytes]:
        """Return the text to translate of each line of a part."""
        return list(map(self._line_format(part.shard.source).text, part.lines))

    def write_part(self, part: Part, translations: Sequence[bytes]) -> None:
        """Write the translations of a part, each with its line feed; after the last part, join the shard.

        Raises:
            InputError: at the last part, the input has changed, or another program has made the file of the shard.
            NmtError: at the last part, a part on the disk is damaged.
        """
        output_line = self._line_format(part.shard.source).output_line
        lines = [output_line(*both) for both in zip(part.lines, translations, strict=True)]
        with atomic_path(self._path_of(part.shard, part.number)) as temporary:
            temporary.write_bytes(b"".join(lines))
        self._missing[part.shard.name].discard(part.number)
        self._join_if_whole(part.shard)

    def close(self) -> None:
        """Remove the folders of parts and of joined shards if they are empty."""
        for folder in (self._parts_path, self._joined_path):
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()

    @property
    def _joined_path(self) -> Path:
        return self.directory / FOLDER / "joined"

    def _path_of(self, shard: Shard, number: int) -> Path:
        return self._parts_path / shard.name / f"{number:08d}"

    def _line_format(self, source: Path) -> LineFormat:
        if not is_json_lines(source):
            return PlainText()
        if self._json_field is None:
            raise InputError(f"{source}: --field NAME must say which field of the JSON lines is translated")
        return self._json_field

    def _check_names(self, sources: Sequence[Path], recorded: Mapping[str, Shard]) -> None:
        seen: dict[str, Path] = {}
        for source in sources:
            if source.name in seen:
                raise InputError(
                    f"{seen[source.name]} and {source}: have the same name, so their outputs would have the same "
                    "name in "
                    f"{self.directory}; rename one, or translate them into two directories"
                )
            seen[source.name] = source
            if is_standard_input(source) or is_special_file(source):
                raise InputError(f"{input_name(source)}: is not a regular file, and inputs are read twice")
            with open_input(source):  # says what is wrong
                pass
            if source.name in recorded:
                replace(recorded[source.name], source=source).check_unchanged()
            elif os.path.lexists(self.directory / source.name):
                raise InputError(
                    f"{self.directory / source.name}: exists and was not made here, so it is not overwritten; move it "
                    "away or choose another --output"
                )

    def _missing_parts(self, shard: Shard) -> set[int] | None:
        """Return the numbers of the parts of a shard that are still to be translated, or None for a finished shard."""
        folder, output = self._parts_path / shard.name, self.directory / shard.name
        there = set(os.listdir(folder)) if folder.is_dir() else None
        missing = {number for number in range(len(shard.part_lines)) if there is None or f"{number:08d}" not in there}
        if os.path.lexists(output):
            if there is not None and missing:  # the parts of a shard are removed all at once
                self._raise_output_exists(output)
            remove_directory(folder)  # killed after the shard was in its place
            return None
        folder.mkdir(parents=True, exist_ok=True)
        return missing

    @staticmethod
    def _raise_output_exists(output: Path) -> NoReturn:
        raise InputError(
            f"{output}: another program made this file meanwhile. Move it away and run the same command again"
        )

    def _join_if_whole(self, shard: Shard) -> None:
        if self._missing.get(shard.name, {0}):
            return
        shard.check_unchanged()
        self._joined_path.mkdir(exist_ok=True)
        joined, output = self._joined_path / shard.name, self.directory / shard.name
        with open_output(joined) as out:
            for number, num_lines in enumerate(shard.part_lines):
                path = self._path_of(shard, number)
                content = path.read_bytes()
                if content.count(b"\n") != num_lines:
                    raise NmtError(f"{path}: is damaged; remove it and run the same command again")
                out.write(content)
        if os.path.lexists(output):
            self._raise_output_exists(output)
        os.replace(joined, output)
        sync(self.directory)
        del self._missing[shard.name]
        remove_directory(self._parts_path / shard.name)


def _changed_option(name: str, before: Any) -> str:
    """Return the name of an option whose value has changed, with its first value unless that is a hash."""
    option = CONDITION_OPTIONS.get(name, name)
    if isinstance(before, bool):
        return f"{option} (was {'on' if before else 'off'})"
    if before is None:
        return f"{option} (was not given)"
    return option if name in HASHED_CONDITIONS else f"{option} (was {before})"


def _read_record(path: Path, conditions: Mapping[str, Any]) -> dict[str, Shard]:
    """Return the shards in the record of a bulk translation, by name; none if the file does not exist.

    Raises:
        InputError: the record is damaged, has another version of the format, or was made under other conditions.
    """
    if not path.exists():
        return {}
    directory = path.parent.parent
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        before = record["conditions"]
        shards = {
            name: Shard(Path(entry["source"]), entry["size"], entry["modified"], tuple(entry["part_lines"]))
            for name, entry in record["shards"].items()
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path}: is damaged; choose another --output") from error
    if record.get("format") != FORMAT_VERSION:
        raise InputError(
            f"{path}: has format version {record.get('format')!r}, this nmt reads {FORMAT_VERSION}; choose another "
            "--output"
        )
    if differing := [name for name in {**conditions, **before} if before.get(name) != conditions.get(name)]:
        named = [name for name in differing if name not in DERIVED_CONDITIONS] or differing
        said = ", ".join(_changed_option(name, before.get(name)) for name in named)
        raise InputError(
            f"{directory}: was begun with other options: {said}. Give the options of the first time, or choose another "
            "--output"
        )
    return shards


def _write_record(path: Path, conditions: Mapping[str, Any], shards: Mapping[str, Shard]) -> None:
    entries = {name: {**asdict(shard), "source": str(shard.source)} for name, shard in shards.items()}
    with atomic_path(path) as temporary:
        temporary.write_text(
            json.dumps({"format": FORMAT_VERSION, "conditions": dict(conditions), "shards": entries}) + "\n"
        )
