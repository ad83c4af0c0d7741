"""A command that refuses what it was given leaves the directories as they were before."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
from pathlib import Path

import pytest
from marks import others_slow

from nmt_cli.config.loader import load_config
from nmt_cli.system.errors import InputError, NmtError
from nmt_cli.system.files import locked

REFUSED = {
    "no corpus": "data.train.0.source=typo.en",
    "no such device": "training.device=cuda:99",
    "no origin": "training.init_from=nowhere",
    "counts": "data.train.0.source=short.en",
    "no text": "data.train=[{source: empty, target: empty}]",
    "vocabulary": "tokenizer.vocab_size=99999",
    "no pair is short enough": "data.max_length=1",
    "a link beyond the line": "data.train.0.alignment=links",
    "vectors of another size": "model.pretrained.source=vectors.txt",
}
"""Settings at which a training stops, some when its tokenizer, its configuration and its log are there."""


@pytest.fixture
def here(config: Path, monkeypatch) -> Path:
    """The current directory, with files for the settings."""
    directory = config.parent
    monkeypatch.chdir(directory)
    (directory / "short.en").write_text("One line.\n", encoding="utf-8")
    (directory / "empty").write_text("", encoding="utf-8")
    (directory / "links").write_text("70000-0\n" * 600, encoding="utf-8")
    (directory / "vectors.txt").write_text("the 1 2 3\n", encoding="utf-8")
    (directory / "mono.fr").write_text("Une phrase.\n" * 9, encoding="utf-8")
    return directory


def files(directory: Path) -> dict[str, bytes | None]:
    """All that is in a directory: files with what they hold, directories without."""
    paths = sorted(directory.rglob("*"))
    return {str(path.relative_to(directory)): path.read_bytes() if path.is_file() else None for path in paths}


@pytest.mark.usefixtures("echoed_dev_set")
@pytest.mark.parametrize("setting", REFUSED.values(), ids=REFUSED)
def test_a_refused_training_leaves_no_directory(nmt, config: Path, here: Path, setting: str):
    before = files(here)
    result = nmt("train", "--config", config, "--set", "model_dir=new/of/mine", "--set", setting)
    assert result.code == 2, result.err
    assert files(here) == before


@pytest.mark.usefixtures("echoed_dev_set")
@pytest.mark.parametrize("what", ["no corpus", "vocabulary", "vectors of another size", "a link beyond the line"])
def test_a_refused_training_keeps_what_was_in_its_directory(nmt, config: Path, here: Path, what: str):
    for name in ("notes", "logs/mine", "logs/.mine.tmp", "cache/mine", "cache/.mine.tmp", "checkpoints/mine"):
        (here / "run" / name).parent.mkdir(parents=True, exist_ok=True)
        (here / "run" / name).write_bytes(b"mine")
    before = files(here)
    assert nmt("train", "--config", config, "--set", REFUSED[what]).code == 2
    assert files(here) == before


@pytest.mark.usefixtures("echoed_dev_set")
def test_a_refused_change_of_a_run_leaves_it_as_it_was(nmt, config: Path, here: Path):
    assert nmt("train", "--config", config, "--set", "training.max_steps=1").code == 0
    before = files(here)
    for wrong in ("training.learning_rate=1", "data.train.0.source=typo.en", "training.device=cuda:99"):
        assert nmt("train", "--config", config, "--set", wrong).code == 2
    del before["run/.lock"]  # says which process held it last
    assert {name: held for name, held in files(here).items() if name != "run/.lock"} == before


@pytest.mark.usefixtures("echoed_dev_set")
def test_a_refused_training_leaves_no_copy_of_the_configuration_in_its_directory(nmt, config: Path, here: Path):
    own = here / "run/config.yaml"
    own.parent.mkdir(exist_ok=True)
    own.write_text("# mine\n" + config.read_text())
    before = files(here)
    for _ in range(2):
        assert nmt("train", "--config", own, "--set", "data.max_length=1").code == 2
    assert files(here) == before


def test_refused_tokenizers_and_improvements_leave_no_directory(nmt, config: Path, here: Path):
    before = files(here)
    for wrong in ("data.train.0.source=typo.en", "tokenizer.vocab_size=99999"):
        assert nmt("tokenizer", "--config", config, "--set", wrong).code == 2
        mono = ("--set", "data.monolingual.target=[mono.fr]", "--set", wrong)
        assert nmt("improve", "--config", config, "-o", "better", *mono).code == 2
    assert files(here) == before


OTHER_TEXT = "exists already with other text than the phrase book's"
NOT_OVERWRITTEN = "is not overwritten; choose another --dir, or move it away"
NO_PLACE_FOR_THE_DEMO = {
    "texts of the user's": (
        ["mine/data/train.fr", "mine/data/dev.en"],
        f"mine/data/train.fr, mine/data/dev.en: {OTHER_TEXT}, and {NOT_OVERWRITTEN}",
    ),
    "a directory in the place of a text": (
        ["mine/data/test.align/mine"],
        f"mine/data/test.align: {OTHER_TEXT}, and {NOT_OVERWRITTEN}",
    ),
    "a picture and a page of the user's": (
        ["mine/attention.png", "mine/translator.html"],
        f"mine/attention.png, mine/translator.html: exists already and {NOT_OVERWRITTEN}",
    ),
    "a configuration of the user's": (
        ["mine/config.yaml", "mine/metrics.jsonl"],
        (
            "mine/metrics.jsonl: exists but does not belong to a run (no config.yaml of a run beside it), and the run "
            "would overwrite it. Move it elsewhere, or choose another model_dir"
        ),
    ),
    "a tokenizer of the user's": (
        ["mine/tokenizer/joint.model"],
        "mine/tokenizer/joint.model: is not a SentencePiece model, or damaged",
    ),
    "a file": (["mine"], "mine: cannot be used as a model directory: file exists; choose another"),
    "a file in the place of the texts": (["mine/data"], "mine/data: cannot be written: file exists"),
}
"""Files in the directory, and what the demo says of them."""


@pytest.mark.parametrize("what", others_slow(*NO_PLACE_FOR_THE_DEMO))
def test_a_refused_demo_leaves_what_was_in_its_directory(nmt, here: Path, what: str):
    names, message = NO_PLACE_FOR_THE_DEMO[what]
    for name in names:
        (here / name).parent.mkdir(parents=True, exist_ok=True)
        (here / name).write_text("mine\n", encoding="utf-8")
    before = files(here)
    result = nmt("demo", "--dir", "mine")
    assert (result.code, result.out) == (2, b"")
    assert result.err.splitlines()[-1].replace(f"{here}/", "") == f"nmt: {message}"
    assert files(here) == before


@pytest.mark.usefixtures("echoed_dev_set")
def test_a_demo_in_the_directory_of_another_run_leaves_it_as_it_was(nmt, config: Path, here: Path):
    assert nmt("train", "--config", config, "--set", "training.max_steps=1").code == 0
    before = files(here)
    result = nmt("demo", "--dir", "run")
    assert result.code == 2, result.err
    assert result.err.startswith("nmt: run: holds a run with another configuration; these keys differ: name, ")
    assert files(here) == before


@pytest.mark.usefixtures("echoed_dev_set")
@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (" learning_rate: ", " learning_rate: 1", "training.learning_rate (was 0.01)"),
        ("  weight: ", "  weight: 2", "data.train.weight (was [1.0])"),
    ],
)
def test_a_key_that_was_edited_in_the_configuration_of_the_run_itself_is_refused(
    nmt, config: Path, here: Path, before: str, after: str, told: str
):
    assert nmt("train", "--config", config, "--set", "training.max_steps=1").code == 0
    own = here / "run/config.yaml"
    text = own.read_text(encoding="utf-8")
    own.write_text(text.replace(before, after).replace("max_steps: 1", "max_steps: 2"), encoding="utf-8")
    files_before = files(here)
    result = nmt("train", "--config", own)
    assert result.code == 2, result.err
    assert result.err.replace(f"{here}/", "") == (
        f"nmt: run/config.yaml: was changed after the run began; these keys differ: {told}. "
        "Set them back to resume, or choose another model_dir\n"
    )
    assert files(here) == files_before


@pytest.mark.usefixtures("echoed_dev_set")
@pytest.mark.parametrize("damaged", ["{", "3", "[" * 5_000])
def test_a_state_with_a_damaged_configuration_is_refused(nmt, config: Path, here: Path, damaged: str):
    assert nmt("train", "--config", config, "--set", "training.max_steps=1").code == 0
    path = here / "run/checkpoints/step-00000001/trainer.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "configuration": damaged}))
    result = nmt("train", "--config", config, "--set", "training.max_steps=2")
    assert result.code == 2
    assert "run/checkpoints: the state of the training is damaged: its configuration is not valid" in result.err
    assert "Traceback" not in result.err


@pytest.mark.usefixtures("echoed_dev_set")
def test_the_text_of_a_run_may_be_moved(nmt, config: Path, here: Path):
    assert nmt("train", "--config", config, "--set", "training.max_steps=1").code == 0
    own = here / "run/config.yaml"
    text = own.read_text(encoding="utf-8")
    values = load_config(own)
    moved = here / "moved"
    moved.mkdir()
    for path in {*values.data.train[0].model_dump().values()} - {None, 1.0}:
        shutil.copy(path, moved)
        text = text.replace(path, str(moved / Path(path).name))
    own.write_text(text.replace("max_steps: 1", "max_steps: 2"), encoding="utf-8")
    result = nmt("train", "--config", own)
    assert result.code == 0, result.err
    assert "finished: max_steps 2 reached" in result.err


# The lock itself --------------------------------------------------------------------------------------------------


def refuse(error: NmtError, path: Path) -> None:
    with locked(path, "written to", "wait"):
        raise error


def test_a_lock_that_was_there_or_of_work_that_failed_stays(tmp_path: Path):
    path = tmp_path / "a/b/.lock"
    with pytest.raises(NmtError):
        refuse(NmtError("no space"), path)
    assert path.exists()
    with pytest.raises(InputError):
        refuse(InputError("typo"), path)
    assert path.exists()


def test_a_directory_that_cannot_be_made_leaves_none_above_it(tmp_path: Path):
    with pytest.raises(InputError, match="cannot be written to: file name too long"):
        refuse(InputError("typo"), tmp_path / "a" / ("b" * 300) / ".lock")
    assert files(tmp_path) == {}


def test_a_lock_that_is_removed_before_it_is_held_is_made_again(tmp_path: Path, monkeypatch):
    """Fails if two commands hold two files of one name: the first one's was removed by a refused third."""
    path, flock, calls = tmp_path / "run/.lock", fcntl.flock, []

    def flock_late(*args: object) -> None:
        calls.append(args)
        if len(calls) < 3:
            path.unlink()
            path.parent.rmdir()
        flock(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(fcntl, "flock", flock_late)
    with locked(path, "written to", "wait"), path.open() as second:
        with pytest.raises(OSError) as caught:
            flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
        assert caught.value.errno in (errno.EAGAIN, errno.EACCES)
        assert f"process {os.getpid()} on " in path.read_text()
    assert len(calls) == 3
