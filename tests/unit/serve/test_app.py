"""The HTTP side without a socket."""

from __future__ import annotations

import asyncio
import json

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
