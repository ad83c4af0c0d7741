"""A headless Firefox driven over Marionette, its own protocol (JSON on loopback), which needs no further program."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import which
from typing import Any

SECONDS_TO_START = 60


class Firefox:
    """One browser window."""

    def __init__(self, port: int) -> None:
        self._socket = _connected(port)
        self._answers = self._socket.makefile("rb")
        self._read()  # its greeting
        self._number = 0
        self.ask("WebDriver:NewSession", capabilities={})

    def ask(self, name: str, **parameters: object) -> Any:
        """The answer to a command."""
        self._number += 1
        message = json.dumps([0, self._number, name, parameters]).encode()
        self._socket.sendall(b"%d:%s" % (len(message), message))
        _, _, error, value = self._read()
        assert error is None, error
        return value

    def _read(self) -> Any:
        size = b""
        while (byte := self._answers.read(1)) != b":":
            assert byte, "Firefox has ended"
            size += byte
        return json.loads(self._answers.read(int(size)))

    def visit(self, address: str) -> None:
        self.ask("WebDriver:Navigate", url=address)

    def run(self, script: str, *arguments: object) -> Any:
        """Return the result of a JavaScript function body."""
        return self.ask("WebDriver:ExecuteScript", script=script, args=list(arguments))["value"]

    def close(self) -> None:
        self._answers.close()
        self._socket.close()


def _connected(port: int) -> socket.socket:
    for _ in range(10 * SECONDS_TO_START):
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=60)
        except ConnectionRefusedError:
            time.sleep(0.1)
    raise AssertionError("Firefox does not listen; does 'firefox-esr --headless --marionette' work?")


@contextmanager
def running_firefox() -> Iterator[Firefox]:
    """A browser of its own profile, gone afterwards."""
    binary = which("firefox-esr") or which("firefox")
    if binary is None:
        raise AssertionError("the tests of the offline page need Firefox: run 'make browser'")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="nmt-firefox-", ignore_cleanup_errors=True) as profile:
        (Path(profile) / "user.js").write_text(f'user_pref("marionette.port", {port});\n', encoding="utf-8")
        command = [binary, "--headless", "--marionette", "--no-remote", "--profile", profile]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        with subprocess.Popen(command, **quiet, start_new_session=True) as process:
            try:
                browser = Firefox(port)
                try:
                    yield browser
                finally:
                    browser.close()
            finally:
                os.killpg(process.pid, signal.SIGKILL)  # it leads a process group of its own
