"""A training of several processes on one machine: the same updates as of one, one voice, one end."""

import json
import math
import signal
import sys
import time
from pathlib import Path

import pytest
import torch
from command_line import contents
from launching import outcomes, train
from safetensors.torch import load_file

HERE = Path(__file__).parent


def twenty_steps(launch, directory, size, accumulate=1):
    directory.mkdir()
    ends = outcomes(launch.python(size, HERE / "twenty_steps.py", directory, str(accumulate)))
    assert [end.code for end in ends] == [0] * size, ends[0].err
    return json.loads(ends[0].out), load_file(directory / "parameters.safetensors")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "accumulate"), [(2, 1), pytest.param(3, 2, marks=pytest.mark.soak)], ids=["two", "three, two parts each"]
)
def test_several_processes_make_the_updates_of_one(launch, tmp_path, size, accumulate):
    """In float64, where one batch in four has fewer pairs than processes. Fails if a process divides by its own
    tokens, where the mean of the gradients is taken for their sum, and where a pair too few counts."""
    losses, parameters = twenty_steps(launch, tmp_path / "one", 1)
    many_losses, many_parameters = twenty_steps(launch, tmp_path / "many", size, accumulate)
    assert len(losses) == 20
    assert len(set(losses)) == 20
    assert many_losses == pytest.approx(losses, rel=0, abs=1e-9)
    for name, parameter in parameters.items():
        assert parameter.dtype == torch.float64
        assert (parameter - many_parameters[name]).abs().max() < 1e-9, name


THREADS_AFTER = """
from pathlib import Path
from nmt_cli.system.distributed import open_world
def threads():
    return [name.read_text().strip() for name in Path("/proc/self/task").glob("*/comm")]
with open_world() as world:
    world.all_gather(1)
    world.all_sum(1.0)
    during = threads()
print(*(sum("gloo" in name for name in names) for names in (during, threads())))
"""


@pytest.mark.soak
def test_no_thread_of_the_group_outlives_it(launch):
    """A thread of gloo that wakes while the interpreter ends aborts the process after its work is done."""
    for end in outcomes(launch.python(2, "-c", THREADS_AFTER)):
        during, after = map(int, end.out.split())
        assert during > 0, end.err
        assert after == 0


def finished(processes):
    ends = outcomes(processes)
    assert [end.code for end in ends] == [0] * len(ends), ends[0].err
    return ends


def losses_of(run):
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [(record["event"], record["step"], record["loss"]) for record in records if "loss" in record]


@pytest.mark.soak
def test_one_process_goes_on_where_two_stopped_and_two_where_one_did(launch, config, tmp_path):
    """Their losses, on the training and on the dev set, are those of one that was left alone, to rounding; the second
    of two says nothing."""
    alone = ["model_dir=" + str(tmp_path / "alone"), "training.max_steps=12"]
    finished([launch.program(sys.executable, *train(config, *alone))])
    first = finished(launch.python(2, *train(config, "training.max_steps=4")))
    assert "2 processes of 1 thread\n" in first[0].err
    assert [end.out for end in first] == [b"", b""]
    assert first[1].err == ""
    (second,) = finished([launch.program(sys.executable, *train(config, "training.max_steps=8"))])
    assert "resuming at update 4" in second.err
    third = finished(launch.python(2, *train(config, "training.max_steps=12")))
    assert "resuming at update 8" in third[0].err
    expected = {(event, step): loss for event, step, loss in losses_of(tmp_path / "alone")}
    for event, step, loss in losses_of(tmp_path / "run"):
        if (event, step) in expected:
            assert math.isclose(loss, expected.pop((event, step)), rel_tol=1e-5)
    assert expected == {}
    again = finished(launch.python(2, *train(config, "training.max_steps=12")))
    assert again[0].err == "finished already (max_steps 12 reached); raise training.max_steps to go on\n"


@pytest.mark.soak
@pytest.mark.parametrize("way", ["rewind", "stop"])
def test_two_processes_that_diverge_go_back_or_end_together(launch, config, tmp_path, way):
    """Weight decay blows the weights up, at a sixteenth of the rate too. Fails if one process waits for the other,
    or tells the end a second time."""
    sets = (
        "training.optimizer=sgd", "training.learning_rate=1", "training.weight_decay=200", "training.ema_decay=0",
        "training.max_steps=14", "training.checkpoint_freq=3", f"training.on_divergence={way}",
    )  # fmt: skip
    first, second = outcomes(launch.python(2, *train(config, *sets)))
    assert (first.code, second.code) == (1, 1), first.err
    assert second.err == ""
    again = " again after 5 rewinds" if way == "rewind" else ""
    assert first.err.count("going back to update") == (5 if way == "rewind" else 0)
    assert first.err.count(f"training has diverged{again}; train again in another model_dir") == 1
    assert json.loads((tmp_path / "run/checkpoints/index.json").read_text())["finished"] is None


@pytest.mark.parametrize(
    ("environment", "unread"),
    [
        ({"WORLD_SIZE": "2"}, "RANK, MASTER_PORT, MASTER_ADDR"),
        pytest.param(
            {"WORLD_SIZE": "2", "RANK": "0", "MASTER_ADDR": "localhost", "MASTER_PORT": "http"},
            "MASTER_PORT",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            {"WORLD_SIZE": "two", "RANK": "0", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"},
            "WORLD_SIZE",
            marks=pytest.mark.slow,
        ),
    ],
    ids=["a size alone", "port", "size"],
)
def test_an_environment_that_is_half_of_a_start_is_refused(launch, config, environment, unread):
    (outcome,) = outcomes(
        [launch.program(sys.executable, "-m", "nmt_cli", "train", "--config", config, env=environment)]
    )
    assert outcome.err == (
        f"nmt: WORLD_SIZE is {environment['WORLD_SIZE']}, but {unread} cannot be read from the environment; start the "
        "processes with torchrun, or unset WORLD_SIZE to train alone\n"
    )
    assert outcome.code == 2


@pytest.mark.slow
def test_an_empty_world_size_is_that_of_a_training_alone(launch, config):
    program = (sys.executable, "-m", "nmt_cli", "train", "--config", config, "--dry-run")
    (outcome,) = outcomes([launch.program(*program, env={"WORLD_SIZE": ""})])
    assert outcome.code == 0, outcome.err


@pytest.mark.soak
def test_a_process_that_dies_ends_the_others_with_the_reason(launch, config):
    processes = launch.python(2, *train(config, "training.max_steps=100000", "training.validation_freq=100000"))
    wait_for_step(config.parent / "run", 6)
    processes[1].kill()
    began = time.monotonic()
    first, second = outcomes(processes)
    assert time.monotonic() - began < 30
    assert (first.code, second.code) == (1, -signal.SIGKILL)
    last = first.err.splitlines()[-1]
    assert last.startswith("nmt: rank 0 on ")
    assert "lost another process (connection" in last
    assert last.endswith("Run the same command again to resume from the last checkpoint")


def wait_for_step(run, step):
    deadline = time.monotonic() + 120
    while not list(run.glob(f"checkpoints/step-*{step}")):
        assert time.monotonic() < deadline
        time.sleep(0.05)


DIES_ONCE = """
import os, sys, threading, time
from pathlib import Path
marker, step = Path(sys.argv[1]), Path(sys.argv[2])
def die():
    while not step.exists():
        time.sleep(0.01)
    marker.touch()
    os.kill(os.getpid(), 9)
if os.environ["RANK"] == "1" and not marker.exists():
    threading.Thread(target=die, daemon=True).start()
sys.argv[:3] = ["nmt"]
from nmt_cli.cli import main
main()
"""


@pytest.mark.slow
def test_torchrun_starts_again_what_died_and_the_end_is_the_same(launch, config, tmp_path):
    """Bit for bit, and twice two processes are the same too."""
    sets = ["training.max_steps=24", "tokenizer.sampling_alpha=0.2"]
    finished(launch.python(2, *train(config, *sets, f"model_dir={tmp_path / 'alone'}")))
    marker, step = tmp_path / "died", tmp_path / "run/checkpoints/step-00000009"
    torchrun = Path(sys.executable).with_name("torchrun")
    program = tmp_path / "dies_once.py"
    program.write_text(DIES_ONCE)
    launched = [torchrun, "--nproc-per-node", "2", "--max-restarts", "1", "--standalone", program, marker, step]
    (end,) = outcomes([launch.program(*launched, *train(config, *sets)[2:])])
    assert end.code == 0, end.err
    assert marker.exists()
    assert "resuming at update" in end.err
    assert contents(tmp_path / "run") == contents(tmp_path / "alone")


@pytest.mark.slow
def test_a_signal_to_one_ends_all_after_the_same_step_with_a_checkpoint(launch, config):
    processes = launch.python(2, *train(config, "training.max_steps=100000", "training.validation_freq=100000"))
    wait_for_step(config.parent / "run", 3)
    processes[1].send_signal(signal.SIGINT)
    first, second = outcomes(processes)
    assert (first.code, second.code) == (128 + signal.SIGTERM, 128 + signal.SIGINT)
    step = json.loads((config.parent / "run/checkpoints/index.json").read_text())["last"]
    assert f"interrupted at update {step}, which is saved" in first.err
    assert second.err == ""


BREAKS_IN_ONE = """
import os, sys
from nmt_cli.cli import main
from nmt_cli.system.errors import PredictionError
from nmt_cli.training import finite_loss
from nmt_cli.translation.step_model import TrainedModels
where = sys.argv.pop(1)
real = TrainedModels.step
steps = []
def step(*given):
    steps.append(1)
    if len(steps) > 3:
        raise PredictionError("no probability")
    return real(*given)
if os.environ["RANK"] == "1" and where == "batch":
    finite_loss.evaluate_nll = lambda *_: (float("nan"), 1)
if os.environ["RANK"] == "1" and where == "dev":
    TrainedModels.step = step
main()
"""


@pytest.mark.soak
@pytest.mark.parametrize("where", ["batch", "dev"])
def test_weights_that_do_not_predict_for_one_process_are_kept_by_none(launch, config, tmp_path, where):
    """Fails if each process judges for itself: one would wait for what the other does not say."""
    program = tmp_path / "breaks_in_one.py"
    program.write_text(BREAKS_IN_ONE)
    first, second = outcomes(launch.python(2, program, where, *train(config, "training.checkpoint_freq=100")[2:]))
    assert (first.code, second.code) == (1, 1), first.err
    said = "update 6: the loss with" if where == "batch" else "validation at update 6: the loss is not finite;"
    assert f"warning: {said}" in first.err
    assert "\nnmt: update 12: max_steps 12 reached, but with weights whose loss is not finite: " in first.err
    assert second.err == ""
    assert not list((tmp_path / "run/checkpoints").iterdir())


WAITS_IN_VALIDATION = """
import os, sys, time
from pathlib import Path
from nmt_cli.cli import main
from nmt_cli.translation.translator import Translator
marker = Path(sys.argv.pop(1))
def wait(*_):
    marker.touch()
    time.sleep(10_000)
if os.environ["RANK"] == "1":
    Translator.translate_window = wait
main()
"""


@pytest.mark.soak
def test_a_signal_to_one_in_a_validation_ends_all_and_the_validation_is_done_again(launch, config, tmp_path):
    """Fails if who hears it leaves the others waiting, or not all find that there is no judgement."""
    finished(launch.python(2, *train(config, f"model_dir={tmp_path / 'whole'}")))
    program, marker = tmp_path / "waits.py", tmp_path / "waits"
    program.write_text(WAITS_IN_VALIDATION)
    processes = launch.python(2, program, marker, *train(config)[2:])
    deadline = time.monotonic() + 120
    while not marker.exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    processes[1].send_signal(signal.SIGHUP)
    first, second = outcomes(processes)
    assert (first.code, second.code) == (128 + signal.SIGTERM, 128 + signal.SIGHUP)
    assert "interrupted at update 6, which is saved" in first.err
    index = json.loads((tmp_path / "run/checkpoints/index.json").read_text())
    assert (index["last"], index["best"]) == (6, [])
    finished(launch.python(2, *train(config)))
    assert contents(tmp_path / "run") == contents(tmp_path / "whole")


# What all of them must have alike ---------------------------------------------------------------------------------


def refused(processes):
    """The message of the first; the others say nothing, and all end alike."""
    first, *others = outcomes(processes)
    assert [first.code, *(other.code for other in others)] == [2] * len(processes), [first.err, *others]
    assert [other.err for other in others] == [""] * len(others)
    return first.err.splitlines()[-1]


@pytest.mark.soak
def test_processes_that_do_not_belong_together_are_told_so_by_the_first(launch, config, tmp_path):
    told = refused(launch.python(2, *train(config), each=lambda rank: ["--set", f"seed={rank}"]))
    assert told.startswith("nmt: rank 1 on ")
    assert told.endswith("these keys differ: seed. Give all the same file and the same --set")

    told = refused(launch.python(2, *train(config), each=lambda rank: ["--set", "training.seed=1"] * rank))
    assert told.startswith("nmt: rank 1 on ")
    assert "unknown key 'training.seed'" in told

    told = refused(launch.python(2, *train(config, "training.batch_type=sentences", "training.batch_size=1")))
    assert told == (
        "nmt: training.batch_size: a batch holds only about 1.0 sentences, but 2 processes share it. Raise "
        "training.batch_size, or start fewer processes"
    )
    assert not (tmp_path / "run").exists()

    holder = launch.program(sys.executable, *train(config, "training.max_steps=100000"))
    wait_for_step(tmp_path / "run", 3)
    told = refused(launch.python(2, *train(config, "training.max_steps=100000")))
    assert f"is in use by process {holder.pid} on " in told


DIFFERENT = """
import os, sys
from pathlib import Path
from nmt_cli.training.checkpoints import Checkpoints, Index
from nmt_cli.cli import main
from nmt_cli.experiment import Experiment
from nmt_cli.assembly import process_checks as processes
what = sys.argv.pop(1)
if os.environ["RANK"] == "1" and what == "directory":
    Experiment.lock_path = property(lambda self: Path("/nowhere/.lock"))
if os.environ["RANK"] == "1" and what == "checkpoint":
    Checkpoints.index = lambda self: Index(None, (), ())
if os.environ["RANK"] == "1" and what == "program":
    processes._fingerprint = lambda: "another"
main()
"""


@pytest.mark.soak
@pytest.mark.parametrize(
    ("what", "begins", "ends"),
    [
        ("directory", "nmt: {run}: is another directory on rank 1 on ", "on a file system that they share"),
        ("program", "nmt: rank 1 on ", "Install the same version everywhere"),
    ],
)
def test_another_directory_or_program_is_noticed(launch, config, tmp_path, what, begins, ends):
    """The second process does not see what the first has written, or is of another version."""
    program = tmp_path / "different.py"
    program.write_text(DIFFERENT)
    told = refused(launch.python(2, program, what, *train(config)[2:]))
    assert told.startswith(begins.format(run=tmp_path / "run"))
    assert told.endswith(ends)


@pytest.mark.soak
def test_a_checkpoint_that_one_process_does_not_see_yet_is_noticed(launch, config, tmp_path):
    """Fails if each process goes on from the checkpoint that it finds: they would train two models."""
    finished([launch.program(sys.executable, *train(config, "training.max_steps=3"))])
    program = tmp_path / "different.py"
    program.write_text(DIFFERENT)
    told = refused(launch.python(2, program, "checkpoint", *train(config, "training.max_steps=6")[2:]))
    assert (
        "rank 1 finds the checkpoint of update 0 there, rank 0 the one of update 3; run the same command again" in told
    )
