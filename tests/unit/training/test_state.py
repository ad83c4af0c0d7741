"""The state of a training: through JSON and back, and what a validation makes of it."""

import dataclasses
import json

import pytest

from nmt_cli.data.sampler import Cursor
from nmt_cli.system.errors import ModelError
from nmt_cli.training.state import TrainingState

PLATEAU = {"plateau_factor": 0.5, "plateau_patience": 2}
FULL = TrainingState(
    step=7, epoch=2, pool=4, batch=3, epochs_done=2.25, best_value=0.1 + 0.2, stalled=1, rate_factor=0.25,
    plateau_stalled=1, skipped_in_a_row=1, logged_nll=2.5, logged_tokens=9, logged_padded=11,
    target_tokens=12345678901, seconds=1 / 3, precision="bf16", rewinds=2, path="native", text="0a 1b", accumulate=2,
    validated_step=6, num_threads=2, configuration="{}",
)  # fmt: skip


@pytest.mark.parametrize("state", [TrainingState(), FULL])
def test_a_state_comes_back_equal_from_json(state):
    text = json.dumps(state.to_json())
    back = TrainingState.from_json(json.loads(text), "place")
    assert back == state
    assert json.dumps(back.to_json()) == text
    for value, default in zip(dataclasses.astuple(FULL), dataclasses.astuple(TrainingState()), strict=True):
        assert value != default  # else a forgotten field would go unnoticed


def test_the_cursor_is_the_place_of_the_next_batch():
    assert FULL.cursor == Cursor(epoch=2, pool=4, batch=3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda values: values.pop("step"), "run/state.json: is damaged: it is not the state of a training"),
        (lambda values: values.update(steps=1), "run/state.json: is damaged: it is not the state of a training"),
        (lambda values: values.clear(), "run/state.json: is damaged: it is not the state of a training"),
        (lambda values: values.update(step="7"), 'run/state.json: is damaged: step is "7"'),
        (lambda values: values.update(step=None), "run/state.json: is damaged: step is null"),
        (lambda values: values.update(step=True), "run/state.json: is damaged: step is true"),
        (lambda values: values.update(epochs_done=[1.0]), "run/state.json: is damaged: epochs_done is [1.0]"),
        (lambda values: values.update(best_value="high"), 'run/state.json: is damaged: best_value is "high"'),
        (lambda values: values.update(precision=16), "run/state.json: is damaged: precision is 16"),
        (lambda values: values.update(precision=None), "run/state.json: is damaged: precision is null"),
    ],
)
def test_what_is_no_state_of_a_training_is_refused_with_its_place(change, message):
    values = FULL.to_json()
    change(values)
    with pytest.raises(ModelError) as caught:
        TrainingState.from_json(values, "run/state.json")
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("metric", "values", "best"),
    [
        ("bleu", [10.0, 12.0, 12.0, 11.0], 12.0),
        ("chrf", [10.0, 9.0, 30.0, 11.0], 30.0),
        ("loss", [3.0, 2.5, 2.7, 2.5], 2.5),
        ("perplexity", [30.0, 20.0, 10.0, 40.0], 10.0),
    ],
)
def test_the_best_validation_is_the_first_of_the_best_by_its_metric(metric, values, best):
    state = TrainingState()
    for step, value in enumerate(values, start=1):
        state = dataclasses.replace(state, step=step).after_validation(metric, value, **PLATEAU)
    first = values.index(best) + 1
    assert (state.best_value, state.stalled) == (best, len(values) - first)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1.0, 1.0, 1.0, 0.5, 0.4, 2.0, 1.0, 1.0], [1.0, 1.0, 0.5, 0.5, 0.25, 0.25, 0.25, 0.125]),
        ([1.0, 0.5, 2.0, 1.5, 1.0], [1.0, 1.0, 1.0, 1.0, 0.5]),
    ],
)
def test_a_plateau_lowers_the_rate_whenever_its_patience_is_over(values, expected):
    """Factors by hand: two validations without a better one halve the rate; a better one begins the count anew."""
    state, factors = TrainingState(), []
    for value in values:
        state = state.after_validation("bleu", value, **PLATEAU)
        factors.append(state.rate_factor)
    assert factors == expected
    assert state.stalled == 2
