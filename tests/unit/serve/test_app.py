"""The HTTP side without a socket."""

from __future__ import annotations

import asyncio
import json
from threading import Event

import pytest

from nmt_cli.serve.app import App
from nmt_cli.serve.limits import Limits
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
