"""Checks that all processes of a training have the same configuration, program, directory and checkpoint.

All processes must call each check at the same time, because they exchange their values; each raises `InputError`.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from socket import gethostname
from typing import TYPE_CHECKING

import nmt_cli
from nmt_cli.assembly.run_lock import lock_holder
from nmt_cli.config.loader import differing_json_keys
from nmt_cli.system.errors import InputError

if TYPE_CHECKING:
    from nmt_cli.config.schema import Config
    from nmt_cli.experiment import Experiment
    from nmt_cli.system.distributed import World


def check_same_setup(config: Config, world: World) -> None:
    """Refuse a process that has another configuration or another version of the program than the first."""
    own = {"host": gethostname(), "program": _fingerprint(), "config": config.model_dump(mode="json")}
    first, *others = world.all_gather(own)
    for rank, other in enumerate(others, start=1):
        where = f"rank {rank} on {other['host']}"
        if other["program"] != first["program"]:
            raise InputError(
                f"{where} has another version of nmt or torch than rank 0 on {first['host']}. Install the same "
                "version everywhere"
            )
        if keys := differing_json_keys(first["config"], other["config"]):
            raise InputError(
                f"{where} has another configuration than rank 0 on {first['host']}; these keys differ: "
                f"{', '.join(keys)}. Give all the same file and the same --set"
            )


def _fingerprint() -> str:
    """Return the SHA-256 of the program's own files, and the version of torch."""
    import torch

    package = Path(nmt_cli.__file__).parent
    content = sha256()
    for path in sorted(package.rglob("*.py")):
        content.update(path.relative_to(package).as_posix().encode() + b"\0" + path.read_bytes())
    return f"{content.hexdigest()} {torch.__version__}"


def check_same_directory(experiment: Experiment, world: World) -> None:
    """Refuse a process whose model directory is not the one in which the first process holds the lock."""
    held, *_ = world.all_gather(lock_holder(experiment) if world.is_primary else "")
    seen = world.all_gather(lock_holder(experiment))
    hosts = world.all_gather(gethostname())
    for rank, (its, host) in enumerate(zip(seen, hosts, strict=True)):
        if its != held:
            raise InputError(
                f"{experiment.directory}: is another directory on rank {rank} on {host} than on rank 0 on {hosts[0]}; "
                "all processes need the same one, on a file system that they share"
            )


def check_same_step(experiment: Experiment, step: int, world: World) -> None:
    """Refuse a process that resumes at another update than rank 0, because its file system shows new files late."""
    first, *others = world.all_gather(step)
    for rank, other in enumerate(others, start=1):
        if other != first:
            raise InputError(
                f"{experiment.directory}: rank {rank} finds the checkpoint of update {other} there, rank 0 the one of "
                f"update {first}; run the same command again when the file system shows the same to all"
            )
