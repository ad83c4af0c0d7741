"""Decodes a document, and encodes its translation, if possible in the same encoding."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

from nmt_cli.formats.encoding import TextFacts, declared_codec, detect_encoding, superset_codec
from nmt_cli.formats.languages import Languages
from nmt_cli.formats.legacy_encodings import UncertainEncodingError, encoding_label
from nmt_cli.formats.opening import Input
from nmt_cli.system.errors import InputError

Charset = Callable[[bytes], re.Match[bytes] | None]
"""Function that returns a match whose first group is the encoding that a document declares, or None."""
MAX_BYTES = 1 << 29
"""Largest size of a document in bytes, because it is held in memory."""
_NOT_REENCODABLE = "its encoding, {}, cannot be written back unchanged, so the output is in UTF-8"
_HEAD = 1 << 16
"""Number of bytes at the beginning in which a document declares its encoding."""


@dataclass(frozen=True, slots=True)
class EncodedText:
    """A decoded document. A byte order mark is its first character; each byte that is not valid is a lone surrogate."""

    name: str
    """Name of the document in messages."""
    text: str
    codec: str
    """Python's name of the encoding in which the translated document is written."""
    notes: tuple[str, ...] = ()
    """Warnings about its encoding."""
    needs_utf8_declaration: bool = False
    """True if the declaration of the encoding in the document has to be changed to UTF-8."""

    @property
    def newline(self) -> str:
        """The character that is counted for line numbers: a line feed, or CR in a text with CRs only."""
        return "\r" if "\r" in self.text and "\n" not in self.text else "\n"

    def refuse(self, place: int, problem: str) -> NoReturn:
        """Raise `InputError` with a problem and the line of the offset `place`."""
        self.refuse_line(self.text.count(self.newline, 0, place) + 1, problem)

    def refuse_line(self, line: int, problem: str) -> NoReturn:
        """Raise `InputError` with a problem and the number of its line."""
        raise InputError(f"{self.name}:{line}: {problem}")


def declared_charset(data: bytes, charset: Charset) -> str | None:
    """Return the encoding that a document declares, or None; `charset` finds it in documents of this format."""
    found = charset(data)
    return found[1].decode("ascii", errors="replace") if found else None


def detect_document_encoding(
    input_file: Input, charset: Charset, languages: Languages, asked: str | None = None
) -> TextFacts:
    """Return the encoding and the line ends of a document.

    The encoding is the one asked for, else Unicode, else the one that the document declares, else a likely one. Bytes
    that are valid UTF-8 beyond ASCII are UTF-8, whatever is declared.

    Raises:
        InputError: no encoding fits, several do, or the one that is asked for is unknown.
    """
    return detect_encoding(input_file, languages, asked, declared_charset(input_file.head(_HEAD), charset))


def decode_document(input_file: Input, facts: TextFacts) -> EncodedText:
    """Return the document, decoded from the encoding that `detect_document_encoding` has found.

    Raises:
        InputError: the document is larger than `MAX_BYTES`, or is not valid in this encoding.
    """
    if sum(map(len, input_file.chunks())) > MAX_BYTES:
        raise InputError(f"{input_file.name}: is larger than {MAX_BYTES:,} bytes; cut it into parts")
    data = b"".join(input_file.chunks())
    codec = facts.codec.lower().removesuffix("-sig").removesuffix("_sig")
    if codec.replace("_", "-") in ("utf-16", "utf-32"):
        codec += "-be" if data[:4] in (codecs.BOM_UTF32_BE,) or data.startswith(codecs.BOM_UTF16_BE) else "-le"
    try:
        text = data.decode(codec, "surrogateescape" if facts.is_broken else "strict")
    except UnicodeError as error:
        line = data.count(b"\n", 0, getattr(error, "start", 0)) + 1
        raise InputError(
            f"{input_file.name}:{line}: is not valid {facts.encoding} ({getattr(error, 'reason', error)}); fix the "
            "line, or the encoding that is named for this file"
        ) from None
    return EncodedText(input_file.name, text, codec)


def note_on_encoding(declared: str | None, facts: TextFacts, *, is_ascii: bool) -> str | None:
    """Return a warning if a text is not in the encoding that it declares; None if it is, or declares none."""
    if declared is None:
        return None
    try:
        wanted = declared_codec(declared)
    except LookupError:
        wanted = ""
    own = facts.codec.removesuffix("-sig").removesuffix("_sig").replace("_", "-").lower()
    if own.startswith("utf"):
        is_other = wanted not in ("utf-8", own) and not (is_ascii and wanted)
        return f"declares the encoding {declared}, but is in {facts.encoding} and is read as such" if is_other else None
    is_same = facts.codec in (wanted, superset_codec(wanted))
    return None if is_same else f"is not valid {declared}; it is read as {facts.encoding}"


def document_of(name: str, data: bytes, charset: Charset, languages: Languages) -> EncodedText:
    """Return a decoded document, with the encoding in which it is to be written again.

    A declared encoding stays if the bytes are valid in it, and so does Unicode. All others become UTF-8.

    Raises:
        InputError: the encoding is not certain, or the document is larger than `MAX_BYTES`.
    """
    input_file = Input(name, data=data)
    try:
        facts = detect_document_encoding(input_file, charset, languages)
    except UncertainEncodingError as doubt:
        tries = "; or ".join(f"iconv -f {encoding_label(codec)} -t UTF-8 FILE > NEW" for codec in doubt.codecs)
        raise InputError(
            f"{name}: is not UTF-8, and its encoding is not certain. Convert it with one of these: {tries}"
        ) from None
    found = decode_document(input_file, facts)
    declared = declared_charset(data[:_HEAD], charset)
    note = note_on_encoding(declared, facts, is_ascii=data.isascii())
    own = found.codec
    if own.startswith("utf"):
        if data.isascii() and declared is not None and note is None:
            own = declared_codec(declared)
            if found.text.encode(own, "replace") != data:  # its ASCII is another one, as that of UTF-7
                own, note = "utf-8", _NOT_REENCODABLE.format(declared)
        needs_utf8_declaration = note is not None and own == "utf-8"
    else:
        if note is not None or declared is None:
            found_by = "" if data.isascii() else "is not valid UTF-8; it "  # the bytes of ISO-2022 are ASCII
            note = f"{note or f'{found_by}is read as {facts.encoding}'}; the output is in UTF-8"
        elif found.text.encode(own, "replace") != data:
            note = _NOT_REENCODABLE.format(declared)
        needs_utf8_declaration = note is not None
        own = "utf-8" if needs_utf8_declaration else own
    return EncodedText(name, found.text, own, () if note is None else (note,), needs_utf8_declaration)


def encode_document(
    document: EncodedText, text: str, charset: Charset, *, has_references: bool
) -> tuple[bytes, str | None]:
    """Return the bytes of a translated text, and a note if they are in another encoding than the document's.

    With `has_references`, characters that the encoding lacks become references `&#...;`. Without, the bytes are UTF-8
    if it lacks any.
    """
    errors = "surrogateescape" if document.codec == "utf-8" else "xmlcharrefreplace" if has_references else "strict"
    try:
        data = text.encode(document.codec, errors)
        return (_redeclare_utf8(data, charset) if document.needs_utf8_declaration else data), None
    except UnicodeEncodeError:
        note = f"its encoding, {document.codec}, lacks characters of the translation, so the output is in UTF-8"
        return _redeclare_utf8(text.encode("utf-8", "surrogateescape"), charset), note


def _redeclare_utf8(data: bytes, charset: Charset) -> bytes:
    """Return a document in UTF-8 with the encoding that it declares, if any, replaced by UTF-8."""
    found = charset(data)
    return data if found is None else data[: found.start(1)] + b"UTF-8" + data[found.end(1) :]
