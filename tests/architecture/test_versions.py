"""The versions of other libraries that the package declares, read from pyproject.toml and the constraints."""

import tomllib
from itertools import chain
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]


def bounds(requirements):
    """The oldest version that is allowed of each; None where any is."""
    found = {}
    for requirement in map(Requirement, requirements):
        if requirement.name != PROJECT["name"]:
            assert {specifier.operator for specifier in requirement.specifier} <= {">="}
            (oldest,) = [Version(specifier.version) for specifier in requirement.specifier] or [None]
            found[canonicalize_name(requirement.name)] = oldest
    return found


def constraints(name):
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    pairs = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(library): Version(version) for library, version in pairs}


NEWEST, OLDEST = constraints("constraints.txt"), constraints("constraints-oldest.txt")
BOUNDS = bounds(chain(PROJECT["dependencies"], *EXTRAS.values()))


def test_the_oldest_versions_that_are_tested_are_the_bounds():
    """But for torch, which would bring gigabytes for GPUs in any other version."""
    bounded = {name: oldest for name, oldest in BOUNDS.items() if oldest is not None}
    assert bounded | {"torch": NEWEST["torch"]} == OLDEST


def test_only_what_finds_something_else_in_each_version_has_no_bound():
    assert {name for name, oldest in BOUNDS.items() if oldest is None} == set(bounds(EXTRAS["dev"]))


@pytest.mark.parametrize("name", BOUNDS)
def test_the_newest_version_that_is_tested_is_allowed(name):
    assert BOUNDS[name] is None or BOUNDS[name] <= NEWEST[name]
