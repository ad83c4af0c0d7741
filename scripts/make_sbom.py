"""Writes the list of all libraries that come with nmt and its extras: CycloneDX 1.6, as JSON.

It is made from what is installed here, which must have the versions of constraints.txt. Each version is also compared
with the faults that are listed below, which needs no network. `make dist` runs this.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

CONSTRAINTS = Path(__file__).parents[1] / "constraints.txt"
EXTRAS = ("plots", "logs", "formats", "documents", "onnx", "serve")
"""All extras of users but `ray`, which `make install` leaves out."""
FIRST_SOUND = {
    "certifi": ("2024.7.4", "CVE-2024-39689"),
    "filelock": ("3.20.1", "CVE-2025-68146"),
    "fonttools": ("4.60.2", "CVE-2025-66034"),
    "h11": ("0.16.0", "CVE-2025-43859"),
    "idna": ("3.7", "CVE-2024-3651"),
    "jinja2": ("3.1.6", "CVE-2025-27516"),
    "onnx": ("1.17.0", "CVE-2024-5187"),
    "pillow": ("11.3.0", "CVE-2025-48379"),
    "protobuf": ("6.31.1", "CVE-2025-4565"),
    "python-multipart": ("0.0.18", "CVE-2024-53981"),
    "requests": ("2.32.4", "CVE-2024-47081"),
    "starlette": ("0.49.1", "CVE-2025-62727"),
    "torch": ("2.6.0", "CVE-2025-32434"),
    "tqdm": ("4.66.3", "CVE-2024-34062"),
    "urllib3": ("2.6.0", "CVE-2025-66418"),
    "werkzeug": ("3.0.6", "CVE-2024-49767"),
}
"""The first version of a library without a fault that is known to us. A newer fault needs a look into a database."""


def main() -> None:
    """Write the list, or say what is wrong with a version."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("output", type=Path)
    output = parser.parse_args().output
    needed = closure("nmt-cli", EXTRAS)
    if wrong := [*other_versions(needed, locked()), *known_faults(locked())]:
        sys.exit("\n".join(wrong))
    output.write_text(json.dumps(bill(needed), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"{output}: {len(needed) - 1} libraries")


def locked() -> dict[str, str]:
    """Return the versions of constraints.txt by the names of the libraries."""
    lines = CONSTRAINTS.read_text(encoding="utf-8").splitlines()
    pairs = (line.split("==") for line in lines if line and not line.startswith("#"))
    return {canonicalize_name(name): version for name, version in pairs}


def closure(name: str, extras: tuple[str, ...]) -> dict[str, tuple[Distribution, set[str]]]:
    """Return an installed package and all that it needs, each with the names of what it needs itself."""
    found: dict[str, tuple[Distribution, set[str]]] = {}
    waiting = {(canonicalize_name(name), extra) for extra in ("", *extras)}
    done = set()
    while waiting - done:
        one, extra = (waiting - done).pop()
        done.add((one, extra))
        installed, needs = found.setdefault(one, (distribution(one), set()))
        for text in installed.requires or ():
            requirement = Requirement(text)
            if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
                continue
            other = canonicalize_name(requirement.name)
            try:
                distribution(other)
            except PackageNotFoundError:
                continue  # what is written down for a build that is not installed, such as libraries for GPUs
            waiting |= {(other, inner) for inner in ("", *requirement.extras)}
            needs |= {other} - {one}
    return found


def other_versions(needed: dict[str, tuple[Distribution, set[str]]], versions: dict[str, str]) -> list[str]:
    """Return a line for each library that is installed in another version than the lock's."""
    own = {name: one.version.partition("+")[0] for name, (one, _) in needed.items() if name != "nmt-cli"}
    return [
        f"{name}: {version} is installed, constraints.txt has {versions.get(name, 'none')}"
        for name, version in sorted(own.items())
        if versions.get(name) != version and name not in ("setuptools", "pip")
    ]


def known_faults(versions: dict[str, str]) -> list[str]:
    """Return a line for each library that is locked at a version with a known fault."""
    return [
        f"{name} {versions[name]}: has {fault}; take {sound} or newer"
        for name, (sound, fault) in FIRST_SOUND.items()
        if name in versions and Version(versions[name]) < Version(sound)
    ]


def bill(needed: dict[str, tuple[Distribution, set[str]]]) -> dict[str, Any]:
    """Return the list as CycloneDX has it; the same libraries give the same list."""
    parts = {name: component(name, one) for name, (one, _) in sorted(needed.items())}
    own = parts.pop("nmt-cli")
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {**own, "type": "application"}},
        "components": [*parts.values()],
        "dependencies": [
            {"ref": reference(name, needed[name][0]), "dependsOn": sorted(reference(o, needed[o][0]) for o in needs)}
            for name, (_, needs) in sorted(needed.items())
        ],
    }


def component(name: str, installed: Distribution) -> dict[str, Any]:
    """Return the entry of a library."""
    url = reference(name, installed)
    entry = {"type": "library", "bom-ref": url, "name": name, "version": installed.version, "purl": url}
    about = installed.metadata
    licences = [line.rpartition(" :: ")[2] for line in about.get_all("Classifier") or () if "License ::" in line]
    if expression := about.get("License-Expression"):
        entry["licenses"] = [{"expression": expression}]
    elif named := licences or [first for first in [(about.get("License") or "").strip().partition("\n")[0]] if first]:
        entry["licenses"] = [{"license": {"name": one}} for one in named]
    return entry


def reference(name: str, installed: Distribution) -> str:
    """Return the address of a library: a package URL."""
    return f"pkg:pypi/{name}@{re.sub('[+]', '%2B', installed.version)}"


if __name__ == "__main__":
    main()
