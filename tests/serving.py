"""A server of its own for tests, on a free port of loopback."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from command_line import start_nmt

OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass
class Answered:
    """The answer of a server."""

    status: int
    body: bytes
    headers: Any

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Server:
    """A running `nmt serve`."""

    process: subprocess.Popen[bytes]
    address: str = ""
    lines: list[str] = field(default_factory=list)
    """The lines of the server on stderr."""
    _ready: threading.Event = field(default_factory=threading.Event)

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    @property
    def pids(self) -> list[int]:
        """The processes of the server: that of HTTP, the one that has loaded the models, and the workers."""
        return [self.process.pid, *begun_by(self.process.pid), *self.workers]

    @property
    def workers(self) -> list[int]:
        """The processes that search."""
        return [worker for zygote in begun_by(self.process.pid) for worker in begun_by(zygote)]

    def listen(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line.decode())
            if found := re.match(r"serving .* at (http://\S+)", self.lines[-1]):
                self.address = found[1]
                self._ready.set()
        self._ready.set()

    def wait(self) -> None:
        assert self._ready.wait(120)
        assert self.address, self.lines

    def ask(self, path: str, body: Any = None, *, data: bytes | None = None, **headers: str) -> Answered:
        """POST if there is a body (as JSON) or data, GET otherwise."""
        if body is not None:
            data, headers = json.dumps(body).encode(), {"Content-Type": "application/json"} | headers
        request = urllib.request.Request(
            self.address + path, data, {name.replace("_", "-"): value for name, value in headers.items()}
        )
        try:
            with OPENER.open(request, timeout=60) as answer:
                return Answered(answer.status, answer.read(), answer.headers)
        except urllib.error.HTTPError as error:
            return Answered(error.code, error.read(), error.headers)

    def translate(self, text: str | list[str], **more: Any) -> Any:
        answer = self.ask("/translate", {"q": text, "source": "en", "target": "fr"} | more)
        assert answer.status == 200, answer.body
        return answer.json

    def end(self) -> int:
        """Ask it to end, and return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


def begun_by(pid: int) -> list[int]:
    """Return the processes that a process has begun."""
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return sorted(int(begun) for task in tasks for begun in task.read_text().split())


@contextmanager
def running_server(*args: str | Path) -> Iterator[Server]:
    server = Server(start_nmt("serve", "--port", "0", "--threads", "1", *args, stderr=subprocess.PIPE))
    reader = threading.Thread(target=server.listen)
    reader.start()
    try:
        server.wait()
        yield server
    finally:
        server.process.kill()
        server.process.wait()
        reader.join()
        assert server.process.stderr is not None
        server.process.stderr.close()
