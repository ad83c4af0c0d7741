"""A disk that is full, fails, or refuses: one message, the last checkpoint whole, and the same command goes on."""

from __future__ import annotations

import errno
import random
from pathlib import Path

import pytest
from command_line import contents
from faults import Faulty
from test_killed import telling, train, undisturbed

pytestmark = pytest.mark.slow

ERRORS = {
    "no space": (errno.ENOSPC, "no space left on the device; free some and run the same command again"),
    "input/output error": (errno.EIO, "input/output error"),
    "read-only": (errno.EROFS, "read-only file system"),
    "over quota": (errno.EDQUOT, "no space left on the device; free some and run the same command again"),
    "not permitted": (errno.EACCES, "permission denied"),
}

QUICK = "no space"
IN_FULL = ("no space", "input/output error")


def fails(faulty: Faulty, config: Path, some: int | None, error: int, message: str) -> None:
    whole, operations = undisturbed(faulty, config)
    numbers = telling(operations)
    chosen = numbers if some is None else sorted(random.Random(error).sample(numbers, some))
    print(f"{len(chosen)} of {len(operations):,} operations")
    for number in chosen:
        name = f"fails-at-{number}"
        failed = faulty.run(*train(config, name), at=number, error=error)
        told = failed.err.splitlines()[-1] if failed.err else ""
        assert failed.code in (1, 2), (operations[number], failed.code, failed.err)
        assert told.startswith("nmt: "), (operations[number], failed.err)
        assert message in told.lower(), (operations[number], told)
        assert "Traceback" not in failed.err
        again = faulty.run(*train(config, name))
        assert again.code == 0, (operations[number], again.err)
        assert contents(config.parent / name) == whole, operations[number]


@pytest.mark.parametrize(
    ("error", "message"),
    [pytest.param(*ERRORS[name], id=name, marks=() if name == QUICK else pytest.mark.soak) for name in ERRORS],
)
def test_an_operation_that_fails_ends_training_with_one_message_and_the_same_command_goes_on(
    faulty: Faulty, config: Path, error: int, message: str
):
    fails(faulty, config, 3, error, message)


def test_a_full_disk_is_called_so_from_the_first_operation_on(faulty: Faulty, config: Path):
    """Fails if the lock's own failure is told as that of a directory that cannot be one."""
    for number in range(4):
        failed = faulty.run(*train(config, f"full-{number}"), at=number, error=errno.ENOSPC)
        assert failed.code == 1, failed.err
        assert failed.err.endswith("no space left on the device; free some and run the same command again\n")


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", ERRORS)
def test_any_operation_may_fail(faulty: Faulty, config: Path, name: str):
    fails(faulty, config, None if name in IN_FULL else 50, *ERRORS[name])
