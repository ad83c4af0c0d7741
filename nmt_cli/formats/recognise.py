"""Recognise a file by its first few KiB. Only the standard library is needed, and nothing is opened here.

Commands that expect plain text ask `detect_non_text` and `suspected_format`; `nmt import` asks `text_format`.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import PurePath
from typing import NamedTuple

HEAD_BYTES = 4096
"""Number of bytes at the beginning of a file by which it is checked for plain text."""
ENDINGS = {
    ".html": "HTML", ".htm": "HTML", ".xhtml": "HTML", ".po": "PO", ".pot": "PO", ".srt": "SRT", ".vtt": "VTT",
    ".xlf": "XLIFF", ".xliff": "XLIFF",
}  # fmt: skip
"""The format of a document to translate, by the ending of its name."""
COMPRESSIONS = (".gz", ".xz", ".zst", ".bz2")
"""Endings of names of compressed files."""
HEADER_WORDS = frozenset(
    ("source", "target", "src", "tgt", "trg", "original", "translation", "translated", "sentence", "text")
)
"""Words that are usual in the headers of columns, in small letters, apart from names of languages."""
_IMPORTABLE = "`nmt import` turns it into plain text (with --lang XX if it is in one language)"
_DOCUMENT_ENDINGS = {"HTML": ".html", "PO": ".po", "SRT": ".srt", "VTT": ".vtt", "XLIFF": ".xlf"}
_FOR_TRAINING = {
    "HTML": "take its text with `nmt import --lang XX`",
    **dict.fromkeys(("PO", "XLIFF"), "take the pairs out of it with `nmt import`"),
    **dict.fromkeys(("SRT", "VTT"), "give it to `nmt import` together with its translation"),
}
_KINDS_BY_NAME = {
    **dict.fromkeys((".md", ".markdown"), "Markdown"),
    ".rst": "reStructuredText",
    ".tex": "LaTeX",
    ".json": "JSON",
    **dict.fromkeys((".strings", ".properties"), "a file of messages"),
    ".ts": "a file of Qt or of a program",
    **dict.fromkeys((".yaml", ".yml"), "YAML"),
}
"""Formats without a reader in this package, by the ending of the name, which alone tells them from plain text."""
_AS_WORDS = "its marks are read as words; "
_TO_HTML = (
    f"{_AS_WORDS}convert it to HTML, for example with pandoc; `nmt translate` translates HTML as a document if -o is "
    "given"
)
_TAKE_OUT = f"{_AS_WORDS}write its texts into a file, one a line"
_UNKNOWN_ADVICE = {
    **dict.fromkeys(("Markdown", "reStructuredText", "LaTeX"), _TO_HTML),
    **dict.fromkeys(("JSON", "YAML", "a file of messages", "a file of Qt or of a program"), _TAKE_OUT),
}
_UNPACK = "unpack it, then give the file in it"
_PICTURES = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF87a", b"GIF89a")
_SIGNATURES = (
    (b"\x1f\x8b\x08", 0, "gzip data", f"give it a name that ends in .gz, or {_IMPORTABLE}"),
    (b"\xfd7zXZ\0", 0, "xz data", _IMPORTABLE),
    (b"\x28\xb5\x2f\xfd", 0, "zstd data", _IMPORTABLE),
    (b"1AY&SY", 4, "bzip2 data", _IMPORTABLE),
    (b"7z\xbc\xaf\x27\x1c", 0, "a 7z archive", f"{_UNPACK} to `nmt import`"),
    (b"Rar!\x1a\x07", 0, "a RAR archive", f"{_UNPACK} to `nmt import`"),
    (b"ustar", 257, "a tar archive", f"{_UNPACK} to `nmt import`"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", 0, "an old Office document",
     "if it is a spreadsheet, save it as .xlsx, which `nmt import` reads"),
    *(
        (begin, 0, "a picture", "`nmt import` cannot read pictures; write the text that it shows into a file first")
        for begin in _PICTURES
    ),
    (b"%PDF-", 0, "a PDF document", "`nmt import` cannot read it; copy the text out of it into a text file"),
)  # fmt: skip
"""Bytes, their offset in the file, the kind of file that they show, and the advice for the user."""
_DOCUMENT = "a document of a word processor"
_SAVE_ADVICE = "save its text as plain text, or as a table, which `nmt import` reads"
_MEMBERS = (b"word/document", b"word/_rels", b"opendocument")
"""Names in the first bytes of a document of a word processor."""
CUE_TIME = r"(-?)(?:(\d{1,6})[ \t]*:[ \t]*)?(\d{1,3})[ \t]*:[ \t]*(\d{1,2})(?:[ \t]*[,.:;][ \t]*(\d{1,9}))?"
"""Pattern of a time in subtitles; it may lack hours or fraction, and have blanks, a minus, or `:` before a fraction."""
_CUE = re.compile(rf"^[ \t]*{CUE_TIME}[ \t]*-->[ \t]*{CUE_TIME}", re.M)


_MARKUP = re.compile(r"<\?xml\s|<!DOCTYPE\s|<[A-Za-z][^<>]*>[ \t]*[\r\n]\s*<[A-Za-z]", re.I)
"""Beginning of XML or SGML: a declaration, or a line that is one tag before a line that begins with one."""
_XML = re.compile(r"<\?xml\s|<!DOCTYPE\s", re.I)
_OTHER_SUBTITLES = re.compile(
    r"\[Script Info\]|\d+:\d\d:\d\d\.\d{3},\d+:\d\d:\d\d\.\d|\{\d+\}\{\d+\}"
    r"|(?:\[[a-z]+:[^\[\]\r\n]*+\]\s++)*+\[\d+:\d\d\.\d+\]|Scenarist_SCC|<SAMI>",
    re.I,
)
"""Beginning of ASS and SSA, SBV, MicroDVD, LRC, SCC, and SAMI."""


class ForeignFormat(NamedTuple):
    """Content that is not plain text in UTF-8."""

    kind: str
    """The kind of the file, with its article: `UTF-16 text`, `a spreadsheet`."""
    advice: str

    def refusal(self, name: str) -> str:
        """Return the message for a command that was given the file as plain text."""
        return f"{name}: is {self.kind}, but plain text in UTF-8 is expected here; {self.advice}"


_SUBTITLES = ForeignFormat(
    "a file of subtitles that is neither SRT nor VTT", "convert it to SRT, for example with `ffmpeg -i`"
)


def inner_name(path: str) -> str:
    """Return the name of a file without folders and an ending such as `.gz`; it may tell the format and language."""
    name = os.path.basename(path)
    for ending in COMPRESSIONS:
        name = name.removesuffix(ending)
    return name


def ending_of(path: str) -> str | None:
    """Return the ending of a file name that tells the format of a document, or None; one such as `.gz` is ignored."""
    ending = PurePath(inner_name(path)).suffix.lower()
    return ending if ending in ENDINGS else None


def detect_non_text(head: bytes) -> ForeignFormat | None:
    """Return the kind of a file that begins with `head` and plainly is not plain text in UTF-8; None if it may be."""
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        what = _zip_kind(head)
        return ForeignFormat(what, _SAVE_ADVICE if what == _DOCUMENT else _IMPORTABLE)
    for signature, place, what, advice in _SIGNATURES:
        if head.startswith(signature, place):
            return ForeignFormat(what, advice)
    if encoding := utf16_encoding(head):
        return ForeignFormat(f"{encoding.removesuffix('-LE').removesuffix('-BE')} text", _IMPORTABLE)
    begins_xml = head[:64].lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<")
    kind = xml_format(head.decode("utf-8", errors="replace")) if begins_xml else None
    if kind == "TMX":
        return ForeignFormat("a TMX file", _IMPORTABLE)
    return ForeignFormat("an XLIFF file", advice_on(kind)) if kind == "XLIFF" else None


def detect_unsupported_text(head: bytes) -> ForeignFormat | None:
    """Return the kind of a file of unknown XML or subtitles, whose lines are not sentences; None for any other file.

    It is called after `detect_non_text`, which recognises other kinds.
    """
    text = head.decode("utf-8", errors="replace").lstrip("\ufeff \t\r\n")
    if _XML.match(text) and xml_format(text) is None:
        return ForeignFormat("an XML file", "write its texts into a file, one a line, or convert it to XLIFF")
    return _SUBTITLES if _OTHER_SUBTITLES.match(text) else None


def advice_on(kind: str) -> str:
    """Return the advice for the user on a file of this format, which is not plain text."""
    if kind not in _DOCUMENT_ENDINGS:
        return _UNKNOWN_ADVICE.get(kind, _IMPORTABLE)
    return (
        f"`nmt translate` translates it as a document if its name ends in {_DOCUMENT_ENDINGS[kind]} and -o is given; "
        f"to train on it, {_FOR_TRAINING[kind]}"
    )


def _zip_kind(head: bytes) -> str:
    """Return the kind of a zip archive, as far as the names of its first members tell it."""
    if b"opendocument.spreadsheet" in head or b"xl/" in head:
        return "a spreadsheet"
    return _DOCUMENT if any(name in head for name in _MEMBERS) else "a zip archive"


def utf16_encoding(head: bytes) -> str | None:
    """Return `UTF-16` or `UTF-32` if a byte order mark shows it, `UTF-16-LE` or `-BE` if zero bytes do, else None.

    A line of arbitrary bytes may begin like a mark. If it is a mark, a newline has a zero byte next to it.
    """
    if head.startswith((b"\xff\xfe\0\0", b"\0\0\xfe\xff")):
        return "UTF-32"
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "UTF-16" if b"\0" in head or (b"\n" not in head and len(head) % 2 == 0) else None
    if b"\0" not in head:
        return None
    for encoding, place in (("UTF-16-LE", 1), ("UTF-16-BE", 0)):
        high, low = head[place::2], head[1 - place :: 2]
        newlines = all(head[index ^ 1] == 0 for index in _offsets_of(head[: len(head) & ~1], b"\n"))
        if len(head) >= 16 and newlines and high.count(0) >= 0.4 * len(high) and low.count(0) <= 0.02 * len(low):
            return encoding
    return None


def _offsets_of(data: bytes, byte: bytes) -> list[int]:
    return [match.start() for match in re.finditer(re.escape(byte), data)]


_ROOT = re.compile(r"(?>\s*<\?.*?\?>|\s*<!DOCTYPE[^>\[]*+(?:\[.*?\]\s*)?>)*+\s*<(?:\w+:)?([A-Za-z]+)[\s>/]", re.S)
"""The name of the root of an XML document, after instructions and a declaration of its type."""


def xml_format(text: str) -> str | None:
    """Return `TMX`, `XLIFF` or `HTML` if the text begins as such a document does, else None."""
    begin = text.lstrip("\ufeff \t\r\n")
    if not begin.startswith("<"):
        return None
    bare = re.sub(r"<!--.*?(?:-->|\Z)", "", begin, flags=re.S)
    # Nothing in front of the root is read twice, or the time would double with each instruction.
    root = _ROOT.match(bare)
    if root is not None and root[1].lower() in ("tmx", "xliff"):
        return root[1].upper()
    if re.match(r"<!doctype\s+html|<html[\s>]", bare.lstrip(), re.I) or (root and root[1].lower() == "html"):
        return "HTML"
    doctype = re.search(r"<!DOCTYPE\s+(tmx|xliff)\b", bare, re.I)
    return doctype[1].upper() if doctype is not None else None


def text_format(text: str, name: str) -> str:
    """Return the format of a text by its beginning and its name; `text` if nothing shows another one."""
    name = name.lower()
    text = text.lstrip("\ufeff")
    if kind := xml_format(text):
        return kind
    if name.endswith((".html", ".htm", ".xhtml")) and re.search(r"</?[A-Za-z]", text):
        return "HTML"
    if text.startswith("WEBVTT"):
        return "VTT"
    if _CUE.search(text[:2000]):
        return "SRT"
    lines = [line for line in re.split(r"\r\n|\r|\n", text) if line.strip()]
    if name.endswith((".po", ".pot")) or sum(line.startswith(('msgid "', 'msgstr "')) for line in lines) >= 2:
        return "PO"
    if lines and _is_json_object(lines[0], is_whole=len(lines) > 1):
        return "JSON lines"
    if name.endswith((".tsv", ".tab")) or is_tsv(lines):
        return "TSV"
    return "CSV" if name.endswith(".csv") or is_csv(lines) else "text"


def other_format(text: str) -> ForeignFormat | None:
    """Return the kind of a text that begins like other XML or subtitles, which this package cannot read, or None."""
    begin = text.lstrip("\ufeff \t\r\n")
    if _MARKUP.match(begin):
        return ForeignFormat(
            "XML or SGML, but neither TMX nor XLIFF", "let the program that wrote it save it as such, or as a table"
        )
    return _SUBTITLES if _OTHER_SUBTITLES.match(begin) else None


def _is_json_object(line: str, *, is_whole: bool) -> bool:
    if not line.lstrip().startswith("{"):
        return False
    try:
        return isinstance(json.loads(line), dict)
    except RecursionError:
        return False
    except ValueError:
        return not is_whole and bool(re.match(r'\s*\{\s*"[^"]+"\s*:', line))


def json_objects(text: str) -> str | None:
    """Return the jq filter for the objects of an array, or for objects over several lines; None for any other text."""
    text = text.lstrip("\ufeff")
    if re.match(r"\s*\[\s*\{\s*\"", text):
        return ".[]"
    return "." if re.match(r'\s*\{[ \t]*[\r\n]\s*"(?:[^"\\]|\\.)*"[ \t]*:', text) else None


def is_tsv(lines: list[str]) -> bool:
    """Return whether nearly every line has a tab between two cells with letters."""
    lines = [line for line in lines if not line.startswith("#")]
    with_tab = sum("\t" in line and sum(map(_has_letter, line.split("\t"))) > 1 for line in lines)
    return with_tab > 0 and with_tab >= 0.9 * len(lines)


def _has_letter(cell: str) -> bool:
    return re.search(r"[^\W\d_]", cell) is not None


def is_csv(lines: list[str]) -> bool:
    """Return whether most lines are quoted cells with a comma or semicolon between, or the first line names columns."""
    begun = [line for line in lines if line.startswith('"')]
    quoted = sum(bool(re.fullmatch(r'"(?:[^"]|"")*"(?:[,;]"(?:[^"]|"")*")+', line)) for line in begun)
    if quoted >= 2 and quoted >= 0.8 * len(lines):
        return True
    header = re.split(r"[,;]", lines[0].lower().replace('"', "")) if len(lines) > 1 else []
    return len(header) > 1 and all(cell.strip() in HEADER_WORDS for cell in header)


def suspected_format(head: bytes, name: str) -> str | None:
    """Return the format, such as `TSV`, that a file taken for plain text seems to have; None if it seems to be text."""
    text = head.decode("utf-8", errors="replace")
    cut = text.rpartition("\n")[0] if len(head) >= HEAD_BYTES else text
    name = name.removesuffix(".gz").lower()
    kind = text_format(cut or text, name)
    if kind not in ("text", "JSON lines"):
        return kind
    return next((kind for ending, kind in _KINDS_BY_NAME.items() if name.endswith(ending)), None)


class MisreadLines(NamedTuple):
    """Lines that training would misread. `cause` is `CR` for CR line ends, `encoding` for bytes that are not UTF-8."""

    line: int
    """Number of the first of these lines, from 1."""
    cause: str


def misread_lines(head: bytes) -> MisreadLines | None:
    """Return the first line in `head` that training would misread, by CR line ends or another encoding, or None."""
    body = head.rstrip(b"\r\n")
    if b"\n" not in body and (b"\r" in body or head.endswith(b"\r")):
        return MisreadLines(1, "CR")
    lines = head.split(b"\n")
    invalid, num_valid = [], 0
    for number, line in enumerate(lines[:-1] if len(head) >= 16 * HEAD_BYTES else lines, start=1):
        if not line.isascii():
            try:
                line.decode("utf-8")
                num_valid += 1
            except UnicodeDecodeError:
                invalid.append(number)
    if len(invalid) >= max(3, 9 * num_valid) or (not num_valid and len(invalid) * 3 >= len(lines) and len(invalid) > 1):
        return MisreadLines(invalid[0], "encoding")
    return None
