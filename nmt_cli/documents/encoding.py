"""The characters of a document and back to its bytes, without a change where the text has none."""

from __future__ import annotations

import codecs

from nmt_cli.formats.characters import Characters
from nmt_cli.formats.encoding import declared_codec, text_codec
from nmt_cli.formats.recognise import utf16_encoding, why_not_text
from nmt_cli.system.errors import InputError

MAX_BYTES = 32_000_000
"""A document is held in memory, several times; catalogues and pages of people are far smaller."""


def check_document(name: str, data: bytes) -> str | None:
    """Return `UTF-16` or `UTF-32` if a document is in it; `InputError` if it is too large, or no text."""
    if len(data) > MAX_BYTES:
        line = data.count(b"\n", 0, MAX_BYTES) + 1
        raise InputError(f"{name}:{line}: the document is larger than {MAX_BYTES // 1_000_000} MB; cut it into parts")
    encoding = utf16_encoding(data[:4096])
    if encoding is None and (foreign := why_not_text(data[:4096])) is not None and "XLIFF" not in foreign.what:
        raise InputError(f"{name}:1: is {foreign.what}, but a document in text is expected here; {foreign.advice}")
    return encoding


def decoded(name: str, data: bytes, declared: str | None) -> Characters:
    """Return the characters of a document in the encoding that it declares, or in UTF-8, or in UTF-16 with its mark.

    Raises:
        InputError: it is too large, no text, or not valid in this encoding; the message names the line.
    """
    encoding = check_document(name, data)
    has_mark = data.startswith((codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    if encoding == "UTF-16":
        encoding = "UTF-16-LE" if data.startswith(codecs.BOM_UTF16_LE) else "UTF-16-BE"
    codec_of = declared_codec if encoding is None else text_codec
    if encoding is None:
        encoding = "UTF-8" if has_mark or declared is None else declared
    try:
        codec = codec_of(encoding)
        text = data.decode(codec)
    except LookupError:
        raise InputError(
            f"{name}:1: declares the encoding {encoding}, which is not known; convert it to UTF-8"
        ) from None
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"{name}:{line}: byte {data[error.start]:#04x} is not valid {encoding}; the file is damaged or mixes "
            "encodings. Convert all of it to UTF-8"
        ) from None
    if text.encode(codec) != data:
        raise InputError(f"{name}:1: its encoding {encoding} cannot be written back unchanged; convert it to UTF-8")
    if "\0" in text:
        Characters(name, text, codec).refuse(text.index("\0"), "has a zero byte, so it is damaged or no text")
    return Characters(name, text, codec)


def encoded(document: Characters, text: str, *, has_references: bool) -> bytes:
    """Return the bytes of a translated text; with `has_references`, `&#...;` stands for what the encoding lacks.

    Raises:
        InputError: the encoding lacks a character of the translation.
    """
    try:
        return text.encode(document.codec, "xmlcharrefreplace" if has_references else "strict")
    except UnicodeEncodeError as error:
        raise InputError(
            f"{document.name}: the translation has the character {text[error.start]!r}, which the encoding of the "
            f"document, {document.codec}, lacks; convert the document to UTF-8 first"
        ) from None
