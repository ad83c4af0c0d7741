"""The socket of the server, and its connections."""

from __future__ import annotations

import asyncio
import resource
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from nmt_cli.errors import InputError
from nmt_cli.serve.limits import Limits
from nmt_cli.serve.running import bound_socket, connections_with_room, end_by_itself, serve_until_told


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_an_answer_does_not_wait_until_its_headers_are_acknowledged(host):
    """With Nagle's algorithm, small answers took 40 ms longer."""

    async def option_of_a_connection() -> int:
        found = asyncio.get_running_loop().create_future()

        async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            found.set_result(writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        listening = bound_socket(host, 0)
        async with await asyncio.start_server(answer, sock=listening):
            _, writer = await asyncio.open_connection(*listening.getsockname()[:2])
            option = await found
            writer.close()
            await writer.wait_closed()
        return option

    assert asyncio.run(option_of_a_connection())


def test_an_address_of_another_machine_is_refused_with_the_option_that_names_it():
    with pytest.raises(InputError) as refused:
        bound_socket("192.0.2.1", 5000)  # for documentation only, so no machine has it
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
    assert connections_with_room(1_024) == connections
    assert found[-1] == (files, limits[1])


# Clients that take their time ----------------------------------------------------------------------------------------


def served(limits, app, client):
    """Serve an application to a client, who is given a connection; return what it returned.

    The server must end by itself while the connection is still open.
    """
    listening = bound_socket("127.0.0.1", 0)
    address, ended = listening.getsockname(), threading.Event()

    def ask():
        with socket.create_connection(address, timeout=20) as connection:
            try:
                return client(connection)
            finally:
                end_by_itself()
                assert ended.wait(20), "the server waits for its client"

    with ThreadPoolExecutor(1) as pool:
        asked = []
        serve_until_told(app, listening, limits, ready=lambda: asked.append(pool.submit(ask)), ending=lambda: None)
        ended.set()
        return asked[0].result()


async def large(scope, receive, send):
    """Answers with much more than the buffers of the system hold."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"30000000")]})
    for _ in range(30):
        await send({"type": "http.response.body", "body": bytes(1_000_000), "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def small(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


def test_a_client_that_does_not_take_its_answer_keeps_no_server_from_ending():
    def client(connection):
        connection.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        return connection.recv(10)

    assert served(Limits(answer_seconds=0.5), large, client) == b"HTTP/1.1 2"


def test_a_client_that_takes_its_answer_slowly_gets_all_of_it():
    def client(connection):
        connection.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        time.sleep(1)
        return sum(map(len, iter(lambda: connection.recv(1_000_000), b"")))

    assert served(Limits(answer_seconds=30), large, client) > 30_000_000


def test_the_body_of_a_request_that_is_answered_already_must_come_in_time():
    def client(connection):
        connection.settimeout(0.1)
        connection.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n")
        until = time.monotonic() + 20
        while time.monotonic() < until:
            try:
                if not connection.recv(100):
                    return True
                connection.sendall(b"x")
            except TimeoutError:
                connection.sendall(b"x")
            except ConnectionError:
                return True
        return False

    assert served(Limits(body_seconds=1), small, client)


def test_a_connection_goes_on_after_a_body_that_came_after_the_answer():
    def client(connection):
        connection.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n")
        first = connection.recv(1000)
        connection.sendall(b"abcGET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        return first + b"".join(iter(lambda: connection.recv(1000), b""))

    assert served(Limits(body_seconds=20), small, client).count(b"\r\n\r\nok") == 2
