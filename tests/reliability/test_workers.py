"""`nmt translate` with several workers: the bytes of one, whatever dies, and nothing left behind."""

from __future__ import annotations

import os
import pty
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from command_line import start_nmt
from typer.main import get_command

from nmt_cli.cli import app
from nmt_cli.system.workers import ZygoteLauncher

pytestmark = pytest.mark.slow
NUM_LINES = 24
SCORE = re.compile(rb"-?\d+\.\d+(?:e-?\d+)?")


@pytest.fixture
def model(stored_model: Path) -> Path:
    return stored_model


@pytest.fixture(scope="module")
def text(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Lines of many lengths, some of them blank, broken or very long."""
    draw = random.Random(3)
    lines = (corpus / "train.en").read_bytes().splitlines()[:NUM_LINES]
    odd = [b"", b"  ", b"\xff the car", b"<b>the car</b> %s", b"the cat sees the dog and " * 8, "the ‹car› …".encode()]
    for line in odd:
        lines[draw.randrange(NUM_LINES)] = line
    path = tmp_path_factory.mktemp("text") / "in.en"
    path.write_bytes(b"\n".join(lines))
    return path


def wait_for(condition: Callable[[], object], seconds: float = 300.0) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def below(pid: int) -> list[int]:
    """Return the processes that a process has started, and theirs, those nearer to it first."""
    found = []
    for entry in os.listdir("/proc"):
        with suppress(OSError):
            if entry.isdigit() and int(Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()[1]) == pid:
                found.append(int(entry))
    return [*found, *(far for near in found for far in below(near))]


def is_alive(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


WAYS = (
    "--format jsonl --n-best 3 --beam-size 3 --alignment soft --confidence",
    "--sample --seed 3 --temperature 0.7 --markup --shard 2/2",
    "--prefix PREFIX --glossary TERMS --format moses --precision int8",
    "--model MODEL --copy-unknown --normalize-input --beam-size 1 --batch-tokens 200 --alignment hard",
    "--glossary TERMS --glossary-weight 2 --keep-input --checkpoint 150 --length-penalty 0.2",
    "--shortlist SHORTLIST --no-repeat-ngram 2 --precision bf16 --source-lang en --target-lang fr",
    "--paragraphs --confidence -o OUT",
)
"""Options of `nmt translate`; a word in capitals is a file."""
ELSEWHERE = {"--workers", "--threads", "--device", "--zero-shot", "--overwrite", "--quiet", "--help"}
"""Options that are tested elsewhere: the number of workers and threads itself, documents, and other models."""


def test_every_option_of_translate_is_among_those_with_which_workers_are_compared():
    command = get_command(app).commands["translate"]
    options = [option for option in command.params if option.opts[-1].startswith("-") and not option.hidden]
    tried = " ".join(WAYS).split()
    missing = [one.opts for one in options if not {*one.opts, *one.secondary_opts} & {*tried, *ELSEWHERE}]
    assert missing == []


@pytest.fixture
def files(nmt, model: Path, corpus: Path, tmp_path: Path) -> dict[str, Path]:
    """The files that the options name."""
    found = {name: tmp_path / name.lower() for name in ("PREFIX", "TERMS", "SHORTLIST", "OUT")} | {"MODEL": model}
    found["PREFIX"].write_bytes(b"".join(b"la\n" if number % 3 == 0 else b"\n" for number in range(NUM_LINES)))
    found["TERMS"].write_text("car\tbagnole\ncat\tminou\n")
    made = nmt("shortlist", corpus / "dev.en", corpus / "dev.fr", "--model", model, "-o", found["SHORTLIST"])
    assert made.code == 0, made.err
    return found


def test_the_bytes_are_those_of_one_worker_with_every_option(
    nmt, model: Path, text: Path, files: dict[str, Path], monkeypatch
):
    """One worker is a thread of this process here; the others are processes. Their scores agree to 1e-4."""

    def output(way: str, workers: int) -> tuple[bytes, list[float], list[str]]:
        found = nmt("translate", text, "--model", model, "--workers", workers, *(files.get(w, w) for w in way.split()))
        assert found.code == 0, (way, found.err)
        told = [line for line in found.err.splitlines() if not re.search(r"(line|sentence)s/s", line)]
        written = sorted(files["OUT"].parent.glob("out*"))
        content = b"".join(path.read_bytes() for path in written)
        for path in written:
            path.unlink()
        scores = [float(score) for score in SCORE.findall(found.out + content)]
        return SCORE.sub(b"#", found.out + content), scores, told

    expected = [output(way, 1) for way in WAYS]
    monkeypatch.setattr("nmt_cli.assembly.translation_pool.launcher_of", lambda build, **_: ZygoteLauncher(build))
    monkeypatch.setattr("nmt_cli.translation.line_tasks.MIN_CHUNK_LINES", 4)
    for number, (way, (data, scores, told)) in enumerate(zip(WAYS, expected, strict=True)):
        assert output(way, 4 if number % 2 else 2) == (data, pytest.approx(scores, abs=1e-4), told), way


@pytest.mark.parametrize("workers", [2, 4])
def test_a_line_has_the_same_translation_in_every_order(nmt, model: Path, text: Path, monkeypatch, workers: int):
    lines = text.read_bytes().splitlines()
    alone = dict(zip(lines, nmt("translate", text, "--model", model).out.splitlines(), strict=True))
    monkeypatch.setattr("nmt_cli.assembly.translation_pool.launcher_of", lambda build, **_: ZygoteLauncher(build))
    monkeypatch.setattr("nmt_cli.translation.line_tasks.MIN_CHUNK_LINES", 4)
    random.Random(workers).shuffle(lines)
    found = nmt("translate", "--model", model, "--workers", workers, stdin=b"".join(line + b"\n" for line in lines))
    assert found.out.splitlines() == [alone[line] for line in lines]


def begun(model: Path, endless: Path, out: Path) -> subprocess.Popen[bytes]:
    """Start a translation with two workers, and return when its first lines are written."""
    with out.open("wb") as file:
        process = start_nmt(
            "translate", endless, "--model", model, "--workers", "2", "--beam-size", "5",
            stdout=file, stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
    wait_for(lambda: out.stat().st_size or process.poll() is not None)
    return process


@pytest.fixture
def endless(text: Path, tmp_path: Path) -> Path:
    """More lines than are translated in a test."""
    path = tmp_path / "endless.en"
    path.write_bytes(b"".join(line + b"\n" for line in text.read_bytes().splitlines()) * 3000)
    return path


@pytest.mark.parametrize(
    ("end", "code"),
    [
        (lambda pid: os.killpg(pid, signal.SIGINT), 130),
        (lambda pid: os.killpg(pid, signal.SIGTERM), 143),
        (lambda pid: os.kill(pid, signal.SIGTERM), 143),
        (lambda pid: os.kill(pid, signal.SIGHUP), 129),
        (lambda pid: os.kill(pid, signal.SIGKILL), -9),
    ],
    ids=["Ctrl-C", "SIGTERM to all", "SIGTERM", "SIGHUP", "SIGKILL"],
)
def test_whatever_ends_the_command_no_process_is_left(model: Path, endless: Path, tmp_path: Path, end, code: int):
    process = begun(model, endless, tmp_path / "out")
    left = below(process.pid)
    assert len(left) == 3
    end(process.pid)
    _, told = process.communicate(timeout=300)
    assert (process.returncode, b"Traceback" in told) == (code, False)
    wait_for(lambda: not any(map(is_alive, left)))


def test_when_the_reader_of_the_output_goes_no_process_is_left(model: Path, endless: Path):
    process = start_nmt(
        "translate", endless, "--model", model, "--workers", "2", stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    process.stdout.readline()
    left = below(process.pid)
    process.stdout.close()
    with process.stderr as messages:
        told = messages.read()
    assert (process.wait(300), b"Traceback" in told) in ((0, False), (141, False))
    assert left
    wait_for(lambda: not any(map(is_alive, left)))


def test_killed_while_the_model_is_loaded_the_command_leaves_no_process(model: Path, endless: Path):
    process = start_nmt("translate", endless, "--model", model, stdout=subprocess.DEVNULL)
    wait_for(lambda: below(process.pid))
    left = below(process.pid)
    process.kill()
    process.wait()
    wait_for(lambda: not any(map(is_alive, left)))


def test_killed_workers_change_nothing(nmt, model: Path, text: Path, tmp_path: Path):
    lines = text.read_bytes().splitlines() * 40
    several = tmp_path / "several.en"
    several.write_bytes(b"\n".join(lines) + b"\n")
    expected = nmt("translate", several, "--model", model, "--beam-size", "5")
    command = ("translate", several, "--model", model, "--beam-size", "5", "--workers", "2")
    process = start_nmt(*command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_for(lambda: len(below(process.pid)) == 3)
    for worker in below(process.pid)[1:]:
        os.kill(worker, signal.SIGKILL)
    out, told = process.communicate(timeout=300)
    assert process.returncode == 0, told
    assert out == expected.out


def test_a_person_who_types_is_told_how_to_end_and_sees_nothing_drawn(model: Path):
    ours, theirs = pty.openpty()
    process = start_nmt("translate", "--model", model, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    shown = b""

    def shows(wanted: bytes) -> bool:
        nonlocal shown
        with suppress(OSError):
            shown += os.read(ours, 4096)
        return wanted in shown

    wait_for(lambda: shows(b"Ctrl-D ends"))
    os.write(ours, b"the car\n")
    wait_for(lambda: shows(b"the car\r\n") and shown.partition(b"the car\r\n")[2].endswith(b"\r\n"))
    os.write(ours, b"\x04")
    wait_for(lambda: shows(b"lines/s"))
    assert process.wait(300) == 0
    os.close(ours)
    said = shown[shown.index(b"type a sentence") :]
    assert said.count(b"\r\n") == 4  # the hint, the line, its translation, the summary
    assert b"translating" not in shown
    assert b"1 line in" in shown


def test_the_process_that_reads_and_writes_loads_no_library_of_the_workers(model: Path, text: Path, tmp_path: Path):
    """It would start and end later, and take memory. Breaks with one import of what a translation is made of."""
    program = f"""
import sys
from contextlib import suppress
from nmt_cli.cli import main
sys.argv = ["nmt", "translate", {str(text)!r}, "--model", {str(model)!r}, "-o", {str(tmp_path / "out")!r}]
with suppress(SystemExit):
    main()
print(len(sys.modules), *sys.modules)
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=600)
    number, *loaded = ran.stdout.split()
    assert len((tmp_path / "out").read_bytes().splitlines()) == NUM_LINES
    assert not {"torch", "numpy", "sentencepiece", "safetensors", "tqdm"} & set(loaded)
    assert not {
        name for name in loaded if name.startswith(("nmt_cli.normalization", "nmt_cli.search", "nmt_cli.model"))
    }
    assert int(number) < 450
