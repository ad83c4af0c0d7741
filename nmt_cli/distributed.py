"""The world of a training: which process this is, on which device, and what all of them say together.

One process is a world of its own, with the same methods; training code never asks whether it is alone.
"""

from __future__ import annotations

import torch

from nmt_cli.errors import InputError


class World:
    """One process on one device."""

    rank = 0
    size = 1

    def __init__(self, device: torch.device) -> None:
        self.device = device

    @property
    def is_primary(self) -> bool:
        """True of the one process that decides and writes."""
        return self.rank == 0


def find_device(name: str) -> torch.device:
    """The device for `auto`, `cpu`, `cuda` or `cuda:N`; `InputError` where it is not there."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name != "cpu" and not name.startswith("cuda"):
        raise InputError(f"device {name!r}: is unknown; take auto, cpu, cuda or cuda:N")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise InputError(f"device {name!r}: is unknown; take auto, cpu, cuda or cuda:N") from error
    if device.type == "cuda":
        found = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if (device.index or 0) >= found:
            raise InputError(
                f"device {name!r}: this machine has {found} CUDA devices that torch can use; take cpu or auto"
            )
    return device


def multiplies_bf16(device: torch.device) -> bool:
    """True where the hardware multiplies bfloat16 natively, so that it is faster than float32."""
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= (8, 0)
    probes = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    return any(getattr(torch.cpu, probe, lambda: False)() for probe in probes)
