"""The HTTP side without a socket."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from threading import Event, current_thread

import pytest

from nmt_cli.serve.app import App
from nmt_cli.serve.limits import Keys, Limits
from nmt_cli.serve.metrics import Metrics


class Broken:
    """A service that fails."""

    limits, metrics = Limits(), Metrics()

    def settings(self):
        raise RuntimeError("a secret text")


def test_a_failure_is_answered_in_json_without_its_message(capsys):
    sent = []

    async def receive():
        return {"type": "http.request", "body": b""}

    async def send(message):
        sent.append(message)

    app = App(Broken(), None)
    scope = {"type": "http", "method": "GET", "path": "/frontend/settings", "headers": [], "query_string": b""}
    asyncio.run(app.asgi([])(scope, receive, send))
    app.close()
    assert sent[0]["status"] == 500
    assert json.loads(sent[1]["body"]) == {"error": "Cannot translate text: the server failed"}
    told = capsys.readouterr().err
    assert "error: RuntimeError at " in told
    assert "secret" not in told


def test_the_counts_are_told_while_all_threads_of_requests_are_busy():
    class Busy:
        limits, metrics = Limits(requests=1), Metrics()

        def metrics_text(self):
            return "nmt_characters_total 0\n"

    sent, app, may_end = [], App(Busy(), None), Event()

    async def receive():
        return {"type": "http.request", "body": b""}

    async def send(message):
        sent.append(message)

    app._threads.submit(may_end.wait)
    scope = {"type": "http", "method": "GET", "path": "/metrics", "headers": [], "query_string": b""}
    try:
        asyncio.run(asyncio.wait_for(app.asgi([])(scope, receive, send), timeout=30))
    finally:
        may_end.set()
        app.close()
    assert sent[0]["status"] == 200
    assert sent[1]["body"] == b"nmt_characters_total 0\n"


@pytest.mark.parametrize(
    "path", ["/frontend/settings", "//frontend/settings", "/frontend/settings/", "//frontend///settings//"]
)
def test_addresses_that_clients_have_joined_themselves_reach_the_same(path):
    class Ready:
        limits, metrics = Limits(), Metrics()

        def settings(self):
            return {"is": "there"}

    sent, app = [], App(Ready(), None)

    async def receive():
        return {"type": "http.request", "body": b""}

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": path, "headers": [], "query_string": b""}
    asyncio.run(app.asgi([])(scope, receive, send))
    app.close()
    assert (sent[0]["status"], json.loads(sent[1]["body"])) == (200, {"is": "there"})
    assert 'nmt_requests_total{path="/frontend/settings",status="200"} 1' in Ready.metrics.text([])


def asked(app: App, path: str, method: str = "GET", headers=(), body: bytes | None = b"") -> tuple[int, dict]:
    """Return the status and the JSON of an answer; None for a body that must not be read."""
    sent, given = [], []

    async def receive():
        if given:
            await asyncio.Event().wait()  # the client neither goes nor sends more
        assert body is not None
        given.append(True)
        return {"type": "http.request", "body": body}

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http", "method": method, "path": path, "headers": [(b"host", b"a.example"), *headers],
        "query_string": b"", "scheme": "https", "server": None,
    }  # fmt: skip
    asyncio.run(app.asgi([])(scope, receive, send))
    app.close()
    return sent[0]["status"], json.loads(b"".join(message.get("body", b"") for message in sent[1:]))


class Filing:
    """A service that translates every file into the same."""

    limits = Limits()

    def __init__(self) -> None:
        self.metrics = Metrics()

    def settings(self):
        return {"is": "there"}

    def file_task(self, fields, cancellation):
        del fields, cancellation

    def translate_file(self, task, cancellation):
        del task, cancellation
        return "abc.a.html", []


@pytest.mark.parametrize("path", ["/frontend/settings", "/mt/frontend/settings", "//mt//frontend/settings/"])
def test_behind_a_proxy_a_server_is_reached_with_and_without_its_root_path(path):
    assert asked(App(Filing(), None, root_path="/mt"), path) == (200, {"is": "there"})


def test_the_root_path_without_a_slash_leads_to_the_page():
    """Else the addresses of its files, which are relative, would be outside the root path."""
    messages = []

    async def send(message):
        messages.append(message)

    scope = {"type": "http", "method": "GET", "path": "/mt", "headers": [], "query_string": b""}
    asyncio.run(App(Filing(), None, root_path="/mt").asgi([])(scope, None, send))
    assert (messages[0]["status"], dict(messages[0]["headers"])[b"location"]) == (307, b"/mt/")


def test_a_path_that_only_begins_like_the_root_path_is_another():
    assert asked(App(Filing(), None, root_path="/mt"), "/mtx/frontend/settings")[0] == 404
    assert asked(App(Filing(), None), "/mt/frontend/settings")[0] == 404


@pytest.mark.parametrize("root_path", ["", "/mt"])
def test_links_are_those_of_the_proxy(root_path):
    _, found = asked(App(Filing(), None, root_path=root_path), "/translate_file", "POST")
    assert found == {"translatedFileUrl": f"https://a.example{root_path}/download_file/abc.a.html"}
    _, spec = asked(App(Filing(), None, root_path=root_path), "/spec")
    assert (spec["host"], spec["basePath"], spec["schemes"]) == ("a.example", root_path or "/", ["https"])


JSON = (b"content-type", b"application/json")
BEARER = (b"authorization", b"Bearer secret")
UNTERMINATED = "Invalid JSON format: line 1, column 6: Unterminated string starting at"
MANY_VALUES = "Invalid request: the body has more than 100,000 values"
TOO_LARGE = "Invalid request: the body is larger than 7,352,000 bytes; send a document as a file"


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b'{"x":[' + b"{}," * 100_000 + b"{}]}", MANY_VALUES),
        (b'["' + b'","' * 2_000_000, MANY_VALUES),
        (b'{"q":"' + b'\\"' * 3_000_000, UNTERMINATED),  # fails if its end is looked for at each quote
        (b'{"q":"' + b"\\" * 3_000_001, UNTERMINATED),
        (b'{"q":"' + b"a," * 200_000 + b'"}', None),
        (b'{"q":["' + b'","' * 9_999 + b'"]}', None),
        (b'{"q":"' + b"a" * 7_500_000 + b'"}', TOO_LARGE),
    ],
)  # fmt: skip
def test_json_that_would_need_much_memory_is_refused_before_it_is_read(body: bytes, told: str | None):
    _, found = asked(App(Filing(), None), "/translate_file", "POST", [JSON], body)
    assert found.get("error") == told


def test_bodies_are_not_read_by_the_thread_that_answers_all(monkeypatch: pytest.MonkeyPatch):
    readers = []
    monkeypatch.setattr("nmt_cli.serve.app.fields_of", lambda *_: readers.append(current_thread()))
    assert asked(App(Filing(), None), "/translate_file", "POST")[0] == 200
    assert readers != [current_thread()]


@pytest.mark.parametrize(("keys", "headers"), [(None, []), (Keys(["secret"]), [BEARER])])
def test_who_asks_too_often_is_refused_before_the_body_is_read(keys: Keys | None, headers: list):
    class Slow(Filing):
        limits = Limits(requests_per_minute=1)

    app = App(Slow(), keys)
    assert asked(app, "/translate_file", "POST", headers)[0] == 200
    app._threads = ThreadPoolExecutor(1)
    assert asked(app, "/translate_file", "POST", headers, None)[0] == 429


@pytest.mark.parametrize(
    ("headers", "body", "status"),
    [
        ([BEARER], b"", 200),
        ([], b"api_key=secret", 200),
        ([], b"api_key=wrong", 403),
        ([(b"authorization", b"Bearer wrong")], b"", 403),
        ([(b"authorization", b"Bearer wrong")], b"api_key=secret", 200),
        ([BEARER], b"api_key=wrong", 200),
        ([], b"", 400),
    ],
)
def test_a_key_may_stand_in_the_headers_or_in_the_body(headers: list, body: bytes, status: int):
    assert asked(App(Filing(), Keys(["secret"])), "/translate_file", "POST", headers, body)[0] == status


def test_a_compressed_request_is_refused_with_the_reason():
    """Fails if its bytes are read as if they were text."""
    app = App(Filing(), None)
    status, found = asked(app, "/translate", "POST", [(b"content-encoding", b"GZip")])
    assert (status, found["error"]) == (415, "Invalid request: the body is compressed (gzip); send it as it is")
    assert asked(App(Filing(), None), "/translate_file", "POST", [(b"content-encoding", b"identity")])[0] == 200
