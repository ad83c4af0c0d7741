"""The commands that stages run."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from nmt_cli.improve import result, stage_runner
from nmt_cli.improve.stages import Stage, StageWork


@pytest.mark.parametrize(
    ("kind", "workers", "added"), [("translate", 3, ("--workers", "3")), ("translate", None, ()), ("train", 3, ())]
)
def test_the_number_of_workers_reaches_translations_and_no_recorded_command(monkeypatch, kind, workers, added):
    """Else an improvement could not go on with another number of workers."""
    ran = []

    class Quiet:
        received = 0

        def __init__(self, arguments):
            ran.append(arguments)

        def run(self) -> int:
            return 0

    monkeypatch.setattr(stage_runner, "CommandProcess", Quiet)
    stage = Stage(Path("1-back"), "a purpose", (kind, "mono.fr"), (), (), StageWork(kind, 5))
    assert stage_runner._run(stage, workers) == 0
    assert ran == [(kind, "mono.fr", *added)]
    assert "--workers" not in stage.command


@pytest.mark.parametrize("metric", ["bleu", "loss", "bleu_vi-en"])
def test_a_poor_teacher_is_warned_of_whatever_it_stopped_by(monkeypatch, tmp_path, capsys, metric):
    best = SimpleNamespace(metric=metric, step=5, value=0.5)
    monkeypatch.setattr(result, "best_checkpoint", lambda model: best)
    meta = tmp_path / "model/checkpoints/step-00000005/meta.json"
    meta.parent.mkdir(parents=True)
    meta.write_text(json.dumps({"format": 1, "metrics": {"bleu": 0.5}}))
    teacher = Stage(
        Path("03-reverse"), "", ("train",), (), (tmp_path / "model",), StageWork("train", 1), config=object()
    )
    later = Stage(Path("04-back"), "", ("translate",), (tmp_path / "model",), (), StageWork("translate", 1))
    stage_runner._warn_of_poor_teacher(teacher, [later])
    assert "stage 03-reverse: this model has 0.50 BLEU on the dev set" in capsys.readouterr().err
