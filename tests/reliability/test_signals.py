"""SIGINT, SIGTERM and SIGHUP: what they end, with which exit code, and what is saved; what was ignored stays so."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import string
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

import pytest
from command_line import contents, timer_kept
from faults import Faulty, Operation
from marks import others_slow, others_soak
from test_killed import resume_and_compare, telling, train

from nmt_cli.system import signals
from nmt_cli.training import validation

ROOT = Path(__file__).parents[2]
MODEL = ROOT / "tests/models/format-1/run"
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}
SAVED = "is saved; run the same command again to resume"
some_signals = pytest.mark.parametrize(
    "number",
    [pytest.param(n, marks=() if n == signal.SIGHUP else pytest.mark.soak, id=n.name) for n in CODES],
)
IGNORED = {"INT": signal.SIGINT, "HUP": signal.SIGHUP, "TERM": signal.SIGTERM}

Process = subprocess.Popen[str]
Start = Callable[..., Process]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start `nmt`, or with `program` what a text of Python does before it, with some signals ignored."""
    started: list[Process] = []

    def start(*args: str | Path, program: str = "", ignored: str = "") -> Process:
        source = f"{program}\nfrom nmt_cli.__main__ import main\nmain()"
        command = [sys.executable, "-c", source, *map(str, args)]
        if ignored:
            command = ["sh", "-c", f'trap "" {ignored}; exec "$@"', "sh", *command]
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        process = subprocess.Popen(command, env=environment, text=True, **pipes)  # type: ignore[call-overload]
        started.append(process)
        return process

    yield start
    for process in started:
        with process:  # closes its streams, and waits
            process.kill()


def wait_for(process: Process, pattern: str) -> None:
    """Read what it says on stderr until a line fits."""
    assert process.stderr is not None
    told = []
    for line in process.stderr:
        told.append(line)
        if re.search(pattern, line):
            return
    raise AssertionError("".join(told))


def ended(process: Process) -> tuple[int, str]:
    """The exit code, and what it said last on stderr."""
    _, told = process.communicate(timeout=300)
    return process.returncode, told.splitlines()[-1] if told else ""


def told_of(run: Path, event: str) -> list[int]:
    records = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [record["step"] for record in records if record["event"] == event]


def index_of(run: Path) -> dict[str, object]:
    return json.loads((run / "checkpoints/index.json").read_text())


# Training, in a step ----------------------------------------------------------------------------------------------


@some_signals
def test_a_signal_ends_a_training_after_its_step_with_a_checkpoint(start: Start, config: Path, number: int):
    process = start(*train(config, "run", "training.max_steps=100000", "training.validation_freq=100000"))
    wait_for(process, "^update 2 ")
    process.send_signal(number)
    code, last = ended(process)
    assert code == CODES[number], last
    step = index_of(config.parent / "run")["last"]
    assert last == f"nmt: interrupted at update {step}, which {SAVED}"
    assert (config.parent / "run/logs/train.log").read_text().splitlines()[-1] == last


@pytest.mark.slow
@pytest.mark.parametrize("ignored", others_soak("HUP", "INT", "TERM"))
def test_a_training_does_not_hear_what_it_was_started_to_ignore(start: Start, config: Path, ignored: str):
    """A script has SIGINT ignored for what it puts in the background, nohup SIGHUP."""
    arguments = train(config, "run", "training.max_steps=100000", "training.validation_freq=100000")
    process = start(*arguments, ignored=ignored)
    wait_for(process, "^update 2 ")
    process.send_signal(IGNORED[ignored])
    wait_for(process, "^update")
    wait_for(process, "^update")
    heard = signal.SIGHUP if ignored == "TERM" else signal.SIGTERM
    process.send_signal(heard)
    code, last = ended(process)
    assert (code, SAVED in last) == (CODES[heard], True)


@pytest.mark.slow
def test_ctrl_c_does_not_reach_a_training_in_the_background_of_a_script(config: Path):
    arguments = map(str, train(config, "run", "training.max_steps=100000", "training.validation_freq=100000"))
    script = f'"{sys.executable}" -m nmt_cli "$@" & echo $!; wait'
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    shell = subprocess.Popen(
        ["sh", "-c", script, "sh", *arguments],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        assert shell.stdout is not None
        training = int(shell.stdout.readline())
        wait_for(shell, "^update 2 ")
        os.killpg(shell.pid, signal.SIGINT)  # as a terminal does
        wait_for(shell, "^update")
        wait_for(shell, "^update")
        os.kill(training, signal.SIGTERM)
        assert "interrupted at update" in shell.communicate(timeout=300)[1]
    finally:
        os.killpg(shell.pid, signal.SIGKILL) if shell.poll() is None else None


SAYS_WHAT_IT_HEARS = """
import os
from nmt_cli.system.signals import SignalDeferrer
def hear(*given, real=SignalDeferrer._handle_signal):
    real(*given)
    os.write(2, b"heard\\n")
SignalDeferrer._handle_signal = hear
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", others_soak(signal.SIGTERM, signal.SIGINT))
def test_a_signal_that_comes_twice_leaves_the_checkpoint(start: Start, config: Path, number: int):
    """Slurm and terminals send it to torchrun and to what it has started, and torchrun sends it on."""
    arguments = train(config, "run", "training.max_steps=100000", "training.validation_freq=100000")
    process = start(*arguments, program=SAYS_WHAT_IT_HEARS)
    wait_for(process, "^update 2 ")
    process.send_signal(number)
    wait_for(process, "heard")  # of signals that wait together the lowest is heard first, and equal ones once
    for again in (number, signal.SIGHUP):
        process.send_signal(again)
    code, last = ended(process)
    assert (code, SAVED in last) == (CODES[number], True)


SAVES_FOREVER = """
import sys, time
from nmt_cli.training.checkpoints import Checkpoints
def save(*_):
    print("saving", file=sys.stderr, flush=True)
    time.sleep(10_000)
Checkpoints.save = save
"""


@pytest.mark.slow
def test_a_second_interruption_ends_a_training_at_once(start: Start, config: Path):
    """SIGTERM may come again; who types Ctrl-C insists."""
    process = start(*train(config, "run"), program=SAVES_FOREVER)
    wait_for(process, "^saving")
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGTERM)
    time.sleep(1.5)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert ended(process)[0] == 130


IN_A_TERMINAL = """
import os, pty, signal, sys
child, terminal = pty.fork()
if child == 0:
    if sys.argv[1] == "ignored":
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    os.execv(sys.executable, [sys.executable, "-m", "nmt_cli", *sys.argv[2:]])
seen = b""
while b"update 2 " not in seen:
    seen += os.read(terminal, 1000)
os.close(terminal)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.slow
@pytest.mark.parametrize(("ignored", "code"), [("heard", 129), pytest.param("ignored", 0, marks=pytest.mark.soak)])
def test_a_terminal_that_is_closed_ends_a_training_or_does_not_matter_to_it(config: Path, ignored: str, code: int):
    """Fails if a message that can no longer be shown is an error."""
    sets = ["training.validation_freq=100000", "training.max_steps=" + ("100000" if ignored == "heard" else "40")]
    command = [sys.executable, "-c", IN_A_TERMINAL, ignored, *map(str, train(config, "run", *sets))]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (0, f"{code}\n"), ran.stderr
    run = config.parent / "run"
    assert index_of(run)["finished"] == ("max_steps 40 reached" if ignored == "ignored" else None)
    assert (run / "checkpoints" / f"step-{index_of(run)['last']:08d}").is_dir()


# Training, in a validation ----------------------------------------------------------------------------------------


@pytest.mark.slow
@some_signals
def test_a_signal_in_a_validation_saves_the_step_and_leaves_the_validation(start: Start, config: Path, number: int):
    """In one that would take days."""
    process = start(*train(config, "run", "decoding.max_length_b=1000000", "training.logging_freq=6"))
    wait_for(process, "^update 6 ")
    time.sleep(1.0)
    assert process.poll() is None
    process.send_signal(number)
    assert ended(process) == (CODES[number], f"nmt: interrupted at update 6, which {SAVED}")
    run = config.parent / "run"
    assert (index_of(run)["last"], index_of(run)["best"]) == (6, [])
    assert told_of(run, "validation") == []
    assert told_of(run, "checkpoint") == [3, 6]


MOMENTS = {
    "before": (validation.Validator, "__call__"),
    "in the loss": (validation, "evaluate_nll"),
    "in the translation": (validation.Translator, "translate_window"),
    "in the scores": (validation, "score_corpus"),
}
ENDS = {"inside": 6, "at the end of a validated run": 12, "at an end that is not due": 8}


def interrupt(monkeypatch: pytest.MonkeyPatch, moment: str, *, at_call: int = 1) -> None:
    """Send SIGTERM to this process at a call of what belongs to the moment."""
    where, name = MOMENTS[moment]
    real, calls = getattr(where, name), 0

    def interrupted(*rest, **how):
        nonlocal calls
        calls += 1
        if calls == at_call:
            os.kill(os.getpid(), signal.SIGTERM)
        return real(*rest, **how)

    monkeypatch.setattr(where, name, interrupted)


def all_of(run: Path) -> dict[str, object]:
    """Return the contents of the directory, without times."""
    found: dict[str, object] = dict(contents(run))
    for path in sorted((run / "checkpoints").glob("step-*/*.json")):
        values = json.loads(path.read_text())
        values.pop("seconds", None)
        found[str(path.relative_to(run))] = values
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("moment", "step"),
    [
        ("in the translation", 6),
        *(pytest.param(moment, 6, marks=pytest.mark.soak) for moment in MOMENTS if moment != "in the translation"),
        *(pytest.param("in the translation", step, marks=pytest.mark.soak) for step in (8, 12)),
    ],
)
def test_a_validation_that_a_signal_cut_short_is_done_again(nmt, config: Path, monkeypatch, moment: str, step: int):
    """In the midst of a run, at an end where validation is due, and at one where it is not. Fails if the state
    does not count the validation, or counts it twice, and where its record stands behind the checkpoint's."""
    sets = ["training.schedule=plateau", "training.plateau_patience=1", "training.plateau_factor=0.5"]
    sets += ["training.early_stopping_metric=loss", f"training.max_steps={8 if step == 8 else 12}"]
    sets += ["training.validation_freq=3", "training.learning_rate=0.05"] if step == 12 else []
    assert nmt(*train(config, "whole", *sets)).code == 0
    with monkeypatch.context() as patched:
        interrupt(patched, moment, at_call={6: 1, 8: 2, 12: 4}[step])
        result = nmt(*train(config, "run", *sets))
        assert result.code == 143, result.err
        assert result.err.splitlines()[-1] == f"nmt: interrupted at update {step}, which {SAVED}"
    run = config.parent / "run"
    assert (index_of(run)["last"], index_of(run)["finished"]) == (step, None)
    assert step not in told_of(run, "validation")
    result = nmt(*train(config, "run", *sets))
    assert result.code == 0, result.err
    assert all_of(run) == all_of(config.parent / "whole")
    assert "finished already" in nmt(*train(config, "run", *sets)).err


@pytest.mark.soak
def test_a_validation_that_is_cut_short_twice_is_done_once(nmt, config: Path, monkeypatch):
    assert nmt(*train(config, "whole")).code == 0
    for _ in range(2):
        with monkeypatch.context() as patched:
            interrupt(patched, "in the translation")
            assert nmt(*train(config, "run")).code == 143
    assert nmt(*train(config, "run")).code == 0
    assert all_of(config.parent / "run") == all_of(config.parent / "whole")


@pytest.mark.slow
def test_patience_counts_a_validation_that_was_cut_short_once(nmt, config: Path, monkeypatch):
    """It ends the run. Fails if the checkpoint is left as it was before the validation: the run would never be
    found finished."""
    sets = ("training.patience=1", "training.learning_rate=1e-30", "training.validation_freq=3")
    assert nmt(*train(config, "whole", *sets)).code == 0
    with monkeypatch.context() as patched:
        interrupt(patched, "in the translation", at_call=2)
        assert nmt(*train(config, "run", *sets)).code == 143
    assert "finished: patience 1 reached without a better score" in nmt(*train(config, "run", *sets)).err
    assert "finished already (patience 1 reached without a better score)" in nmt(*train(config, "run", *sets)).err
    assert all_of(config.parent / "run") == all_of(config.parent / "whole")


@pytest.mark.slow
@pytest.mark.parametrize("stop_at", others_soak((4, 5, 7, 8), (2,), (4,), (8,), (11,)), ids=str)
def test_stopped_between_its_checkpoints_a_training_leaves_the_files_of_an_undisturbed_one(
    nmt, config: Path, monkeypatch, stop_at: tuple[int, ...]
):
    """Fails if the checkpoint of a signal takes the place of one that is due, or stays in the metrics."""
    from nmt_cli.training import trainer

    assert nmt(*train(config, "whole")).code == 0
    real = trainer.Trainer._step
    for step in stop_at:

        def stopped(self, *rest, step=step):
            if self.state.step == step - 1:
                os.kill(os.getpid(), signal.SIGTERM)
            real(self, *rest)

        with monkeypatch.context() as patched:
            patched.setattr(trainer.Trainer, "_step", stopped)
            assert nmt(*train(config, "run")).code == 143
    assert nmt(*train(config, "run")).code == 0
    assert all_of(config.parent / "run") == all_of(config.parent / "whole")


@pytest.mark.slow
def test_stopped_while_it_fits_the_confidence_a_training_fits_it_when_it_goes_on(nmt, config: Path, monkeypatch):
    """Fails if a run counts as finished before."""
    command = import_module("nmt_cli.assembly.training_run")
    with monkeypatch.context() as patched:
        patched.setattr(command, "calibrate_after_training", lambda *_: os.kill(os.getpid(), signal.SIGTERM))
        assert nmt(*train(config, "run")).code == 143
    fitted = []
    monkeypatch.setattr(command, "calibrate_after_training", lambda *_: fitted.append(1))
    assert "finished: max_steps 12 reached" in nmt(*train(config, "run")).err
    assert "finished already (max_steps 12 reached)" in nmt(*train(config, "run")).err
    assert fitted == [1]


@pytest.mark.soak
def test_a_signal_in_a_step_that_is_to_be_validated_does_not_wait_for_it(nmt, config: Path, monkeypatch):
    from nmt_cli.training import trainer

    assert nmt(*train(config, "whole")).code == 0
    real = trainer.Trainer._step
    with monkeypatch.context() as patched:

        def stopped(self, *rest):
            if self.state.step == 5:
                os.kill(os.getpid(), signal.SIGTERM)
            real(self, *rest)

        patched.setattr(trainer.Trainer, "_step", stopped)
        patched.setattr(validation.Validator, "__call__", lambda *_: pytest.fail("validated"))
        assert nmt(*train(config, "run")).code == 143
    assert nmt(*train(config, "run")).code == 0
    assert all_of(config.parent / "run") == all_of(config.parent / "whole")


def killed_while_it_makes_up(
    nmt, faulty: Faulty, config: Path, monkeypatch, choose: Callable[[Operation], bool]
) -> None:
    """Kill a run that does a validation again, at chosen operations on the disk before the next checkpoint."""
    monkeypatch.setattr(faulty, "translates_dev_set", True)
    assert nmt(*train(config, "whole")).code == 0
    with monkeypatch.context() as patched:
        interrupt(patched, "in the translation")
        assert nmt(*train(config, "cut")).code == 143

    def copied(name: str) -> str:
        shutil.copytree(config.parent / "cut", config.parent / name)
        return name

    operations = faulty.run(*train(config, copied("first"))).operations
    next_save = next(number for number, (what, _) in enumerate(operations) if what == "save")
    chosen = [number for number in telling(operations) if number < next_save and choose(operations[number])]
    assert any(Path(path).name.startswith(".trainer.json.") for _, path in map(operations.__getitem__, chosen))
    whole = contents(config.parent / "whole")
    for number in chosen:
        name = copied(f"killed-at-{number}")
        killed = faulty.run(*train(config, name), at=number)
        assert killed.code == -signal.SIGKILL, (operations[number], killed.err)
        resume_and_compare(faulty, config, name, whole=whole)


@pytest.mark.soak
def test_killed_while_a_validation_is_made_up_it_ends_like_an_undisturbed_run(nmt, faulty, config: Path, monkeypatch):
    """Fails if the index is written after the trainer's state."""

    def is_judgement(operation: Operation) -> bool:
        return operation[0] == "replace" and Path(operation[1]).name.startswith((".index", ".trainer", ".meta"))

    killed_while_it_makes_up(nmt, faulty, config, monkeypatch, is_judgement)


@pytest.mark.soak
def test_killed_anywhere_while_a_validation_is_made_up_it_ends_like_an_undisturbed_run(
    nmt, faulty, config: Path, monkeypatch
):
    killed_while_it_makes_up(nmt, faulty, config, monkeypatch, lambda _: True)


# Other commands ---------------------------------------------------------------------------------------------------


def unfinished(directory: Path) -> list[Path]:
    return list(directory.glob(".out.*.tmp"))


@some_signals
def test_a_signal_ends_a_command_and_removes_what_is_half_written(start: Start, tmp_path: Path, number: int):
    process = start("encode", "--model", MODEL, "-o", tmp_path / "out")
    while not unfinished(tmp_path):
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(number)
    assert process.wait(timeout=300) == CODES[number]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("is_named", [False, True], ids=["standard input", "named pipe"])
def test_a_signal_ends_a_filter_that_waits_for_its_next_line(start: Start, tmp_path: Path, is_named: bool):
    """Fails if the input is closed while another thread waits in it."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    process = start("encode", *([pipe] if is_named else []), "--model", MODEL)
    with pipe.open("w") if is_named else process.stdin as into:
        into.write("Where are the old teachers?\n")
        into.flush()
        assert process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=300) == 130


@pytest.mark.parametrize("ignored", others_slow(*IGNORED))
def test_a_command_does_not_hear_what_it_was_started_to_ignore(start: Start, tmp_path: Path, ignored: str):
    process = start("encode", "--model", MODEL, "-o", tmp_path / "out", ignored=ignored)
    while not unfinished(tmp_path):
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(IGNORED[ignored])
    assert process.communicate("Where are the old teachers?\n", timeout=300) == ("", "")
    assert (process.returncode, (tmp_path / "out").exists()) == (0, True)


TELLS_OF_ITSELF = """
from sentencepiece import SentencePieceTrainer
real = SentencePieceTrainer.train
SentencePieceTrainer.train = staticmethod(lambda **how: real(**how | {"minloglevel": 0}))
"""


@some_signals
def test_a_signal_does_not_wait_for_sentencepiece(start: Start, config: Path, number: int):
    """Which trains for seconds without a line of Python in between, and tells of each round."""
    source = config.parent / "long.en"
    letters = string.ascii_lowercase
    words = [a + b + c + hex(i * j) for i, a in enumerate(letters) for j, b in enumerate(letters) for c in letters]
    source.write_text("".join(" ".join(words[place::1700]) + "\n" for place in range(17000)))
    sets = [f"data.train.0.{side}={source}" for side in ("source", "target")]
    sets += ["tokenizer.vocab_size=500"]
    process = start(
        "tokenizer", "--config", config, *(word for one in sets for word in ("--set", one)), program=TELLS_OF_ITSELF
    )
    wait_for(process, "Done! preprocessed")
    process.send_signal(number)
    _, told = process.communicate(timeout=300)
    assert process.returncode == CODES[number], told
    assert "pruned" not in told  # which is its last word


# The parts --------------------------------------------------------------------------------------------------------


TWICE = """
import signal, time
from nmt_cli.system import signals
with signals.raise_on_signal():
    try:
        signal.raise_signal(signal.SIGHUP)
    except signals.SignalExit as ended:
        print(ended.acknowledge())
    signal.raise_signal(signal.SIGHUP)
    signal.raise_signal(signal.SIGTERM)
    signal.raise_signal(signal.SIGINT)
    time.sleep(1.1)
    signal.raise_signal(signal.SIGINT)
"""
FORGOTTEN = """
import signal, time
from nmt_cli.system import signals
class Forgets:
    def __del__(self):  # whose exceptions Python shows and forgets
        signal.raise_signal(signal.SIGTERM)
def swallow():
    Forgets()
"""
CLEARED = """
import signal, time
from nmt_cli.system import signals
def swallow():
    try:  # as C does where it asks if an object has an attribute
        signal.raise_signal(signal.SIGTERM)
    except BaseException:
        pass
"""
SWALLOWED = """
def act():
    swallow()
    time.sleep(10_000)
with signals.raise_on_signal():
    deferred = signals.SignalDeferrer()
    with deferred.listening():
        print(deferred.run_interruptible(act), deferred.received)
"""
LOST = """
with signals.raise_on_signal():
    try:
        act()
    except signals.SignalExit as ended:
        print(ended.acknowledge())
"""


@pytest.mark.parametrize(
    ("program", "code", "out"),
    [
        (TWICE, 130, "129\n"),
        *((swallow + SWALLOWED, 0, "None 15\n") for swallow in (FORGOTTEN, CLEARED)),
        *((swallow + SWALLOWED.partition("with signals")[0] + LOST, 0, "143\n") for swallow in (FORGOTTEN, CLEARED)),
    ],
)
def test_what_comes_once_more(program: str, code: int, out: str):
    """A second signal does not disturb the end, but a later Ctrl-C does; a swallowed one is not lost."""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (code, out, "")


def test_nothing_is_begun_after_a_signal_and_what_came_before_counts():
    deferred = signals.SignalDeferrer()
    with deferred.listening():
        assert deferred.run_interruptible(lambda: "done") == "done"
        signal.raise_signal(signal.SIGHUP)
        signal.raise_signal(signal.SIGTERM)
        assert deferred.received == signal.SIGHUP
        assert deferred.run_interruptible(lambda: pytest.fail("begun")) is None


def test_outside_the_main_thread_nobody_listens():
    answers = []

    def listen() -> None:
        with signals.SignalDeferrer().listening(), signals.exiting_at_once():
            answers.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=listen)
    thread.start()
    thread.join()
    assert answers == [signal.getsignal(signal.SIGTERM)]


def test_a_command_in_this_process_leaves_the_timer_of_the_test_running(nmt):
    """Fails if a test that hangs after its first command is never ended."""
    before = signal.getsignal(signal.SIGALRM)
    with timer_kept():
        signal.setitimer(signal.ITIMER_REAL, 500.0)
        assert nmt("--version").code == 0
        assert 400.0 < signal.getitimer(signal.ITIMER_REAL)[0] <= 500.0
        assert signal.getsignal(signal.SIGALRM) is before
