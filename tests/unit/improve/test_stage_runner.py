"""The commands that stages run."""

from __future__ import annotations

from pathlib import Path

import pytest

from nmt_cli.improve import stage_runner
from nmt_cli.improve.stages import Stage, Work


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

    monkeypatch.setattr(stage_runner, "Child", Quiet)
    stage = Stage(Path("1-back"), "a purpose", (kind, "mono.fr"), (), (), Work(kind, 5))
    assert stage_runner._run(stage, workers) == 0
    assert ran == [(kind, "mono.fr", *added)]
    assert "--workers" not in stage.command
