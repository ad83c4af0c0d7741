"""An HTTP connection with a client: answers one request after the other, limits the time that the client may take for
each step, and closes without losing an answer."""

from __future__ import annotations

import asyncio
import json
import select
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from starlette.types import ASGIApp

from nmt_cli.serve.exchange import HIGH_WATER_BYTES, BadRequest, Exchange
from nmt_cli.serve.limits import Limits

READ_BYTES = 16_384
"""Bytes that are read from one connection before the others have their turn. They may be thousands of chunks."""
IDLE_SECONDS = 30.0
"""Seconds that a client may leave between two requests."""
PAUSE_SECONDS = 5.0
"""Seconds of silence from the client after which a connection is closed once its last answer is sent."""
LAST_PAUSE_SECONDS = 1.0
"""Replaces `PAUSE_SECONDS` while the server shuts down; then the connection is closed even if the client still
sends."""
ENDING_BODY_SECONDS = 5.0
"""Seconds in which a client must send the rest of its request once the server shuts down."""
PROBE_SECONDS = 0.5
"""Seconds between two checks whether a client that has closed its sending side is still there."""
PROBES_PER_MESSAGE = 10
"""Checks per message to a client that has closed its sending side: the first check sends one, and then every tenth."""
KEEPALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 6}
"""Options of TCP: seconds of silence before a probe, seconds between probes, and number of probes. So after 90 s of
silence the system finds out that the other machine has gone."""


@dataclass(slots=True)
class ServerState:
    """The state that all connections of a server share."""

    app: ASGIApp
    limits: Limits
    connections: set[Connection] = field(default_factory=set)
    tasks: set[asyncio.Task[None]] = field(default_factory=set)
    """Tasks that answer requests, including those of clients that have gone."""
    buffer: bytearray = field(default_factory=lambda: bytearray(READ_BYTES))
    """Buffer of all connections, with the bytes that were read last from any of them."""
    is_ending: bool = False

    def end(self) -> None:
        """Take no more requests; those that have begun are answered."""
        self.is_ending = True
        for connection in tuple(self.connections):
            connection.end()


class Connection(asyncio.BufferedProtocol):
    """Reads the requests of a connection and writes the answers."""

    _transport: asyncio.Transport
    _exchange: Exchange

    def __init__(self, serving: ServerState) -> None:
        self._serving, self._limits = serving, serving.limits
        self._next_request_bytes = bytearray()
        """Bytes received after the current request, which belong to the next ones."""
        self._awaited_part = ""
        """Part of a request that must come before the timer `_read_timer` ends: `headers`, `body`, `the next request`,
        or `rest` of the body while the server ends; empty if there is no time limit."""
        self._read_timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None
        """Timer that ends when the client has taken too long for a piece of an answer."""
        self._client_probe: _ClientProbe | None = None
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._is_paused = self._is_closing = self._has_received_eof = False
        self._num_discarded = 0
        """Number of bytes that came after the answer to their request, or after the last answer, and were
        discarded."""
        self.client: tuple[str, int] | None = None
        self.server: tuple[str, int] | None = None

    def connection_made(self, transport: Any) -> None:
        """Register a new connection and wait for its first request, or refuse it if there are too many connections."""
        self._transport = transport
        transport.set_write_buffer_limits(0)  # so that writing is paused while anything is unsent, also at the end
        self.client = _address(transport.get_extra_info("peername"))
        self.server = _address(transport.get_extra_info("sockname"))
        _keep_alive(transport.get_extra_info("socket"))
        self._exchange = Exchange(self._serving.app, self)
        self._serving.connections.add(self)
        number, most = len(self._serving.connections), self._limits.connections
        if number > 2 * most:  # so many more that nobody waits until they have read why
            transport.abort()
        elif number > most or self._serving.is_ending:
            self.write(_error_response(503, "the server is busy; try again in a moment", "Retry-After: 1\r\n"))
            self._close()
        else:
            self._set_read_timeout("headers")

    def connection_lost(self, _: Exception | None) -> None:
        """Stop all timers, and tell the application that nobody waits for the answer."""
        self._serving.connections.discard(self)
        self._is_closing = True
        self._has_room.set()
        for timer in (self._read_timer, self._write_timer):
            if timer is not None:
                timer.cancel()
        if self._client_probe is not None:
            self._client_probe.end()
        self._exchange.disconnect()

    def end(self) -> None:
        """Close the connection because the server ends; if a request is being answered, close it after the answer.

        A request that has not come whole by then has `ENDING_BODY_SECONDS` to do so.
        """
        if self._is_closing:
            if self._has_room.is_set():
                self._linger(0.0, self._num_discarded)
        elif not self._exchange.has_begun or self._exchange.is_answered:
            self._transport.close()
        else:
            self.adjust()

    @property
    def is_ending(self) -> bool:
        """True once the server ends, so that no further request is answered on this connection."""
        return self._serving.is_ending

    # Reading --------------------------------------------------------------------------------------------------------

    def get_buffer(self, _: int) -> bytearray:
        """Return the buffer into which the next bytes are to be read."""
        return self._serving.buffer

    def buffer_updated(self, number: int) -> None:
        """Process the first `number` bytes of the buffer, which were just read from the client."""
        data = bytes(memoryview(self._serving.buffer)[:number])
        if self._is_closing or self._exchange.is_answered:
            self._num_discarded += len(data)
            if self._num_discarded > self._limits.discarded_bytes:
                self._transport.abort()
                return
        if self._is_closing:
            return
        if self._exchange.is_read:
            self._next_request_bytes += data
        else:
            self._feed(data)
        self.adjust()

    def eof_received(self) -> bool:
        """Continue with the answer, although the client has closed its side or, which looks the same, the whole
        connection.

        Returns:
            True if the connection stays open for writing.
        """
        if self._is_closing:
            return False
        if self._has_received_eof:
            return True
        self._has_received_eof = True
        if not self._exchange.is_read:
            self._feed(b"")
        self._client_probe = _ClientProbe(self._transport, lambda: self._exchange.probe_client())
        self.adjust()
        return True

    def _feed(self, data: bytes) -> None:
        exchange = self._exchange
        try:
            task = exchange.feed(data)
        except BadRequest as wrong:
            if exchange.has_begun_response:  # then the connection ends after the answer
                return
            exchange.disconnect()
            self.write(_error_response(wrong.status, str(wrong)))
            self._close()
            return
        if task is not None:
            self._serving.tasks.add(task)
            task.add_done_callback(self._serving.tasks.discard)
        if not data and not exchange.has_begun:
            self._transport.close()

    def adjust(self) -> None:
        """Begin with the next request if the present one is done; set the time limit for the next bytes, and read
        only while there is room for them."""
        if self._is_closing or self._transport.is_closing():
            return
        exchange = self._exchange
        if exchange.is_answered:
            if exchange.must_be_last or self.is_ending:
                self._close()
            elif exchange.is_read:
                exchange = self._begin_next_exchange()
        if self._is_closing or self._transport.is_closing():
            return
        if not exchange.has_begun:
            self._set_read_timeout(
                "the next request" if exchange.is_empty and self._awaited_part != "headers" else "headers"
            )
        elif exchange.is_answered:
            self._set_read_timeout("body")
        else:  # before the answer, the application limits the time
            self._set_read_timeout("rest" if self.is_ending and not exchange.is_read else "")
        self._pause_reading(exchange.is_full or len(self._next_request_bytes) > HIGH_WATER_BYTES)

    def _begin_next_exchange(self) -> Exchange:
        """Return a new exchange for the next request, given the bytes of that request that have already come."""
        ahead = self._exchange.trailing_data() + self._next_request_bytes
        self._exchange, self._next_request_bytes, self._num_discarded = (
            Exchange(self._serving.app, self),
            bytearray(),
            0,
        )
        if ahead:
            self._feed(ahead)
        if self._has_received_eof and not self._exchange.is_read:
            self._feed(b"")
        return self._exchange

    def _pause_reading(self, is_full: bool) -> None:
        if is_full == self._is_paused or self._has_received_eof:
            return
        self._is_paused = is_full
        if is_full:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def _set_read_timeout(self, part: str) -> None:
        if part == self._awaited_part:
            return
        if self._read_timer is not None:
            self._read_timer.cancel()
        self._awaited_part, self._read_timer = part, None
        if part:
            limits = self._limits
            late = {
                "headers": limits.header_seconds,
                "the next request": IDLE_SECONDS,
                "body": limits.body_seconds,
                "rest": ENDING_BODY_SECONDS,
            }
            self._read_timer = asyncio.get_running_loop().call_later(late[part], self._on_read_timeout)

    def _on_read_timeout(self) -> None:
        if self._awaited_part == "headers":
            self.write(_error_response(408, "Invalid request: the headers took too long"))
            self._close()
        elif self._awaited_part == "the next request":
            self._transport.close()
        elif self._awaited_part == "rest" and not self._exchange.has_begun_response:
            self._exchange.disconnect()
            self.write(_error_response(503, "the server is ending; try again in a moment", "Retry-After: 1\r\n"))
            self._close()
        else:
            self._transport.abort()

    # The end --------------------------------------------------------------------------------------------------------

    def _close(self) -> None:
        """Send the end of the last answer, and throw away what the client still sends, within limits.

        If the connection were closed at once while bytes of the client are unread, the client's system would throw away
        the answer. A client that writes its whole body before it reads would never see why it was refused.
        """
        if self._is_closing:
            return
        self._is_closing = True
        self._set_read_timeout("")
        if self._has_received_eof:
            self._transport.close()
            return
        self._pause_reading(False)
        if self._has_room.is_set():
            self._send_end()

    def _send_end(self) -> None:
        if self._transport.is_closing():
            return
        try:
            self._transport.write_eof()
        except OSError:  # the client has gone
            self._transport.abort()
            return
        self._linger(asyncio.get_running_loop().time() + self._limits.body_seconds, self._num_discarded)

    def _linger(self, until: float, num_discarded: int) -> None:
        """Close the connection after a pause; wait for further pauses while the client goes on sending, at most until
        `until`.

        `until` is a time of the event loop, and `num_discarded` the number of the client's bytes that have been
        discarded so far.
        """
        seconds = LAST_PAUSE_SECONDS if self.is_ending else PAUSE_SECONDS
        if self._read_timer is not None:
            self._read_timer.cancel()
        self._read_timer = asyncio.get_running_loop().call_later(seconds, self._check_linger, until, num_discarded)

    def _check_linger(self, until: float, num_discarded: int) -> None:
        if self._num_discarded == num_discarded or self.is_ending or asyncio.get_running_loop().time() >= until:
            self._transport.abort()
        else:
            self._linger(until, self._num_discarded)

    def abort(self) -> None:
        """Close the connection at once; bytes that are not sent yet are lost."""
        self._transport.abort()

    # Writing --------------------------------------------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        """Send bytes; do nothing if the connection is broken, which the exchange may not know yet."""
        if not self._transport.is_closing():
            self._transport.write(data)

    async def drain(self) -> None:
        """Wait until the client has taken all that was sent, or has gone."""
        await self._has_room.wait()

    def pause_writing(self) -> None:
        """Limit the time in which the client must take the bytes that are not sent yet."""
        self._has_room.clear()
        loop = asyncio.get_running_loop()
        self._write_timer = loop.call_later(self._limits.answer_seconds, self._transport.abort)

    def resume_writing(self) -> None:
        """Let the application write again, and end the time limit: the client has taken all bytes."""
        if self._write_timer is not None:
            self._write_timer.cancel()
        self._has_room.set()
        if self._is_closing and not self._has_received_eof:
            asyncio.get_running_loop().call_soon(self._send_end)  # the transport is still busy with its buffer


class _ClientProbe:
    """Checks regularly whether a client that has closed its sending side is still there; if not, breaks off.

    The client's system says that nobody is there only when it gets a message for a program that has closed the
    connection.
    """

    def __init__(self, transport: asyncio.Transport, ask: Callable[[], None]) -> None:
        self._transport, self._ask, self._number = transport, ask, 0
        self._timer = asyncio.get_running_loop().call_later(PROBE_SECONDS, self._check_client)

    def end(self) -> None:
        """End the checks."""
        self._timer.cancel()

    def _check_client(self) -> None:
        if self._transport.is_closing():
            return
        if _is_broken(self._transport.get_extra_info("socket")):
            self._transport.abort()
            return
        if self._number % PROBES_PER_MESSAGE == 0:
            self._ask()
        self._number += 1
        self._timer = asyncio.get_running_loop().call_later(PROBE_SECONDS, self._check_client)


def _address(found: Any) -> tuple[str, int] | None:
    return (str(found[0]), int(found[1])) if isinstance(found, tuple) else None


def _keep_alive(sock: socket.socket) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEPALIVE.items():
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _is_broken(sock: socket.socket) -> bool:
    """Return whether both directions of a connection are closed, or the client's system has said that nobody is
    there."""
    poll = select.poll()
    poll.register(sock.fileno(), 0)
    return bool(poll.poll(0))


def _error_response(status: int, message: str, more: str = "") -> bytes:
    """Return a whole answer with an error, for bytes that never became a request; `more` holds further lines of
    headers."""
    body = json.dumps({"error": message})
    return (
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n{more}\r\n{body}"
    ).encode()
