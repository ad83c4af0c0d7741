"""A connection with a client: uvicorn's, with limits on the time that a client may take for each part of its share."""

from __future__ import annotations

import asyncio
import json
from typing import Any, ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from nmt_cli.serve.limits import Limits


class Connection(H11Protocol):
    """Reads requests and writes answers. uvicorn limits neither the time for headers nor that for taking an answer."""

    limits: ClassVar[Limits]
    _awaited: str = ""
    """The part of a request that is late when `_reading` rings."""
    _reading: asyncio.TimerHandle | None = None
    _writing: asyncio.TimerHandle | None = None
    """Rings when the client has taken too long for a piece of an answer."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        transport.set_write_buffer_limits(0)  # so that writing is paused while anything is unsent, also at the end
        if len(self.connections) > self.limits.connections:
            transport.write(_raw(503, "the server is busy; try again in a moment", "Retry-After: 1\r\n"))
            transport.close()
            return
        self._await("headers")

    def connection_lost(self, exc: Exception | None) -> None:
        self._await("")
        self._expect_room(False)
        super().connection_lost(exc)

    # Reading --------------------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._await_more()
        if self._is_idle() and self.timeout_keep_alive_task is None and not self.transport.is_closing():
            # The body of an answered request has ended; each part of it has stopped the timer of idle connections.
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._await_more()

    def _is_idle(self) -> bool:
        return self.cycle is not None and self.conn.their_state is h11.IDLE and not self.conn.trailing_data[0]

    def _await_more(self) -> None:
        """Limit the time for what the client has begun to send."""
        if self.transport.is_closing():
            return
        state = self.conn.their_state
        if state is h11.IDLE:
            self._await("" if self._is_idle() else "headers")
        elif state is h11.SEND_BODY and self.cycle.response_complete:  # before that, the application limits the time
            self._await("body")
        else:
            self._await("")

    def _await(self, part: str) -> None:
        if part == self._awaited:
            return
        if self._reading is not None:
            self._reading.cancel()
        self._awaited, self._reading = part, None
        if part:
            seconds = self.limits.header_seconds if part == "headers" else self.limits.body_seconds
            self._reading = self.loop.call_later(seconds, self._too_late)

    def _too_late(self) -> None:
        if self.transport.is_closing():
            return
        if self._awaited == "headers":  # else the request is answered already
            self.transport.write(_raw(408, "Invalid request: the headers took too long"))
        self.transport.close()

    def send_400_response(self, msg: str) -> None:
        self._await("")
        if self.cycle is None or self.cycle.response_complete:
            self.transport.write(_raw(400, f"Invalid request: {msg}"))
        self.transport.close()

    def _unsupported_upgrade_warning(self) -> None:
        pass

    # Writing --------------------------------------------------------------------------------------------------------

    def pause_writing(self) -> None:
        super().pause_writing()
        self._expect_room(True)

    def resume_writing(self) -> None:
        self._expect_room(False)
        super().resume_writing()

    def _expect_room(self, is_full: bool) -> None:
        if self._writing is not None:
            self._writing.cancel()
        self._writing = self.loop.call_later(self.limits.answer_seconds, self.transport.abort) if is_full else None


_REASONS = {400: "Bad Request", 408: "Request Timeout", 503: "Service Unavailable"}


def _raw(status: int, message: str, more: str = "") -> bytes:
    """Return a whole answer, for what never became a request."""
    body = json.dumps({"error": message})
    return (
        f"HTTP/1.1 {status} {_REASONS[status]}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n{more}\r\n{body}"
    ).encode()
