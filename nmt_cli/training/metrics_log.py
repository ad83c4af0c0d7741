"""`metrics.jsonl`: one JSON object per line for every log line, validation and checkpoint; TensorBoard if asked."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from nmt_cli.system.errors import InputError
from nmt_cli.system.files import atomic_path, name_full_disk, sync


class MetricsLog:
    """Appends records to `metrics.jsonl`. Call `truncate` first: it removes records that a resumed training writes
    again, and opens the TensorBoard log."""

    def __init__(self, path: Path | None, *, tensorboard: Path | None = None) -> None:
        """Prepare to write to the file `path` and to the TensorBoard directory; nothing is opened yet.

        Without a path nothing is written, as in all processes but the first.
        """
        self._path, self._tensorboard = path, tensorboard
        self._writer: Any = None

    def truncate(self, keep_to_step: int, *, without: Collection[str] = ()) -> None:
        """Remove the records after a step, and the records of that step with an event in `without`.

        The TensorBoard log is opened again, to continue after this step.
        """
        if self._path is not None and self._path.exists():
            kept = [line for line in self._path.read_bytes().split(b"\n") if _step_of(line) <= keep_to_step]
            gone = {(event, keep_to_step) for event in without}
            kept = [line for line in kept if _event_of(line) not in gone]
            with atomic_path(self._path) as temporary:
                temporary.write_bytes(b"".join(line + b"\n" for line in kept))
        if self._tensorboard is not None:
            if self._writer is not None:
                self._writer.close()
            self._writer = _tensorboard_writer(self._tensorboard, keep_to_step)

    def sync(self) -> None:
        """Flush the file to the disk (fsync)."""
        if self._path is None:
            return
        sync(self._path)
        sync(self._path.parent)  # else the name of a new file can be lost

    def write(self, event: str, step: int, **values: Any) -> None:
        """Append one record; numbers that are not finite are written as null."""
        if self._path is None:
            return
        with name_full_disk(self._path), self._path.open("a", encoding="utf-8") as file:
            file.write(_record(event, step, values))
        self._write_tensorboard(event, step, values)

    def write_before(self, later: str, event: str, step: int, **values: Any) -> None:
        """Insert a record before the record of the event `later` at the same step, or at the end if there is none.

        An older record of the same event and step is removed.
        """
        if self._path is None:
            return
        lines = self._path.read_text(encoding="utf-8").splitlines(keepends=True) if self._path.exists() else []
        kept = [line for line in lines if _event_of(line) != (event, step)]
        events = [*map(_event_of, kept), (later, step)]
        kept.insert(events.index((later, step)), _record(event, step, values))
        with atomic_path(self._path) as temporary:
            temporary.write_text("".join(kept), encoding="utf-8")
        self._write_tensorboard(event, step, values)

    def _write_tensorboard(self, event: str, step: int, values: Mapping[str, Any]) -> None:
        """Write the finite values to TensorBoard, if it is on."""
        if self._writer is not None:
            for key, value in values.items():
                if isinstance(value, (int, float)) and math.isfinite(value):
                    self._writer.add_scalar(f"{event}/{key}", value, step)
            self._writer.flush()


def _record(event: str, step: int, values: Mapping[str, Any]) -> str:
    finite = {
        key: None if isinstance(value, float) and not math.isfinite(value) else value for key, value in values.items()
    }
    return json.dumps({"event": event, "step": step, **finite}) + "\n"


def _event_of(line: str | bytes) -> tuple[str | None, int]:
    record = json.loads(line)
    return record.get("event"), record["step"]


def _step_of(line: bytes) -> float:
    """Return the step of a record; infinity for a line that is cut off or empty, so that `truncate` removes it."""
    try:
        return float(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError):
        return float("inf")


def check_tensorboard() -> None:
    """Raise `InputError` if TensorBoard is not installed."""
    try:
        import torch.utils.tensorboard  # noqa: F401 (only whether it is there)
    except ImportError as error:
        raise InputError("training.tensorboard: needs tensorboard; pip install 'nmt-cli[logs]'") from error


def _tensorboard_writer(directory: Path, step: int) -> Any:
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(str(directory), purge_step=step + 1)
