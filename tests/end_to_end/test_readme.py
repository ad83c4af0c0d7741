"""The commands of the README, and then those of the page of examples, work as they stand, in their order."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from nmt_cli.commands import COMMANDS, GROUPS

ROOT = Path(__file__).parents[2]
README, EXAMPLES = "README.md", "docs/reference/examples.md"
MADE = ("my.yaml", "few.jsonl", "few.1.fr", "few.out", "attention.html", "curves.png", "lengths.png", "nmt.schema.json")


def pages(root: Path) -> str:
    """Return the README and the page that goes on where its commands end."""
    return "\n".join((root / page).read_text(encoding="utf-8") for page in (README, EXAMPLES))


def commands_of(page: str) -> list[str]:
    """Return the commands of every `sh` and `console` block in their order, with their comments."""
    commands = []
    for kind, block in re.findall(r"^```(sh|console)\n(.*?)^```", page, flags=re.M | re.S):
        for line in re.sub(r" *\\\n *", " ", block).splitlines():
            is_command = line.startswith("$ ") if kind == "console" else line and not line.startswith("#")
            if is_command:
                commands.append(line.removeprefix("$ "))
    return commands


def quick(command: str) -> bool:
    """Return False for a command that a page marks as slow, or as in need of what is not installed."""
    return not re.search(r"# (minutes|needs)\b", command)


def run(commands: list[str], directory: Path) -> subprocess.CompletedProcess[str]:
    """Type the commands into one shell that, like a new user's, does not know this environment."""
    own = Path(sys.executable).parent
    environment = {key: value for key, value in os.environ.items() if key not in ("VIRTUAL_ENV", "MAKEFLAGS")}
    environment["PATH"] = ":".join(path for path in environment["PATH"].split(":") if Path(path) != own)
    script = directory / "typed.sh"
    script.write_text("\n".join(commands) + "\n", encoding="utf-8")
    ran = subprocess.run(
        ["bash", "-v", "-eo", "pipefail", script], cwd=directory, env=environment, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, f"{ran.stdout}\n{ran.stderr}"
    for made in MADE:
        assert (directory / made).stat().st_size > 0, made
    return ran


@pytest.mark.slow
def test_the_quick_commands_work_in_their_order(model: Path, corpus: Path, tmp_path: Path):
    """After a `make demo`, with a smaller model and the environment of the tests."""
    shutil.copytree(model, tmp_path / "runs/demo")
    shutil.copytree(corpus, tmp_path / "runs/demo/data")
    activate = tmp_path / ".venv/bin/activate"
    activate.parent.mkdir(parents=True)
    activate.write_text(f'export PYTHONPATH="{ROOT}" PATH="{Path(sys.executable).parent}:$PATH"\n')
    commands = commands_of(pages(ROOT))
    assert any(command.startswith("source .venv/bin/activate") for command in commands)
    run([command for command in commands if quick(command)], tmp_path)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_all_commands_work_from_nothing(tmp_path: Path, monkeypatch):
    """In a fresh clone, installation and `make demo` among them."""
    monkeypatch.delenv("PYTHONPATH", raising=False)
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
    ran = run(commands_of(pages(clone)), clone)
    assert "Collecting" in ran.stdout  # pip's progress
    told = "To use nmt in this shell, activate its environment first: source .venv/bin/activate"
    assert ran.stdout.count(told) == 2  # after the installation, and after the demo


def test_every_command_has_an_example():
    text = pages(ROOT)
    for name in [*COMMANDS, *GROUPS]:
        assert re.search(rf"(\$ |^|\| )(nmt {name}|make {name})\b", text, flags=re.M), name
