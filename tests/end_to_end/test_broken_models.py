"""Models whose parameters are finite and whose predictions are not: every command that predicts refuses them."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from command_line import start_nmt
from marks import others_slow
from safetensors.torch import load_file, save_file

REFUSED = "the probabilities that this model predicts are not finite, so its training has diverged; "


@pytest.fixture
def broken(model: Path, tmp_path: Path) -> Path:
    """A model directory whose last checkpoint predicts nothing, and whose first one does."""
    copy = tmp_path / "broken"
    shutil.copytree(model, copy, ignore=shutil.ignore_patterns("cache", "logs"))
    weights = copy / "checkpoints/step-00000100/model.safetensors"
    ruined = {name: tensor * 1e30 for name, tensor in load_file(weights).items()}
    assert all(bool(tensor.isfinite().all()) for tensor in ruined.values())
    save_file(ruined, weights)
    return copy


COMMANDS = {
    "search": "translate {dev}.en",
    "greedy": "translate {dev}.en --beam-size 1",
    "sample": "translate {dev}.en --sample",
    "n-best": "translate {dev}.en --n-best 3 --format jsonl --alignment soft",
    "markup": "translate {dev}.en --markup --copy-unknown",
    "int8": "translate {dev}.en --precision int8",
    "bf16": "translate {dev}.en --precision bf16",
    "rescore": "rescore {dev}.en {dev}.fr",
    "align": "align {dev}.en {dev}.fr --format jsonl",
    "evaluate": "evaluate",
    "tune": "evaluate --tune-length-penalty",
    "shortlist": "shortlist {dev}.en {dev}.fr -o {out}.safetensors",
    "plot": "plot attention {dev}.en -o {out}.html",
    "plot of pairs": "plot attention {dev}.en --target {dev}.fr -o {out}.html",
}


@pytest.mark.parametrize("command", others_slow(*COMMANDS.values()), ids=COMMANDS)
def test_a_model_that_does_not_predict_is_refused_with_the_names_of_other_checkpoints(
    nmt, broken: Path, corpus: Path, tmp_path: Path, command: str
):
    """Fails if a way to a prediction does not ask whether it is one."""
    args = command.format(dev=corpus / "dev", out=tmp_path / "out").split()
    result = nmt(*args, "--model", broken, "--checkpoint", "last")
    assert (result.code, result.out) == (2, b""), result.err
    wanted = f"nmt: {broken}/checkpoints/step-00000100: {REFUSED}--checkpoint takes another: 50\n"
    assert result.err.endswith(wanted)
    assert result.err.count("\n") <= 2  # that bfloat16 is slow here
    assert not list(tmp_path.glob("out*"))
    assert not list((broken / "reports").glob("*"))
    assert nmt(*args, "--model", broken, "--checkpoint", "50").code == 0


def test_of_an_ensemble_the_broken_model_is_named(nmt, model: Path, broken: Path, corpus: Path):
    for models in ((model, broken), (broken, model)):
        given = [word for one in models for word in ("--model", one)]
        for args in (("translate", corpus / "dev.en"), ("rescore", corpus / "dev.en", corpus / "dev.fr")):
            result = nmt(*args, *given, "--checkpoint", "last")
            assert (result.code, result.out) == (2, b"")
            assert result.err == (f"nmt: {broken}/checkpoints/step-00000100: {REFUSED}--checkpoint takes another: 50\n")


@pytest.mark.ray
def test_bulk_translation_refuses_it_with_the_same_message(broken: Path, corpus: Path, tmp_path: Path):
    """Fails if the part is given to one worker after the other."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    args = ("translate-corpus", corpus / "dev.en", "-o", tmp_path / "out", "--model", broken, "--checkpoint", "last")
    process = start_nmt(*args, stdout=-1, stderr=-1, env=environment)
    out, err = process.communicate(timeout=300)
    assert (process.returncode, out) == (2, b""), err
    wanted = f"nmt: {broken}/checkpoints/step-00000100: {REFUSED}--checkpoint takes another: 50\n"
    assert err.decode().endswith(wanted)
    assert b"died" not in err


def test_where_there_is_no_other_checkpoint_the_message_says_to_train_anew(nmt, broken: Path, corpus: Path):
    shutil.rmtree(broken / "checkpoints/step-00000050")
    index = broken / "checkpoints/index.json"
    index.write_text(json.dumps(json.loads(index.read_text()) | {"best": []}))
    result = nmt("translate", corpus / "dev.en", "--model", broken)
    assert result.code == 2
    assert result.err.endswith(f"{REFUSED}train again with a lower training.learning_rate\n")
