"""Reads and writes JSON and safetensors files, which may come from a stranger; pickle is never used."""

from __future__ import annotations

import errno
import json
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nmt_cli.system.errors import ModelError, UnreadableError
from nmt_cli.system.files import atomic_path

if TYPE_CHECKING:
    from torch import Tensor

MAX_JSON_BYTES = 16_000_000


def write_json(path: Path, value: Any) -> None:
    """Write a value to a file as JSON; if that fails, `path` keeps its old content."""
    with atomic_path(path) as temporary:
        temporary.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def read_json(path: Path) -> dict[str, Any]:
    """Return a JSON object from a file that may come from a stranger.

    Raises:
        ModelError: there is no such file, or it is too large or no JSON object.
        UnreadableError: it cannot be read now.
    """
    try:
        if not path.is_file():
            raise ModelError(f"{path}: there is no such file; the checkpoint is incomplete")
        if path.stat().st_size > MAX_JSON_BYTES:
            raise ModelError(f"{path}: is too large for what it should hold")
        value = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UnreadableError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path}: is not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise ModelError(f"{path}: must hold a JSON object")
    return value


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Return the tensors of a safetensors file, memory-mapped; no code is run and nothing beyond the file is allocated.

    Raises:
        ModelError: there is no such file, or it is not whole.
        UnreadableError: it cannot be read now.
    """
    with _open_tensors(path, "pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)


def read_metadata(path: Path) -> dict[str, str]:
    """Return the metadata, strings by name, of a safetensors file, without reading its tensors.

    Raises:
        ModelError: there is no such file, or it is not whole.
        UnreadableError: it cannot be read now.
    """
    with _open_tensors(path, "np") as file:
        return dict(file.metadata() or {})


@contextmanager
def _open_tensors(path: Path, framework: str) -> Iterator[Any]:
    from safetensors import SafetensorError, safe_open

    try:
        if not path.is_file():
            raise ModelError(f"{path}: there is no such file; the checkpoint is incomplete")
        with safe_open(path, framework=framework) as file:
            yield file
    except (SafetensorError, ValueError, RuntimeError, struct.error) as error:
        raise ModelError(f"{path}: is not a whole safetensors file: {error}") from error
    except OSError as error:
        raise UnreadableError(f"{path}: cannot be read: {error.strerror or error}") from error


def tensors_as_bytes(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> bytes:
    """Return the bytes of a safetensors file with these tensors and metadata; equal arguments give equal bytes.

    All tensors are in memory twice meanwhile, so they must be small.
    """
    from safetensors.torch import save

    written = save({name: tensor.contiguous().cpu() for name, tensor in tensors.items()}, dict(metadata))
    # The header, JSON behind its length, has the metadata in an order that differs from call to call.
    end = 8 + int.from_bytes(written[:8], "little")
    header = json.dumps(json.loads(written[8:end]), sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    return written[:8] + header.ljust(end - 8) + written[end:]


def save_tensors(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Write tensors to a safetensors file in a directory that `atomic_directory` has yielded.

    Raises:
        OSError: the file cannot be written.
    """
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    path.touch()
    mode = path.stat().st_mode  # as the user wants files to be; safetensors would let nobody else read them
    try:
        save_file({name: tensor.contiguous().cpu() for name, tensor in tensors.items()}, path)
    except SafetensorError as error:  # which hides the operating system's error in its text
        full = "No space left" in str(error)
        raise OSError(errno.ENOSPC if full else errno.EIO, str(error), str(path)) from error
    path.chmod(mode)
