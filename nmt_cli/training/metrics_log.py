"""`metrics.jsonl`: one JSON object a line for every logged step, validation and checkpoint; TensorBoard if asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from nmt_cli.checkpoint import atomic_path
from nmt_cli.errors import InputError


class MetricsLog:
    """Appends records; on resuming, those after the restored checkpoint are cut, for they will come again."""

    def __init__(self, path: Path, *, keep_to_step: int, tensorboard: Path | None = None) -> None:
        self._path = path
        if path.exists():
            kept = [line for line in path.read_bytes().split(b"\n") if _step_of(line) <= keep_to_step]
            with atomic_path(path) as temporary:
                temporary.write_bytes(b"".join(line + b"\n" for line in kept))
        self._writer = _tensorboard_writer(tensorboard, keep_to_step) if tensorboard is not None else None

    def write(self, event: str, step: int, **values: Any) -> None:
        """Append one record; numbers that are not finite are written as null."""
        finite = {
            key: None if value != value or value in (float("inf"), float("-inf")) else value
            for key, value in values.items()
        }
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"event": event, "step": step, **finite}) + "\n")
        if self._writer is not None:
            for key, value in finite.items():
                if isinstance(value, (int, float)):
                    self._writer.add_scalar(f"{event}/{key}", value, step)
            self._writer.flush()


def _step_of(line: bytes) -> float:
    """The step of a record; infinity for a line that is cut off or empty, so that it goes."""
    try:
        return float(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError):
        return float("inf")


def _tensorboard_writer(directory: Path, step: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise InputError("training.tensorboard: needs tensorboard; pip install 'nmt-cli[logs]'") from error
    return SummaryWriter(str(directory), purge_step=step + 1)
