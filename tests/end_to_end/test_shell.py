"""Manners of a command in a shell: what it says of itself, colours, width, exit codes, manual pages, completion."""

from __future__ import annotations

import fcntl
import importlib.util
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import termios
from importlib.metadata import version
from pathlib import Path
from types import ModuleType

import pytest
from command_line import stored_model

from nmt_cli.commands import COMMANDS, GROUPS
from nmt_cli.ops import kernel_library, native
from nmt_cli.version import __version__

ROOT = Path(__file__).parents[2]
PROGRAM = (sys.executable, "-m", "nmt_cli")
INSTALLED = Path(sys.executable).with_name("nmt")
NO_COMMAND = "from nmt_cli.cli import main\ntry: main()\nfinally: print('torch' in sys.modules, file=sys.stderr)"


def run(*command: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "NMT_MODEL"} | variables
    return subprocess.run([*map(str, command)], env=environment, capture_output=True, text=True, check=False)


def test_the_version_comes_with_what_a_report_of_a_fault_needs(nmt):
    told = nmt("--version").out.decode().splitlines()
    assert told[0] == f"nmt {__version__}"
    lines = dict(line.split(": ", 1) for line in told[1:])
    assert [*lines] == ["python", "torch", "kernels", "processor"]
    assert lines["torch"] == version("torch")
    is_compiled = lines["kernels"] == f"version {kernel_library.VERSION}, compiled"
    assert is_compiled == native.is_built()
    assert re.fullmatch(r".+, [\w-]+, \d+ processors?", lines["processor"])


def test_the_version_says_why_there_are_no_kernels_and_that_torch_is_missing(nmt, monkeypatch):
    monkeypatch.setattr(kernel_library, "find_spec", lambda name: None)
    monkeypatch.setattr("nmt_cli.assembly.versions._installed_version", lambda library: "not installed")
    told = nmt("--version").out.decode()
    assert f"\nkernels: {kernel_library.NOT_BUILT}\n" in told
    assert "\ntorch: not installed\n" in told


def test_the_version_is_told_without_loading_torch():
    script = f"import sys\nsys.argv = ['nmt', '--version']\n{NO_COMMAND}"
    assert run(sys.executable, "-c", script).stderr == "False\n"


@pytest.mark.skipif(not INSTALLED.exists(), reason="the package is not installed")
def test_the_module_is_the_command():
    for words in (["--help"], ["trainn"], ["train", "--help"]):
        ours, others = run(*PROGRAM, *words), run(INSTALLED, *words)
        assert (ours.returncode, ours.stdout, ours.stderr) == (others.returncode, others.stdout, others.stderr)
        assert "python" not in ours.stdout + ours.stderr


def on_a_terminal(*words: str, **variables: str) -> bytes:
    """Return what the command writes to a terminal."""
    ours, its = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", **variables}
    with subprocess.Popen([*PROGRAM, *words], env=environment, stdin=its, stdout=its, stderr=its) as process:
        os.close(its)
        written = b""
        while True:
            try:
                new = os.read(ours, 65_536)
            except OSError:  # Linux says so when the last writer has gone
                break
            if not new:
                break
            written += new
        process.wait()
    os.close(ours)
    return written


@pytest.mark.parametrize("variables", [{}, {"FORCE_COLOR": "1", "NO_COLOR": "1"}])
def test_nothing_is_coloured(variables: dict[str, str]):
    """The libraries that print help and errors know colours; a terminal gets none."""
    for words in (["--help"], ["translate", "--bean"]):
        written = on_a_terminal(*words, **variables)
        assert written
        assert not re.search(rb"\x1b\[[0-9;]*m", written), written


@pytest.mark.parametrize("columns", [60, 80, 100])
def test_help_is_as_wide_as_the_terminal(nmt, columns: int):
    for words in ([], ["translate"], ["plot", "attention"]):
        lines = nmt(*words, "--help", env={"COLUMNS": str(columns)}).out.decode().splitlines()
        assert columns - 10 < max(map(len, lines)) <= columns


def test_very_wide_terminals_get_lines_that_can_be_read(nmt):
    lines = nmt("translate", "--help", env={"COLUMNS": "300"}).out.decode().splitlines()
    assert max(map(len, lines)) <= 100


def test_exit_codes_are_those_of_the_contract(nmt, tmp_path: Path, monkeypatch):
    """Those of signals and of readers that go away have tests of their own in tests/reliability."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NMT_MODEL", raising=False)
    model = stored_model(tmp_path)
    (tmp_path / "lines").write_text("a\n")
    (tmp_path / "two").write_text("a\nb\n")
    (tmp_path / "bad.yaml").write_text("name: [\n")
    for words in (["--version"], ["--help"], ["help", "score"], ["inspect", model], ["schema"]):
        assert nmt(*words).code == 0, words
    for words in (
        ["trainn"],
        ["score", "--no-such-option"],
        ["train"],
        ["train", "--config", "bad.yaml"],
        ["train", "--config", "none.yaml"],
        ["translate", "none", "--model", model],
        ["translate", "lines"],
        ["translate", "lines", "--model", "none"],
        ["translate", "lines", "--model", model, "--device", "abacus"],
        ["translate", "lines", "--model", model, "-o", "none/out"],
        ["score", "lines", "--reference", "two"],
    ):
        result = nmt(*words)
        assert result.code == 2, (words, result.err)
        assert result.out == b"", words
        assert "Traceback" not in result.err, words
    if Path("/dev/full").exists():
        with open("/dev/full", "wb") as full:
            command = [*PROGRAM, "schema"]
            ran = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
        assert (ran.returncode, ran.stderr.count("\n")) == (1, 1), ran.stderr


@pytest.fixture(scope="module")
def make_man() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_man", ROOT / "scripts/make_man.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_command_has_a_manual_page_with_all_that_its_help_says(nmt, make_man: ModuleType):
    pages = make_man.pages()
    inner = [(name, one.callback.__name__) for name in GROUPS for one in GROUPS[name].registered_commands]
    commands = [(), *((name,) for name in [*COMMANDS, *GROUPS]), *inner]
    assert set(pages) == {"-".join(("nmt", *words)) for words in commands}
    for words in commands:
        page = re.sub(r"\\&|\\(?=-)", "", pages["-".join(("nmt", *words))])
        told = nmt(*words, "--help", env={"COLUMNS": "80"}).out.decode()
        told = told.partition("\n\n")[2].replace("Commands:", "").replace("Options:", "")
        told = re.sub(r"^[A-Z]\w+:$|Example: ", "", told, flags=re.M)
        assert set(told.replace("\N{HORIZONTAL ELLIPSIS}", "...").split()) <= set(page.replace("\n", " ").split()), (
            words
        )


def test_two_runs_make_the_same_pages(make_man: ModuleType, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    pages = make_man.pages()
    assert ' "2023-11-14" ' in pages["nmt"] or " 2023-11-14 " in pages["nmt"]
    assert pages == make_man.pages()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("mandoc") is None, reason="mandoc is not installed: run 'make shells'")
def test_the_manual_pages_are_sound(make_man: ModuleType, tmp_path: Path):
    for name, page in make_man.pages().items():
        (tmp_path / f"{name}.1").write_text(page, encoding="utf-8")
    ran = run("mandoc", "-Tlint", "-Wwarning", *sorted(tmp_path.glob("*.1")))
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


SHELLS = {
    "bash": (
        ["--rcfile", "rc", "-i"],
        "PROMPT_COMMAND='echo READY'; source share/bash-completion/completions/nmt",
    ),
    "zsh": (
        ["-i"],
        """zle-line-init() { echo READY }; zle -N zle-line-init
        fpath=($PWD/share/zsh/site-functions $fpath); autoload -U compinit; compinit -u -D""",
    ),
}  # fmt: skip
"""Options of each shell, and what it reads when it starts. It says when it is ready for a line."""
TYPED = {
    "nmt eval": "nmt evaluate",
    "nmt score --basel": "nmt score --baseline",
    "nmt inspect pap": "nmt inspect papers",
}
TO_BEGIN, TO_END = "\x01", "\x05"  # Ctrl-A and Ctrl-E


@pytest.fixture(scope="module")
def share(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("made")
    ran = run(sys.executable, ROOT / "scripts/make_man.py", directory, PYTHONPATH=str(ROOT))
    assert ran.returncode == 0, ran.stderr
    return directory / "share"


def at_home(share: Path, home: Path) -> dict[str, str]:
    """Fill a home directory, and return the environment of a user who lives there."""
    shutil.copytree(share, home / "share")
    (home / "papers").mkdir()
    return {
        "PATH": f"{INSTALLED.parent}:{os.environ['PATH']}", "HOME": str(home), "ZDOTDIR": str(home), "TERM": "dumb",
        "XDG_CONFIG_HOME": str(home / "config"), "XDG_DATA_DIRS": str(home / "share"), "LANG": "C.UTF-8",
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.skipif(not INSTALLED.exists(), reason="the package is not installed")
@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_completes_commands_options_and_files(shell: str, share: Path, tmp_path: Path):
    """In a real shell on a terminal, with the scripts of an installation. After TAB the line is echoed to a file."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed: run 'make shells'")
    environment = at_home(share, tmp_path)
    options, start = SHELLS[shell]
    for name in ("rc", ".zshrc"):
        (tmp_path / name).write_text(f"{start}\n")
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    command = ["setsid", "--ctty", "--wait", shell, *options]
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdin=its, stdout=its, stderr=its):
        os.close(its)
        for number, text in enumerate(TYPED):
            until_ready(ours)
            os.write(ours, f"{text}\t{TO_BEGIN}echo {TO_END}>{number}\n".encode())
        until_ready(ours)
        os.close(ours)  # it hangs up
    assert [(tmp_path / str(number)).read_text().strip(" /\n") for number in range(len(TYPED))] == [*TYPED.values()]


def until_ready(terminal: int) -> None:
    """Read what a shell writes until it says that it is ready for a line."""
    written = b""
    while b"READY\r\n" not in written:
        written += os.read(terminal, 65_536)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed: run 'make shells'")
@pytest.mark.skipif(not INSTALLED.exists(), reason="the package is not installed")
def test_fish_completes_commands_options_and_files(share: Path, tmp_path: Path):
    """Asked by its own command for what TAB would offer."""
    asked = "; ".join(f"complete --do-complete '{text}'" for text in TYPED)
    ran = subprocess.run(
        ["fish", "--private", "-c", asked], cwd=tmp_path, env=at_home(share, tmp_path), capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    offered = [line.partition("\t")[0].rstrip("/") for line in ran.stdout.splitlines()]
    assert offered == [line.rpartition(" ")[2] for line in TYPED.values()], ran.stderr
