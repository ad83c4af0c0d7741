"""Connections of the server: what clients of any kind send, when, and how they leave."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import struct
import threading
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests

from nmt_cli.serve import connection as connection_module
from nmt_cli.serve.app import App
from nmt_cli.serve.exchange import MAX_CHUNKS
from nmt_cli.serve.limits import Limits
from nmt_cli.serve.metrics import Metrics
from nmt_cli.serve.server import bind_socket, serve_until_signal, terminate_self

GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
LAST = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
POST = b"POST /translate HTTP/1.1\r\nHost: a\r\n"


@pytest.fixture(autouse=True)
def quick_end(monkeypatch):
    monkeypatch.setattr(connection_module, "LAST_PAUSE_SECONDS", 0.05)


def served_at(limits, app, client):
    """Serve an application to a client, who is told the port; return what it returned."""
    listening = bind_socket("127.0.0.1", 0)
    port, ended = listening.getsockname()[1], threading.Event()

    def ask():
        try:
            return client(port)
        finally:
            terminate_self()
            assert ended.wait(20), "the server waits for its client"

    with ThreadPoolExecutor(1) as pool:
        asked = []
        serve_until_signal(app, listening, limits, on_ready=lambda: asked.append(pool.submit(ask)))
        ended.set()
        return asked[0].result()


def served(limits, app, client):
    """Serve an application to a client, who is given a connection; return what it returned.

    The server must end by itself while the connection is still open.
    """
    connections = []

    def ask(port):
        connections.append(socket.create_connection(("127.0.0.1", port), timeout=20))
        return client(connections[0])

    try:
        return served_at(limits, app, ask)
    finally:
        connections[0].close()


def rest_of(connection):
    """Return all that comes until the server ends the connection in order."""
    return b"".join(iter(lambda: connection.recv(1_000_000), b""))


def answer_to(data, *, closes=False):
    """Return a client that sends bytes, closes its writing side if told so, and returns the whole answer."""

    def client(connection):
        connection.sendall(data)
        if closes:
            connection.shutdown(socket.SHUT_WR)
        return rest_of(connection)

    return client


async def large(scope, receive, send):
    """Answers with much more than the buffers of the system hold."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"30000000")]})
    for _ in range(30):
        await send({"type": "http.response.body", "body": bytes(1_000_000), "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def small(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


async def echo(scope, receive, send):
    """Answers with the path and the body."""
    body, more = scope["path"].encode(), True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        body, more = body + message["body"], message["more_body"]
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


class Waiting:
    """An application that answers when it may, and knows whether its client has left."""

    def __init__(self, *, seconds=0.0):
        self.has_begun, self.is_left = threading.Event(), threading.Event()
        self._seconds = seconds

    async def __call__(self, scope, receive, send):
        await receive()
        self.has_begun.set()
        leaving = asyncio.ensure_future(receive())
        await asyncio.wait([leaving], timeout=self._seconds or None)
        if leaving.done():
            self.is_left.set()
        leaving.cancel()
        await small(scope, receive, send)


class Stub:
    """A service without models."""

    def __init__(self, limits):
        self.limits, self.metrics = limits, Metrics()

    def task(self, fields, cancellation):
        return fields

    def translate(self, task, cancellation):
        return {"translatedText": task.text("q")}


def real(limits):
    return App(Stub(limits), None).asgi([])


# Bodies that are not wanted ------------------------------------------------------------------------------------------


def by_urllib(port, body):
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with pytest.raises(urllib.error.HTTPError) as refused:
        opener.open(f"http://127.0.0.1:{port}/translate", body, timeout=30)
    with refused.value:
        return refused.value.code, refused.value.read()


def by_http_client(port, body):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("POST", "/translate", body)
    answer = connection.getresponse()
    found = answer.status, answer.read()
    connection.close()
    return found


def by_http_client_in_chunks(port, body):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    parts = (body[start : start + 100_000] for start in range(0, len(body), 100_000))
    connection.request("POST", "/translate", parts, {"Transfer-Encoding": "chunked"}, encode_chunked=True)
    answer = connection.getresponse()
    found = answer.status, answer.read()
    connection.close()
    return found


def by_requests(port, body):
    with requests.Session() as session:
        session.trust_env = False
        answer = session.post(f"http://127.0.0.1:{port}/translate", data=body, timeout=30)
        return answer.status_code, answer.content


@pytest.mark.parametrize(
    ("client", "size"),
    [(by_urllib, 17_000_000), (by_urllib, 60_000_000), (by_http_client, 17_000_000), (by_requests, 60_000_000),
     (by_http_client_in_chunks, 17_000_000)],
)  # fmt: skip
def test_a_client_that_writes_all_before_it_reads_sees_why_its_body_is_refused(client, size):
    def several(port):
        with ThreadPoolExecutor(3) as pool:
            return list(pool.map(client, [port] * 3, [bytes(size)] * 3))

    limits = Limits(bytes_of_client=64_000_000)
    for status, body in served_at(limits, real(limits), several):
        assert status == 413
        assert json.loads(body) == {"error": "Invalid request: the body is larger than 16,000,000 bytes"}


def test_a_body_for_which_there_is_no_room_now_is_answered_too():
    limits = Limits(bytes_in_flight=1_000)
    status, body = served_at(limits, real(limits), lambda port: by_http_client(port, bytes(15_000_000)))
    assert (status, json.loads(body)) == (503, {"error": "the server is busy; try again in a moment"})


def test_who_asks_too_often_sees_why_though_the_body_is_not_read():
    limits = Limits(requests_per_minute=1)

    def several(port):
        return [by_http_client(port, bytes(size)) for size in (10, 15_000_000, 17_000_000)]

    (first, _), *others = served_at(limits, real(limits), several)
    assert first == 400
    for status, body in others:
        assert (status, json.loads(body)) == (429, {"error": "Slowdown: too many requests; try again later"})


def test_a_client_beyond_the_last_connection_sees_that_the_server_is_busy():
    def client(port):
        with socket.create_connection(("127.0.0.1", port)) as first:
            first.sendall(GET)
            assert first.recv(12) == b"HTTP/1.1 200"
            return by_http_client(port, bytes(1_000_000))

    status, body = served_at(Limits(connections=1), small, client)
    assert (status, json.loads(body)) == (503, {"error": "the server is busy; try again in a moment"})


def test_no_more_is_thrown_away_than_the_limit():
    def client(connection):
        connection.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 99000000\r\n\r\n")
        try:
            for _ in range(99):
                connection.sendall(bytes(1_000_000))
        except ConnectionError:
            return True
        return False

    assert served(Limits(discarded_bytes=2_000_000), small, client)


@pytest.mark.parametrize("close", [b"", b"Connection: close\r\n"])
def test_a_body_that_nobody_takes_is_read_no_further_until_the_answer(close):
    has_sent = threading.Event()

    async def app(scope, receive, send):
        assert await asyncio.to_thread(has_sent.wait, 20)
        await small(scope, receive, send)

    def client(connection):
        left = 40_000_000
        connection.sendall(b"POST / HTTP/1.1\r\nHost: a\r\n%sContent-Length: %d\r\n\r\n" % (close, left))
        connection.settimeout(0.3)
        with pytest.raises(TimeoutError):  # noqa: PT012 (as soon as the server and both systems take no more)
            while True:
                left -= connection.send(bytes(100_000))
        connection.settimeout(20)
        has_sent.set()
        connection.sendall(bytes(left))
        connection.sendall(b"" if close else LAST)
        return rest_of(connection)

    assert served(Limits(), app, client).count(b"\r\n\r\nok") == (1 if close else 2)


def test_wrong_chunks_after_the_answer_end_the_connection():
    flood = b"1\r\na\r\n" * (MAX_CHUNKS + 100)
    found = served(Limits(), small, answer_to(POST + b"Transfer-Encoding: chunked\r\n\r\n" + flood))
    assert found.count(b"HTTP/1.1 ") == 1
    assert found.endswith(b"\r\n\r\nok")


@pytest.mark.parametrize("close", [b"", b"Connection: close\r\n"])
def test_a_body_that_comes_after_the_answer_must_come_in_time(close, monkeypatch):
    monkeypatch.setattr(connection_module, "PAUSE_SECONDS", 0.5)

    def client(connection):
        connection.settimeout(0.1)
        connection.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n%sContent-Length: 1000000\r\n\r\n" % close)
        until, ends = time.monotonic() + 20, False
        while time.monotonic() < until:
            try:
                connection.sendall(b"x")
                time.sleep(0.01)
                ends = ends or not connection.recv(1000)
            except TimeoutError:
                pass
            except ConnectionError:
                return True
        return False

    assert served(Limits(body_seconds=1), small, client)


def test_a_client_that_only_keeps_an_ended_connection_open_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(connection_module, "PAUSE_SECONDS", 0.2)

    def client(connection):
        connection.sendall(LAST)
        assert rest_of(connection).endswith(b"ok")
        with pytest.raises(ConnectionError):  # noqa: PT012 (the first bytes after the end are still taken by the system)
            while True:
                connection.sendall(b"x")
                time.sleep(0.4)
        return True

    assert served(Limits(), small, client)


@pytest.mark.parametrize("is_late", [True, False])
def test_a_server_that_ends_waits_a_little_for_the_rest_of_a_request(is_late, monkeypatch):
    monkeypatch.setattr(connection_module, "ENDING_BODY_SECONDS", 0.3 if is_late else 20.0)

    def client(connection):
        connection.sendall(b"POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nab")
        time.sleep(0.2)
        terminate_self()
        if not is_late:
            time.sleep(0.2)
            connection.sendall(b"cd")
        return rest_of(connection)

    found = served(Limits(), echo, client)
    assert found.startswith(b"HTTP/1.1 503 Service Unavailable\r\n") == is_late
    assert found.endswith(b'{"error": "the server is ending; try again in a moment"}' if is_late else b"/bodyabcd")


def test_a_server_ends_although_a_client_still_sends_what_is_thrown_away():
    def client(connection):
        connection.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 99000000\r\n\r\n")
        connection.sendall(bytes(1_000_000))
        return rest_of(connection)

    assert served(Limits(), small, client).endswith(b"ok")


def test_a_connection_goes_on_after_a_body_that_came_after_the_answer():
    def client(connection):
        connection.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n")
        first = connection.recv(1000)
        connection.sendall(b"abc" + LAST)
        return first + rest_of(connection)

    assert served(Limits(body_seconds=20), small, client).count(b"\r\n\r\nok") == 2


def test_a_client_that_asks_first_is_told_to_send_its_body_or_why_not():
    def client(connection):
        connection.sendall(POST + b"Expect: 100-continue\r\nContent-Length: 18\r\n\r\n")
        assert connection.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(
            b"q=x&source=a&t=" + b"fff" + POST + b"Expect: 100-continue\r\nContent-Length: 17000000\r\n\r\n"
        )
        return rest_of(connection)

    found = served(Limits(), real(Limits()), client)
    assert b'{"translatedText":"x"}HTTP/1.1 413 ' in found
    assert b"100 Continue" not in found


def test_a_client_that_asks_first_and_is_answered_at_once_begins_a_new_connection():
    """Its next bytes may be the body or another request."""
    asked = answer_to(b"POST /x HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n")
    assert b"\r\nconnection: close\r\n" in served(Limits(), small, asked).lower()


# Bodies that are wrong -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "chunks",
    [b"zz\r\nabc", b"-1\r\n", b"5\r\nabcdefgh\r\n0\r\n\r\n", b"f" * 30 + b"\r\n", b"3\r\nabcxx0\r\n\r\n",
     b"1\r\na\r\n" * (MAX_CHUNKS + 100), b"0\r\nno trailer\r\n\r\n", b"1" * 100_000],
    ids=lambda chunks: chunks[:12].decode(),
)  # fmt: skip
@pytest.mark.parametrize("closes", [False, True])
def test_chunks_that_are_wrong_are_refused_in_json_and_the_connection_ends(chunks, closes):
    found = served(Limits(), echo, answer_to(POST + b"Transfer-Encoding: chunked\r\n\r\n" + chunks, closes=closes))
    head, _, body = found.partition(b"\r\n\r\n")
    assert head.split(b" ")[1] in (b"400", b"431")
    assert b"Connection: close" in head
    assert json.loads(body) == {"error": "Invalid request: the body does not have the chunks that HTTP/1.1 asks for"}


@pytest.mark.parametrize("size", [1, 2, 5, 1000])
def test_a_body_in_chunks_is_the_same_wherever_its_packets_are_cut(size):
    chunks = b"5\r\nabcde\r\n1;x=y\r\nf\r\nA\r\nghijklmnop\r\n0\r\nTrailer: x\r\n\r\n"
    data = POST.replace(b"POST", b"PUT") + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + LAST

    def client(connection):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for start in range(0, len(data), size):
            connection.sendall(data[start : start + size])
        return rest_of(connection)

    assert b"\r\n\r\n/translateabcdefghijklmnopHTTP/1.1 200 OK\r\n" in served(Limits(), echo, client)


@pytest.mark.parametrize("data", [POST + b"Content-Length: 9\r\n\r\nabc", POST, b"P",
                                  POST + b"Transfer-Encoding: chunked\r\n\r\n5\r\nab"])  # fmt: skip
def test_a_request_that_is_cut_off_is_told_so(data):
    found = served(Limits(), echo, answer_to(data, closes=True))
    assert found.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert json.loads(found.partition(b"\r\n\r\n")[2]) == {"error": "Invalid request: the request is not complete"}


@pytest.mark.parametrize(
    ("data", "status"),
    [(b"nonsense\r\n\r\n", 400), (b"GET / HTTP/1.1\r\n\r\n", 400), (b"GET /" + b"x" * 70_000, 431),
     (b"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", 501), (b"\x16\x03\x01\x02\x00\x01", 400)],
)  # fmt: skip
def test_what_is_no_request_is_refused_in_json(data, status):
    found = served(Limits(), small, answer_to(data, closes=True))
    assert found.startswith(b"HTTP/1.1 %d " % status)
    assert list(json.loads(found.partition(b"\r\n\r\n")[2])) == ["error"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "this is not a request of HTTP/1.1: Missing mandatory Host: header"),
        (POST + b"X-A : a\r\n\r\n", "this is not a request of HTTP/1.1: illegal header line: 'X-A : a'"),
        (POST + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n",
         "this is not a request of HTTP/1.1: conflicting Content-Length headers"),
        (b"\x16\x03\x01\x02\x00\x01\xff",
         "this is HTTPS, but the server understands only HTTP; put a proxy in front of it"),
        (b"GET /" + b"x" * 70_000, "its headers are longer than 65,536 bytes"),
    ],
)  # fmt: skip
def test_a_request_that_is_refused_is_told_why(data, message):
    found = served(Limits(), small, answer_to(data))
    assert json.loads(found.partition(b"\r\n\r\n")[2]) == {"error": f"Invalid request: {message}"}


@pytest.mark.parametrize("size", [1, 1000])
def test_an_address_may_be_utf_8(size):
    """As curl sends it."""

    async def app(scope, receive, send):
        await echo({**scope, "path": scope["path"] + "?" + scope["query_string"].decode()}, receive, send)

    data = "PUT /é?q=café HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nConnection: close\r\n\r\né".encode()

    def client(connection):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for start in range(0, len(data), size):
            connection.sendall(data[start : start + size])
        return rest_of(connection)

    assert served(Limits(), app, client).decode().endswith("\r\n\r\n/é?q=caf%C3%A9é")


# Clients that leave, or seem to --------------------------------------------------------------------------------------


def test_a_client_that_has_closed_its_writing_side_is_answered():
    data = POST + b"Content-Length: 4\r\n\r\nbody"
    assert served(Limits(), echo, answer_to(data, closes=True)).endswith(b"\r\n\r\n/translatebody")


def test_it_is_answered_too_when_the_answer_takes_long(monkeypatch):
    monkeypatch.setattr(connection_module, "PROBE_SECONDS", 0.01)
    monkeypatch.setattr(connection_module, "PROBES_PER_MESSAGE", 1)
    app = Waiting(seconds=1)
    found = served(Limits(), app, answer_to(GET, closes=True))
    assert found.startswith(b"HTTP/1.1 100 Continue\r\n\r\n" * 2)
    assert found.replace(b"HTTP/1.1 100 Continue\r\n\r\n", b"").startswith(b"HTTP/1.1 200 OK\r\n")
    assert not app.is_left.is_set()


def test_python_s_client_does_not_take_the_question_whether_it_is_there_for_the_answer(monkeypatch):
    monkeypatch.setattr(connection_module, "PROBE_SECONDS", 0.02)

    def client(port):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        connection.request("GET", "/")
        connection.sock.shutdown(socket.SHUT_WR)
        answer = connection.getresponse()
        found = answer.status, answer.read()
        connection.close()
        return found

    assert served_at(Limits(), Waiting(seconds=0.5), client) == (200, b"ok")


def test_a_client_of_http_1_0_gets_nothing_before_the_answer(monkeypatch):
    monkeypatch.setattr(connection_module, "PROBE_SECONDS", 0.02)
    found = served(Limits(), Waiting(seconds=0.5), answer_to(b"GET / HTTP/1.0\r\n\r\n", closes=True))
    assert found.startswith(b"HTTP/1.1 200 OK\r\n")


def close(connection):
    connection.close()


def reset(connection):
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def close_twice(connection):
    connection.shutdown(socket.SHUT_WR)
    time.sleep(0.2)
    connection.close()


@pytest.mark.parametrize("leave", [close, reset, close_twice])
@pytest.mark.parametrize("more", [b"", b"\r\n", LAST])
def test_the_work_for_a_client_that_leaves_is_cancelled(leave, more, monkeypatch):
    """The system of a client that has closed everything tells so only when it gets another message."""
    monkeypatch.setattr(connection_module, "PROBE_SECONDS", 0.05)
    monkeypatch.setattr(connection_module, "PROBES_PER_MESSAGE", 1_000_000)  # so there is one message
    app = Waiting()

    def client(connection):
        connection.sendall(GET + more)
        assert app.has_begun.wait(20)
        leave(connection)
        return app.is_left.wait(20)

    assert served(Limits(), app, client)


# One request after the other -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("closes", [False, True])
def test_requests_that_come_together_are_answered_in_their_order(closes):
    data = b"".join(
        b"POST /%d HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc\r\n" % number for number in range(99)
    )
    found = served(Limits(), echo, answer_to(data + (b"" if closes else LAST), closes=closes))
    bodies = [answer.partition(b"\r\n\r\n")[2] for answer in found.split(b"HTTP/1.1 200 OK")[1:]]
    assert bodies == [b"/%dabc" % number for number in range(99)] + ([] if closes else [b"/"])


def test_an_empty_line_after_a_body_is_no_request():
    """Some clients send it, and got no answer."""
    post = POST + b"Content-Length: 1\r\nConnection: close\r\n\r\nx\r\n"
    assert served(Limits(), echo, answer_to(post)).endswith(b"/translatex")


def test_a_request_as_it_is_sent_to_a_proxy_is_answered():
    asked = answer_to(b"GET http://a:1/b/c?d=http://e/ HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    assert served(Limits(), echo, asked).endswith(b"\r\n\r\n/b/c")


def test_an_answer_to_head_has_no_body():
    found = served(Limits(), small, answer_to(b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n" + LAST))
    assert found.count(b"content-length: 2") == 2
    assert found.count(b"\r\n\r\nok") == 1
    assert found.count(b"\r\ndate: ") == 2


# Clients that take their time ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("before", [b"", GET])
def test_headers_that_take_too_long_are_refused(before):
    found = served(Limits(header_seconds=1), small, answer_to(before + b"GET / HT"))
    assert found.partition(b"ok")[2 if before else 0].startswith(b"HTTP/1.1 408 Request Timeout\r\n")


def test_a_client_that_does_not_take_its_answer_keeps_no_server_from_ending():
    def client(connection):
        connection.sendall(GET)
        return connection.recv(10)

    assert served(Limits(answer_seconds=0.5), large, client) == b"HTTP/1.1 2"


def test_a_client_that_takes_its_answer_slowly_gets_all_of_it(monkeypatch):
    monkeypatch.setattr(connection_module, "PAUSE_SECONDS", 0.1)

    def client(connection):
        connection.sendall(LAST)
        time.sleep(1)
        return len(rest_of(connection))

    assert served(Limits(answer_seconds=30), large, client) > 30_000_000
