"""File systems that lack something, and what a file keeps when it is replaced."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import stored_model

from nmt_cli.data.output import open_output

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stored_model(tmp_path_factory.mktemp("stored"))


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.en"
    path.write_text("Where are the old teachers?\n", encoding="utf-8")
    return path


@pytest.fixture
def pieces(nmt, model: Path, text: Path) -> bytes:
    return nmt("encode", text, "--model", model).out


# Locks ------------------------------------------------------------------------------------------------------------


def fail_with(number: int, *_: object) -> None:
    raise OSError(number, os.strerror(number))


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS], ids=errno.errorcode.get)
def test_where_locks_are_not_supported_it_goes_on_with_a_warning(nmt, config: Path, monkeypatch, number: int):
    monkeypatch.setattr(fcntl, "flock", lambda *_: fail_with(number))
    result = nmt("tokenizer", "--config", config)
    assert result.code == 0, result.err
    run = config.parent / "run"
    assert result.err.splitlines()[0] == (
        f"warning: {run}: its file system does not support locks ({os.strerror(number).lower()}), so a second command "
        "that writes there at the same time would not be noticed; run one at a time"
    )
    assert (run / "tokenizer/joint.model").exists()


@pytest.mark.parametrize("number", [errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES], ids=errno.errorcode.get)
def test_a_lock_that_another_process_has_is_called_so(nmt, config: Path, monkeypatch, number: int):
    monkeypatch.setattr(fcntl, "flock", lambda *_: fail_with(number))
    result = nmt("tokenizer", "--config", config)
    told = f"nmt: {config.parent / 'run'}: is in use by another process; wait for it or choose another model_dir\n"
    assert (result.code, result.err) == (2, told)


# Directories that cannot be pushed to the disk --------------------------------------------------------------------


@pytest.fixture
def no_directory_sync(monkeypatch) -> list[int]:
    """Let fsync of a directory fail, with the error number that the list holds."""
    real, numbers = os.fsync, [errno.EINVAL]

    def fsync(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            fail_with(numbers[0])
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    return numbers


@pytest.mark.slow
@pytest.mark.usefixtures("echoed_dev_set")
def test_a_training_ends_where_directories_are_not_pushed_to_the_disk(nmt, config: Path, no_directory_sync):
    result = nmt("train", "--config", config, "--set", "training.max_steps=3")
    assert result.code == 0, result.err
    assert (config.parent / "run/checkpoints/step-00000003/model.safetensors").exists()


@pytest.mark.parametrize("number", [errno.EINVAL, errno.EOPNOTSUPP, errno.EBADF, errno.ENOSYS], ids=errno.errorcode.get)
def test_an_output_is_written_where_directories_are_not_pushed_to_the_disk(
    nmt, model: Path, text: Path, pieces: bytes, no_directory_sync, number: int
):
    no_directory_sync[0] = number
    out = text.with_name("out")
    assert nmt("encode", text, "--model", model, "-o", out).code == 0
    assert out.read_bytes() == pieces


def test_a_directory_that_fails_on_its_way_to_the_disk_is_not_passed_over(
    nmt, model: Path, text: Path, no_directory_sync
):
    no_directory_sync[0] = errno.EIO
    result = nmt("encode", text, "--model", model, "-o", text.with_name("out"))
    assert (result.code, result.err) == (1, "nmt: reading or writing failed: input/output error; check the disk\n")


def test_a_file_that_cannot_be_pushed_to_the_disk_is_absent(nmt, model: Path, text: Path, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda _: fail_with(errno.EINVAL))
    assert nmt("encode", text, "--model", model, "-o", text.with_name("out")).code == 1
    assert [path.name for path in text.parent.iterdir()] == [text.name]


def test_an_output_may_go_into_a_directory_that_cannot_be_read(
    nmt, model: Path, text: Path, pieces: bytes, monkeypatch
):
    real = os.open

    def open_(path, flags, *rest, **how):
        if os.path.isdir(path):  # permission bits do not bind root
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return real(path, flags, *rest, **how)

    monkeypatch.setattr(os, "open", open_)
    out = text.with_name("out")
    result = nmt("encode", text, "--model", model, "-o", out)
    assert result.code == 0, result.err
    assert out.read_bytes() == pieces


# What a file keeps ------------------------------------------------------------------------------------------------


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_an_output_keeps_the_mode_of_the_file_that_it_replaces(nmt, model: Path, text: Path, pieces: bytes):
    out, link = text.with_name("out"), text.with_name("link")
    for mode in (0o600, 0o640, 0o222):
        out.write_bytes(b"old")
        out.chmod(mode)
        result = nmt("encode", text, "--model", model, "-o", out)
        assert (result.code, result.err, mode_of(out)) == (0, "", mode)
        out.chmod(0o600)
        assert out.read_bytes() == pieces
    link.symlink_to(out)
    assert nmt("encode", text, "--model", model, "-o", link).code == 0
    assert (link.is_symlink(), mode_of(out)) == (True, 0o600)
    new = text.with_name("new")
    new.touch()
    usual = mode_of(new)
    new.unlink()
    assert nmt("encode", text, "--model", model, "-o", new).code == 0
    assert mode_of(new) == usual


def test_nobody_reads_a_private_output_while_it_is_written(text: Path):
    out = text.with_name("out")
    out.touch(0o600)
    with open_output(out) as stream:
        stream.write(b"secret")
        (temporary,) = text.parent.glob(".out.*.tmp")
        assert mode_of(temporary) == 0o600


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a file to somebody else")
def test_an_output_keeps_the_owner_of_the_file_that_it_replaces(nmt, model: Path, text: Path):
    out = text.with_name("out")
    out.touch()
    os.chown(out, 1234, 4321)
    assert nmt("encode", text, "--model", model, "-o", out).code == 0
    assert (out.stat().st_uid, out.stat().st_gid) == (1234, 4321)


def test_the_configuration_of_a_run_keeps_its_mode(nmt, config: Path):
    own = config.parent / "run/config.yaml"
    own.parent.mkdir()
    own.touch(0o600)
    assert nmt("tokenizer", "--config", config).code == 0
    assert own.stat().st_size
    assert mode_of(own) == 0o600


def test_a_hard_link_that_is_cut_is_told(nmt, model: Path, text: Path, pieces: bytes):
    out, other = text.with_name("out"), text.with_name("other")
    out.write_bytes(b"old")
    other.hardlink_to(out)
    result = nmt("encode", text, "--model", model, "-o", out)
    told = f"warning: {out}: is a file of its own now; 1 other name (hard links) keep the old content\n"
    assert (result.code, result.err) == (0, told)
    assert (out.read_bytes(), other.read_bytes()) == (pieces, b"old")


# Names ------------------------------------------------------------------------------------------------------------


LONG_NAMES = {
    "of letters": "n" * 255,
    "of accents": "é" * 127 + "x",
    "of accents, one byte on": "x" + "é" * 127,
    "of characters": "字" * 85,
    "compressed": "n" * 252 + ".gz",
}


@pytest.mark.parametrize("name", LONG_NAMES.values(), ids=LONG_NAMES)
def test_a_name_of_255_bytes_can_be_written(nmt, model: Path, text: Path, name: str):
    assert len(name.encode()) == 255
    out = text.with_name(name)
    result = nmt("encode", text, "--model", model, "-o", out)
    assert result.code == 0, result.err
    assert {path.name for path in text.parent.iterdir()} == {text.name, name}
    assert nmt("decode", out, "--model", model).out == text.read_bytes()


def test_a_name_of_256_bytes_is_refused(nmt, model: Path, text: Path):
    result = nmt("encode", text, "--model", model, "-o", text.with_name("n" * 256))
    assert result.code == 2
    assert result.err.endswith("file name too long\n")


def test_two_writers_with_one_process_number_do_not_meet(text: Path):
    """Two containers that share a directory each have a process 1."""
    out = text.with_name("out")
    with open_output(out) as first:
        first.write(b"first, ")
        with open_output(out) as second:
            second.write(b"second\n")
        assert out.read_bytes() == b"second\n"
        first.write(b"whole\n")
    assert out.read_bytes() == b"first, whole\n"
    assert {path.name for path in text.parent.iterdir()} == {text.name, "out"}


# Nothing can be written -------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("echoed_dev_set")
def test_a_finished_run_is_reported_where_nothing_can_be_written(nmt, config: Path, monkeypatch):
    assert nmt("train", "--config", config).code == 0
    run, real_open, real_mkdir = config.parent / "run", os.open, os.mkdir

    def open_(path, flags, *rest, **how):
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) and run in Path(os.fsdecode(path)).parents:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
        return real_open(path, flags, *rest, **how)

    def mkdir(path, *rest, **how):
        if run in Path(path).parents:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
        real_mkdir(path, *rest, **how)

    monkeypatch.setattr(os, "open", open_)
    monkeypatch.setattr(os, "mkdir", mkdir)
    result = nmt("train", "--config", config)
    told = "finished already (max_steps 12 reached); raise training.max_steps to go on\n"
    assert (result.code, result.out, result.err) == (0, b"", told)
    result = nmt("train", "--config", config, "--set", "training.max_steps=13")
    assert (result.code, result.err) == (
        2,
        f"nmt: {run}: cannot be used as a model directory: read-only file system; choose another\n",
    )
    result = nmt("train", "--config", config, "--set", "seed=2")
    assert result.code == 2
    assert "these keys differ: seed" in result.err


@pytest.mark.usefixtures("echoed_dev_set")
@pytest.mark.slow
def test_a_finished_run_on_a_read_only_file_system_is_reported(nmt, config: Path):
    run = config.parent / "run"
    own_mounts = ["unshare", "--mount", "sh", "-c"]
    mounted = f"mount --bind '{run}' '{run}' && mount -o remount,ro,bind '{run}'"
    run.mkdir()
    try:
        allowed = subprocess.run([*own_mounts, mounted], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        allowed = False
    if not allowed:
        pytest.skip("file systems cannot be mounted here")
    assert nmt("train", "--config", config).code == 0

    def read_only(*words: str | Path) -> subprocess.CompletedProcess[str]:
        command = [*own_mounts, f'{mounted} && exec "$@"', "sh", sys.executable, "-m", "nmt_cli", *map(str, words)]
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    result = read_only("train", "--config", config)
    told = "finished already (max_steps 12 reached); raise training.max_steps to go on\n"
    assert (result.returncode, result.stdout, result.stderr) == (0, "", told)
    for words, told in (
        (
            ("train", "--config", config, "--set", "training.max_steps=13"),
            f"{run}: cannot be used as a model directory: read-only file system; choose another",
        ),
        (
            ("average", "--model", run, "--name", "mean"),
            f"{run}/checkpoints/mean: cannot be written: read-only file system",
        ),
        (
            ("evaluate", "--calibrate", "--model", run),
            f"{run}/confidence.json: cannot be written: read-only file system",
        ),
    ):
        result = read_only(*words)
        assert (result.returncode, result.stderr) == (2, f"nmt: {told}\n")
