"""A release as `make dist` builds it: names, contents, equal bytes, and what runs in a new environment."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from types import ModuleType

import pytest
from command_line import stored_model
from packaging.requirements import Requirement

from nmt_cli.version import __version__

ROOT = Path(__file__).parents[2]
MANY = f"nmt_cli-{__version__}-py3-none-manylinux_2_27_x86_64.whl"
ANY = f"nmt_cli-{__version__}-py3-none-any.whl"
SOURCE = f"nmt_cli-{__version__}.tar.gz"


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / f"scripts/{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_no_library_is_locked_at_a_version_with_a_known_fault():
    assert script("make_sbom").known_faults(script("make_sbom").locked()) == []
    assert script("make_sbom").known_faults({"h11": "0.14.0"}) == [
        "h11 0.14.0: has CVE-2025-43859; take 0.16.0 or newer"
    ]


def test_the_list_of_libraries_holds_all_that_is_declared():
    sbom = script("make_sbom")
    needed = sbom.closure("nmt-cli", sbom.EXTRAS)
    assert sbom.other_versions(needed, {name: one.version.partition("+")[0] for name, (one, _) in needed.items()}) == []
    bill = json.loads(json.dumps(sbom.bill(needed)))
    assert bill["metadata"]["component"]["version"] == __version__
    names = {one["name"] for one in bill["components"]}
    declared = [Requirement(text) for text in needed["nmt-cli"][0].requires]
    assert {one.name.lower() for one in declared if one.marker is None} <= names
    assert {"starlette", "onnxruntime", "matplotlib", "numpy"} <= names
    assert {"pytest", "ruff", "mypy"}.isdisjoint(names)
    references = [one["bom-ref"] for one in (bill["metadata"]["component"], *bill["components"])]
    assert sorted(one["ref"] for one in bill["dependencies"]) == sorted(references)
    assert {other for one in bill["dependencies"] for other in one["dependsOn"]} <= set(references)


@pytest.fixture(scope="module")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with the programs that build a release."""
    directory = tmp_path_factory.mktemp("builder")
    python = directory / "bin/python"
    for command in (
        [sys.executable, "-m", "venv", directory],
        [python, "-m", "pip", "install", "--quiet", "--requirement", ROOT / "constraints-dist.txt"],
    ):
        subprocess.run([*map(str, command)], check=True)
    return python


@pytest.mark.soak
@pytest.mark.install
@pytest.mark.timeout(3600)
def test_two_builds_give_equal_bytes_and_wheels_that_translate(builder: Path, tmp_path: Path, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1764400000")
    subprocess.run([sys.executable, ROOT / "scripts/make_man.py", tmp_path], check=True)
    for name in ("one", "two"):
        command = [builder, ROOT / "scripts/make_dist.py", "--output", tmp_path / name, "--share", tmp_path / "share"]
        subprocess.run([*map(str, command)], check=True)
    built = {path.name: path.read_bytes() for path in (tmp_path / "one").iterdir()}
    assert set(built) == {MANY, ANY, SOURCE}
    assert built == {path.name: path.read_bytes() for path in (tmp_path / "two").iterdir()}

    with tarfile.open(tmp_path / "one" / SOURCE) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "setup.py", "NOTICE", "tests/conftest.py", "docs/README.md", "Makefile"} <= names
    for name in (MANY, ANY):
        with zipfile.ZipFile(tmp_path / "one" / name) as archive:
            names = set(archive.namelist())
        own = f"nmt_cli-{__version__}"
        assert {"nmt_cli/py.typed", f"{own}.dist-info/licenses/LICENSE", f"{own}.dist-info/licenses/NOTICE"} <= names
        assert f"{own}.data/data/share/man/man1/nmt-translate.1" in names
        assert ("nmt_cli/ops/kernels.so" in names) == (name == MANY)
        assert not any(one.startswith("tests/") for one in names)

        environment = tmp_path / f"environment-{name}"
        python = environment / "bin/python"
        wheel = tmp_path / "one" / name
        for command in (
            [sys.executable, "-m", "venv", environment],
            [python, ROOT / "scripts/install_torch.py"],
            [python, "-m", "pip", "install", "--quiet", "--constraint", ROOT / "constraints.txt", wheel],
        ):
            subprocess.run([*map(str, command)], check=True)
        work = tmp_path / f"work-{name}"
        work.mkdir()
        model = stored_model(work)
        text = ROOT / "tests/models/format-1/source.txt"
        nmt = environment / "bin/nmt"
        told = subprocess.run([nmt, "--version"], cwd=work, capture_output=True, text=True, check=True).stdout
        assert ("kernels: version" in told) == (name == MANY)
        out = subprocess.run([nmt, "translate", text, "--model", model], cwd=work, capture_output=True, check=True)
        assert out.stdout == (ROOT / "tests/models/format-1/expected.txt").read_bytes()
        assert (environment / "share/man/man1/nmt.1").exists()
