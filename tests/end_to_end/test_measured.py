"""The precision and the threads of a training: measured when it begins, kept before its first update, told."""

import json
from pathlib import Path

import pytest
import torch
from command_line import run_here

from nmt_cli.system.errors import NmtError
from nmt_cli.system.processors import Usage
from nmt_cli.training.precision_trial import DTYPES
from nmt_cli.training.trainer import Trainer

FREE = ("--set", "training.threads=null", "--set", "training.precision=auto", "--set", "data.dev=null")


class Machine:
    """A machine with two processors and instructions for bfloat16, on which trials take as long as the test says."""

    def __init__(self) -> None:
        self.seconds: dict[object, float] = {1: 0.2, 2: 0.1, "fp32": 0.1, "bf16": 0.1}
        self.tried: list[object] = []
        self.threads = 2
        """The number that torch has."""

    def set_num_threads(self, number: int) -> None:
        self.threads = number

    def time_alternately(self, ways, *, seconds, clock=None):
        """Do the work once, as a trial does, and say that it took so long."""
        times = {}
        for way, work in ways.items():
            work()
            name = way if isinstance(way, int) else way[1]
            times[way] = [self.seconds[name]]
            self.tried += [name] if name not in self.tried[-2:] else []
        return times


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch):
    found = Machine()
    monkeypatch.delenv("OMP_NUM_THREADS")
    monkeypatch.setattr("nmt_cli.assembly.measured_settings.multiplies_bf16", lambda device: True)
    monkeypatch.setattr("nmt_cli.assembly.measured_settings.num_available", lambda: 2)
    monkeypatch.setattr("nmt_cli.assembly.measured_settings.time_alternately", found.time_alternately)
    monkeypatch.setattr("nmt_cli.training.precision_trial.time_alternately", found.time_alternately)
    # One thread does the work of both: two would wait for each other where other tests have the processors.
    monkeypatch.setattr(torch, "set_num_threads", found.set_num_threads)
    monkeypatch.setattr(torch, "get_num_threads", lambda: found.threads)
    return found


def train(config: Path, steps: int, *options: str) -> str:
    torch.set_num_threads(2)  # the number in a new process
    result = run_here("train", "--config", str(config), "--set", f"training.max_steps={steps}", *FREE, *options)
    assert result.code == 0, result.err
    return result.err


def parameters(config: Path) -> bytes:
    return next((config.parent / "run" / "checkpoints").glob("step-*/model.safetensors")).read_bytes()


def kept(config: Path) -> dict:
    return json.loads((config.parent / "run" / "measured.json").read_text())


def test_a_new_run_measures_and_says_what_it_takes(machine, config):
    machine.seconds |= {"bf16": 0.05, 2: 0.3}
    said = train(config, 1)
    assert machine.tried == [*DTYPES, 1, 2]
    assert "training.precision: auto takes bf16; measured here, bf16 is " in said
    assert "measured: an update takes 0.2 s with 1 thread and 0.3 s with 2; training has 1 thread " in said
    assert "cpu in bf16, 1 thread\n" in said
    assert (kept(config)["precision"], kept(config)["threads"]) == ("bf16", 1)


def test_a_run_that_is_killed_before_its_first_checkpoint_begins_again_as_it_began(machine, config, monkeypatch):
    machine.seconds |= {"bf16": 0.05, 2: 0.3}

    def killed(*_):
        raise NmtError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_step", killed)
        assert run_here("train", "--config", str(config), *FREE).code == 1
    machine.seconds |= {"bf16": 0.5, 2: 0.1}
    machine.tried.clear()
    assert "cpu in bf16, 1 thread\n" in train(config, 1)
    assert machine.tried == []


def test_another_configuration_before_the_first_checkpoint_is_measured_anew(machine, config, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "run", lambda *_: (_ for _ in ()).throw(NmtError("killed")))
        assert run_here("train", "--config", str(config), *FREE).code == 1
    machine.seconds |= {"bf16": 0.05, 2: 0.3}
    said = train(config, 1, "--set", "model.decoder.hidden_size=24")
    assert "cpu in bf16, 1 thread\n" in said


def test_a_run_goes_on_with_what_it_began_with_and_says_that_more_threads_may_be_faster(machine, config):
    machine.seconds |= {"bf16": 0.05, 2: 0.3}
    train(config, 2)
    machine.seconds |= {"bf16": 0.5, 2: 0.1}
    machine.tried.clear()
    said = train(config, 4)
    assert machine.tried == []
    assert "cpu in bf16, 1 thread\n" in said
    assert "training with 1 thread, the fastest when the run began. --set training.threads=2 may be faster now" in said
    assert "warning: the number of threads" not in said


def test_fewer_processors_than_the_run_began_with_are_all_taken(machine, config, monkeypatch):
    train(config, 2)
    assert kept(config)["threads"] == 2
    monkeypatch.setattr("nmt_cli.assembly.measured_settings.num_available", lambda: 1)
    torch.set_num_threads(1)
    result = run_here("train", "--config", str(config), "--set", "training.max_steps=4", *FREE)
    assert result.code == 0, result.err
    assert "cpu in fp32, 1 thread\n" in result.err
    assert "warning: the number of threads (training.threads is null) was 2 and is 1 now, so " in result.err


@pytest.mark.parametrize("how", ["configuration", "OMP_NUM_THREADS", "MKL_NUM_THREADS"])
def test_threads_that_the_user_has_set_are_not_measured(machine, config, how, monkeypatch):
    if how != "configuration":
        monkeypatch.setenv(how, "2")
    options = ("--set", "training.threads=2") if how == "configuration" else ()
    said = train(config, 1, *options)
    assert machine.tried == [*DTYPES]
    assert "cpu in fp32, 2 threads\n" in said
    assert "an update takes" not in said


def test_a_precision_that_the_user_has_set_is_not_measured(machine, config):
    said = train(config, 1, "--set", "training.precision=bf16")
    assert machine.tried == [1, 2]
    assert "cpu in bf16" in said


def test_a_processor_without_bfloat16_is_not_tried_with_it(machine, config, monkeypatch):
    monkeypatch.setattr("nmt_cli.assembly.measured_settings.multiplies_bf16", lambda device: False)
    said = train(config, 1)
    assert machine.tried == [1, 2]
    assert "training.precision: auto takes fp32, because this hardware has no fast bf16\n" in said


def test_trials_change_nothing_of_the_training(machine, config, tmp_path):
    """Measured to the same precision and number of threads as set by hand, the weights are the same bytes."""
    train(config, 3)
    measured = parameters(config)
    assert machine.tried == [*DTYPES, 1, 2]
    by_hand = (
        "--set",
        "training.threads=2",
        "--set",
        "training.precision=fp32",
        "--set",
        f"model_dir={tmp_path}/other",
    )
    train(config, 3, *by_hand)
    other = next((tmp_path / "other" / "checkpoints").glob("step-*/model.safetensors"))
    assert other.read_bytes() == measured


def test_a_damaged_file_of_choices_is_refused_with_what_to_do(machine, config):
    train(config, 1)
    path, whole = config.parent / "run" / "measured.json", kept(config)
    wrong = [
        json.dumps(whole | {key: value}) for key, value in (("precision", "fp64"), ("threads", "2"), ("threads", 1.5))
    ]
    for text in ("{", "[]", "{}", *wrong):
        path.write_text(text)
        result = run_here("train", "--config", str(config), "--set", "training.max_steps=2", *FREE)
        assert result.code == 2
        assert f"{path}: is damaged; delete it and run the same command again" in result.err


def test_check_expects_what_a_training_would_choose(machine, config):
    machine.seconds |= {"bf16": 0.05, 2: 0.3}
    result = run_here("check", "--config", str(config), *FREE)
    assert result.code == 0, result.err
    assert " target pieces a second on cpu in bf16 with 1 thread, measured for " in result.out.decode()
    assert machine.tried == [*DTYPES, 1, 2]


def test_one_processor_is_not_measured(machine, config, monkeypatch):
    monkeypatch.setattr("nmt_cli.assembly.measured_settings.num_available", lambda: 1)
    said = train(config, 1, "--set", "training.precision=fp32")
    assert machine.tried == []
    assert "cpu in fp32, 1 thread\n" in said
    assert "training with 1 thread" not in train(config, 2, "--set", "training.precision=fp32")


def test_a_training_that_others_slow_down_says_so_once(machine, config, monkeypatch):
    """Every update is a slow one here, and the others take all of the time of both processors."""
    monkeypatch.setattr("nmt_cli.training.contention.WINDOW_SECONDS", 0.0)
    monkeypatch.setattr("nmt_cli.training.contention.SLOW_SPEED_SHARE", 1e9)
    clock = iter(range(1000))
    monkeypatch.setattr(
        "nmt_cli.assembly.measured_settings.usage", lambda: Usage(now := float(next(clock)), 0.0, 2.0 * now)
    )
    said = train(config, 8, "--set", "training.precision=fp32")
    assert said.count("because other programs use 2.0 of the 2 processors, and the 2 threads of the training wait") == 1
