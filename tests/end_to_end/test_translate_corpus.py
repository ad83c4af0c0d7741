"""Bulk translation through the real command line, with real Ray where a test is marked so.

Nothing is lost and nothing doubled: what comes out is, byte for byte, what `nmt translate` makes of each file.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import re
import secrets
import signal
import socket
import subprocess
import sys
import time
import types
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import Result, start_nmt

ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}


def bulk(*args: str | Path, **how: object) -> subprocess.Popen[bytes]:
    return start_nmt("translate-corpus", *args, stdout=-1, stderr=-1, env=ENVIRONMENT, **how)


def finished(process: subprocess.Popen[bytes]) -> Result:
    out, err = process.communicate(timeout=300)
    return Result(process.returncode, out, err.decode())


def translated(nmt, model: Path, source: Path) -> bytes:
    result = nmt("translate", source, "--model", model, "--threads", "1")
    assert result.code == 0, result.err
    return result.out


@pytest.fixture
def long(tmp_path: Path, corpus: Path) -> Path:
    """A file of many parts."""
    path = tmp_path / "long.en"
    path.write_bytes((corpus / "train.en").read_bytes())
    return path


def wait_for_parts(out: Path, process: subprocess.Popen[bytes]) -> None:
    """Return when the first parts are done, long before the last."""
    while not list(out.glob(".translate-corpus/parts/*/0*")):
        assert process.poll() is None, process.communicate()[1].decode()
        time.sleep(0.01)


# Without Ray ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_without_ray_it_says_what_to_install(model: Path, corpus: Path, tmp_path: Path):
    (tmp_path / "ray.py").write_text("raise ImportError('no ray here')")
    process = start_nmt(
        "translate-corpus", corpus / "test.en", "-o", tmp_path / "out", "--model", model,
        stdout=-1, stderr=-1, env={**ENVIRONMENT, "PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    result = finished(process)
    assert (result.code, result.out) == (2, b"")
    assert result.err == "nmt: this needs Ray: pip install 'nmt-cli[ray]' (no ray here)\n"
    assert not (tmp_path / "out").exists()


def test_options_that_do_nothing_are_named(nmt, model: Path, corpus: Path, tmp_path: Path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", types.ModuleType("ray"))
    idle = ("--temperature", "2", "--seed", "1", "--output-field", "x")
    stops = ("--address", "localhost:1", "--model", model)
    result = nmt("translate-corpus", corpus / "test.en", "-o", tmp_path / "out", *idle, *stops)
    told = [line for line in result.err.splitlines() if "does nothing" in line]
    assert told == [
        "warning: --temperature does nothing without --sample",
        "warning: --seed does nothing without --sample",
        "warning: --output-field does nothing without --field",
    ]
    result = nmt("translate-corpus", corpus / "test.en", "-o", tmp_path / "out", "--sample", "--beam-size", "2", *stops)
    assert "warning: --beam-size does nothing with --sample\n" in result.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nowhere.txt",), "nowhere.txt: there is no such file"),
        (("/tmp",), "/tmp: is a directory; give a text file"),
        (("--device", "cuda:1"), "--device cuda:1: must be auto, cpu or cuda; Ray says which worker gets which GPU"),
        (("--precision", "fp8"), "--precision fp8: must be one of auto, fp32, bf16, int8"),
        (("--checkpoint", "41"), "there is no checkpoint '41'; there are: "),
        (("--model", "/tmp/nothing-here"), "/tmp/nothing-here: there is no such model directory"),
        (("--shortlist", "none"), "none: cannot be read: no such file or directory"),
        (("--address", "localhost:1"), "--address localhost:1: nobody answers there: "),
        (("--address", "ray://x:1"), "--address ray://x:1: must be auto or HOST:PORT, as `ray start` says it"),
        (("--field", "text"), "--field text: no input is called .jsonl or .jsonl.gz"),
        (("--output-field", "x", "--part-lines", "0"), "--part-lines"),
    ],
)
def test_wrong_input_gives_one_clear_message_and_exit_code_2(
    nmt, model: Path, corpus: Path, tmp_path: Path, monkeypatch, arguments, message: str
):
    monkeypatch.setitem(sys.modules, "ray", types.ModuleType("ray"))  # none of these comes so far as to start it
    given = arguments if "--model" in arguments else (*arguments, "--model", str(model))
    result = nmt("translate-corpus", corpus / "test.en", "-o", tmp_path / "out", *given)
    assert result.code == 2, result.err
    assert message in result.err
    assert "Traceback" not in result.err
    assert result.out == b""


def test_what_decides_the_translations_may_not_change_on_the_way(
    nmt, model: Path, corpus: Path, tmp_path: Path, monkeypatch
):
    """The batch may, which decides nothing. Fails if the record holds the options as given: the model's own beam,
    asked for by its number, would count as another."""
    monkeypatch.setitem(sys.modules, "ray", types.ModuleType("ray"))
    source = tmp_path / "empty.en"
    source.touch()
    given = (source, "-o", tmp_path / "out", "--model", model)
    assert nmt("translate-corpus", *given).code == 0
    assert nmt("translate-corpus", *given, "--batch-tokens", "7", "--beam-size", "3").code == 0
    other = nmt("translate-corpus", *given, "--beam-size", "2", "--threads", "2")
    assert other.code == 2
    assert "was begun with another beam_size (3 then, 2 now), threads (1 then, 2 now); repeat that" in other.err
    weights = nmt("translate-corpus", *given, "--checkpoint", "50")
    assert weights.code == 2
    assert re.search(r"was begun with another model \(\w{16} then, \w{16} now\)", weights.err)


# With Ray ---------------------------------------------------------------------------------------------------------


@pytest.mark.ray
def test_the_outputs_are_those_of_translate_whatever_the_files_hold(nmt, model: Path, corpus: Path, tmp_path: Path):
    """Seen to fail with the translations of a part turned round."""
    text = (corpus / "test.en").read_bytes()
    seed = int(os.environ.get("NMT_TEST_SEED") or random.randrange(10**6))
    print(f"NMT_TEST_SEED={seed}")
    sources = {
        "plain.en": text,
        "open.en": text.rstrip(b"\n"),
        "packed.en.gz": gzip.compress(text),
        "empty.en": b"",
        "bytes": b"a" + random.Random(seed).randbytes(800),
        "lines.jsonl.gz": gzip.compress(
            b"".join(b'{"n": 1.50, "en": %s}\n' % json.dumps(line.decode()).encode() for line in text.split(b"\n")[:-1])
        ),
    }
    (tmp_path / "in").mkdir()
    for name, content in sources.items():
        (tmp_path / "in" / name).write_bytes(content)
    paths, out = [tmp_path / "in" / name for name in sources], tmp_path / "out"
    given = (*paths, "-o", out, "--model", model, "--part-lines", "7", "--workers", "2", "--field", "en")
    result = finished(bulk(*given))
    assert (result.code, result.out) == (0, b""), result.err
    assert result.err.count("worker ready: process ") == 2
    expected = {name: translated(nmt, model, tmp_path / "in" / name) for name in list(sources)[:-1]}
    for name in ("plain.en", "open.en", "empty.en", "bytes"):
        assert (out / name).read_bytes() == expected[name], name
    assert gzip.decompress((out / "packed.en.gz").read_bytes()) == expected["packed.en.gz"]
    records = gzip.decompress((out / "lines.jsonl.gz").read_bytes()).split(b"\n")[:-1]
    assert [json.loads(record)["translation"] for record in records] == expected["plain.en"].decode().split("\n")[:-1]
    assert all(record.startswith(b'{"n": 1.50, "en": ') for record in records)
    assert sorted(path.name for path in out.iterdir()) == sorted([*sources, ".translate-corpus"])
    again = finished(bulk(*given))
    assert (again.code, again.out) == (0, b"")
    # Random bytes may look like a table, which is warned about.
    lines = [line for line in again.err.splitlines() if "/in/bytes: looks like" not in line]
    assert lines == ["6 shards, 6 of them finished before; 0 parts of the others done before, 0 to do (0 lines)"]


@pytest.mark.ray
def test_samples_are_those_of_translate(nmt, model: Path, corpus: Path, tmp_path: Path):
    """Seen to fail where a worker counts lines from the beginning of its part."""
    result = finished(
        bulk(
            corpus / "test.en", "-o", tmp_path / "out", "--model", model, "--part-lines", "7", "--workers", "1",
            "--sample", "--seed", "3",
        )
    )  # fmt: skip
    assert result.code == 0, result.err
    alone = nmt("translate", corpus / "test.en", "--model", model, "--threads", "1", "--sample", "--seed", "3")
    assert (tmp_path / "out/test.en").read_bytes() == alone.out


@pytest.mark.ray
def test_the_work_of_a_killed_worker_is_done_by_another(nmt, model: Path, long: Path, tmp_path: Path):
    """Seen to fail where the work of the dead is not given back."""
    out = tmp_path / "out"
    process = bulk(long, "-o", out, "--model", model, "--part-lines", "10", "--workers", "2")
    assert process.stderr is not None
    ready = next(line for line in process.stderr if b"worker ready" in line).decode()
    wait_for_parts(out, process)
    os.kill(int(re.search(r"process (\d+)", ready)[1]), signal.SIGKILL)
    result = finished(process)
    assert (result.code, result.out) == (0, b""), result.err
    assert "a worker died; another does lines " in result.err
    assert (out / "long.en").read_bytes() == translated(nmt, model, long)


@pytest.mark.ray
@pytest.mark.parametrize(
    ("number", "code"),
    [
        (signal.SIGKILL, -9),
        pytest.param(signal.SIGTERM, 143, marks=pytest.mark.soak),
        pytest.param(signal.SIGINT, 130, marks=pytest.mark.soak),
        pytest.param(signal.SIGHUP, 129, marks=pytest.mark.soak),
    ],
)
def test_stopped_in_the_middle_the_same_command_goes_on(nmt, model: Path, long: Path, tmp_path: Path, number, code):
    """Breaks (exit code 134) where SIGTERM raises SystemExit through Ray."""
    out = tmp_path / "out"
    given = (long, "-o", out, "--model", model, "--part-lines", "10", "--workers", "2")
    process = bulk(*given)
    wait_for_parts(out, process)
    process.send_signal(number)
    stopped = finished(process)
    assert (stopped.code, stopped.out) == (code, b""), stopped.err
    assert not (out / "long.en").exists()
    if number != signal.SIGKILL:
        assert stopped.err.endswith("nmt: stopped; what is done is kept, and the same command goes on\n")
    again = finished(bulk(*given))
    assert again.code == 0, again.err
    skipped = int(re.search(r"; (\d+) parts of the others done before", again.err)[1])
    assert 0 < skipped < 60
    assert (out / "long.en").read_bytes() == translated(nmt, model, long)
    assert [path.name for path in (out / ".translate-corpus").iterdir() if path.is_dir()] == []


POOL = """
import os, sys, time
from pathlib import Path
from nmt_cli.system.cluster import Resources, connect
from nmt_cli.system.errors import InputError, NmtError

folder, case = Path(sys.argv[1]), sys.argv[2]

def start():
    with (folder / "opened").open("a") as file:
        file.write(f"{os.getpid()}\\n")
    if case == "stillborn":
        os._exit(3)
    def work(number):
        while case == "good" and len((folder / "opened").read_text().split()) < 2:
            time.sleep(0.01)
        if case == "mortal" and number == 5:
            os._exit(3)
        if case == "wrong" and number == 5:
            raise InputError("five is wrong")
        if case == "bug" and number == 5:
            raise KeyError("five")
        return number * number
    return work

with connect(None, num_cpus=2) as cluster:
    pool = cluster.hire(start, num_workers=2, needs=Resources(cpus=1, gpus=0))
    try:
        pool.wait_for_one()
        found = dict(pair for pair in pool.answers((f"item {n}", n) for n in range(20)) if pair)
        print(found == {f"item {n}": n * n for n in range(20)}, file=sys.stderr)
    except NmtError as error:
        print(f"{error.exit_code} {error}", file=sys.stderr)
print("data", flush=True)
"""


@pytest.mark.ray
@pytest.mark.parametrize(
    ("case", "said", "opened"),
    [
        ("good", "True", 2),
        ("wrong", "2 five is wrong", None),
        ("bug", "1 item 5 failed: KeyError: 'five'", None),
        ("mortal", "1 item 5: 3 workers died one after the other while they worked on it; the last: ", None),
        ("stillborn", "1 3 workers in a row died before they were ready: ", None),
    ],
)
def test_a_pool_of_workers(tmp_path: Path, case: str, said: str, opened: int | None):
    """Each opens what it works with once; errors come through; what kills every worker is given up and named."""
    ran = subprocess.run(
        [sys.executable, "-c", POOL, tmp_path, case], capture_output=True, check=True, env=ENVIRONMENT, timeout=300
    )
    lines = ran.stderr.decode().splitlines()
    assert any(line.startswith(said) for line in lines), lines
    assert ran.stdout == b"data\n"
    if opened is not None:
        assert len((tmp_path / "opened").read_text().split()) == opened


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a cluster of this machine alone, with a token of its own, ended afterwards."""
    (tmp_path / "token").write_text(secrets.token_hex(32))
    monkeypatch.setitem(ENVIRONMENT, "RAY_AUTH_MODE", "token")
    monkeypatch.setitem(ENVIRONMENT, "RAY_AUTH_TOKEN_PATH", str(tmp_path / "token"))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        str(Path(sys.executable).parent / "ray"), "start", "--head", "--block", f"--port={port}", "--num-cpus=2",
        "--include-dashboard=false", "--disable-usage-stats", "--node-ip-address=127.0.0.1",
        "--object-store-memory=100000000",
    ]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=ENVIRONMENT)
    assert process.stdout is not None
    said = b""
    while b"Ray runtime started" not in said:
        said += (line := process.stdout.readline())
        assert line, said
    yield f"127.0.0.1:{port}"
    process.terminate()
    process.communicate(timeout=60)


ELSEWHERE = """
import sys
from functools import partial
from pathlib import Path
from nmt_cli.system.cluster import Resources, connect
from nmt_cli.assembly.bulk_translation import open_work
from nmt_cli.system.errors import NmtError

with connect(sys.argv[1]) as cluster:
    for path in sys.argv[2:]:
        start = partial(open_work, [Path(path)], ["another"], {"checkpoint": "best"}, "cpu")
        pool = cluster.hire(start, num_workers=1, needs=Resources(cpus=1, gpus=0))
        try:
            pool.wait_for_one()
        except NmtError as error:
            print(f"{error.exit_code} {error}", file=sys.stderr)
"""


@pytest.mark.soak
@pytest.mark.ray
def test_a_cluster_is_joined_and_a_worker_that_sees_no_model_or_another_says_so(
    nmt, cluster: str, model: Path, corpus: Path, tmp_path: Path
):
    given = (corpus / "test.en", "-o", tmp_path / "out", "--model", model, "--part-lines", "7")
    result = finished(bulk(*given, "--address", cluster))
    assert (result.code, result.out) == (0, b""), result.err
    assert (tmp_path / "out/test.en").read_bytes() == translated(nmt, model, corpus / "test.en")
    ran = subprocess.run(
        [sys.executable, "-c", ELSEWHERE, cluster, "/nowhere/model", model],
        capture_output=True, check=False, env=ENVIRONMENT, timeout=300,
    )  # fmt: skip
    said = ran.stderr.decode()
    assert ran.returncode == 0, said
    assert re.search(r"^2 worker on \S+: /nowhere/model: there is no such model directory$", said, re.M), said
    assert re.search(rf"^2 worker on \S+: {model}: holds another model here than where the command", said, re.M), said
    elsewhere = ("-o", tmp_path / "cuda", "--model", model)
    cuda = finished(bulk(corpus / "dev.en", *elsewhere, "--address", cluster, "--device", "cuda"))
    assert cuda.code == 2
    assert cuda.err.endswith("nmt: --device cuda: Ray has no GPU; take cpu or auto\n")
