"""A headless Chromium driven over WebDriver (plain HTTP on loopback), so that the page is tested where it is read."""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import which
from typing import Any

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
KEYS = {"Tab": "\ue004", "Enter": "\ue007", "Left": "\ue012", "Up": "\ue013", "Right": "\ue014", "Down": "\ue015"}
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the name that the WebDriver standard gives to an element's id


class Chromium:
    """One browser window."""

    def __init__(self, address: str, profile: Path, binary: str) -> None:
        self._open = urllib.request.build_opener(urllib.request.ProxyHandler({})).open  # loopback needs no proxy
        self._session = address
        options = {"binary": binary, "args": [*FLAGS, f"--user-data-dir={profile}", "about:blank"]}
        wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"}}
        answer = self._ask("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self._session = f"{address}/session/{answer['sessionId']}"

    def _ask(self, method: str, path: str, body: object = None) -> Any:
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(
            self._session + path, data, {"Content-Type": "application/json"}, method=method
        )
        with self._open(request, timeout=60) as answer:
            return json.load(answer)["value"]

    def close(self) -> None:
        self._ask("DELETE", "")

    def visit(self, page: Path) -> None:
        self._ask("POST", "/url", {"url": page.resolve().as_uri()})

    def run(self, script: str, *arguments: object) -> Any:
        """Return the result of a JavaScript function body."""
        return self._ask("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def command(self, name: str, **parameters: object) -> Any:
        """The answer to a command of the DevTools protocol."""
        return self._ask("POST", "/goog/cdp/execute", {"cmd": name, "params": parameters})

    def size(self, width: int, height: int) -> None:
        self.command(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500
        )

    def _find(self, selector: str) -> dict[str, str]:
        found: dict[str, str] = self._ask("POST", "/element", {"using": "css selector", "value": selector})
        return found

    def click(self, selector: str) -> None:
        self._ask("POST", f"/element/{self._find(selector)[ELEMENT]}/click", {})

    def hover(self, selector: str) -> None:
        move = {"type": "pointerMove", "duration": 0, "origin": self._find(selector), "x": 0, "y": 0}
        self._ask("POST", "/actions", {"actions": [{"type": "pointer", "id": "mouse", "actions": [move]}]})

    def press(self, *names: str) -> None:
        """Press and release keys, one after the other, wherever the focus is."""
        strokes = [{"type": kind, "value": KEYS[name]} for name in names for kind in ("keyDown", "keyUp")]
        self._ask("POST", "/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": strokes}]})

    def console(self) -> list[str]:
        """Return the errors of the page since the last call."""
        return [entry["message"] for entry in self._ask("POST", "/se/log", {"type": "browser"})]

    def requests(self) -> list[str]:
        """The addresses that were asked for since the last call."""
        events = [
            json.loads(entry["message"])["message"] for entry in self._ask("POST", "/se/log", {"type": "performance"})
        ]
        return [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]

    def screenshot(self, path: Path, *, whole: bool = True) -> None:
        answer = self.command("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(answer["data"]))


@contextmanager
def running_chromium() -> Iterator[Chromium]:
    """A browser of its own profile; it and its driver are gone afterwards."""
    driver, binary = which("chromedriver"), which("chromium") or which("google-chrome")
    if driver is None or binary is None:
        raise AssertionError("the tests of the attention page need chromium and chromedriver: run 'make chromium'")
    with (
        tempfile.TemporaryDirectory(prefix="nmt-chromium-", ignore_cleanup_errors=True) as profile,
        subprocess.Popen([driver, "--port=0"], stdout=subprocess.PIPE, text=True, start_new_session=True) as process,
    ):
        try:
            assert process.stdout is not None
            ports = (re.search(r"successfully on port (\d+)", line) for line in process.stdout)
            port = next((match[1] for match in ports if match), None)
            assert port is not None, "chromedriver ended without naming its port; does 'chromedriver --version' work?"
            browser = Chromium(f"http://127.0.0.1:{port}", Path(profile), binary)
            try:
                yield browser
            finally:
                browser.close()
        finally:
            os.killpg(process.pid, signal.SIGKILL)  # the driver leads a process group of its own
