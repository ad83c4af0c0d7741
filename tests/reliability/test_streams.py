"""The streams of data and messages when the caller has closed one, or names one that is open already."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import stored_model

ROOT = Path(__file__).parents[2]
ENCODE = f"{sys.executable} -m nmt_cli encode text.en --model run"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("streams")
    stored_model(directory)
    (directory / "text.en").write_text("Where are the old teachers?\n", encoding="utf-8")
    return directory


def shell(home: Path, script: str, **env: str) -> subprocess.CompletedProcess[bytes]:
    """Run a script of bash and return its result; `NMT` and `ENCODE` in it stand for commands."""
    script = script.replace("ENCODE", ENCODE).replace("NMT", f"{sys.executable} -m nmt_cli")
    environment = os.environ | {"PYTHONPATH": str(ROOT)} | env
    return subprocess.run(["bash", "-c", script], cwd=home, env=environment, capture_output=True, check=False)


@pytest.fixture(scope="module")
def pieces(home: Path) -> bytes:
    found = shell(home, "ENCODE")
    assert found.returncode == 0, found.stderr
    return found.stdout


@pytest.mark.parametrize(
    "script",
    [
        "set -o pipefail; ENCODE -o /dev/stdout | cat",
        "set -o pipefail; ENCODE -o /dev/stderr 2>&1 >/dev/null | cat",
        "ENCODE -o /dev/stdout > file && cat file",
        "(printf head; ENCODE -o /dev/stdout; printf foot) > file && cat file",
        "printf head > file; ENCODE -o /dev/stdout >> file && cat file",
        "ENCODE -o /proc/self/fd/7 7> file && cat file",
        "ln -sf /dev/stdout link; ENCODE -o link | cat",
    ],
)
def test_what_is_open_already_is_written_to_where_it_stands(home: Path, pieces: bytes, script: str):
    found = shell(home, script)
    assert found.returncode == 0, found.stderr
    head, foot = b"head" * ("head" in script), b"foot" * ("foot" in script)
    assert found.stdout == head + pieces + foot


def test_a_substituted_process_gets_the_output(home: Path, pieces: bytes):
    found = shell(home, "ENCODE -o >(cat > copy; touch done); while [ ! -e done ]; do sleep 0.05; done; cat copy")
    assert (found.returncode, found.stdout) == (0, pieces), found.stderr


@pytest.mark.parametrize(
    ("script", "code", "told"),
    [
        ("NMT --version >&-", 2, b"nmt: standard output is closed\n"),
        ("NMT schema >&-", 2, b"nmt: standard output is closed\n"),
        ("NMT --help >&-", 2, b"nmt: standard output is closed\n"),
        ("ENCODE -o file >&- && cat file", 0, b""),
        ("ENCODE >&-", 2, b"nmt: standard output is closed; give -o OUT\n"),
        ("ENCODE 2>&-", 0, b""),
        ("NMT encode text.en --model nowhere 2>&-", 2, b""),
        ("ENCODE -o file >&- 2>&- <&- && cat file", 0, b""),
    ],
)
def test_a_closed_stream_ends_only_what_it_was_for_and_gets_into_no_file(home: Path, pieces: bytes, script, code, told):
    found = shell(home, script)
    assert (found.returncode, found.stderr) == (code, told)
    says_it = code == 0 and ("cat file" in script or script == "ENCODE 2>&-")
    assert found.stdout == (pieces if says_it else b"")


@pytest.mark.slow
def test_text_is_utf8_whatever_the_environment_says(home: Path):
    (home / "c.yaml").write_text(
        "{name: x, model_dir: x, data: {source_lang: en, target_lang: de, train: [{source: text.en, target: text.en}]}}"
    )
    script = "NMT train --config c.yaml --set name=modèle --dry-run; NMT inspect là"
    found = shell(home, script, PYTHONIOENCODING="ascii")
    assert found.stdout.decode().startswith("name: modèle\n")
    assert found.stderr.decode() == "nmt: là: there is no such model directory\n"


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("ln -sf loop loop; ENCODE -o loop", "nmt: loop: cannot be written: its symbolic links lead back to itself\n"),
        (f"NMT encode text.en --model {'m' * 300}", f"nmt: {'m' * 300}: file name too long\n"),
    ],
)
def test_a_name_that_cannot_be_is_the_users_to_mend(home: Path, script: str, told: str):
    found = shell(home, script)
    assert (found.returncode, found.stderr.decode()) == (2, told)
