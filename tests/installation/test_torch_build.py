"""`make install` takes the small build of PyTorch from PyTorch's index, and what pip finds where it cannot."""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import socket
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import quote, urlsplit

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts/install_torch.py"
_spec = importlib.util.spec_from_file_location("install_torch", SCRIPT)
assert _spec is not None
assert _spec.loader is not None
torch_build = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(torch_build)
VERSION = torch_build.wanted_version((ROOT / "constraints.txt").read_text())
PYTHON = f"cp{sys.version_info.major}{sys.version_info.minor}"
TAGS = f"{PYTHON}-{PYTHON}{sys.abiflags}-manylinux_2_28_{platform.machine()}"
WHEEL = f"torch-{VERSION}+cpu-{TAGS}.whl"


@contextmanager
def listening(handler: type[BaseHTTPRequestHandler] | partial[BaseHTTPRequestHandler]) -> Iterator[str]:
    """Serve on loopback while the block runs, and yield the address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=partial(server.serve_forever, poll_interval=0.01))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def index_of(*wheels: str, asked: list[str] | None = None, status: int = 200) -> Iterator[str]:
    """Serve the page of an index on which these wheels stand; it also answers as a proxy. Yield its address."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if asked is not None:
                asked.append(self.path)
            is_known = urlsplit(self.path).path == "/whl/cpu/torch/"
            links = "".join(f'<a href="/whl/cpu/{quote(name)}#sha256=0f">{name}</a><br/>\n' for name in wheels)
            self.send_response(status if is_known else 404)
            self.end_headers()
            self.wfile.write(links.encode() if is_known else b"")

        def log_message(self, *_: object) -> None:
            pass

    with listening(Page) as address:
        yield f"{address}/whl/cpu"


@contextmanager
def silent() -> Iterator[str]:
    """Accept connections and never answer; yield the address."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/whl/cpu"


@pytest.fixture(autouse=True)
def _on_linux_without_proxies(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch_build.platform, "system", lambda: "Linux")
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)


@pytest.mark.parametrize("ending", ["", "/"])
def test_an_index_with_a_build_for_this_machine_is_taken(ending: str):
    with index_of("torch-2.0.0+cpu-cp38-cp38-linux_x86_64.whl", WHEEL) as index:
        assert torch_build.why_not(index + ending, VERSION) == ""


@pytest.mark.parametrize(
    "wheel",
    [
        WHEEL.replace(VERSION, f"{VERSION}1"),
        WHEEL.replace(VERSION, "2.0.0"),
        WHEEL.replace(PYTHON, "cp38"),
        WHEEL.replace(f"{platform.machine()}.whl", "riscv64.whl"),
        WHEEL.replace("torch-", "torchvision-"),
    ],
)
def test_an_index_without_a_build_for_this_machine_is_not_taken(wheel: str):
    with index_of(wheel) as index:
        reason = torch_build.why_not(index, VERSION)
    assert reason.startswith(f"has no PyTorch {VERSION} for Python ")


def test_an_index_that_answers_with_an_error_is_not_taken():
    with index_of(WHEEL, status=503) as index:
        assert torch_build.why_not(index, VERSION) == "cannot be reached (503 Service Unavailable)"
        assert torch_build.why_not(f"{index}/other", VERSION) == "cannot be reached (404 Not Found)"


def test_an_index_that_never_answers_is_not_waited_for(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch_build, "SECONDS_OF_SILENCE", 0.1)
    with silent() as index:
        assert torch_build.why_not(index, VERSION) == "cannot be reached (timed out)"


def test_a_look_up_of_a_name_that_never_ends_is_not_waited_for(monkeypatch: pytest.MonkeyPatch):
    over = threading.Event()
    monkeypatch.setattr(torch_build, "SECONDS_IN_ALL", 0.1)
    monkeypatch.setattr(torch_build, "build_opener", lambda: SimpleNamespace(open=lambda *_, **__: over.wait()))
    try:
        assert "no whole answer within 0.1 s" in torch_build.why_not("http://index.invalid", VERSION)
    finally:
        over.set()


def test_a_port_that_refuses_and_an_address_that_is_none_are_told():
    with silent() as index:
        pass
    assert "Connection refused" in torch_build.why_not(index, VERSION)
    for index in ("", "no address", "http://127.0.0.1:port/whl", "https://user:word@127.0.0.1/whl"):
        assert torch_build.why_not(index, VERSION).startswith("cannot be reached (")


def test_an_index_behind_a_proxy_is_reached(monkeypatch: pytest.MonkeyPatch):
    asked: list[str] = []
    with index_of(WHEEL, asked=asked) as proxy:
        monkeypatch.setenv("http_proxy", proxy.removesuffix("/whl/cpu"))
        assert torch_build.why_not("http://index.invalid/whl/cpu", VERSION) == ""
    assert asked == ["http://index.invalid/whl/cpu/torch/"]


SMALL, LARGE, OLD = f"{VERSION}+cpu", VERSION, "2.0.0+cpu"
FROM_INDEX = ["--index-url", "INDEX", f"torch=={VERSION}"]
FROM_ANYWHERE = [f"torch=={VERSION}"]
AGAIN = ["--force-reinstall"]


@pytest.mark.parametrize(
    ("installed", "build", "is_reached", "expected"),
    [
        ("", "", True, FROM_INDEX),
        ("", "cpu", True, FROM_INDEX),
        ("", "cuda", True, FROM_ANYWHERE),
        ("", "cuda", False, FROM_ANYWHERE),
        ("", "", False, None),
        (SMALL, "", True, None),
        (SMALL, "cpu", True, None),
        (SMALL, "cuda", True, AGAIN + FROM_ANYWHERE),
        (LARGE, "", True, None),
        (LARGE, "cpu", True, AGAIN + FROM_INDEX),
        (LARGE, "cpu", False, None),
        (LARGE, "cuda", True, None),
        (OLD, "", True, AGAIN + FROM_INDEX),
        (OLD, "cuda", True, AGAIN + FROM_ANYWHERE),
    ],
)
def test_the_build_is_chosen_by_what_is_asked_for_installed_and_reached(
    installed: str, build: str, is_reached: bool, expected: list[str] | None, monkeypatch, capsys
):
    commands: list[Sequence[str]] = []

    def run(command: Sequence[str], *, check: bool) -> SimpleNamespace:
        commands.append(command)
        return SimpleNamespace(returncode=3)

    monkeypatch.setattr(torch_build.subprocess, "run", run)
    monkeypatch.setattr(torch_build, "installed_version", lambda: installed)
    monkeypatch.setattr(torch_build, "why_not", lambda *_: "" if is_reached else "cannot be reached (broken)")
    monkeypatch.setattr(sys, "argv", ["install_torch", "--index", "INDEX", "--build", build])
    code = torch_build.main()
    told = capsys.readouterr().out
    assert commands == ([[sys.executable, "-m", "pip", "install", "--no-deps", *expected]] if expected else [])
    assert code == (3 if expected else 0)  # pip's own: what failed halfway is not replaced by gigabytes
    assert told.count("\n") == (2 if expected else 1)
    assert ("so pip takes the PyTorch that it finds" in told) == (expected is None and not is_reached)


def test_where_pip_knows_no_other_build_it_is_left_to_pip(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch_build.platform, "system", lambda: "Darwin")
    monkeypatch.setattr(torch_build, "installed_version", lambda: "")
    monkeypatch.setattr(torch_build.subprocess, "run", None)
    monkeypatch.setattr(sys, "argv", ["install_torch"])
    assert torch_build.main() == 0
    monkeypatch.setattr(torch_build, "installed_version", lambda: VERSION)
    monkeypatch.setattr(sys, "argv", ["install_torch", "--build", "cpu"])
    assert torch_build.main() == 0


def test_the_pages_and_the_makefile_give_the_same_address_and_version():
    makefile = (ROOT / "Makefile").read_text()
    pages = (ROOT / "README.md").read_text() + (ROOT / "docs/howto/install.md").read_text()
    assert re.findall(r"^TORCH_INDEX \?= (\S+)$", makefile, re.MULTILINE) == [torch_build.INDEX]
    assert f"pip install --no-deps --index-url {torch_build.INDEX} torch=={VERSION}\n" in pages
    assert {*re.findall(r"torch==(\d+\.\d+\.\d+)", pages)} == {VERSION}
    for command in ("make demo", "make test", "make install TORCH=cuda"):
        assert re.search(rf"^`?{command}\b", pages, re.MULTILINE), command


@pytest.mark.parametrize(("given", "build"), [([], ""), (["TORCH=cuda"], "cuda"), (["TORCH=cpu"], "cpu")])
def test_make_passes_the_index_and_the_build_on(given: list[str], build: str, tmp_path: Path):
    """Also where the environment is there already, if a build is asked for."""
    (tmp_path / ".ready").touch()
    environment = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL")}
    for is_there in False, True:
        directory = tmp_path if is_there else tmp_path / "new"
        command = ["make", "-n", "install", f"VENV={directory}", "TORCH_INDEX=http://index.invalid", *given]
        environment["TORCH"] = "of another program"
        ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
        passed_on = f"scripts/install_torch.py --index 'http://index.invalid' --build '{build}'\n" in ran.stdout
        assert passed_on == (bool(given) or not is_there)


@pytest.mark.install
def test_pip_installs_the_build_of_the_index_and_keeps_it(tmp_path: Path):
    """With a wheel that is called torch and holds nothing, in an environment of its own."""
    directory = tmp_path / "whl/torch"
    directory.mkdir(parents=True)
    info = f"torch-{SMALL}.dist-info"
    with zipfile.ZipFile(directory / WHEEL, "w") as wheel:
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: torch\nVersion: {SMALL}\n")
        wheel.writestr(f"{info}/WHEEL", f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {TAGS}\n")
        wheel.writestr(f"{info}/RECORD", "")
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "environment"], check=True)
    python = tmp_path / "environment/bin/python"
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "PYTHON"))}
    environment["PIP_CONFIG_FILE"] = os.devnull

    def run(*command: str | Path) -> str:
        ran = subprocess.run([python, *command], env=environment, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout

    with silent() as index:
        told = run(SCRIPT, "--index", index)
    assert told.startswith(f"{index}: cannot be reached (timed out), so pip takes the PyTorch that it finds.")
    assert told.count("\n") == 1
    with listening(partial(SimpleHTTPRequestHandler, directory=str(tmp_path))) as address:
        index = f"{address}/whl"
        assert f"small build without CUDA, from {index}." in run(SCRIPT, "--index", index)
    assert run(SCRIPT, "--index", index) == f"PyTorch {SMALL} is installed already.\n"
    satisfied = run("-m", "pip", "install", "--no-index", "--constraint", ROOT / "constraints.txt", "torch>=2.6")
    assert f"({SMALL})" in satisfied
