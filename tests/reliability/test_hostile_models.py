"""Model directories from a stranger: every byte may be wrong, and all that happens is one clear message."""

from __future__ import annotations

import json
import os
import random
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from faults import Faulty, Outcome

pytestmark = pytest.mark.slow

MEGABYTE = 2**20
ROOM = 64 * MEGABYTE
"""Memory that a damaged directory may take beyond what the sound one takes."""
SECONDS = 60.0
FILES = {
    "config": "config.yaml",
    "tokenizer": "tokenizer/joint.model",
    "index": "checkpoints/index.json",
    "meta": "checkpoints/step-00000100/meta.json",
    "weights": "checkpoints/step-00000100/model.safetensors",
    "state": "checkpoints/step-00000100/trainer.json",
    "moments": "checkpoints/step-00000100/trainer.safetensors",
}


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("line") / "line.txt"
    path.write_text("Where is the station?\n")
    return path


@pytest.fixture(scope="module")
def sound(faulty: Faulty, model: Path, line: Path) -> Outcome:
    """The translation with a directory that is whole."""
    outcome = faulty.run("translate", line, "--model", model, "--checkpoint", "last", kill_after=SECONDS)
    assert outcome.code == 0, outcome.err
    return outcome


@pytest.fixture
def stranger(model: Path, tmp_path: Path) -> Path:
    """A directory to damage."""
    copy = tmp_path / "stranger"
    shutil.copytree(model, copy, ignore=shutil.ignore_patterns("cache", "logs"))
    return copy


def refused(outcome: Outcome, sound: Outcome, directory: Path, message: str) -> None:
    assert outcome.code == 2, (outcome.code, outcome.err)
    assert outcome.err.startswith("nmt: "), outcome.err
    assert message in outcome.err, outcome.err
    assert str(directory) in outcome.err
    assert outcome.err.count("\n") <= 3
    assert "Traceback" not in outcome.err
    assert outcome.memory < sound.memory + ROOM


def translate(faulty: Faulty, line: Path, directory: Path) -> Outcome:
    return faulty.run("translate", line, "--model", directory, "--checkpoint", "last", kill_after=SECONDS)


def with_header(path: Path, change: Callable[[dict], object]) -> None:  # type: ignore[type-arg]
    """Change the JSON at the beginning of a safetensors file."""
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    changed = change(header)
    text = json.dumps(header if changed is None else changed).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + content[8 + length :])


def first(header: dict) -> dict:  # type: ignore[type-arg]
    return header[next(name for name in header if name != "__metadata__")]


def in_config(old: str, new: str) -> Callable[[Path], object]:
    def change(path: Path) -> None:
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new, 1))

    return change


def in_json(**values: object) -> Callable[[Path], object]:
    return lambda path: path.write_text(json.dumps(json.loads(path.read_text()) | values))


def sparse(path: Path) -> None:
    path.unlink()
    path.touch()
    os.truncate(path, 2**40)


def fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def endless(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def to_itself(path: Path) -> None:
    path.unlink()
    path.symlink_to(path)


def directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [*{before}, *{before}, *{before}, *{before}, *{before}, *{before}, *{before}, *{before}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)

CASES: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "aliases": ("config", lambda path: path.write_text(BOMB), "the aliases up to here stand for too much text"),
    "a tag": (
        "config", in_config("name: tiny", "name: !!python/object/apply:os.system [touch /tmp/owned]"),
        "tags such as !!python/object/apply:os.system are not supported",
    ),
    "nested": ("config", lambda path: path.write_text("[" * 100_000), "too deeply nested"),
    "large": ("config", lambda path: path.write_text("# " + "x" * 2_000_000), "larger than 1,000,000 bytes"),
    "not text": ("config", lambda path: path.write_bytes(b"\xff\xfe\x00"), "is not UTF-8 text (byte 0)"),
    "no configuration": ("config", lambda path: path.write_text("[1, 2]"), "is not a configuration"),
    "wide": ("config", in_config("hidden_size: 16", "hidden_size: 1000000000"), "hidden_size"),
    "wide but allowed": ("config", in_config("hidden_size: 16", "hidden_size: 65536"), "the configuration says"),
    "very wide": ("config", in_config("hidden_size: 16", "hidden_size: 1" + "0" * 400), "hidden_size"),
    "deep": ("config", in_config("num_layers: 1", "num_layers: 100000000"), "num_layers"),
    "deep but allowed": ("config", in_config("num_layers: 1", "num_layers: 64"), "does not belong to this config"),
    "a beam of millions": ("config", in_config("beam_size: 3", "beam_size: 1000000000"), "beam_size"),
    "endless output": ("config", in_config("max_length_b: 10", "max_length_b: 1000000000000"), "max_length_b"),
    "no number": ("config", in_config("length_penalty: 1.0", "length_penalty: .nan"), "length_penalty"),
    "another attention": ("config", in_config("type: additive", "type: location"), "belong"),
    "a text of its own": ("config", in_config("seed: 1", "seed: 1\nhook: os.system"), "unknown key 'hook'"),
    "index of nothing": ("index", lambda path: path.write_text("null"), "must hold a JSON object"),
    "index of another format": ("index", in_json(format=2), "has format version 2, this program reads 1"),
    "index that climbs": ("index", in_json(last="../../../etc"), "is damaged"),
    "index beyond": ("index", in_json(last=10**30), "there is no checkpoint"),
    "index below": ("index", in_json(last=-1), "there is no checkpoint"),
    "index with words": ("index", in_json(best=["x"]), "is damaged"),
    "index with NaN": ("index", lambda path: path.write_text('{"format": 1, "last": NaN, "best": []}'), "is damaged"),
    "index nested": ("index", lambda path: path.write_text("[" * 100_000), "is not valid JSON"),
    "index large": ("index", sparse, "is too large for what it should hold"),
    "index bytes": ("index", lambda path: path.write_bytes(b"\xff\x00"), "is not valid JSON"),
    "meta of another tokenizer": ("meta", in_json(tokenizers={}), "was trained with another tokenizer"),
    "meta of another format": ("meta", in_json(format=[]), "has format version []"),
    "meta that is a list": ("meta", lambda path: path.write_text("[]"), "must hold a JSON object"),
    "meta without shapes": ("meta", in_json(shapes=None), "metrics must be numbers, and shapes lists of them"),
    "meta of words": ("meta", in_json(metrics={"bleu": "high"}), "metrics must be numbers, and shapes lists of them"),
    "meta of odd shapes": ("meta", in_json(shapes={"a": [[1]]}), "a shape is a list of whole numbers"),
    "meta cut": ("meta", lambda path: path.write_bytes(path.read_bytes()[:50]), "is not valid JSON"),
    "meta large": ("meta", sparse, "is too large for what it should hold"),
    "weights cut": ("weights", lambda path: os.truncate(path, path.stat().st_size // 2), "not a whole safetensors"),
    "weights empty": ("weights", lambda path: os.truncate(path, 0), "is not a whole safetensors file"),
    "weights grown": ("weights", lambda path: os.truncate(path, path.stat().st_size + 1), "not a whole safetensors"),
    "weights of a terabyte": ("weights", sparse, "is not a whole safetensors file"),
    "a header of exabytes": (
        "weights", lambda path: path.write_bytes(b"\xff" * 7 + b"\x7f" + path.read_bytes()[8:]), "not a whole safetens"
    ),
    "a header that is no JSON": ("weights", lambda path: path.write_bytes(struct.pack("<Q", 4) + b"{{{{"), "not a wh"),
    "a tensor beyond the end": (
        "weights", lambda path: with_header(path, lambda h: first(h).update(data_offsets=[0, 2**62])), "not a whole"
    ),
    "a tensor of negative place": (
        "weights", lambda path: with_header(path, lambda h: first(h).update(data_offsets=[-8, 0])), "not a whole"
    ),
    "a huge shape": (
        "weights", lambda path: with_header(path, lambda h: first(h).update(shape=[2**40, 2**40])), "not a whole"
    ),
    "another shape": (
        "weights", lambda path: with_header(path, lambda h: first(h).update(shape=[*first(h)["shape"][::-1], 1])),
        "has the shape",
    ),
    "another type": ("weights", lambda path: with_header(path, lambda h: first(h).update(dtype="I32")), "torch.int32"),
    "no such type": ("weights", lambda path: with_header(path, lambda h: first(h).update(dtype="OBJ")), "not a whole"),
    "a tensor more": (
        "weights", lambda path: with_header(path, lambda h: {f"{k}x" if v is first(h) else k: v for k, v in h.items()}),
        "belong",
    ),
    "not finite": (
        "weights", lambda path: path.write_bytes(path.read_bytes()[:-4] + struct.pack("<f", float("nan"))),
        "holds values that are not finite; the model is damaged",
    ),
    "tokenizer empty": ("tokenizer", lambda path: os.truncate(path, 0), "is not a SentencePiece model, or damaged"),
    "tokenizer cut": ("tokenizer", lambda path: os.truncate(path, path.stat().st_size // 2), "joint.model"),
    "tokenizer of noise": ("tokenizer", lambda path: path.write_bytes(os.urandom(5000)), "is not a SentencePiece"),
    "tokenizer of a terabyte": ("tokenizer", sparse, "is too large for a SentencePiece model"),
    "weights that are missing": ("weights", lambda path: path.unlink(), "there is no such file"),
    "a tokenizer that is missing": ("tokenizer", lambda path: path.unlink(), "has no tokenizer yet"),
    "a configuration that is missing": ("config", lambda path: path.unlink(), "is not a model directory"),
    "an index that is missing": ("index", lambda path: path.unlink(), "there is no checkpoint 'last'"),
}  # fmt: skip
for _name, _message in (
    ("config", "is not a model directory"),
    ("tokenizer", "has no tokenizer yet"),
    ("index", "checkpoint"),
    ("meta", "checkpoint"),
    ("weights", "there is no such file"),
):
    for _what in (fifo, endless, to_itself, directory):
        CASES[f"{_name}: {_what.__name__}"] = (_name, _what, _message)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_is_wrong_is_named_in_one_message(faulty: Faulty, sound: Outcome, stranger: Path, line: Path, case):
    """Fails if a check is left out: of a size before reading, of the shapes, of the kind of a file."""
    name, change, message = case
    change(stranger / FILES[name])
    refused(translate(faulty, line, stranger), sound, stranger, message)
    assert not Path("/tmp/owned").exists()


@pytest.mark.parametrize("name", ["../secret", "/etc", "..", "step-00000100/../../..", "a/b", ".hidden", ""])
def test_the_name_of_a_checkpoint_leads_nowhere_else(faulty: Faulty, sound: Outcome, stranger: Path, line: Path, name):
    (stranger.parent / "secret").mkdir()
    outcome = faulty.run("translate", line, "--model", stranger, "--checkpoint", name)
    refused(outcome, sound, stranger, f"there is no checkpoint {name!r}; there are: ")


def moment(header: dict) -> dict:  # type: ignore[type-arg]
    return header["optimizer.0.exp_avg"]


RESUMED = {
    "state of nothing": ("state", lambda path: path.write_text("{}"), "is damaged: it is not the state of a training"),
    "state with words": ("state", in_json(step="x"), 'step is "x"'),
    "state with another key": ("state", in_json(hook=1), "is damaged: it is not the state of a training"),
    "state cut": ("state", lambda path: os.truncate(path, 30), "is not valid JSON"),
    "moments cut": ("moments", lambda path: os.truncate(path, path.stat().st_size // 2), "not a whole safetensors"),
    "moments of others": (
        "moments", lambda path: with_header(path, lambda h: {f"x{k}": v for k, v in h.items()}), "trainer's state lacks"
    ),
    "moments of another shape": (
        "moments", lambda path: with_header(path, lambda h: moment(h).update(shape=[1, *moment(h)["shape"]])),
        "optimizer.0.exp_avg has another shape or type than its parameter",
    ),
    "moments of fewer": (
        "moments",
        lambda path: with_header(path, lambda h: {k.replace("optimizer.0.", "optimizer.99."): h[k] for k in h}),
        "which this optimizer does not have",
    ),
    "moments missing": ("moments", lambda path: path.unlink(), "there is no such file"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("case", RESUMED.values(), ids=RESUMED)
def test_a_training_whose_last_state_is_damaged_goes_on_from_the_one_before(faulty: Faulty, sound, stranger, case):
    """Fails if it is refused, or where the damaged one still counts."""
    name, change, message = case
    config = stranger / "config.yaml"
    change(stranger / FILES[name])
    settings = (f"model_dir={stranger}", "training.max_steps=102")
    command = ("train", "--config", config, *(word for one in settings for word in ("--set", one)))
    outcome = faulty.run(*command)
    assert outcome.code == 0, outcome.err
    (warning,) = [line for line in outcome.err.splitlines() if line.startswith("warning: ")]
    assert message in warning
    assert warning.endswith("; resuming from update 50, the newest whole checkpoint")
    records = map(json.loads, (stranger / "metrics.jsonl").read_text().splitlines())
    steps = [record["step"] for record in records if record["event"] == "checkpoint"]
    assert steps == [50, 100, 102]

    for path in (stranger / "checkpoints").glob("step-*/" + Path(FILES[name]).name):
        path.unlink()
    settings = (f"model_dir={stranger}", "training.max_steps=104")
    outcome = faulty.run("train", "--config", config, *(word for one in settings for word in ("--set", one)))
    assert outcome.code == 2
    assert (
        "there is no such file; the checkpoint is incomplete. No checkpoint of the run is whole. "
        in (outcome.err.splitlines()[-1])
    )


def test_a_damaged_checkpoint_is_refused_with_the_names_of_others(faulty: Faulty, sound, stranger: Path, line: Path):
    os.truncate(stranger / FILES["weights"], 1000)
    outcome = translate(faulty, line, stranger)
    assert outcome.code == 2
    refused(outcome, sound, stranger, "; --checkpoint takes another: ")
    other = outcome.err.splitlines()[-1].rpartition(" ")[2]
    assert faulty.run("translate", line, "--model", stranger, "--checkpoint", other).code == 0


def test_a_lock_that_is_a_link_is_not_followed(faulty: Faulty, stranger: Path, tmp_path: Path):
    """Fails if the lock is opened as any file: what the link points to would be emptied."""
    precious = tmp_path / "precious"
    precious.write_text("mine")
    (stranger / ".lock").unlink(missing_ok=True)
    (stranger / ".lock").symlink_to(precious)
    outcome = faulty.run(
        "train",
        "--config",
        stranger / "config.yaml",
        "--set",
        f"model_dir={stranger}",
        "--set",
        "training.max_steps=102",
    )
    assert outcome.code == 2
    assert "cannot be used as a model directory" in outcome.err
    assert precious.read_text() == "mine"


def damaged_somewhere(faulty: Faulty, sound: Outcome, model: Path, line: Path, tmp_path: Path, times: int) -> None:
    """Bytes flipped, cut out, put in or cut off, anywhere."""
    seed = os.environ.get("NMT_TEST_SEED") or str(random.randrange(10**6))
    print(f"NMT_TEST_SEED={seed}")
    rng, refusals = random.Random(seed), 0
    for number in range(times):
        directory = tmp_path / "damaged"
        shutil.rmtree(directory, ignore_errors=True)
        shutil.copytree(model, directory, ignore=shutil.ignore_patterns("cache", "logs"))
        name = rng.choice(["config", "tokenizer", "tokenizer", "index", "meta", "weights"])
        path = directory / FILES[name]
        path.write_bytes(damage(path.read_bytes(), rng, in_header=name == "weights"))
        outcome = translate(faulty, line, directory)
        told = (number, name, outcome.code, outcome.err)
        assert outcome.code in (0, 2), told
        assert "Traceback" not in outcome.err, told
        assert outcome.memory < sound.memory + ROOM, told
        if outcome.code == 0:
            assert outcome.out.count(b"\n") == 1, told
        else:
            assert str(directory) in outcome.err, told
            refusals += 1
    print(f"{refusals} of {times} were refused, the others translated")


def damage(content: bytes, rng: random.Random, *, in_header: bool) -> bytes:
    changed = bytearray(content)
    within = min(len(changed), 4096) if in_header and rng.random() < 0.8 else len(changed)
    for _ in range(rng.choice([1, 1, 2, 8, 64])):
        place = rng.randrange(max(1, min(within, len(changed))))
        match rng.randrange(4):
            case 0:
                changed[place : place + 1] = bytes([rng.randrange(256)])
            case 1:
                changed[place : place + 1] = bytes(byte ^ 1 << rng.randrange(8) for byte in changed[place : place + 1])
            case 2:
                del changed[place : place + rng.randrange(1, 9)]
            case 3:
                changed[place:place] = rng.randbytes(rng.randrange(1, 9))
    return bytes(changed[: rng.randrange(len(changed))]) if changed and rng.random() < 0.1 else bytes(changed)


@pytest.mark.slow
def test_whatever_byte_is_wrong_there_is_a_translation_or_one_message(
    faulty: Faulty, sound: Outcome, model: Path, line: Path, tmp_path: Path
):
    damaged_somewhere(faulty, sound, model, line, tmp_path, 60)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_whatever_bytes_are_wrong_in_two_thousand_directories(
    faulty: Faulty, sound: Outcome, model: Path, line: Path, tmp_path: Path
):
    damaged_somewhere(faulty, sound, model, line, tmp_path, 2_000)
