"""Installs PyTorch into the environment of the Python that runs this, in the version of constraints.txt.

On Linux pip usually finds a build for NVIDIA GPUs, of several gigabytes. PyTorch's own index has a small build without
CUDA, so that build is taken from there. Everything else, also what PyTorch itself needs, is left to `pip install .`.
`make install` runs this first.
"""

from __future__ import annotations

import argparse
import platform
import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from urllib.error import HTTPError
from urllib.request import build_opener

CONSTRAINTS = Path(__file__).parents[1] / "constraints.txt"
INDEX = "https://download.pytorch.org/whl/cpu"
SECONDS_OF_SILENCE = 5.0
SECONDS_IN_ALL = 15.0
"""Longest time for finding the index, with the look-up of its name, which has no other limit."""


def main() -> int:
    """Install PyTorch if that is needed, say in one line what was decided, and return the exit code."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--index", default=INDEX, help="index of the small builds")
    parser.add_argument(
        "--build", default="", choices=["", "cpu", "cuda"], help="cuda: the build that pip finds; the default is cpu"
    )
    asked = parser.parse_args()
    wanted, installed = wanted_version(CONSTRAINTS.read_text(encoding="utf-8")), installed_version()
    if installed.partition("+")[0] == wanted and suits(installed, asked.build):
        print(f"PyTorch {installed} is installed already.")
        return 0
    options = ["--index-url", asked.index]
    if asked.build == "cuda":
        print(f"PyTorch {wanted} in the build that pip finds, on Linux usually the one for NVIDIA GPUs.")
        options = []
    elif platform.system() != "Linux":
        return 0  # pip finds no other build than the small one
    elif problem := why_not(asked.index, wanted):
        print(
            f"{asked.index}: {problem}, so pip takes the PyTorch that it finds. That may be the build for NVIDIA GPUs, "
            "of several gigabytes."
        )
        return 0
    else:
        print(f"PyTorch {wanted} in the small build without CUDA, from {asked.index}.")
    sys.stdout.flush()
    # Of the index nothing but PyTorch is taken. As an extra index of the whole installation, it could give any package.
    pip = [sys.executable, "-m", "pip", "install", "--no-deps", *(["--force-reinstall"] if installed else [])]
    code = subprocess.run([*pip, *options, f"torch=={wanted}"], check=False).returncode
    if code:
        print("PyTorch could not be installed; pip says above why. Run the same command again to go on.")
    return code


def wanted_version(constraints: str) -> str:
    """Return the version of PyTorch that a constraints file names."""
    found = re.search(r"^torch==(\S+)$", constraints, re.MULTILINE)
    assert found is not None
    return found[1]


def installed_version() -> str:
    """Return the version of the installed PyTorch, such as `2.13.0+cpu`, or an empty text."""
    try:
        return version("torch")
    except PackageNotFoundError:
        return ""


def suits(installed: str, build: str) -> bool:
    """Return whether an installed PyTorch is the build that was asked for; if none was, any is."""
    is_small = installed.endswith("+cpu") or platform.system() != "Linux"
    return not build or is_small == (build == "cpu")


def why_not(index: str, wanted: str) -> str:
    """Return why an index has no build of a version for this machine; an empty text if it has one."""
    page, problem = fetched(f"{index.rstrip('/')}/torch/")
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    label, tags = r"(?:(?:\+|%2B)[\w.]+)?", rf"{python}-{python}{sys.abiflags}-[\w.]+_{platform.machine()}"
    if problem:
        return f"cannot be reached ({problem})"
    if not re.search(rf"torch-{re.escape(wanted)}{label}-{tags}\.whl", page, re.IGNORECASE):
        return f"has no PyTorch {wanted} for Python {platform.python_version()} on {platform.machine()}"
    return ""


def fetched(url: str) -> tuple[str, str]:
    """Return a page, and an empty text, or the reason why it cannot be fetched in time.

    If the environment names a proxy, the page is fetched through it.
    """
    answers: Queue[tuple[str, str]] = Queue()

    def fetch() -> None:
        try:
            with build_opener().open(url, timeout=SECONDS_OF_SILENCE) as page:
                answers.put((page.read().decode("utf-8", errors="replace"), ""))
        except HTTPError as error:
            with error:
                answers.put(("", f"{error.code} {error.reason}"))
        except Exception as error:  # whatever it is: an answer is waited for
            answers.put(("", str(getattr(error, "reason", error)) or type(error).__name__))

    # A thread can be left behind. Nothing else ends the look-up of a name, or a page that comes byte by byte.
    Thread(target=fetch, daemon=True).start()
    try:
        return answers.get(timeout=SECONDS_IN_ALL)
    except Empty:
        return "", f"no whole answer within {SECONDS_IN_ALL:g} s"


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
