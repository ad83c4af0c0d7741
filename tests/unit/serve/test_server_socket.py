"""The socket of the server."""

from __future__ import annotations

import asyncio
import resource
import signal
import socket
import threading
import time

import pytest

from nmt_cli.serve.limits import Limits
from nmt_cli.serve.server import bind_socket, raise_file_limit, serve_until_signal, terminate_self
from nmt_cli.system.errors import InputError


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_an_answer_does_not_wait_until_its_headers_are_acknowledged(host):
    """With Nagle's algorithm, small answers took 40 ms longer."""

    async def option_of_a_connection() -> int:
        found = asyncio.get_running_loop().create_future()

        async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            found.set_result(writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        listening = bind_socket(host, 0)
        async with await asyncio.start_server(answer, sock=listening):
            _, writer = await asyncio.open_connection(*listening.getsockname()[:2])
            option = await found
            writer.close()
            await writer.wait_closed()
        return option

    assert asyncio.run(option_of_a_connection())


def test_an_address_of_another_machine_is_refused_with_the_option_that_names_it():
    with pytest.raises(InputError) as refused:
        bind_socket("192.0.2.1", 5000)  # for documentation only, so no machine has it
    message = "192.0.2.1:5000: cannot listen there: cannot assign requested address; choose another --host"
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("limits", "connections", "files"),
    [((1_024, 524_288), 1_024, 8_192), ((1_024, 4_096), 512, 4_096), ((256, -1), 1_024, 8_192),
     ((20_000, 20_000), 1_024, 20_000), ((-1, -1), 1_024, -1)],
)  # fmt: skip
def test_connections_have_room_in_the_open_files_of_the_system(monkeypatch, limits, connections, files):
    found = [limits]
    monkeypatch.setattr(resource, "getrlimit", lambda _: found[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda _, changed: found.append(changed))
    assert raise_file_limit(1_024) == connections
    assert found[-1] == (files, limits[1])


def test_a_signal_that_does_not_wake_the_loop_ends_the_server():
    """As one does that comes just before the loop waits: a server without requests went on for ever.

    Another thread gets the signal here, while the one that must answer it is asleep.
    """

    def tell():
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        time.sleep(0.2)
        terminate_self()

    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        telling = threading.Thread(target=tell)
        with bind_socket("127.0.0.1", 0) as listening:
            assert serve_until_signal(None, listening, Limits(), on_ready=telling.start) == signal.SIGTERM
        telling.join()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
