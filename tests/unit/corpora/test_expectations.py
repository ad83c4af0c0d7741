"""Estimates of a training, compared with trainings, and with the scores that we publish."""

import json
import re
from pathlib import Path

import pytest
from command_line import CONFIG, run_here
from marks import others_soak

from nmt_cli.assembly import speed as measuring
from nmt_cli.assembly.speed import _extrapolated_seconds
from nmt_cli.corpora.expectations import MULTI30K_RESULTS, Quality, expected_quality


def test_our_own_results_are_those_of_the_documentation():
    table = (Path(__file__).parents[3] / "docs/results.md").read_text(encoding="utf-8")
    rows = [line.replace("*", "").split(" | ") for line in table.splitlines() if "| one model," in line]
    published = {(row[1], float(re.match(r"[\d.]+", row[3])[0])) for row in rows}
    assert {(f"{result.pairs:,}", result.bleu) for result in MULTI30K_RESULTS} <= published


def test_an_amount_of_text_lies_between_two_results():
    small, middle, large = MULTI30K_RESULTS
    assert expected_quality(10) == Quality(None, small)
    assert expected_quality(middle.pairs - 1) == Quality(small, middle)
    assert expected_quality(middle.pairs) == Quality(middle, large)
    assert expected_quality(10**9) == Quality(large, None)


def test_the_time_of_a_whole_batch_is_that_on_the_line_through_two_smaller_ones():
    assert _extrapolated_seconds({8: 0.3, 32: 0.5}, 32) == 0.5
    assert _extrapolated_seconds({8: 0.3, 32: 0.5}, 80) == pytest.approx(0.9)
    assert _extrapolated_seconds({8: 0.5, 32: 0.5}, 80) == 0.5
    assert _extrapolated_seconds({3: 0.1}, 3) == 0.1


@pytest.fixture
def config(tmp_path, corpus):
    path = tmp_path / "c.yaml"
    path.write_text(CONFIG.format(model_dir=tmp_path / "run", corpus=corpus), encoding="utf-8")
    return path


def expected(config, *options):
    done = run_here("check", "--config", str(config), "--json", *options)
    assert done.code == 0, done.err
    return json.loads(done.out)["expected"]


RARELY = ("training.validation_freq=1000", "training.checkpoint_freq=1000", "training.patience=null")
BY_EPOCHS = ("training.max_epochs=1", "training.max_steps=null", "training.batch_size=1000", *RARELY)

BATCHES_LARGER_THAN_THE_TEXT = (
    "training.max_epochs=4", "training.max_steps=null", "training.batch_size=1000000", *RARELY,
)  # fmt: skip


@pytest.mark.usefixtures("echoed_dev_set")
@pytest.mark.parametrize("limit", others_soak(BY_EPOCHS, BATCHES_LARGER_THAN_THE_TEXT, ("training.max_steps=12",)))
def test_updates_and_room_on_the_disk_are_those_of_the_training(config, tmp_path, limit):
    options = [word for setting in limit for word in ("--set", setting)]
    reckoned = expected(config, "--no-measure", *options)
    assert run_here("train", "--config", str(config), *options).code == 0
    records = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    steps = max(record["step"] for record in records)
    assert steps == pytest.approx(reckoned["updates"], rel=0.2)
    disk = reckoned["disk_bytes"]
    checkpoint, *_ = (tmp_path / "run/checkpoints").glob("step-*")
    num_kept = 2 + 2 + 1  # as CONFIG has it, and one that is being written
    assert size_of(checkpoint) == pytest.approx(disk["checkpoints"] / num_kept, rel=0.1)
    assert size_of(tmp_path / "run/cache") == pytest.approx(disk["tokenised_text"], rel=0.1)


def size_of(directory):
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


def test_the_time_is_measured_unless_it_is_switched_off(config, monkeypatch):
    measured = expected(config)
    assert measured["minutes"] > 0
    assert measured["target_pieces_a_second"] > 0
    monkeypatch.setattr(measuring, "measure_speed", lambda *_: pytest.fail("was measured"))
    assert expected(config, "--no-measure")["minutes"] is None
    out = run_here("check", "--config", str(config), "--no-measure").out.decode()
    assert "\nestimates\n  time      12 updates, " in out
    assert "; the time was not measured\n" in out
    refused = run_here("check", "--config", str(config), "--set", "data.max_length=1")
    assert (refused.code, "the time was not measured" in refused.out.decode()) == (2, False)


def test_a_training_beyond_the_memory_of_this_machine_is_not_tried(config, monkeypatch):
    monkeypatch.setattr(measuring, "MEMORY_SHARE", 1e-9)
    monkeypatch.setattr(measuring, "measure_speed", lambda *_: pytest.fail("was measured"))
    done = run_here("check", "--config", str(config))
    assert done.code == 0
    assert "warning: the speed of training was not measured: it would take more than half of the memory" in done.err
