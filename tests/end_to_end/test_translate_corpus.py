"""Bulk translation through the real command line, on this machine, and with real Ray where a test is marked so.

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
from pool_tasks import build_upper

from nmt_cli.assembly.bulk_translation import _translate_parts
from nmt_cli.system.workers import ZygoteLauncher
from nmt_cli.translation.line_tasks import LinePool
from nmt_cli.translation.pool import Pool, WorkersDied
from nmt_cli.translation.shards import BulkTranslation

ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}


@pytest.fixture
def model(stored_model: Path) -> Path:
    return stored_model


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


def children(pid: int) -> list[int]:
    """The processes that a process has started."""
    tasks = Path(f"/proc/{pid}/task")
    return [int(child) for task in tasks.iterdir() for child in (task / "children").read_text().split()]


LOCAL = ()
RAY = ("--address", "local")
WITH_AND_WITHOUT_RAY = pytest.mark.parametrize(
    "where",
    [pytest.param(LOCAL, marks=pytest.mark.slow), pytest.param(RAY, marks=pytest.mark.ray)],
    ids=["here", "ray"],
)


# Options ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_where_ray_is_missing_an_address_says_what_to_install(model: Path, corpus: Path, tmp_path: Path):
    (tmp_path / "ray.py").write_text("raise ImportError('no ray here')")
    process = start_nmt(
        "translate-corpus", corpus / "test.en", "-o", tmp_path / "out", "--model", model, "--address", "auto",
        stdout=-1, stderr=-1, env={**ENVIRONMENT, "PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    result = finished(process)
    assert (result.code, result.out) == (2, b"")
    assert result.err == "nmt: --address needs Ray: pip install 'nmt-cli[ray]' (no ray here)\n"
    assert not (tmp_path / "out").exists()


@pytest.fixture
def few(tmp_path: Path) -> Path:
    """A file of three lines."""
    path = tmp_path / "few.en"
    path.write_text("the car\n\nthe cat\n")
    return path


def test_ray_is_not_needed_on_one_machine_and_options_that_do_nothing_are_named(
    nmt, model: Path, few: Path, tmp_path: Path, monkeypatch
):
    monkeypatch.setitem(sys.modules, "ray", None)
    idle = ("--temperature", "2", "--seed", "1", "--output-field", "x")
    result = nmt("translate-corpus", few, "-o", tmp_path / "out", "--model", model, *idle)
    assert result.code == 0, result.err
    assert (tmp_path / "out/few.en").read_bytes() == nmt("translate", few, "--model", model).out
    told = [line for line in result.err.splitlines() if "does nothing" in line]
    assert sorted(told) == [
        "warning: --output-field does nothing without --field",
        "warning: --seed does nothing without --sample",
        "warning: --temperature does nothing without --sample",
    ]
    sampled = ("--sample", "--beam-size", "2")
    result = nmt("translate-corpus", few, "-o", tmp_path / "sampled", "--model", model, *sampled)
    assert "warning: --beam-size does nothing with --sample\n" in result.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nowhere.txt",), "nowhere.txt: there is no such file"),
        (("/tmp",), "/tmp: is a directory; give a text file"),
        (
            ("--device", "cuda:1", "--address", "auto"),
            "--device cuda:1: must be auto, cpu or cuda; Ray says which worker gets which GPU",
        ),
        (("--precision", "fp8"), "--precision fp8: must be one of auto, fp32, bf16, int8"),
        (("--checkpoint", "41"), "there is no checkpoint '41'; there are: "),
        (("--model", "/tmp/nothing-here"), "/tmp/nothing-here: there is no such model directory"),
        (("--shortlist", "none"), "none: cannot be read: no such file or directory"),
        (("--address", "localhost:1"), "--address localhost:1: no Ray cluster answers there ("),
        (("--address", "ray://x:1"), "--address ray://x:1: must be auto, local or HOST:PORT, as `ray start` says it"),
        (("--target-lang", "de"), "translates en-fr, not ?-de"),
        (("--field", "text"), "--field text: no input ends in .jsonl or .jsonl.gz"),
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
    assert nmt("translate-corpus", *given, "--batch-tokens", "7", "--beam-size", "5").code == 0
    other = nmt("translate-corpus", *given, "--beam-size", "2", "--threads", "2")
    assert other.code == 2
    assert "was begun with other options: --beam-size (was 5), --threads (was 1). Give the options" in other.err
    weights = nmt("translate-corpus", *given, "--checkpoint", "150")
    assert weights.code == 2
    assert "was begun with other options: --model or --checkpoint. Give the options" in weights.err


# Translation ------------------------------------------------------------------------------------------------------


@WITH_AND_WITHOUT_RAY
def test_the_outputs_are_those_of_translate_whatever_the_files_hold(
    nmt, model: Path, corpus: Path, tmp_path: Path, where: tuple[str, ...]
):
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
    given = (*paths, "-o", out, "--model", model, "--part-lines", "7", "--workers", "2", "--field", "en", *where)
    result = finished(bulk(*given))
    assert (result.code, result.out) == (0, b""), result.err
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
    assert lines == ["6 files, 6 finished before; 0 parts of the others done before, 0 to do (0 lines)"]


def test_samples_are_those_of_translate(nmt, model: Path, corpus: Path, tmp_path: Path):
    """Fails where lines are counted from the beginning of their part."""
    given = ("-o", tmp_path / "out", "--model", model, "--part-lines", "7", "--sample", "--seed", "3")
    result = nmt("translate-corpus", corpus / "test.en", *given)
    assert result.code == 0, result.err
    alone = nmt("translate", corpus / "test.en", "--model", model, "--threads", "1", "--sample", "--seed", "3")
    assert (tmp_path / "out/test.en").read_bytes() == alone.out


@WITH_AND_WITHOUT_RAY
def test_the_work_of_a_killed_worker_is_done_by_another(
    nmt, model: Path, long: Path, tmp_path: Path, where: tuple[str, ...]
):
    """Seen to fail where the work of the dead is not given back."""
    out = tmp_path / "out"
    process = bulk(long, "-o", out, "--model", model, "--part-lines", "10", "--workers", "2", *where)
    assert process.stderr is not None
    if where:
        ready = next(line for line in process.stderr if b"worker ready" in line).decode()
        worker = int(re.search(r"process (\d+)", ready)[1])
        wait_for_parts(out, process)
    else:
        wait_for_parts(out, process)
        (zygote,) = children(process.pid)
        worker = children(zygote)[0]
    os.kill(worker, signal.SIGKILL)
    result = finished(process)
    assert (result.code, result.out) == (0, b""), result.err
    assert "a worker process crashed; the others take over its work\n" in result.err
    assert (out / "long.en").read_bytes() == translated(nmt, model, long)


def test_a_line_over_which_three_workers_die_is_named_with_its_file_and_the_parts_before_it_are_kept(tmp_path: Path):
    source = tmp_path / "in.en"
    source.write_text("a\nb\nc\nd\nkill\nf\n")
    with BulkTranslation.lock(tmp_path / "out"), Pool(ZygoteLauncher(build_upper), workers=2) as pool:
        corpus = BulkTranslation(tmp_path / "out", [source], {}, part_lines=2)
        with pytest.raises(WorkersDied, match=f"^{source}: line 5: 3 worker processes crashed at it"):
            _translate_parts(corpus, LinePool(pool, 2))
        assert corpus.num_parts == 1


@WITH_AND_WITHOUT_RAY
@pytest.mark.parametrize(
    ("number", "code"),
    [
        (signal.SIGKILL, -9),
        pytest.param(signal.SIGTERM, 143, marks=pytest.mark.soak),
        pytest.param(signal.SIGINT, 130, marks=pytest.mark.soak),
        pytest.param(signal.SIGHUP, 129, marks=pytest.mark.soak),
    ],
)
def test_stopped_in_the_middle_the_same_command_goes_on(
    nmt, model: Path, long: Path, tmp_path: Path, number, code, where: tuple[str, ...]
):
    """Breaks (exit code 134) where SIGTERM raises SystemExit through Ray."""
    out = tmp_path / "out"
    given = (long, "-o", out, "--model", model, "--part-lines", "10", "--workers", "2", *where)
    process = bulk(*given)
    wait_for_parts(out, process)
    process.send_signal(number)
    stopped = finished(process)
    assert (stopped.code, stopped.out) == (code, b""), stopped.err
    assert not (out / "long.en").exists()
    if number != signal.SIGKILL:
        assert stopped.err.endswith("nmt: stopped; finished parts are kept. Run the same command again to resume\n")
    again = finished(bulk(*given))
    assert again.code == 0, again.err
    skipped = int(re.search(r"; (\d+) parts? of the others done before", again.err)[1])
    assert 0 < skipped < 60
    assert (out / "long.en").read_bytes() == translated(nmt, model, long)
    assert [path.name for path in (out / ".translate-corpus").iterdir() if path.is_dir()] == []


POOL = """
import sys
sys.path[:0] = [sys.argv[1]]
from pool_tasks import Say, build, build_and_die, build_bug, build_nothing
from nmt_cli.system.cluster import Resources, connect
from nmt_cli.system.errors import NmtError
from nmt_cli.translation.pool import Pool

folder, loads = sys.argv[2], {"stillborn": build_and_die, "nothing": build_nothing, "broken": build_bug}

def tell(call):
    try:
        print(call(), file=sys.stderr)
    except NmtError as error:
        print(f"{error.exit_code} {str(error).splitlines()[0]}", file=sys.stderr)

with connect("local", num_cpus=2) as cluster:
    launcher = lambda name: cluster.launcher(loads.get(name, build), needs=Resources(cpus=1, gpus=0), threads=1)
    with Pool(launcher("good"), workers=2) as pool:
        tickets = [pool.submit(Say((f"wait:{folder}/{n}", f"wait:{folder}/{1 - n}"))) for n in (0, 1)]
        while pool.status().workers < 2: pass
        for n in (0, 1): open(f"{folder}/{n}", "w").close()
        for ticket in tickets: tell(ticket.result)
        for words in (("a", "kill", "b"), ("fail",), ("mistake",), (f"die:{folder}/died", "c")):
            tell(pool.submit(Say(words)).result)
    for name in loads:
        with Pool(launcher(name), workers=1) as pool:
            tell(pool.submit(Say(("a",))).result)
print("data", flush=True)
"""


@pytest.mark.ray
def test_a_pool_on_ray_is_like_any_other(tmp_path: Path):
    """Tasks are shared, errors come through, and what kills every worker is given up and named."""
    tests = Path(__file__).parents[1]
    ran = subprocess.run(
        [sys.executable, "-c", POOL, tests, tmp_path], capture_output=True, check=True, timeout=300,
        env={**ENVIRONMENT, "PYTHONPATH": str(tests)},
    )  # fmt: skip
    told = [
        line
        for line in ran.stderr.decode().splitlines()
        if not line.startswith(("worker ready: ", "a worker process crashed"))
    ]
    assert told == [
        "['WAIT', 'WAIT']",
        "['WAIT', 'WAIT']",
        (
            "1 word kill: 3 worker processes crashed at it, probably because memory ran out; shorten it, or try fewer "
            "--workers or a smaller --batch-tokens"
        ),
        "2 cannot say that",
        "1 a worker process has failed. This is a bug in nmt; please report it with these lines:",
        "['DIE', 'C']",
        (
            "1 the worker processes crash before they have done anything, probably because memory is short; try "
            "--workers 1"
        ),
        "2 there is no such model",
        "1 a worker process has failed. This is a bug in nmt; please report it with these lines:",
    ]
    assert ran.stdout == b"data\n"


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
from pathlib import Path
from nmt_cli.assembly.model_options import ModelOptions
from nmt_cli.assembly.translation_task import DecodingOverrides, TranslationTask
from nmt_cli.assembly.translation_pool import started_pool, worker_builder
from nmt_cli.experiment import Experiment
from nmt_cli.system.cluster import Resources, connect
from nmt_cli.system.errors import NmtError

with connect(sys.argv[1]) as cluster:
    for path in sys.argv[2:]:
        task, models = TranslationTask(file=None, output=None), ModelOptions(device="cpu")
        build = worker_builder("lines", task, [Experiment(Path(path))], models, DecodingOverrides(), ["another"])
        try:
            with started_pool(cluster.launcher(build, needs=Resources(cpus=1, gpus=0), threads=1), 1):
                pass
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
