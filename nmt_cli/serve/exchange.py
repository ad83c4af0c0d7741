"""A request and its answer: an ASGI application on one side, the bytes of HTTP/1.1 on the other. Only this module
uses h11."""

from __future__ import annotations

import asyncio
import re
from collections.abc import MutableMapping
from email.utils import formatdate
from http import HTTPStatus
from typing import Any, Protocol
from urllib.parse import unquote

import h11
from starlette.types import ASGIApp, Message

HEADER_BYTES = 65_536
"""Largest size of the headers of a request."""
HIGH_WATER_BYTES = 65_536
"""Bytes of a request's body that may wait until the application takes them; while more wait, no others are read."""
MAX_CHUNKS, BYTES_PER_CHUNK = 10_000, 256
"""A body may have `MAX_CHUNKS` chunks of any size, and another one for each `BYTES_PER_CHUNK` bytes. Each chunk
takes processor time."""
WRONG_HEADERS = "this is not a request of HTTP/1.1"
LONG_HEADERS = f"its headers are longer than {HEADER_BYTES:,} bytes"
IS_TLS = "this is HTTPS, but the server understands only HTTP; put a proxy in front of it"
WRONG_BODY = "the body does not have the chunks that HTTP/1.1 asks for"
MAX_PROBLEM = 200
"""Characters of the reason that h11 gives; it may contain a whole line of the request."""
_NOT_ASCII = re.compile(rb"[\x80-\xff]")
"""Matches a byte that an address may have only as `%` and its number, but which curl sends as it is."""
_BYTES_OF_H11 = re.compile(r"bytearray\(b(.*)\)", re.DOTALL)
INCOMPLETE_REQUEST = "the request is not complete"


class BadRequest(Exception):  # noqa: N818 (an answer)
    """A client has sent bytes that are no request of HTTP; the client gets the status and the message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class ConnectionProtocol(Protocol):
    """The interface of a connection that an exchange uses."""

    client: tuple[str, int] | None
    server: tuple[str, int] | None

    @property
    def is_ending(self) -> bool:
        """True once the server ends, so that no further request is answered on the connection."""
        ...

    def write(self, data: bytes) -> None:
        """Send bytes to the client."""
        ...

    async def drain(self) -> None:
        """Wait until the client has taken all bytes that were sent, or has gone."""
        ...

    def adjust(self) -> None:
        """Set the time limit for the next bytes, and read only while there is room for them; begin the next request
        if this one is done. An exchange calls this whenever it has made progress."""
        ...

    def abort(self) -> None:
        """Close the connection at once; bytes that are not sent yet are lost."""
        ...


class Exchange:
    """An HTTP request and its answer, which is written to the connection as the ASGI application sends it.

    Each exchange has a parser of its own. It is fed until the request is complete, and never with bytes of the next
    request, because h11 takes these for an error in some states.
    """

    def __init__(self, app: ASGIApp, connection: ConnectionProtocol) -> None:
        self._app, self._connection = app, connection
        self._http = h11.Connection(h11.SERVER, HEADER_BYTES)
        self._scope: MutableMapping[str, Any] = {}
        self._body = bytearray()
        self._head = b""
        """The status line and headers of the answer, which are sent with the first piece of its body."""
        self._state_changed = asyncio.Event()
        self._has_delivered_body = self._is_wrong = False
        self._chunks = self._bytes = 0
        self.is_empty = True
        """True until the first byte of the request has come."""
        self._is_in_first_line = False
        """True while the line with the method and the address is not complete."""
        self.is_read = False
        """True if the request is complete, or if no more bytes of it will be read."""
        self.is_answered = False
        self.is_disconnected = False
        """True if the client has gone, so that nobody waits for the answer."""

    # The request ----------------------------------------------------------------------------------------------------

    def feed(self, data: bytes) -> asyncio.Task[None] | None:
        """Process bytes of the request; empty `data` means that the client has closed its sending side.

        Return the task that answers the request if these bytes complete the headers, otherwise None.

        Raises:
            BadRequest: the bytes are no request of HTTP, or the request is cut off.
        """
        if data and self.is_empty:
            data = data.lstrip(b"\r\n")  # some clients send an empty line after a body
            if not data:
                return None
            self.is_empty, self._is_in_first_line = False, True
        if self._is_in_first_line:
            line, end, rest = data.partition(b"\n")
            self._is_in_first_line = not end
            data = _NOT_ASCII.sub(lambda byte: b"%%%02X" % ord(byte[0]), line) + end + rest
        task = None
        try:
            self._http.receive_data(data)
            while not self.is_read:
                event = self._http.next_event()
                if isinstance(event, h11.Request):
                    task = self._begin(event)
                elif isinstance(event, h11.Data):
                    self._take(event)
                elif isinstance(event, h11.EndOfMessage):
                    self.is_read = True
                else:
                    break
        except h11.RemoteProtocolError as error:
            self.is_read = self._is_wrong = True
            wrong = (
                INCOMPLETE_REQUEST if not data else WRONG_BODY if self.has_begun else _problem_of_headers(data, error)
            )
            raise BadRequest(error.error_status_hint, f"Invalid request: {wrong}") from None
        finally:
            self._state_changed.set()
        return task

    def _begin(self, request: h11.Request) -> asyncio.Task[None]:
        target = request.target.decode("ascii")
        if target.startswith(("http://", "https://")):  # as it is sent to a proxy
            target = "/" + target.split("/", maxsplit=3)[3] if target.count("/") > 2 else "/"
        path, _, query = target.partition("?")
        self._scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": request.http_version.decode("ascii"),
            "server": self._connection.server,
            "client": self._connection.client,
            "scheme": "http",
            "method": request.method.decode("ascii"),
            "root_path": "",
            "path": unquote(path),
            "raw_path": path.encode("ascii"),
            "query_string": query.encode("ascii"),
            "headers": [(name.lower(), value) for name, value in request.headers],
        }
        return asyncio.get_running_loop().create_task(self._run())

    def _take(self, event: h11.Data) -> None:
        self._chunks += event.chunk_end
        self._bytes += len(event.data)
        if self._chunks > MAX_CHUNKS + self._bytes // BYTES_PER_CHUNK:
            raise h11.RemoteProtocolError("too many chunks")
        if not self.is_answered:
            self._body += event.data

    @property
    def has_begun(self) -> bool:
        """True once the headers of the request have come."""
        return bool(self._scope)

    @property
    def is_full(self) -> bool:
        """True if more than `HIGH_WATER_BYTES` bytes of the body wait until the application takes them."""
        return len(self._body) > HIGH_WATER_BYTES and not self.is_answered

    @property
    def must_be_last(self) -> bool:
        """True if this must be the last request of the connection, because HTTP allows no other after it."""
        ours, theirs = self._http.our_state, self._http.their_state
        return self._is_wrong or ours is not h11.DONE or theirs not in (h11.SEND_BODY, h11.DONE)

    def trailing_data(self) -> bytes:
        """Return the bytes fed to this exchange that came after its request, and so belong to the next one."""
        return self._http.trailing_data[0]

    def disconnect(self) -> None:
        """Tell the application that the client has gone. Whatever it still sends is discarded."""
        self.is_disconnected = True
        self._state_changed.set()

    # The application ------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        try:
            await self._app(self._scope, self._receive, self._send)
        finally:
            if not self.is_answered and not self.is_disconnected:
                self._connection.abort()

    async def _receive(self) -> Message:
        if self._http.they_are_waiting_for_100_continue and not self.is_disconnected:
            self._send_on(h11.InformationalResponse(status_code=100, headers=[], reason=b"Continue"))
        while True:
            if self.is_disconnected or self.is_answered:
                return {"type": "http.disconnect"}
            if self._body or (self.is_read and not self._has_delivered_body):
                body, self._body = bytes(self._body), bytearray()
                self._has_delivered_body = self.is_read
                self._connection.adjust()
                return {"type": "http.request", "body": body, "more_body": not self.is_read}
            self._state_changed.clear()
            await self._state_changed.wait()

    async def _send(self, message: Message) -> None:
        await self._connection.drain()
        if self.is_disconnected:
            return
        if message["type"] == "http.response.start":
            self._head = self._http.send(self._response(message["status"], list(message.get("headers", [])))) or b""
            return
        data = h11.Data(b"" if self._scope["method"] == "HEAD" else message.get("body", b""))
        more = message.get("more_body", False)
        events = [data] if more else [data, h11.EndOfMessage()]
        self._connection.write(self._head + b"".join(self._http.send(event) or b"" for event in events))
        self._head = b""
        if not more:
            self.is_answered = True
            self._body = bytearray()
            self._state_changed.set()
            self._connection.adjust()

    def _response(self, status: int, headers: list[tuple[bytes, bytes]]) -> h11.Response:
        # A client that waits for 100 may or may not send its body after this answer, so the next bytes could be either.
        if self._http.they_are_waiting_for_100_continue or self._connection.is_ending:
            headers.append((b"connection", b"close"))
        headers.insert(0, (b"date", formatdate(usegmt=True).encode("ascii")))
        return h11.Response(status_code=status, headers=headers, reason=HTTPStatus(status).phrase.encode("ascii"))

    def _send_on(self, event: h11.Event) -> None:
        self._connection.write(self._http.send(event) or b"")

    @property
    def has_begun_response(self) -> bool:
        """True once the application has sent the status and the headers of its answer."""
        return self._http.our_state not in (h11.IDLE, h11.SEND_RESPONSE)

    def probe_client(self) -> None:
        """Send 100 (Continue) if the answer has not begun, to find out whether the client is still there.

        Clients skip it, any number of times (RFC 9110, 15.2). The system of a client that has gone answers that nobody
        is there. 102 would be the better status, but Python's http.client takes it for the answer.
        """
        if self.has_begun and not self.has_begun_response and (self._http.their_http_version or b"") >= b"1.1":
            self._send_on(h11.InformationalResponse(status_code=100, headers=[], reason=b"Continue"))


def _problem_of_headers(data: bytes, error: h11.RemoteProtocolError) -> str:
    """Return why the headers of a request are refused; `data` are its last bytes."""
    if data.startswith(b"\x16"):  # the first byte of TLS, at which h11 fails already
        return IS_TLS
    if error.error_status_hint == HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE:
        return LONG_HEADERS
    reason = _BYTES_OF_H11.sub(r"\1", str(error))
    return f"{WRONG_HEADERS}: {reason[:MAX_PROBLEM]}"
