"""The kernels by other compilers and for another processor than this one's, compiled as the installation would."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import pytest
from marks import others_soak

from nmt_cli.ops.kernel_library import NOT_BUILT

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).parents[2]
KERNELS = REPOSITORY / "nmt_cli" / "ops" / "kernels.cpp"
COMPILERS = {
    "GNU": (["g++"], []),
    "LLVM": (["clang++", "-Wno-pass-failed"], []),
    "GNU for ARM": (["aarch64-linux-gnu-g++", "-static"], ["qemu-aarch64"]),
    "LLVM for ARM": (
        ["clang++", "-Wno-pass-failed", "--target=aarch64-linux-gnu", "-fopenmp=libgomp", "-static"],
        ["aarch64-linux-gnu-g++", "qemu-aarch64"],
    ),
}
"""For each compiler, its command and the other programs that it needs; for ARM the last of them is an emulator."""


def require(*programs: str) -> None:
    """Skip the test, and say why, where one of the programs is not installed."""
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        pytest.skip(f"{' and '.join(missing)} not installed: run 'make compilers'")


def flags() -> list[str]:
    """Return the compiler's options of an installation."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
    (kernels,) = project["tool"]["setuptools"]["ext-modules"]
    return [*kernels["extra-compile-args"], "-Wall", "-Wextra", "-Werror"]


@pytest.mark.parametrize("name", others_soak(*COMPILERS))
def test_the_kernels_are_the_formulas(name: str, tmp_path: Path):
    """Fewer threads than chunks do the work, so that one of them must do two."""
    (compiler, *options), others = COMPILERS[name]
    require(compiler, *others)
    program = tmp_path / "check_kernels"
    source = Path(__file__).with_name("check_kernels.cpp")
    compiled = subprocess.run(
        [compiler, *flags(), *options, "-fopenmp", f"-I{KERNELS.parent}", str(source), "-o", str(program)],
        capture_output=True, text=True,
    )  # fmt: skip
    assert compiled.returncode == 0, compiled.stderr
    done = subprocess.run(
        [*others[-1:], str(program)], capture_output=True, text=True, env={**os.environ, "OMP_THREAD_LIMIT": "2"}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.fullmatch(r"\d{5} values are right\n", done.stdout)


@pytest.mark.soak
@pytest.mark.parametrize("compiler", ["clang++", "clang++-19"])
def test_what_llvm_compiles_runs_beside_torch(compiler: str, tmp_path: Path):
    """Fails if the compiler's own OpenMP is asked for, which torch has not brought. With version 19 it breaks too
    where the functions stand in an unnamed namespace."""
    require(compiler)
    shutil.copytree(REPOSITORY / "nmt_cli", tmp_path / "nmt_cli", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    library = tmp_path / "nmt_cli" / "ops" / f"kernels{sysconfig.get_config_var('EXT_SUFFIX')}"
    # In two steps, as setuptools does: so nothing is linked that the first step's options would bring.
    for arguments in (
        [*flags(), "-Wno-pass-failed", "-fPIC", "-c", str(KERNELS), "-o", str(tmp_path / "kernels.o")],
        ["-shared", str(tmp_path / "kernels.o"), "-o", str(library)],
    ):
        compiled = subprocess.run([compiler, *arguments], capture_output=True, text=True)
        assert compiled.returncode == 0, compiled.stderr
    tests = REPOSITORY / "tests" / "unit" / "ops" / "test_kernels.py"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", str(tests), "-o", f"pythonpath={tmp_path}", "-p", "no:cacheprovider"],
        cwd=REPOSITORY, env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "skipped" not in done.stdout


def test_the_package_installs_where_no_compiler_works(tmp_path: Path):
    """Fails if the kernels are more than an option."""
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE", "NOTICE"):
        shutil.copy(REPOSITORY / name, tmp_path)
    shutil.copytree(REPOSITORY / "nmt_cli", tmp_path / "nmt_cli", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(tmp_path / "site"), "."],
        cwd=tmp_path, env={**os.environ, "CC": "false", "CXX": "false"}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    script = "from nmt_cli.ops import native; print(native.why_missing())"
    told = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path / "site", env={**os.environ, "PYTHONPATH": str(tmp_path / "site")}, capture_output=True, text=True,
    )  # fmt: skip
    assert told.stdout == f"{NOT_BUILT}\n", told.stderr
