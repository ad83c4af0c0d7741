"""Builds a release into `dist`: the source distribution, a wheel with compiled kernels, and one for all systems.

The same source gives the same bytes: the times in the archives are SOURCE_DATE_EPOCH, or the time of the last commit,
and the files are those that git knows. The compiler must be the same too. The wheels are built from the source
distribution, so it is complete. `make dist` runs this in an environment of its own.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PLATFORM = "manylinux_2_27_x86_64"
"""The oldest glibc is 2.27: `auditwheel show` must say so too."""


def main() -> None:
    """Build and check everything, and print the sizes and digests."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--output", type=Path, default=ROOT / "dist")
    parser.add_argument("--share", type=Path, required=True, help="manual pages and completion: a directory share")
    asked = parser.parse_args()
    output = asked.output.resolve()
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    os.umask(0o022)
    os.environ["SOURCE_DATE_EPOCH"] = str(epoch())
    with tempfile.TemporaryDirectory() as temporary:
        source = Path(temporary) / "source"
        copy_source(source, asked.share)
        run(*build("sdist", output), str(source))
        (archive,) = output.glob("*.tar.gz")
        make_reproducible(archive)
        unpacked = Path(temporary) / "unpacked"
        with tarfile.open(archive) as files:
            files.extractall(unpacked, filter="data")
        (package,) = unpacked.iterdir()
        setting = f"--config-setting=--build-option=--plat-name={PLATFORM}"
        run(*build("wheel", output), setting, str(package), NMT_KERNELS="required")
        shutil.rmtree(package / "build")
        run(*build("wheel", output), str(package), NMT_KERNELS="none")
    check(output)
    for path in sorted(output.iterdir()):
        print(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.stat().st_size:9,}  {path.name}")


def epoch() -> int:
    """Return the time that the archives name, in seconds."""
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        return int(given)
    if (ROOT / ".git").exists():
        told = subprocess.run(
            ["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True, check=True
        )
        return int(told.stdout)
    return int((ROOT / "pyproject.toml").stat().st_mtime)  # from a source distribution


def copy_source(directory: Path, share: Path) -> None:
    """Copy the files that git knows, or all where there is no git, and the manual pages, with the usual permissions."""
    if (ROOT / ".git").exists():
        told = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
        names = [name for name in told.stdout.split("\0") if name]
    else:
        names = [str(path.relative_to(ROOT)) for path in ROOT.rglob("*") if path.is_file() and ".venv" not in str(path)]
    for name in names:
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, path)
        path.chmod(0o755 if os.access(ROOT / name, os.X_OK) else 0o644)
    shutil.copytree(share, directory / "share", dirs_exist_ok=True)


def build(form: str, output: Path) -> list[str]:
    """Return the command that builds a distribution, with the build backend of this environment."""
    return [sys.executable, "-m", "build", f"--{form}", "--no-isolation", "--outdir", str(output)]


def run(*command: str, **variables: str) -> None:
    """Run a command, and show what it says only where it fails."""
    environment = {name: value for name, value in os.environ.items() if name != "NMT_KERNELS"} | variables
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if ran.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{ran.stdout}{ran.stderr}")


def make_reproducible(archive: Path) -> None:
    """Write a source distribution again: sorted, of nobody, with one time and the usual permissions."""
    now = int(os.environ["SOURCE_DATE_EPOCH"])
    again = archive.with_suffix(".new")
    with (
        tarfile.open(archive) as old,
        again.open("wb") as file,
        gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=now) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as new,
    ):
        for member in sorted(old.getmembers(), key=lambda member: member.name):
            member.mtime, member.uid, member.gid, member.uname, member.gname, member.pax_headers = now, 0, 0, "", "", {}
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            new.addfile(member, old.extractfile(member) if member.isfile() else None)
    again.replace(archive)


def check(output: Path) -> None:
    """Check the metadata, and that the wheel with kernels needs no newer system than its name says."""
    run(sys.executable, "-m", "twine", "check", "--strict", *map(str, sorted(output.iterdir())))
    (compiled,) = output.glob("*manylinux*.whl")
    told = subprocess.run(
        [sys.executable, "-m", "auditwheel", "show", str(compiled)], capture_output=True, text=True, check=True
    ).stdout
    (found,) = re.findall(r'This constrains the platform tag to "(\w+)"', " ".join(told.split()))
    if found != PLATFORM:
        sys.exit(f"{compiled.name}: needs {found}, says auditwheel:\n{told}")
    if "gomp" in told or "omp." in told:
        sys.exit(f"{compiled.name}: has an OpenMP of its own, beside the one of torch:\n{told}")


if __name__ == "__main__":
    main()
