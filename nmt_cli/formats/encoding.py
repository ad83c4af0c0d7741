"""Find the encoding and the line ends of a text, and read its lines.

UTF-8, UTF-16, UTF-32 and ISO-2022 are recognised with certainty. The legacy encodings are in
`legacy_encodings.py`.
"""

from __future__ import annotations

import codecs
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass

from nmt_cli.formats.languages import Languages
from nmt_cli.formats.legacy_encodings import encoding_label, legacy_encoding
from nmt_cli.formats.opening import Input
from nmt_cli.formats.recognise import utf16_encoding
from nmt_cli.system.errors import InputError

MAX_LINE_CHARACTERS = 64_000_000
SAMPLE_BYTES = 1 << 17
LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
"""A line with its end, or the last one without."""
_OTHER_NAMES = {"x-sjis": "cp932", "windows-31j": "cp932", "windows-874": "cp874", "x-gbk": "gbk", "x-cp1252": "cp1252"}
_SUPERSETS = {
    "ascii": "cp1252", "iso8859-1": "cp1252", "iso8859-9": "cp1254", "iso8859-11": "cp874", "tis-620": "cp874",
    "gb2312": "gb18030", "gbk": "gb18030", "shift_jis": "cp932", "euc_kr": "cp949", "iso2022_jp": "iso2022_jp_ext",
}  # fmt: skip
"""By Python's name of an encoding, the larger one that browsers use for texts declared in it (WHATWG standard)."""
_ISO_2022_ESCAPE = re.compile(rb"\x1b(?:\$[@B]|\(J|(\$\)C))")
"""Escape sequence that begins Japanese letters or, in its group, Korean ones, in a text of ASCII bytes."""
_NOT_FOR_TEXTS = frozenset(("idna", "punycode"))


@dataclass(frozen=True, slots=True)
class TextFacts:
    """The encoding and the line ends of a text, with which its bytes are read."""

    encoding: str
    """Name of the encoding for messages: `UTF-8`, `cp1252`."""
    codec: str
    """Python's name of the encoding."""
    line_ends: str
    """`LF`, `CRLF`, `CR`, `mixed`, `mostly CR` or `none`."""
    has_mark: bool = False
    """True if the text begins with a byte order mark."""
    is_broken: bool = False
    """True if some lines are not valid in the encoding."""

    def __str__(self) -> str:
        mark = " with byte order mark" if self.has_mark else ""
        ends = "" if self.line_ends in ("LF", "none") else f", {self.line_ends} line ends"
        return f"{self.encoding}{mark}{ends}"


def detect_encoding(
    input_file: Input, languages: Languages, asked: str | None = None, declared: str | None = None
) -> TextFacts:
    """Return the encoding and the line ends of a text.

    The encoding is the one asked for, else Unicode or ISO-2022 if the bytes show it, else the declared one, else a
    likely one.

    Raises:
        InputError: no encoding fits, several do, or the one that is asked for is unknown.
    """
    head = input_file.head(1 << 12)
    marked = utf16_encoding(head)
    has_no_mark = marked is not None and marked.endswith("E")  # but zero bytes, which tell the order
    if asked is not None and not (has_no_mark and asked_codec(asked) == "utf-16"):
        return _asked(input_file, asked)
    if marked is not None:
        return _count_line_ends(input_file, marked, marked, has_mark=not has_no_mark)
    if (escaped := _escaped_encoding(input_file)) is not None:
        return _count_line_ends(input_file, *escaped)
    has_mark = head.startswith(codecs.BOM_UTF8)
    if not _is_valid(input_file, "utf-8"):
        num_valid, sample = _invalid_lines(input_file)
        # In a legacy encoding a line that is valid UTF-8 by chance is rare, whatever the text declares.
        is_mostly_utf8 = has_mark or num_valid > sample.count(b"\n")
        if not is_mostly_utf8 and declared is not None and (facts := _declared(input_file, declared)) is not None:
            return facts
        if is_mostly_utf8 or 4 * num_valid > sample.count(b"\n"):
            return _count_line_ends(
                input_file, "UTF-8", "utf-8-sig" if has_mark else "utf-8", has_mark=has_mark, is_broken=True
            )
        encoding = legacy_encoding(input_file.name, sample, languages)
        return _count_line_ends(input_file, encoding_label(encoding), encoding)
    return _count_line_ends(input_file, "UTF-8", "utf-8-sig" if has_mark else "utf-8", has_mark=has_mark)


def _is_valid(input_file: Input, codec: str, *, has_controls: bool = True) -> bool:
    """Return whether a text is valid in an encoding and, without `has_controls`, has no characters U+0080 to U+009F."""
    decoder = codecs.getincrementaldecoder(codec)("strict")
    try:
        for chunk in input_file.chunks():
            text = decoder.decode(chunk)
            if not has_controls and re.search("[\x80-\x9f]", text):
                return False
        decoder.decode(b"", final=True)
    except UnicodeError:
        return False
    return True


def _escaped_encoding(input_file: Input) -> tuple[str, str] | None:
    """Return name and codec of the ISO-2022 encoding that escape sequences show in a text of ASCII bytes, or None."""
    rest = b""
    for chunk in input_file.chunks():
        if not chunk.isascii():
            return None
        if escape := _ISO_2022_ESCAPE.search(rest + chunk):
            return ("ISO-2022-KR", "iso2022_kr") if escape[1] else ("ISO-2022-JP", "iso2022_jp_ext")
        rest = chunk[-3:]
    return None


def is_plainly_utf8(input_file: Input) -> bool:
    """Return whether a text is valid UTF-8 with characters beyond ASCII; text in another encoding hardly ever is."""
    return _is_valid(input_file, "utf-8") and not all(chunk.isascii() for chunk in input_file.chunks())


def text_codec(encoding: str) -> str:
    """Return Python's name of an encoding.

    Raises:
        LookupError: the encoding is not known, or is not one of whole texts, such as hex, rot13 or idna.
    """
    try:
        name = codecs.lookup(encoding).name
        "".encode(name)
    except (TypeError, ValueError) as error:
        raise LookupError(str(error)) from None
    if name in _NOT_FOR_TEXTS:
        raise LookupError(f"{name} encodes names of computers, not texts")
    return name


def declared_codec(declared: str) -> str:
    """Return Python's name of the encoding that a text declares in ASCII characters.

    For a declaration of UTF-16 or UTF-32, which some programs write by mistake, it is UTF-8: a text in UTF-16 or UTF-32
    has zero bytes, so its declaration could not be read.

    Raises:
        LookupError: as `text_codec` does.
    """
    codec = text_codec(_OTHER_NAMES.get(declared.lower(), declared))
    return "utf-8" if _has_zero_bytes(codec) else codec


def superset_codec(codec: str) -> str | None:
    """Return the larger encoding that browsers use for a text declared in `codec`; None if there is none."""
    return _SUPERSETS.get(codec)


def _has_zero_bytes(codec: str) -> bool:
    return codec.replace("_", "-").lower().startswith(("utf-16", "utf-32"))


def asked_codec(asked: str) -> str:
    """Return Python's name of the encoding that --encoding names.

    Raises:
        InputError: the encoding is not known, or is not one of whole texts.
    """
    try:
        return text_codec(asked)
    except LookupError:
        raise InputError(f"--encoding {asked}: is not known; examples are UTF-8, cp1252, GB18030, Shift_JIS") from None


def _asked(input_file: Input, asked: str) -> TextFacts:
    name = asked_codec(asked)
    return _count_line_ends(input_file, asked, "utf-8-sig" if name == "utf-8" else name)


def _declared(input_file: Input, declared: str) -> TextFacts | None:
    """Return the declared encoding and the line ends; None if it is unknown or the text is not valid in it."""
    try:
        codec = declared_codec(declared)
    except LookupError:
        return None
    wider = superset_codec(codec)
    # A page in "iso-8859-1" may have the quotes of cp1252; the two differ only in bytes that are no text in Latin-1.
    if wider is not None and not _is_valid(input_file, codec, has_controls=False) and _is_valid(input_file, wider):
        return _count_line_ends(input_file, wider, wider)
    return _count_line_ends(input_file, declared, codec) if _is_valid(input_file, codec) else None


def _count_line_ends(
    input_file: Input, encoding: str, codec: str, *, has_mark: bool = False, is_broken: bool = False
) -> TextFacts:
    decoder = codecs.getincrementaldecoder(codec)("surrogateescape" if is_broken else "strict")
    num_lf = num_cr = num_crlf = 0
    is_single_byte = not _has_zero_bytes(codec)
    last = ""
    try:
        for chunk in input_file.chunks():
            if is_single_byte:  # in all these encodings a line end is its own byte
                text = chunk.decode("latin-1") if is_broken or codec.startswith("utf") else decoder.decode(chunk)
            else:
                text = decoder.decode(chunk)
            num_lf, num_cr = num_lf + text.count("\n"), num_cr + text.count("\r")
            num_crlf += text.count("\r\n") + (last == "\r" and text.startswith("\n"))
            last = text[-1:] or last
        decoder.decode(b"", final=True)
    except UnicodeError as error:
        reason = getattr(error, "reason", error)
        raise InputError(
            f"{input_file.name}: is not valid {encoding} ({reason}); give its encoding, such as --encoding cp1252"
        ) from None
    kinds = [name for name, num in (("LF", num_lf - num_crlf), ("CRLF", num_crlf), ("CR", num_cr - num_crlf)) if num]
    line_ends = "none" if not kinds else kinds[0] if len(kinds) == 1 else "mixed"
    if line_ends == "mixed" and num_cr - num_crlf > num_lf:
        line_ends = "mostly CR"
    return TextFacts(encoding, codec, line_ends, has_mark, is_broken)


def _invalid_lines(input_file: Input) -> tuple[int, bytes]:
    """Return the number of lines with valid UTF-8 beyond ASCII, and a sample: the first lines that are not valid UTF-8.

    Reading ends when the sample has more than `SAMPLE_BYTES`.
    """
    num_valid, sample = 0, bytearray()
    with input_file.open() as stream:
        rest = b""
        while chunk := stream.read(1 << 16):
            *lines, rest = re.split(rb"[\r\n]+", rest + chunk)
            if len(rest) > 1 << 20:  # of a very long line, each part is looked at once, up to the last character
                end = next((n for n in range(len(rest) - 1, len(rest) - 4, -1) if rest[n] & 0xC0 != 0x80), len(rest))
                lines, rest = [*lines, rest[:end]], rest[end:]
            for line in lines:
                if line.isascii():
                    continue
                try:
                    line.decode("utf-8")
                    num_valid += 1
                except UnicodeDecodeError:
                    sample += line + b"\n"
            if len(sample) > SAMPLE_BYTES:
                break
        else:
            sample += rest + b"\n" if not rest.isascii() else b""
    return num_valid, bytes(sample)


def read_lines(input_file: Input, facts: TextFacts, *, universal: bool | None = None) -> Iterator[str]:
    """Yield the lines of a text with their line ends, without the mark of DOS (Ctrl-Z) at the end of a file.

    A lone CR ends a line if `universal` is true, or if it is None and most lines end in CR.

    Raises:
        InputError: a line is not valid in the encoding, or has more than `MAX_LINE_CHARACTERS`.
    """
    newline = "" if (facts.line_ends in ("CR", "mostly CR") if universal is None else universal) else "\n"
    with input_file.open() as stream:
        reader = io.TextIOWrapper(
            io.BufferedReader(stream, 1 << 16) if isinstance(stream, io.RawIOBase) else stream,
            encoding=facts.codec, errors="surrogateescape" if facts.is_broken else "strict", newline=newline,
        )  # fmt: skip
        number = 0
        try:
            while line := reader.readline(MAX_LINE_CHARACTERS + 1):
                number += 1
                if len(line) > MAX_LINE_CHARACTERS:
                    raise InputError(
                        f"{input_file.name}:{number}: the line is longer than {MAX_LINE_CHARACTERS:,} characters"
                    )
                if line := line.rstrip("\x1a"):  # only the last line can end so: DOS marks the end of a file
                    yield line
        except UnicodeDecodeError as error:
            raise InputError(
                f"{input_file.name}:{number + 1}: is not valid {facts.encoding} ({error.reason}); fix the line, or "
                "give the right --encoding"
            ) from None
        finally:
            reader.detach()


def text_head(input_file: Input, facts: TextFacts) -> str:
    """Return the beginning of a text for recognising its format: whole lines, at most 65,536 characters."""
    text = codecs.getincrementaldecoder(facts.codec)("replace").decode(input_file.head(1 << 18))
    return text if len(text) < 1 << 16 else text[: 1 << 16].rpartition("\n")[0] or text[: 1 << 16]
