"""Versions of the program and its libraries, and the processor, for a bug report; found without loading torch."""

from __future__ import annotations

import platform

from nmt_cli.ops import kernel_library
from nmt_cli.system import processors
from nmt_cli.version import __version__


def described_versions() -> str:
    """Return lines of text: the program's version, then Python's, torch's and the kernels', and the processor."""
    library = kernel_library.load()
    kernels = library if isinstance(library, str) else f"version {kernel_library.VERSION}, compiled"
    lines = {
        "python": f"{platform.python_version()}, {platform.platform()}",
        "torch": _installed_version("torch"),
        "kernels": kernels,
        "processor": processors.describe_processors(),
    }
    return "\n".join([f"nmt {__version__}", *(f"{name}: {value}" for name, value in lines.items())])


def _installed_version(library: str) -> str:
    """Return the version of an installed library, read from its metadata."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(library)
    except PackageNotFoundError:
        return "not installed"
