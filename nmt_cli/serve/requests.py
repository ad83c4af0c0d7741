"""Reads the fields of a request, within limits: from JSON, a form, or the query of the URL."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Iterable, Mapping
from dataclasses import dataclass
from email.errors import MessageError
from email.header import decode_header, make_header
from typing import Any
from urllib.parse import parse_qsl, unquote_to_bytes

from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request

from nmt_cli.serve.limits import Budget, Limits
from nmt_cli.system.errors import InputError
from nmt_cli.translation.glossary import Entry, Glossary

FIELDS = frozenset(
    ("q", "source", "target", "format", "alternatives", "alignment", "prefix", "confidence", "glossary", "api_key")
)
"""Names of the fields that mean something."""
MAX_FIELDS = 1_000
MAX_VALUES = 100_000
"""Values that the JSON of a request may have. Each takes up to a hundred bytes of memory. A glossary has the most."""
MAX_CODE = 40
"""Most characters that a language code in a request may have."""
_JSON_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
"""Matches a JSON string with its quotes, or all bytes from its opening quote if the closing one is missing, so that no
byte is read twice."""
_SURROGATE = re.compile("[\ud800-\udfff]")
_EXTENDED_FILE_NAME = re.compile(rb";\s*filename\*\s*=\s*\"?(utf-8|iso-8859-1)'[^';]*'([^\s;\"]*)\"?", re.IGNORECASE)
"""Matches a file name that is not ASCII as RFC 5987 writes it, such as `; filename*=utf-8''%C3%A9.txt`."""
_ENCODED_WORD = re.compile(r"=\?(?:utf-8|iso-8859-1)\?[bq]\?[^?\s]*\?=", re.IGNORECASE)
"""Matches text that is not ASCII as RFC 2047 writes it, such as `=?utf-8?B?w6k=?=`."""
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("", "0", "false", "no", "off", "none")


class RequestRefused(Exception):  # noqa: N818 (an answer)
    """A request is refused; the client gets the HTTP status, the message, and perhaps the seconds after which to ask
    again."""

    def __init__(self, status: int, message: str, *, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status, self.retry_after = status, retry_after


@dataclass(frozen=True, slots=True)
class File:
    """A file that was uploaded in a form."""

    name: str
    content: bytes


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of a request by name; unknown fields are ignored. The methods read a field and check its type."""

    values: Mapping[str, Any]
    files: Mapping[str, File]

    def text(self, name: str) -> str:
        """Return a required field as text.

        Raises:
            RequestRefused: it is missing or empty, or is no string.
        """
        value = self.values.get(name)
        if value is None or value == "":
            raise RequestRefused(400, f"Invalid request: missing {name} parameter")
        if not isinstance(value, str):
            raise RequestRefused(400, f"Invalid request: {name} parameter is not a string")
        return _SURROGATE.sub("\ufffd", value)

    def code(self, name: str) -> str:
        """Return a required field as the code of a language.

        Raises:
            RequestRefused: it is missing or empty, is no string, or is too long.
        """
        code = self.text(name)
        if len(code) > MAX_CODE:
            raise RequestRefused(400, f"{code[:MAX_CODE]} is not supported")
        return code

    def texts(self, name: str) -> list[str] | str:
        """Return a required field as a text or a list of texts.

        Raises:
            RequestRefused: it is missing or empty, or is neither of them.
        """
        value = self.values.get(name)
        if not isinstance(value, list):
            return self.text(name)
        if not value:
            raise RequestRefused(400, f"Invalid request: missing {name} parameter")
        if not all(isinstance(one, str) for one in value):
            raise RequestRefused(400, f"Invalid request: {name} parameter is a list with something else than strings")
        return [_SURROGATE.sub("\ufffd", one) for one in value]

    def number(self, name: str, *, most: int) -> int:
        """Return a field as a number from 0 to `most`; a missing field and a negative number are 0.

        Raises:
            RequestRefused: it is no number, or is too large.
        """
        value = self.values.get(name)
        if value in (None, "") or isinstance(value, bool):
            value = int(bool(value))
        if isinstance(value, float) and value.is_integer():  # as PHP and Lua write whole numbers
            value = int(value)
        try:
            number = max(0, int(str(value)[:20]))
        except ValueError:
            raise RequestRefused(400, f"Invalid request: {name} parameter is not a number") from None
        if number > most:
            raise RequestRefused(400, f"Invalid request: {name} parameter must be <= {most}")
        return number

    def flag(self, name: str) -> bool:
        """Return a field as a bool; a missing or empty field is False.

        Raises:
            RequestRefused: it is none of the usual words for true and false.
        """
        value = self.values.get(name)
        shown = "" if value is None else str(value).lower() if isinstance(value, str | bool | int) else "?"
        if shown not in (*_TRUE, *_FALSE):
            raise RequestRefused(400, f"Invalid request: {name} parameter must be true or false")
        return shown in _TRUE

    def glossary(self, name: str, *, most: int) -> Glossary | None:
        """Return a field as a glossary; None if it is missing.

        The field is a text with lines as in the file of `nmt translate --glossary`, or in JSON an object from terms to
        their translations. It may have `most` characters.

        Raises:
            RequestRefused: it is neither, has too many characters, or has a wrong entry, whose number the message
                names.
        """
        value = self.values.get(name)
        if not value:
            return None
        if not isinstance(value, str | dict):
            raise RequestRefused(
                400, f"Invalid request: {name} parameter must be lines of term, tab and translation, or terms"
            )
        parts = [value] if isinstance(value, str) else [str(part) for pair in value.items() for part in pair]
        if (size := sum(map(len, parts))) > most:
            raise RequestRefused(413, f"Invalid request: {name} ({size}) exceeds its limit ({most})")
        try:
            if isinstance(value, str):
                return Glossary.of_lines(name, value.encode("utf-8", "replace").split(b"\n"))
            return Glossary.of(
                name, [_entry(name, number, *item) for number, item in enumerate(value.items(), start=1)]
            )
        except InputError as error:
            raise RequestRefused(400, f"Invalid request: {error}") from None


def _entry(name: str, number: int, term: str, translation: Any) -> Entry:
    """Return an entry of a glossary that is a JSON object; `|` separates the forms of a translation."""
    given = _SURROGATE.sub("\ufffd", translation) if isinstance(translation, str) else ""
    forms = [" ".join(part.split()) for part in given.split("|")]
    term = " ".join(_SURROGATE.sub("\ufffd", term).split())
    if not term or not all(forms):
        raise InputError(f"{name}:{number}: the term {term!r} or a translation of it is empty, or is not a string")
    return Entry(term, tuple(dict.fromkeys(forms)), False, number)


def client_of(request: Request) -> str:
    """Return the IP address from which a request comes; `?` if it is not known."""
    return request.client.host if request.client else "?"


async def read_body(request: Request, limits: Limits, budget: Budget) -> bytes:
    """Return the body of a request, and store in `request.state.taken` how many bytes it has taken from the budget.

    Raises:
        RequestRefused: it is compressed (415), too large (413), not complete (400), comes too slowly (408), or there is
            no room for it now (503).
    """
    request.state.taken, client = 0, client_of(request)
    if (coding := request.headers.get("content-encoding", "").strip().lower()) not in ("", "identity"):
        raise RequestRefused(415, f"Invalid request: the body is compressed ({coding[:40]}); send it as it is")
    announced = request.headers.get("content-length", "0")
    if announced.isdecimal() and int(announced[:15]) > limits.body_bytes:
        raise RequestRefused(413, f"Invalid request: the body is larger than {limits.body_bytes:,} bytes")
    body = bytearray()
    try:
        async with asyncio.timeout(limits.body_seconds):
            while True:
                message = await request.receive()
                if message["type"] == "http.disconnect":
                    raise RequestRefused(400, "Invalid request: the body is not complete")
                chunk = message.get("body", b"")
                if not budget.take(len(chunk), client):
                    raise RequestRefused(503, "the server is busy; try again in a moment", retry_after=2)
                request.state.taken += len(chunk)
                body += chunk
                if len(body) > limits.body_bytes:
                    raise RequestRefused(413, f"Invalid request: the body is larger than {limits.body_bytes:,} bytes")
                if not message.get("more_body"):
                    return bytes(body)
    except TimeoutError:
        raise RequestRefused(408, f"Invalid request: the body took more than {limits.body_seconds:g} seconds") from None


def fields_of(request: Request, body: bytes, limits: Limits) -> Fields:
    """Return the fields of a request from its body and, unless the body is JSON, from the query of its URL.

    Reading a large body takes long, so the thread that answers other requests must not call this.

    Raises:
        RequestRefused: the body is not what its type says, or is larger than its texts may be.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "multipart/form-data" and len(body) > (most := limits.field_bytes):
        raise RequestRefused(413, f"Invalid request: the body is larger than {most:,} bytes; send a document as a file")
    if kind == "application/json" or kind.endswith("+json"):
        return Fields(_json(body), {})
    values = _parse_urlencoded(request.scope["query_string"].decode("latin-1"))
    if kind == "multipart/form-data":
        fields, files = asyncio.run(_multipart(request, body))
        return Fields(fields | values, files)
    if body.lstrip()[:1] == b"{":  # as curl sends JSON that nobody has announced
        raise RequestRefused(400, "Invalid request: JSON needs the header Content-Type: application/json")
    try:
        return Fields(_parse_urlencoded(body.decode("utf-8")) | values, {})
    except UnicodeDecodeError:
        raise RequestRefused(400, "Invalid request: the body is not UTF-8") from None


def _json(body: bytes) -> dict[str, Any]:
    if _has_many_values(body):
        raise RequestRefused(413, f"Invalid request: the body has more than {MAX_VALUES:,} values")
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise RequestRefused(400, f"Invalid JSON format: {_json_problem(body, error)}") from None
    if not isinstance(value, dict):
        raise RequestRefused(400, "Invalid JSON format: the body must be an object")
    return value


def _json_problem(body: bytes, error: ValueError | RecursionError) -> str:
    """Return what is wrong with a JSON text, and where, from the error of its parser."""
    if isinstance(error, json.JSONDecodeError):
        if not body.strip():
            return "the body is empty"
        return f"line {error.lineno}, column {error.colno}: {error.msg}"
    if isinstance(error, UnicodeDecodeError):
        return f"the body is not UTF-8 (byte {error.start + 1})"
    return "a number is too long" if isinstance(error, ValueError) else "its values are nested too deeply"


def _has_many_values(body: bytes) -> bool:
    """Return whether a JSON text has more than about `MAX_VALUES` values, without parsing it.

    Many values would need much memory. Commas within strings do not count.
    """
    quotes = body.count(b'"') - body.count(b'\\"')
    if quotes > 4 * MAX_VALUES:  # those of a name and a value
        return True
    shape = _JSON_STRING.sub(b"", body)
    return sum(map(shape.count, (b",", b"[", b"{"))) > MAX_VALUES


def _parse_urlencoded(text: str) -> dict[str, str]:
    try:
        found = parse_qsl(text, keep_blank_values=True, max_num_fields=MAX_FIELDS, errors="strict")
    except UnicodeDecodeError:
        raise RequestRefused(400, "Invalid request: the fields are not UTF-8") from None
    except ValueError:
        raise RequestRefused(400, f"Invalid request: more than {MAX_FIELDS:,} fields") from None
    return _single_values(found)


def _single_values(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the value of each field from pairs (name, value).

    Raises:
        RequestRefused: a field is given twice, so one of its values would be lost.
    """
    values: dict[str, str] = {}
    for name, value in pairs:
        if name in FIELDS and name in values:
            advice = "send a list of texts as JSON" if name == "q" else "send it once"
            raise RequestRefused(400, f"Invalid request: {name} parameter is given twice; {advice}")
        values.setdefault(name, value)
    return values


async def _multipart(request: Request, body: bytes) -> tuple[dict[str, str], dict[str, File]]:
    async def stream() -> AsyncGenerator[bytes, None]:
        yield body

    try:
        parser = _FormParser(
            request.headers, stream(), max_files=1, max_fields=MAX_FIELDS, max_part_size=max(1, len(body))
        )
        parser.spool_max_size = max(1, len(body))  # nothing goes to the disk, for which it would need threads
        form = await parser.parse()
    except (MultiPartException, KeyError, ValueError, LookupError, AssertionError):
        raise RequestRefused(400, "Invalid request: the form is damaged, or has more than one file") from None
    texts: list[tuple[str, str]] = []
    files: dict[str, File] = {}
    try:
        for name, value in form.multi_items():
            if isinstance(value, UploadFile):
                files[name] = File(_decode_words(value.filename or ""), await value.read())
            else:
                texts.append((name, value))
    finally:
        await form.close()
    return _single_values(texts), files


class _FormParser(MultiPartParser):
    """Reads a form, and refuses text that Starlette would read wrongly without a word."""

    def on_headers_finished(self) -> None:
        """Begin a part: a text, or a file, whose name may be in the parameter `filename*`."""
        part = self._current_part
        coding = dict(part.item_headers).get(b"content-transfer-encoding", b"binary").strip().lower().decode("latin-1")
        if coding not in ("7bit", "8bit", "binary"):
            raise RequestRefused(
                400, f"Invalid request: a part of the form is encoded ({coding[:40]}); send its bytes as they are"
            )
        given = part.content_disposition or b""
        if extended := _EXTENDED_FILE_NAME.search(given):
            name = unquote_to_bytes(extended[2]).decode(extended[1].decode("latin-1"), "replace").encode()
            # Of two names the last counts.
            part.content_disposition = b'%s; filename="%s"' % (
                given[: extended.start()] + given[extended.end() :], re.sub(rb'["\\\r\n]', b"_", name)
            )  # fmt: skip
        super().on_headers_finished()

    def on_part_end(self) -> None:
        """End a part; the text of a field must be in the encoding of the form, which is UTF-8 unless it says another.

        Raises:
            RequestRefused: a text is not.
        """
        part = self._current_part
        try:
            if part.file is None:
                part.data.decode(self._charset)
        except UnicodeDecodeError:
            raise RequestRefused(400, f"Invalid request: {part.field_name[:40]} parameter is not UTF-8") from None
        super().on_part_end()


def _decode_words(name: str) -> str:
    """Return the name of a file with its words of RFC 2047 decoded; it stays as it is if they are wrong."""
    try:
        return _ENCODED_WORD.sub(lambda word: str(make_header(decode_header(word[0]))), name)
    except (MessageError, ValueError):
        return name
