"""Runs the application on a socket until a signal ends it."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import signal
import socket
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import FrameType
from typing import Any

from starlette.types import ASGIApp

from nmt_cli.serve.connection import Connection, ServerState
from nmt_cli.serve.limits import Limits
from nmt_cli.serve.proxies import ProxyHeadersMiddleware
from nmt_cli.system.errors import InputError
from nmt_cli.system.signals import TERMINATION_SIGNALS, handle_signals

BACKLOG = 1024
TRUSTED_PROXIES = ("127.0.0.1", "::1")
SIGNAL_POLL_SECONDS = 0.05
"""Seconds between two checks whether a signal has come and, once it has, whether all requests are answered. Python
handles a signal between two steps of its own, so one that comes just before the loop waits for sockets does not end
this waiting."""
FILES_PER_CONNECTION = 8
"""Open files to allow for each connection. asyncio accepts all waiting connections several times before the first one
that is too many is closed."""


def resolve_address(host: str, port: int) -> tuple[int, int, int, Any]:
    """Return the family, kind, protocol and address of a socket that can listen at a host and a port.

    Raises:
        InputError: the host has no address.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except (OSError, UnicodeError) as error:
        raise InputError(f"--host {host}: there is no such address: {getattr(error, 'strerror', error)}") from None
    family, kind, protocol, _, address = found
    return family, kind, protocol, address


def bind_socket(host: str, port: int) -> socket.socket:
    """Return a socket that listens at an address.

    Raises:
        InputError: the address does not exist here, may not be used, or is in use.
    """
    family, kind, protocol, address = resolve_address(host, port)
    # With the protocol named, asyncio has each packet sent at once. Else the body of an answer waits until the client
    # has acknowledged its headers, for which clients take up to 40 ms.
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        sock.listen(BACKLOG)
    except (OSError, OverflowError) as error:
        sock.close()
        reason = getattr(error, "strerror", None) or str(error)
        # This machine has no such address; all other reasons lie with the port.
        option = "--host" if getattr(error, "errno", None) == errno.EADDRNOTAVAIL else "--port"
        raise InputError(f"{host}:{port}: cannot listen there: {reason.lower()}; choose another {option}") from None
    return sock


def serve_until_signal(
    app: ASGIApp, listening: socket.socket, limits: Limits, *, on_ready: Callable[[], None],
    on_shutdown: Callable[[], None] = lambda: None, proxies: Sequence[str] = (),
) -> int:  # fmt: skip
    """Answer requests until a signal comes; finish those that are being answered, and return the signal's number.

    `on_ready` is called when requests are answered, and `on_shutdown` when the first signal has come. `proxies` are
    addresses and networks of proxies that are trusted in addition to those on this machine.
    """
    connections = raise_file_limit(limits.connections)
    server = _Server(
        ServerState(ProxyHeadersMiddleware(app, (*TRUSTED_PROXIES, *proxies)), replace(limits, connections=connections))
    )
    asyncio.run(server.serve(listening, on_ready, on_shutdown))
    return server.received


def raise_file_limit(wanted: int) -> int:
    """Raise this process's limit of open files for `wanted` connections; return how many of them the limit allows."""
    files, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = FILES_PER_CONNECTION * wanted
    if 0 <= files < needed:  # a negative number is no limit
        files = min(needed, most) if most >= 0 else needed
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, most))
    return wanted if files < 0 else min(wanted, max(1, files // FILES_PER_CONNECTION))


def terminate_self() -> None:
    """Send this process SIGTERM, which ends its server, or another signal that does so if SIGTERM is ignored."""
    numbers = (signal.SIGTERM, *TERMINATION_SIGNALS)
    active = (number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN)
    os.kill(os.getpid(), next(active, signal.SIGKILL))


class _Server:
    """Answers requests until a signal comes, and keeps the signal's number in `received`."""

    def __init__(self, serving: ServerState) -> None:
        self._serving = serving
        self._is_forced = False
        self.received = 0

    async def serve(
        self, listening: socket.socket, on_ready: Callable[[], None], on_shutdown: Callable[[], None]
    ) -> None:
        """Answer requests until a signal comes, then finish those that have begun, unless Ctrl-C follows the signal.

        `on_ready` and `on_shutdown` are called as in `serve_until_signal`.
        """
        with handle_signals(self._handle_signal):
            server = await asyncio.get_running_loop().create_server(
                lambda: Connection(self._serving), sock=listening, backlog=self._serving.limits.connections
            )
            on_ready()
            while not self.received:
                await asyncio.sleep(SIGNAL_POLL_SECONDS)
            on_shutdown()
            server.close()
            self._serving.end()
            while (self._serving.connections or self._serving.tasks) and not self._is_forced:
                await asyncio.sleep(SIGNAL_POLL_SECONDS)

    def _handle_signal(self, number: int, _: FrameType | None) -> None:
        if self.received and number == signal.SIGINT:  # who insists does not wait for the requests
            self._is_forced = True
        self.received = self.received or number
