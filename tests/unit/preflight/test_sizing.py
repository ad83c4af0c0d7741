"""The rule by which `nmt init` sizes a model, and the arithmetic of memory."""

import gc

import pytest

from nmt_cli.config.loader import validate
from nmt_cli.preflight.sizing import sizes_for, training_memory
from nmt_cli.preflight.survey import TextSurvey


def text(num_pairs, **changes):
    values = {
        "num_pairs": num_pairs, "num_invalid": 0, "num_whole": num_pairs,
        "words_a_line": 15.0, "characters_a_line": 70.0, "distinct_words": 300_000,
        "distinct_characters": 120, "covering_characters": 90,
    }  # fmt: skip
    return TextSurvey(**{**values, **changes})


@pytest.mark.parametrize(
    ("num_pairs", "vocab_size", "hidden_size", "batch_size", "learning_rate"),
    [
        (1_000, 2_000, 256, 1_000, 4e-3),
        (9_999, 2_000, 256, 1_000, 4e-3),
        (10_000, 8_000, 256, 1_500, 4e-3),
        (99_999, 8_000, 256, 1_500, 4e-3),
        (100_000, 16_000, 512, 4_096, 1e-3),
        (1_000_000, 32_000, 1_024, 8_192, 1e-3),
        (50_000_000, 32_000, 1_024, 16_384, 1e-3),
    ],
)
def test_sizes_follow_the_number_of_pairs(num_pairs, vocab_size, hidden_size, batch_size, learning_rate):
    sizes = sizes_for(text(num_pairs))
    assert (sizes.vocab_size, sizes.hidden_size, sizes.batch_size, sizes.learning_rate) == (
        vocab_size, hidden_size, batch_size, learning_rate,
    )  # fmt: skip


@pytest.mark.parametrize("num_pairs", [1, 50, 1_000, 29_000, 400_000, 5_000_000, 50_000_000])
def test_a_run_has_some_ten_to_twenty_validations_and_regular_checkpoints(num_pairs):
    sizes = sizes_for(text(num_pairs))
    assert 10 <= sizes.num_steps / sizes.validation_freq <= 20
    assert sizes.checkpoint_freq <= 1_000
    assert sizes.warmup_steps <= sizes.num_steps / 10


def test_dropout_does_not_grow_with_the_text():
    totals = [sum(sizes_for(text(10**power)).dropout.model_dump().values()) for power in range(3, 9)]
    assert totals == sorted(totals, reverse=True)


def test_little_text_is_gone_through_more_often_but_at_most_100_times():
    assert sizes_for(text(29_000)).max_epochs == 18
    assert sizes_for(text(4_000)).max_epochs == 50
    assert 50 < sizes_for(text(2_000)).max_epochs < 100
    assert sizes_for(text(100)).max_epochs == 100


@pytest.mark.parametrize(
    ("changes", "pieces"),
    [
        ({"words_a_line": 1.0, "characters_a_line": 30.0, "covering_characters": 2_000}, 15),  # Chinese
        ({"words_a_line": 2.0, "characters_a_line": 60.0, "covering_characters": 80}, 15),  # Thai
        ({"words_a_line": 10.0, "characters_a_line": 80.0, "covering_characters": 40}, 20),  # long words
        ({"words_a_line": 10.0, "characters_a_line": 45.0, "covering_characters": 80}, 13),
    ],
)
def test_words_that_are_long_or_not_separated_are_reckoned_by_characters(changes, pieces):
    assert sizes_for(text(20_000, **changes)).num_steps == round(20_000 * (pieces + 1) / 1_500 * 18)


def test_few_words_make_a_smaller_vocabulary():
    sizes = sizes_for(text(2_000, distinct_words=2_000))
    assert sizes.vocab_size == 120 + 261 + 39 + 500
    assert sizes.vocab_size < sizes.usual_vocab_size == 2_000


def test_many_characters_make_a_larger_vocabulary_and_the_rarest_are_spelt_in_bytes():
    sizes = sizes_for(text(5_000, distinct_characters=4_500, covering_characters=3_800))
    assert sizes.vocab_size >= 3_800 + 261
    assert sizes.character_coverage == 0.9995


def config(**training):
    data = {"source_lang": "en", "target_lang": "de", "train": [{"source": "a", "target": "b"}]}
    return validate({"name": "x", "model_dir": "x", "data": data, "training": training}, "test")


def memory(longest=50, parameters=1_000_000, **training):
    return training_memory(config(**training), num_parameters=parameters, target_vocab_size=8_000, longest=longest)


def test_each_parameter_takes_four_bytes_in_each_of_its_copies():
    found = memory(optimizer="adam", ema_decay=0.999)
    assert (found.weights, found.gradients, found.optimizer, found.average) == (4e6, 4e6, 8e6, 4e6)
    assert found.total == 20e6 + found.activations
    assert memory(optimizer="sgd").optimizer == 0
    assert memory(optimizer="sgd", momentum=0.9).optimizer == 4e6


def test_activations_grow_with_the_batch_and_the_longest_pair_and_shrink_in_parts():
    whole = memory(batch_size=4096).activations
    assert memory(batch_size=8192).activations > 1.9 * whole
    assert memory(batch_size=4096, longest=100).activations > whole
    assert memory(batch_size=4096, accumulate=4).activations < 0.3 * whole
    assert memory(batch_size=80, batch_type="sentences").activations == memory(batch_size=4000).activations


@pytest.mark.parametrize(
    ("attention", "options"),
    [
        ("additive", {}),
        ("additive", {"layer_norm": False}),
        ("location", {}),
        ("additive", {"lexical_model": True}),
    ],
)
def test_activations_are_near_the_tensors_that_are_held_for_the_backward_pass(attention, options, monkeypatch):
    """Without kernels, which hold less, and without rows that only pad, of which so small a batch has many."""
    import torch

    from nmt_cli.data.batch import make_batch
    from nmt_cli.model.build import build_model, initialize
    from nmt_cli.model.noise import Noise
    from nmt_cli.ops import matmul, native
    from nmt_cli.training.loss import TranslationLoss

    monkeypatch.setattr(matmul, "has_onednn", lambda: False)
    size, length, sentences = 32, 20, 4
    values = config(batch_size=length * sentences).model_dump(mode="json")
    values["model"] |= {"embedding_size": size, "layer_norm": options.get("layer_norm", True)}
    values["model"]["lexical_model"] = options.get("lexical_model", False)
    values["model"]["attention"]["type"] = attention
    for part, key in (("encoder", "hidden_size"), ("decoder", "hidden_size"), ("attention", "size")):
        values["model"][part][key] = size
    small = validate(values, "test")
    model = build_model(small.model, source_vocab_size=300, target_vocab_size=300)
    initialize(model, seed=1)
    saved = {}

    def held():  # those of the loops are no saved tensors of autograd
        gc.collect()
        return [thing for thing in gc.get_objects() if type(thing) is torch.Tensor]

    def pack(tensor):
        saved[tensor.untyped_storage().data_ptr()] = tensor  # held, so that no address comes twice
        return tensor

    batch = make_batch([[5] * length] * sentences, [[5] * (length - 1)] * sentences)
    before = {tensor.untyped_storage().data_ptr() for tensor in [*held(), *model.parameters()]}
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor), native.path(native.PLAIN):
        loss = TranslationLoss(0.1)(model, batch, Noise(torch.Generator().manual_seed(1)))
    for tensor in held():
        pack(tensor)
    counted = sum(tensor.untyped_storage().nbytes() for address, tensor in saved.items() if address not in before)
    assert loss.num_tokens == length * sentences
    reckoned = training_memory(small, num_parameters=0, target_vocab_size=0, longest=length).activations
    assert 0.9 <= reckoned / 1.3 / counted <= 1.1
