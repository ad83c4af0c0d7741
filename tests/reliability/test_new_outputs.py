"""`nmt clean` and `nmt import` killed anywhere, or beside another program, leave whole files and harm no others."""

import errno
import os
import signal
import subprocess
from pathlib import Path

import pytest
from command_line import start_nmt
from marks import others_soak

from nmt_cli.demo import phrasebook


@pytest.fixture
def text(tmp_path: Path) -> Path:
    pairs = phrasebook.generate(seed=3, num_train=1_000).train
    (tmp_path / "a.en").write_text("".join(f"{pair.source}\n" for pair in pairs) + "The same.\n" * 3)
    (tmp_path / "a.fr").write_text("".join(f"{pair.target}\n" for pair in pairs) + "La même.\n" * 3)
    return tmp_path


def test_a_name_that_the_encoding_of_the_system_does_not_have_is_that_of_an_output(text: Path):
    environment = os.environ | {"PYTHONUTF8": "0", "LC_ALL": "POSIX"}
    process = start_nmt(
        "clean", text / "a.en", text / "a.fr", "-o", text / "né", stderr=subprocess.PIPE, env=environment
    )
    _, told = process.communicate()
    assert process.returncode == 0, told
    assert {path.name for path in text.glob("n*")} == {"né.en", "né.fr", "né.dropped.tsv"}


COMMANDS = {
    "clean": lambda text, to: ["clean", text / "a.en", text / "a.fr", "-o", to / "made"],
    "import": lambda text, to: [
        "import", text / "a.en", text / "a.fr", "-o", to / "made", "--source-lang", "en", "--target-lang", "fr",
    ],
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("command", others_soak(*COMMANDS))
@pytest.mark.parametrize("error", others_soak(None, errno.ENOSPC, errno.EIO))
def test_stopped_at_any_operation_on_the_disk_there_are_whole_files_or_none(faulty, text: Path, command: str, error):
    whole_directory = text / "whole"
    whole_directory.mkdir()
    undisturbed = faulty.run(*COMMANDS[command](text, whole_directory))
    assert undisturbed.code == 0, undisturbed.err
    whole = {path.name: path.read_bytes() for path in whole_directory.iterdir()}
    inputs = {path: path.read_bytes() for path in text.glob("a.*")}
    operations = [number for number, (what, _) in enumerate(undisturbed.operations) if what != "write"]
    writes = [number for number, (what, _) in enumerate(undisturbed.operations) if what == "write"]
    for number in [*operations, *writes[:: len(writes) // 12], writes[-1]]:
        directory = text / f"stopped-{number}"
        directory.mkdir()
        (directory / "made.mine").write_text("mine")
        stopped = faulty.run(*COMMANDS[command](text, directory), at=number, error=error)
        assert stopped.code == (-signal.SIGKILL if error is None else 1), (undisturbed.operations[number], stopped.err)
        left = {path.name: path.read_bytes() for path in directory.iterdir()}
        assert left.pop("made.mine") == b"mine"
        named = {name: data for name, data in left.items() if not name.startswith(".")}
        assert named == {name: whole[name] for name in named}, undisturbed.operations[number]
        if error is not None and undisturbed.operations[number][0] not in ("unlink", "fsync"):
            assert left == {}, undisturbed.operations[number]
        assert {path: path.read_bytes() for path in inputs} == inputs
