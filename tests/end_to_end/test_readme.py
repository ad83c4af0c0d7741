"""The README's examples run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from nmt_cli.commands import COMMANDS, GROUPS

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_every_command_of_the_readme_runs_as_written(model: Path, corpus: Path, tmp_path: Path):
    script = re.findall(r"```sh\n(.*?)```", README, flags=re.S)
    assert len(script) == 1
    shutil.copytree(model, tmp_path / "runs/demo")
    shutil.copytree(corpus, tmp_path / "runs/demo/data")
    shutil.copy(corpus / "test.en", tmp_path / "file.txt")
    shutil.copy(corpus / "test.fr", tmp_path / "ref.txt")
    shutil.copy(corpus / "test.fr", tmp_path / "hyp.txt")
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
    ran = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script[0]], cwd=tmp_path, env=environment, capture_output=True, check=False
    )
    assert ran.returncode == 0, ran.stderr.decode()
    for made in ("my.yaml", "nmt.schema.json", "attention.html", "curves.png", "lengths.png"):
        assert (tmp_path / made).stat().st_size > 0


def test_every_command_has_an_example_in_the_readme():
    for name in [*COMMANDS, *GROUPS]:
        assert re.search(rf"(\$ |^|\| )(nmt {name}|make {name})\b", README, flags=re.M), name


def test_nothing_in_the_readme_is_left_to_fill_in():
    assert not re.search(r"@[A-Z_]+@", README)
