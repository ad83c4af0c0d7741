"""Whatever comes to the socket of `nmt serve`: it answers, says nothing of its inside, and goes on."""

from __future__ import annotations

import http.client
import json
import os
import random
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from serving import running_server

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
NAMES = st.sampled_from(["q", "source", "target", "format", "alternatives", "alignment", "api_key", "prefix"])
LIKELY = st.fixed_dictionaries(
    {"q": st.text(max_size=20) | st.lists(st.text(max_size=8), max_size=3), "source": st.sampled_from(["en", "auto"]),
     "target": st.just("fr"), "format": st.sampled_from(["text", "html"])}
)  # fmt: skip
PATHS = st.sampled_from(["/translate", "/detect", "/translate_file", "/", "/download_file/x", "/../x", "/%00", "*"])
KINDS = st.sampled_from(
    ["application/json", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "multipart/form-data",
     "text/plain", "application/json; charset=\udcff"]
)  # fmt: skip
BODIES = (
    st.binary(max_size=60)
    | st.dictionaries(NAMES, VALUES, max_size=5).map(lambda value: json.dumps(value).encode())
    | LIKELY.map(lambda value: json.dumps(value).encode())
    | st.sampled_from([b"[" * 9000, b'{"q": 1' + b"0" * 5000 + b"}", b'--x\r\nContent-Disposition: form-data; name="q"',
                       b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.html"\r\n\r\n<a <b\r\n--x--',
                       b"q=%FF%00&source=en&target=fr", b'{"q":"\\ud800","source":"en","target":"fr"}'])
)  # fmt: skip


@st.composite
def requests(draw):
    """Bytes that are mostly a request, with a length that is mostly right."""
    if draw(st.integers(0, 9)) == 0:
        return draw(st.binary(max_size=80))
    body = draw(BODIES)
    length = draw(st.just(str(len(body))) | st.sampled_from(["-1", "0", "7", "x", "99999999999999999999"]))
    method = draw(st.sampled_from(["POST"] * 6 + ["GET", "PUT", "X" * 50, "OPTIONS"]))
    head = f"{method} {draw(PATHS)} HTTP/1.1\r\nHost: a\r\nContent-Type: {draw(KINDS)}\r\nContent-Length: {length}\r\n"
    if draw(st.integers(0, 9)) == 0:
        head += "Transfer-Encoding: chunked\r\n"
    whole = head.encode(errors="surrogateescape") + b"\r\n" + body
    cut = draw(st.just(len(whole)) | st.integers(0, len(whole)))
    return whole[:cut]


def answer_to(port, data):
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(65536), b""))


@pytest.fixture(scope="module")
def server(model):
    with running_server("--model", model) as running:
        yield running


def descriptors(server):
    return sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in server.pids)


def memory(server):
    """Resident bytes."""
    pages = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in server.pids)
    return pages * os.sysconf("SC_PAGE_SIZE")


def check(server, data):
    answer = answer_to(server.port, data)
    assert answer.startswith(b"HTTP/1.1 ") or data.strip(b"\r\n") == b"", (data, answer)
    assert b"Traceback" not in answer
    assert not answer.startswith(b"HTTP/1.1 5"), answer


def check_the_end(server):
    assert server.ask("/health").status == 200
    assert server.translate("The car")["translatedText"]
    assert [line for line in server.lines if line.startswith(("error", "Traceback", "Exception"))] == []


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(requests(), min_size=10, max_size=10))
def test_a_thousand_requests_of_any_kind_leave_the_server_as_it_was(server, several):
    for data in several:
        check(server, data)


def test_the_server_is_as_it_was(server):
    check_the_end(server)


@pytest.mark.slow
def test_a_slow_client_holds_nobody_up(server):
    idle = [socket.create_connection(("127.0.0.1", server.port), timeout=30) for _ in range(50)]
    for connection in idle:
        connection.sendall(b"POST /translate HTTP/1.1\r\nHost: a\r\n")
    assert server.translate("The car")["translatedText"]
    for connection in idle:
        assert connection.recv(100).startswith(b"HTTP/1.1 408 ")
        connection.close()


def test_a_body_that_is_too_large_is_refused_before_it_is_read(server):
    head = b"POST /translate HTTP/1.1\r\nHost: a\r\nContent-Length: 999999999\r\n\r\n"
    assert answer_to(server.port, head).startswith(b"HTTP/1.1 413 ")


def test_answers_that_nobody_takes_need_no_memory(server):
    """Each was kept as a whole until its client took it."""
    file = b"The car\n" * 1_500_000  # 12 MB; French already, so nothing is translated
    parts = {"source": b"fr", "target": b"fr", 'file"; filename="a.txt': file}
    form = b"".join(
        b'--x\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n' % (name.encode(), value)
        for name, value in parts.items()
    )
    kept = server.ask("/translate_file", data=form + b"--x--\r\n", Content_Type="multipart/form-data; boundary=x")
    path = kept.json["translatedFileUrl"].removeprefix(server.address)
    assert server.ask(path).body == file
    before = memory(server)
    with ExitStack() as idle:
        for _ in range(20):
            connection = idle.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=30))
            connection.sendall(b"GET %s HTTP/1.1\r\nHost: a\r\n\r\n" % path.encode())
            assert connection.recv(10) == b"HTTP/1.1 2"
        assert server.ask("/health").status == 200
        assert memory(server) < before + 100_000_000


NUM_SOAK = int(os.environ.get("NMT_SOAK_REQUESTS", "100000"))
NUM_REAL = int(os.environ.get("NMT_SOAK_REQUESTS", "20000"))
"""Requests of each long test."""


class Flat:
    """Checks that memory and descriptors of a server have stopped growing after a tenth of the requests."""

    def __init__(self, server, requests):
        self.server, self.requests, self.before = server, requests, 0

    def after(self, number):
        if number % (self.requests // 10) == 0:
            used, open_ = memory(self.server), descriptors(self.server)
            print(f"{number:,} requests: {used / 1e6:.1f} MB, {open_} descriptors", flush=True)
            self.before = self.before or used
            assert used < self.before * 1.1
            assert open_ < 100


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_a_hundred_thousand_hostile_requests_leave_memory_and_descriptors_flat(server):
    seed = int(os.environ.get("NMT_TEST_SEED", random.randrange(2**32)))
    print(f"NMT_TEST_SEED={seed}")
    rng = random.Random(seed)
    samples = [
        b"POST /translate HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
        % (len(body), body)
        for body in (b'{"q":"The car","source":"en","target":"fr"}', b"[" * 9000, b'{"q":[]}', b"{}", b"\xff")
    ] + [b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", b"\0" * 100, b"GET /x"]
    flat = Flat(server, NUM_SOAK)
    for number in range(1, NUM_SOAK + 1):
        data = bytearray(rng.choice(samples))
        for _ in range(rng.choice((0, 0, 1, 3))):
            data[rng.randrange(len(data))] = rng.randrange(256)
        check(server, bytes(data))
        flat.after(number)
    check_the_end(server)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_twenty_thousand_real_requests_leave_memory_and_descriptors_flat(server, corpus):
    """Sixteen clients ask for one to twenty sentences each time. Their answers never differ."""
    lines = (corpus / "test.en").read_text().splitlines()[:200]
    expected = {line: server.translate(line)["translatedText"] for line in lines}
    flat, numbers, lock = Flat(server, NUM_REAL), iter(range(1, NUM_REAL + 1)), threading.Lock()

    def ask(client):
        rng = random.Random(client)
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=300)
        while True:
            some = rng.choices(lines, k=rng.choice((1,) * 12 + (2, 4, 20)))
            body = json.dumps({"q": "\n".join(some), "source": "en", "target": "fr"})
            connection.request("POST", "/translate", body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            found = json.loads(answer.read())
            assert (answer.status, found["translatedText"]) == (200, "\n".join(expected[line] for line in some))
            with lock:
                number = next(numbers, None)
                if number is None:
                    connection.close()
                    return
                flat.after(number)

    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(ask, range(16))) == [None] * 16
    check_the_end(server)
