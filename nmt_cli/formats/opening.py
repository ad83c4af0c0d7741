"""Opens the inputs of an import, as often as needed: a file, a compressed file, or a member of a zip archive."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from tempfile import TemporaryDirectory
from typing import IO, cast

from nmt_cli.formats.recognise import ForeignFormat, detect_non_text, inner_name
from nmt_cli.system.errors import InputError

CHUNK_BYTES = 1 << 20
_COMPRESSIONS = {b"\x1f\x8b\x08": "gzip", b"\xfd7zXZ\0": "xz", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bzip2"}
_ZIPPED = ("a zip archive", "a spreadsheet")
"""Kinds of files that are told apart by the names of all members, as the first bytes show only some of the names."""
_DAMAGE_ERRORS = (EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, gzip.BadGzipFile, OSError)


@dataclass(frozen=True, slots=True)
class Input:
    """A file, a member of a zip archive, or content in memory, which can be opened again and again."""

    path: str
    member: str | None = None
    """Name of the member of a zip archive at `path`; None if the file itself is meant."""
    compression: str | None = None
    """`gzip`, `xz`, `zstd` or `bzip2`; None if the file is not compressed."""
    display_name: str | None = None
    """The name of the file in messages, if not the path: standard input, for example, is read from a temporary copy."""
    data: bytes | None = None
    """The content, if it is in memory and not in a file."""

    @property
    def file(self) -> str:
        """The name of the file in messages."""
        return self.path if self.display_name is None else self.display_name

    @property
    def name(self) -> str:
        """The name in messages: that of the file, followed by that of the member, if any."""
        return self.file if self.member is None else f"{self.file}: {self.member}"

    @property
    def inner_name(self) -> str:
        """Name of the file or member without an ending such as `.gz`; it may tell the format and the language."""
        return inner_name(self.member or self.path)

    @property
    def inner_path(self) -> str:
        """Path of the file or member without an ending such as `.gz`; its folders may tell the language."""
        return os.path.join(os.path.dirname(self.member or self.path), self.inner_name)

    @contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """Open the decompressed content.

        Raises:
            InputError: the content is damaged or cannot be read.
        """
        if self.data is not None:
            yield io.BytesIO(self.data)
            return
        if self.member is not None:
            with zip_archive(self) as archive, archive.open(self.member) as stream:
                yield stream
            return
        try:
            with open(self.path, "rb") as file:
                yield self._decompressed(file)
        except FileNotFoundError:
            raise InputError(f"{self.file}: there is no such file") from None
        except _DAMAGE_ERRORS as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise InputError(f"{self.file}: cannot be read: {(error.strerror or str(error)).lower()}") from None
            raise InputError(
                f"{self.name}: the compressed data is damaged or cut off ({error}); get the file again"
            ) from None

    def _decompressed(self, file: IO[bytes]) -> IO[bytes]:
        if self.compression == "gzip":
            return cast(IO[bytes], gzip.GzipFile(fileobj=file, mode="rb"))
        if self.compression == "xz":
            return cast(IO[bytes], lzma.LZMAFile(file))
        if self.compression == "bzip2":
            return cast(IO[bytes], bz2.BZ2File(file))
        return _zstd_reader(file, self.file) if self.compression == "zstd" else file

    def chunks(self) -> Iterator[bytes]:
        """Yield the content in pieces of about a megabyte."""
        with self.open() as stream:
            while chunk := stream.read(CHUNK_BYTES):
                yield chunk

    def head(self, size: int = CHUNK_BYTES) -> bytes:
        """Return the first `size` bytes of the decompressed content, or all of it if it is shorter."""
        with self.open() as stream:
            head = b""
            while len(head) < size and (more := stream.read(size - len(head))):
                head += more
            return head


def _zstd_reader(file: IO[bytes], name: str) -> IO[bytes]:
    try:
        import zstandard
    except ImportError:
        raise InputError(
            f"{name}: reading zstd data needs zstandard: pip install 'nmt-cli[formats]'; or decompress it first"
        ) from None

    class Reader(io.RawIOBase):
        """Raises `EOFError` for damaged data, as the other decompressors do."""

        def __init__(self) -> None:
            super().__init__()
            self._stream = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True)

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: object) -> int:
            try:
                return int(self._stream.readinto(buffer))
            except zstandard.ZstdError as error:
                raise EOFError(str(error)) from None

    return cast(IO[bytes], io.BufferedReader(Reader(), CHUNK_BYTES))


def resolve_input(container: Input) -> tuple[list[Input], ForeignFormat | None]:
    """Return the file, or the members if it is a zip archive, and the kind of the file if it is not text.

    The file comes back with its compression. A zip archive has no kind.

    Raises:
        InputError: it is not a file, cannot be read, or is an archive without files.
    """
    path = container.path
    if not path:
        raise InputError("the name of an input file is empty")
    if os.path.isdir(path):
        raise InputError(f"{path}: is a directory; give the files in it")
    if os.path.exists(path) and not os.path.isfile(path):
        raise InputError(
            f"{path}: is a pipe or a device; an import reads a file more than once, so save it first, or give it as "
            "standard input, -"
        )
    head = container.head(1 << 12)
    compression = next((name for start, name in _COMPRESSIONS.items() if head.startswith(start)), None)
    if compression == "bzip2" and head[4:10] != b"1AY&SY":
        compression = None
    if compression is not None:
        container = replace(container, compression=compression)
        head = container.head(1 << 12)
    foreign = detect_non_text(head)
    if foreign is None or foreign.kind not in _ZIPPED or compression is not None:
        return [container], foreign
    if _is_spreadsheet(container):
        return [container], ForeignFormat("a spreadsheet", "")
    return _members(container), None


def _is_spreadsheet(input_file: Input) -> bool:
    """Return whether a zip archive is a spreadsheet, by the names of all its members, which may be in any order."""
    with zip_archive(input_file) as archive:
        return bool({"xl/workbook.xml", "content.xml"} & set(archive.namelist()))


@contextmanager
def unpack_spreadsheets(inputs: Sequence[Input]) -> Iterator[list[Input]]:
    """Yield the inputs, with an unpacked temporary copy in place of each spreadsheet that is packed alone.

    It is packed if it is compressed, or is the only file in a zip archive. The readers of spreadsheets need a file in
    which they can go back and forth.
    """
    with ExitStack() as stack:
        yield [_unpack(input_file, stack) for input_file in inputs]


def _unpack(container: Input, stack: ExitStack) -> Input:
    (packed, *others), _ = resolve_input(container)
    if others or (packed.member is None and packed.compression is None):
        return container
    foreign = detect_non_text(packed.head(1 << 12))
    if foreign is None or foreign.kind not in _ZIPPED:
        return container
    # The pairs are written when it goes, so no error may come from that.
    copy = os.path.join(stack.enter_context(TemporaryDirectory(prefix="nmt-", ignore_cleanup_errors=True)), "copy")
    with open(copy, "wb") as file:
        file.writelines(packed.chunks())
    unpacked = Input(copy, display_name=packed.name)
    return unpacked if _is_spreadsheet(unpacked) else container


def _members(input_file: Input) -> list[Input]:
    with zip_archive(input_file) as archive:
        names = [
            info.filename
            for info in archive.infolist()
            if not info.is_dir() and info.file_size and not info.filename.startswith("__MACOSX/")
        ]
    if not names:
        raise InputError(f"{input_file.file}: is a zip archive without files")
    return [replace(input_file, member=member) for member in names]


@contextmanager
def zip_archive(input_file: Input) -> Iterator[zipfile.ZipFile]:
    """Open the zip archive at the path of an input, and close it after the block.

    Raises:
        InputError: the archive, or a member that is read, is damaged or encrypted.
    """
    try:
        with open(input_file.path, "rb") as file:
            try:
                archive = zipfile.ZipFile(file)
            except UnicodeDecodeError as error:  # of a name
                raise zipfile.BadZipFile(str(error)) from None
            with archive:
                yield archive
    except _DAMAGE_ERRORS as error:
        if isinstance(error, FileNotFoundError):
            raise InputError(f"{input_file.file}: there is no such file") from None
        raise InputError(f"{input_file.file}: is a damaged zip archive ({error}); get it again") from None
    except NotImplementedError as error:
        raise InputError(
            f"{input_file.file}: is compressed in a way that is not known here ({error}); unpack it and give the files"
        ) from None
    except RuntimeError as error:
        if "password" not in str(error):
            raise
        raise InputError(
            f"{input_file.file}: is encrypted; unpack it with its password, or save it without one"
        ) from None


def check_no_declarations(input_file: Input) -> None:
    """Raise `InputError` if the XML in a spreadsheet declares entities, which no program writes there."""
    with zip_archive(input_file) as archive:
        for info in archive.infolist():
            if not info.filename.endswith((".xml", ".rels")):
                continue
            with archive.open(info) as member:
                if b"<!DOCTYPE" in (head := member.read(1 << 12)) or b"<!ENTITY" in head:
                    raise InputError(
                        f"{input_file.file}: {info.filename} declares XML entities, which nmt does not "
                        "read for safety; remove them"
                    )
