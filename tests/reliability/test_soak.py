"""Days in minutes: a million lines, ten thousand checkpoints; memory, open files and the disk stay as they are."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest
from command_line import start_nmt

MEGABYTE = 2**20


def memory_of(process: int) -> int:
    """Resident bytes."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) * 1024


def open_files(process: int) -> int:
    return len(os.listdir(f"/proc/{process}/fd"))


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_a_million_lines_are_translated_in_flat_memory(model: Path):
    total = 1_000_000
    lines = [b"Where is the station?\n", b"\n", b"How much does the old bicycle cost?\n", b"\xff\x00\n", b"the\n"]
    process = start_nmt("translate", "--model", model, "--beam-size", "1", stdin=-1, stdout=-1, stderr=-3)
    assert process.stdin is not None
    assert process.stdout is not None
    stdin = process.stdin

    def write() -> None:
        block = b"".join(lines) * 200
        for _ in range(total // 1_000):
            stdin.write(block)
        stdin.close()

    writer = threading.Thread(target=write)
    writer.start()
    memory, began = [], time.monotonic()
    count = 0
    for count, _ in enumerate(process.stdout, start=1):
        if count % 100_000 == 0:
            memory.append(memory_of(process.pid))
    writer.join()
    process.stdout.close()
    assert process.wait() == 0
    assert count == total
    print(f"{count:,} lines in {time.monotonic() - began:.0f} s, resident MB: {[size // MEGABYTE for size in memory]}")
    assert memory[-2] < memory[0] + 20 * MEGABYTE


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_ten_thousand_checkpoints_leave_memory_files_and_disk_flat(config: Path):
    sets = [
        "training.max_steps=10000", "training.checkpoint_freq=1", "training.validation_freq=100000",
        "training.logging_freq=1000", "training.batch_size=30", "training.num_samples=0", "data.dev=null",
    ]  # fmt: skip
    process = start_nmt("train", "--config", config, *(word for one in sets for word in ("--set", one)), stderr=-3)
    run = config.parent / "run"
    memory, files, disk = [], [], []
    began, due = time.monotonic(), 500
    while process.poll() is None:
        time.sleep(0.2)
        try:
            step = max(int(path.name[5:]) for path in (run / "checkpoints").glob("step-*"))
            if step >= due:
                due = step + 500
                memory.append(memory_of(process.pid))
                files.append(open_files(process.pid))
                disk.append(sum(path.stat().st_size for path in (run / "checkpoints").rglob("*") if path.is_file()))
        except (OSError, ValueError):
            continue  # a checkpoint went while it was counted
    assert process.returncode == 0
    print(
        f"10,000 checkpoints in {time.monotonic() - began:.0f} s, resident MB: {[m // MEGABYTE for m in memory]}, "
        f"open files: {files}, disk kB: {[size // 1000 for size in disk]}"
    )
    assert len(memory) > 10
    assert max(memory) < memory[1] + 20 * MEGABYTE
    assert max(files) <= files[1] + 2
    assert max(disk) <= 2 * min(disk)
    assert [path.name for path in (run / "checkpoints").iterdir() if path.name.startswith(".")] == []
