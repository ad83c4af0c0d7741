"""The processes that train a model together: rank, device, and operations that all of them do together.

A single process has the same methods as one of several, so training code never asks whether it is alone. Several are
started by torchrun. They communicate over gloo, and sum gradients on GPUs over NCCL.
"""

from __future__ import annotations

import json
import os
import re
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import timedelta
from typing import Any, TypeVar
from uuid import uuid4

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous
from torch.nn.parallel import DistributedDataParallel

from nmt_cli.system.console import format_count, without_logging
from nmt_cli.system.errors import AlreadyReported, DivergenceError, InputError, Interrupted, NmtError

STEP_TIMEOUT = timedelta(minutes=10)
"""Longest wait in a step for a process that has frozen or a host that has gone."""
WORK_TIMEOUT = timedelta(days=1)
"""Longest time that the first process may take alone, to train a tokenizer or to tokenise the corpora."""
BUCKET_MEGABYTES = 4
"""Size of a bucket of gradients in megabytes. A full bucket is summed over the processes during the backward pass."""
Result = TypeVar("Result")


class World:
    """The only process of a training; also the base class for one of several processes (`DistributedWorld`)."""

    rank = 0
    size = 1
    local_size = 1
    """Number of processes on this machine."""

    def __init__(self, device: torch.device | None = None) -> None:
        self.device = device or torch.device("cpu")

    @property
    def is_primary(self) -> bool:
        """True in the process with rank 0, which alone decides and writes files."""
        return self.rank == 0

    def take_device(self, name: str) -> None:
        """Set `device` to the device for `auto`, `cpu`, `cuda` or `cuda:N`.

        Raises:
            InputError: there is no such device, or not one for each process of this machine.
        """
        self.device = find_device(name)

    def shard_indices(self, count: int) -> range:
        """Return the indices of this process's share of `count` items; if they are sorted by length, it has some of
        every length."""
        return range(self.rank, count, self.size)

    def all_sum(self, *values: float) -> list[float]:
        """Return each value, summed over all processes."""
        return list(values)

    def all_gather(self, value: Any) -> list[Any]:
        """Return the list of the values that all processes have passed, ordered by rank. They must fit into JSON."""
        return [value]

    def run_in_all(self, act: Callable[[], Result]) -> Result:
        """Call `act` in every process, and return its result; an `NmtError` in any process is raised in all.

        The first process raises an error that says what has failed, the others raise `AlreadyReported`.
        """
        return act()

    def primary_first(self, act: Callable[[], Result]) -> Result:
        """Call `act` in the first process, then in the others, which find its work done, and return its result."""
        return act()

    def wrap_data_parallel(self, module: nn.Module) -> nn.Module:
        """Return the module, with its gradients summed over all processes during the backward pass and divided by their
        number."""
        return module

    def no_sync(self, module: nn.Module) -> AbstractContextManager[None]:  # noqa: ARG002
        """Return a context in which backward passes do not sum gradients over the processes.

        It is for all parts of an update but the last (gradient accumulation). `module` comes from `wrap_data_parallel`.
        """
        return nullcontext()


class DistributedWorld(World):
    """One of several processes; each method is called by all of them, in the same order."""

    def __init__(self) -> None:
        super().__init__()
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.local_size = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
        self._long_wait_group = dist.new_group(backend="gloo", timeout=WORK_TIMEOUT)

    def leave(self) -> None:
        """Leave the group of all processes, after which no other method may be called."""
        # Its threads end with the last reference. One that still runs while the interpreter ends can abort the process.
        del self._long_wait_group
        dist.destroy_process_group()

    def take_device(self, name: str) -> None:
        if name in ("auto", "cuda") and torch.cuda.is_available():
            own = os.environ.get("LOCAL_RANK", "")
            if not own.isdecimal():
                raise InputError(
                    f"WORLD_SIZE is {self.size}, but LOCAL_RANK has no number, so it is not clear which GPU this "
                    "process takes; start the processes with torchrun, or set training.device to cpu"
                )
            name = f"cuda:{own}"
        elif name.startswith("cuda:") and os.environ.get("LOCAL_WORLD_SIZE", "1") != "1":
            raise InputError(
                f"training.device: {name} is one GPU, and each process of this machine needs its own; set it to cuda"
            )
        self.device = find_device(name)
        if self.device.type == "cuda":
            torch.cuda.set_device(self.device)

    def all_sum(self, *values: float) -> list[float]:
        total = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(total)
        return [float(value) for value in total]

    def all_gather(self, value: Any) -> list[Any]:
        text = torch.frombuffer(bytearray(json.dumps(value).encode()), dtype=torch.uint8)
        lengths = [torch.zeros(1, dtype=torch.int64) for _ in range(self.size)]
        dist.all_gather(lengths, torch.tensor([len(text)]), group=self._long_wait_group)
        longest = int(max(lengths))
        texts = [torch.zeros(longest, dtype=torch.uint8) for _ in range(self.size)]
        padded = torch.zeros(longest, dtype=torch.uint8)
        padded[: len(text)] = text
        dist.all_gather(texts, padded, group=self._long_wait_group)
        return [json.loads(bytes(one[: int(length)].tolist())) for one, length in zip(texts, lengths, strict=True)]

    def run_in_all(self, act: Callable[[], Result]) -> Result:
        result: Result | None = None
        wrong: NmtError | None = None
        try:
            result = act()
        except NmtError as error:
            wrong = error
        errors = self.all_gather(None if wrong is None else [wrong.exit_code, str(wrong), socket.gethostname()])
        failed = [(rank, *one) for rank, one in enumerate(errors) if one is not None]
        if not failed:
            return result  # type: ignore[return-value]  # act has succeeded, and gave a Result
        rank, code, message, host = failed[0]
        if not self.is_primary:
            raise AlreadyReported(code)
        if wrong is not None:
            raise wrong
        raise AlreadyReported(code, f"rank {rank} on {host}: {message}")

    def primary_first(self, act: Callable[[], Result]) -> Result:
        done = self.run_in_all(lambda: act() if self.is_primary else None)
        found = self.run_in_all(lambda: None if self.is_primary else act())
        return done if self.is_primary else found  # type: ignore[return-value]  # as in `run_in_all`

    def wrap_data_parallel(self, module: nn.Module) -> nn.Module:
        return DistributedDataParallel(module, bucket_cap_mb=BUCKET_MEGABYTES, gradient_as_bucket_view=True)

    def no_sync(self, module: nn.Module) -> AbstractContextManager[None]:
        assert isinstance(module, DistributedDataParallel)
        return module.no_sync()


def _check_environment() -> None:
    """Raise `InputError` if a variable that torchrun sets is missing: a WORLD_SIZE alone is often a leftover of
    another job."""
    numbers = ("WORLD_SIZE", "RANK", "MASTER_PORT")
    wrong = [name for name in numbers if not os.environ.get(name, "").isdecimal()]
    wrong += [] if os.environ.get("MASTER_ADDR") else ["MASTER_ADDR"]
    if wrong:
        raise InputError(
            f"WORLD_SIZE is {os.environ['WORLD_SIZE']}, but {', '.join(wrong)} cannot be read from the "
            "environment; start the processes with torchrun, or unset WORLD_SIZE to train alone"
        )


@contextmanager
def open_world() -> Iterator[World]:
    """Yield the `World` of this process, which torchrun has started with others, or which is alone; only rank 0 logs.

    Raises:
        InputError: the environment says that there are several processes, but not how they find each other.
        NmtError: another process has gone, or cannot be reached.
    """
    if os.environ.get("WORLD_SIZE", "") in ("", "1"):
        yield World()
        return
    _check_environment()
    rank = int(os.environ["RANK"])
    world = None
    try:
        _init_process_group()
        world = DistributedWorld()
        with without_logging() if rank else nullcontext():
            yield world
        world.all_gather(None)  # nobody leaves while another still speaks
    except (Interrupted, DivergenceError) as error:
        if rank:  # all have come to the same end
            raise AlreadyReported(error.exit_code) from error
        raise
    except RuntimeError as error:
        if not _is_connection_error(error):
            raise
        raise NmtError(
            f"rank {rank} on {socket.gethostname()}: lost another process ({_reason(error)}); its own message says "
            "why. Run the same command again to resume from the last checkpoint"
        ) from error
    finally:
        if world is not None:
            world.leave()
        elif dist.is_initialized():
            dist.destroy_process_group()


def _init_process_group() -> None:
    """Initialise the torch.distributed group of the processes that torchrun has started together.

    torchrun keeps one store across restarts, and it still holds the addresses of dead processes. So each process
    publishes a new random ID. Rank 0 republishes all IDs until every other rank has confirmed rank 0's ID. That ID then
    names the group.
    """
    store, rank, size = next(rendezvous("env://", timeout=STEP_TIMEOUT))
    own, deadline = uuid4().hex, time.monotonic() + STEP_TIMEOUT.total_seconds()
    store.set(f"nmt/word/{rank}", own)
    name, has_met = own, False
    while not has_met:
        if time.monotonic() > deadline:
            raise dist.DistStoreError("timed out waiting for the other processes to start")
        if rank == 0:
            words = [store.get(f"nmt/word/{other}").decode() for other in range(size)]
            store.set("nmt/words", " ".join(words))
            heard = [f"nmt/heard/{other}" for other in range(1, size)]
            has_met = store.check(heard) and all(store.get(key).decode() == own for key in heard)
        else:
            words = store.get("nmt/words").decode().split()
            name, has_met = words[0], len(words) == size and words[rank] == own
        time.sleep(0.0 if has_met else 0.02)
    store.set(f"nmt/heard/{rank}", name)
    dist.init_process_group(
        "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo",
        store=PrefixStore(name, store), rank=rank, world_size=size, timeout=STEP_TIMEOUT,
    )  # fmt: skip


def _is_connection_error(error: RuntimeError) -> bool:
    text = str(error).lower()
    return isinstance(error, dist.DistError) or any(word in text for word in ("gloo", "nccl", "connect", "timed out"))


def _reason(error: Exception) -> str:
    """Return the reason from an error message of torch or gloo, such as `connection reset by peer`."""
    found = re.search(r"(connection|broken pipe|timed out|no route|network)[^.\[\n]*", str(error), re.IGNORECASE)
    return found[0].strip(" :").lower() if found else (str(error).splitlines() or [type(error).__name__])[0]


def find_device(name: str) -> torch.device:
    """Return the device for `auto`, `cpu`, `cuda` or `cuda:N`.

    Raises:
        InputError: the name is unknown, or there is no such GPU.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name != "cpu" and not name.startswith("cuda"):
        raise InputError(f"device {name}: is unknown; take auto, cpu, cuda or cuda:N")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise InputError(f"device {name}: is unknown; take auto, cpu, cuda or cuda:N") from error
    if device.type == "cuda":
        found = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if (device.index or 0) >= found:
            raise InputError(f"device {name}: {_describe_gpus(found)}")
    return device


def _describe_gpus(num_gpus: int) -> str:
    """Return a sentence for an error message: PyTorch finds `num_gpus` GPUs, and what to do about it."""
    if num_gpus:
        return (
            f"PyTorch finds only {format_count(num_gpus, 'GPU')} here, numbered from 0; take another one, cpu or auto"
        )
    return (
        "PyTorch finds no GPU here (nvidia-smi shows whether there is one); take cpu or auto, or install a PyTorch "
        "built for CUDA"
    )


def make_deterministic() -> None:
    """Make CUDA kernels give the same bits every time."""
    # What cuBLAS asks for; it reads this with its first product.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(mode=True, warn_only=True)
    # Everything empty is written before it is read; filling it first would be a launch each.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]


def multiplies_bf16(device: torch.device) -> bool:
    """Return True if the hardware multiplies bfloat16 natively, so that it may be faster than float32."""
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= (8, 0)
    probes = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    return any(getattr(torch.cpu, probe, lambda: False)() for probe in probes)
