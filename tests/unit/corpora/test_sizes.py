"""The rule by which `nmt init` sizes a model, and the arithmetic of memory."""

import gc
from itertools import pairwise

import pytest
from marks import others_slow

from nmt_cli.config.loader import validate
from nmt_cli.corpora.sizes import size_changes, sizes_for, training_memory
from nmt_cli.corpora.survey import TextSurvey


def text(num_pairs, **changes):
    values = {
        "num_pairs": num_pairs, "num_invalid": 0, "num_whole": num_pairs,
        "words_per_line": 15.0, "characters_per_line": 70.0, "distinct_words": 300_000,
        "distinct_characters": 120, "covering_characters": 90,
    }  # fmt: skip
    return TextSurvey(**{**values, **changes})


@pytest.mark.parametrize(
    ("num_pairs", "vocab_size", "hidden_size", "batch_size", "learning_rate", "schedule"),
    [
        (1_000, 4_000, 256, 1_000, 4e-3, "constant"),
        (5_000, 4_000, 256, 1_000, 4e-3, "constant"),
        (29_000, 8_000, 256, 1_500, 4e-3, "constant"),
        (140_000, 12_000, 384, 1_500, 4e-3, "constant"),
        (350_000, 16_000, 512, 3_000, 2e-3, "constant"),
        (3_000_000, 32_000, 1_024, 8_200, 1e-3, "cosine"),
        (50_000_000, 32_000, 1_024, 16_000, 1e-3, "cosine"),
    ],
)
def test_sizes_follow_the_number_of_pairs(num_pairs, vocab_size, hidden_size, batch_size, learning_rate, schedule):
    sizes = sizes_for(text(num_pairs))
    assert (sizes.vocab_size, sizes.hidden_size, sizes.batch_size, sizes.learning_rate, sizes.schedule) == (
        vocab_size, hidden_size, batch_size, learning_rate, schedule,
    )  # fmt: skip


def test_a_tenth_more_text_changes_no_size_much():
    """Beyond what rounding to two digits, or to a multiple of 64, does."""
    amounts = [round(1_000 * 1.1**power) for power in range(120)]
    for few, more in pairwise(sizes_for(text(num_pairs)) for num_pairs in amounts):
        assert few.vocab_size <= more.vocab_size <= 1.15 * few.vocab_size
        assert few.batch_size <= more.batch_size <= 1.15 * few.batch_size
        assert few.hidden_size <= more.hidden_size <= few.hidden_size + 64
        assert 0.85 * few.learning_rate <= more.learning_rate <= few.learning_rate
        rates = zip(few.dropout.model_dump().values(), more.dropout.model_dump().values(), strict=True)
        assert all(after <= before <= after + 0.05 for before, after in rates)


def written(sizes, **changes):
    """Return the configuration with these sizes, as `nmt init` writes it."""
    model = {
        "embedding_size": sizes.embedding_size, "dropout": sizes.dropout.model_dump(),
        "encoder": {"hidden_size": sizes.hidden_size}, "decoder": {"hidden_size": sizes.hidden_size},
        "attention": {"size": sizes.hidden_size},
    }  # fmt: skip
    training = {
        "batch_size": sizes.batch_size, "learning_rate": sizes.learning_rate, "schedule": sizes.schedule, **changes,
    }  # fmt: skip
    data = {"source_lang": "en", "target_lang": "de", "train": [{"source": "a", "target": "b"}]}
    tokenizer = {"vocab_size": sizes.vocab_size}
    values = {"name": "x", "model_dir": "x", "data": data, "tokenizer": tokenizer, "model": model}
    return validate({**values, "training": {"max_epochs": 1, **training}}, "test")


def test_a_larger_text_gets_the_sizes_of_the_rule_also_if_some_pairs_were_held_out():
    # `nmt init` wrote the configuration for the pairs that it did not hold out.
    few, more = sizes_for(text(10_000)), sizes_for(text(2_000_000))
    changes = size_changes(written(sizes_for(text(9_500))), few, more)
    assert changes["tokenizer.vocab_size"] == more.vocab_size
    assert changes["model.encoder.hidden_size"] == changes["model.attention.size"] == more.hidden_size
    assert changes["training.batch_size"] == more.batch_size
    assert changes["training.schedule"] == more.schedule
    assert changes["model.dropout"] == more.dropout.model_dump()


def test_sizes_that_the_user_chose_stay():
    few, more = sizes_for(text(10_000)), sizes_for(text(2_000_000))
    changes = size_changes(written(few, batch_size=4_000, schedule="linear"), few, more)
    assert not {"training.batch_size", "training.schedule"} & set(changes)
    assert changes["tokenizer.vocab_size"] == more.vocab_size


def with_model(few, **changes):
    values = written(few).model_dump(mode="json")
    for key, value in changes.items():
        values["model"][key] = values["model"][key] | value if isinstance(value, dict) else value
    return validate(values, "test")


def test_sizes_that_must_agree_with_another_one_go_with_it():
    few, more = sizes_for(text(29_000)), sizes_for(text(87_000))
    alike = with_model(few, decoder={"readout_size": few.embedding_size})
    assert size_changes(alike, few, more)["model.decoder.readout_size"] == more.embedding_size != few.embedding_size
    own = with_model(few, decoder={"readout_size": 77}, tied_embeddings="none")
    assert "model.decoder.readout_size" not in size_changes(own, few, more)
    heads = with_model(few, attention={"type": "multihead", "size": 252, "heads": 6})
    assert size_changes(heads, few, more)["model.attention.size"] == 324
    assert more.hidden_size == 320


def test_embeddings_of_given_vectors_keep_their_size():
    few, more = sizes_for(text(29_000)), sizes_for(text(87_000))
    assert "model.embedding_size" in size_changes(with_model(few), few, more)
    for side in ("source", "target"):
        assert "model.embedding_size" not in size_changes(with_model(few, pretrained={side: "vectors"}), few, more)


@pytest.mark.parametrize("num_pairs", [1, 50, 1_000, 29_000, 400_000, 5_000_000, 50_000_000])
def test_a_run_has_some_ten_to_twenty_validations_and_regular_checkpoints(num_pairs):
    sizes = sizes_for(text(num_pairs))
    assert 10 <= sizes.num_updates / sizes.validation_freq <= 20
    assert sizes.checkpoint_freq <= 1_000
    assert sizes.warmup_steps <= sizes.num_updates / 10


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
        ({"words_per_line": 1.0, "characters_per_line": 30.0, "covering_characters": 2_000}, 15),  # Chinese
        ({"words_per_line": 2.0, "characters_per_line": 60.0, "covering_characters": 80}, 15),  # Thai
        ({"words_per_line": 10.0, "characters_per_line": 80.0, "covering_characters": 40}, 20),  # long words
        ({"words_per_line": 10.0, "characters_per_line": 45.0, "covering_characters": 80}, 13),
    ],
)
def test_words_that_are_long_or_not_separated_are_reckoned_by_characters(changes, pieces):
    assert sizes_for(text(20_000, **changes)).num_updates == round(20_000 * (pieces + 1) / 1_400 * 22)


def test_few_words_make_a_smaller_vocabulary():
    sizes = sizes_for(text(2_000, distinct_words=2_000))
    assert sizes.vocab_size == 120 + 261 + 39 + 500
    assert sizes.vocab_size < sizes.usual_vocab_size == 4_000


def test_vocabularies_are_near_those_that_were_best_in_the_study_of_defaults():
    captions = {"distinct_characters": 48, "covering_characters": 35}
    assert sizes_for(text(1_000, distinct_words=3_945, **captions)).vocab_size == pytest.approx(1_330, rel=0.05)
    assert sizes_for(text(5_000, distinct_words=9_913, **captions)).vocab_size == 4_000
    assert sizes_for(text(29_000, distinct_words=26_000, **captions)).vocab_size == 8_000


def test_a_few_words_more_change_the_vocabulary_little():
    sizes = [sizes_for(text(5_000, distinct_words=round(100 * 1.1**power))).vocab_size for power in range(60)]
    assert all(few <= more <= 1.15 * few for few, more in pairwise(sizes))


def test_many_characters_make_a_larger_vocabulary_and_the_rarest_are_spelt_in_bytes():
    sizes = sizes_for(text(5_000, distinct_characters=4_500, covering_characters=3_800))
    assert sizes.vocab_size >= 3_800 + 261
    assert sizes.character_coverage == 0.9995


def test_many_ideographs_halve_the_vocabulary_as_far_as_their_characters_allow():
    chinese = {"distinct_characters": 3_472, "covering_characters": 3_013}
    assert sizes_for(text(22_576, distinct_words=11_151, **chinese)).vocab_size == 3_600
    assert sizes_for(text(5_000, distinct_words=5_000, **chinese)).vocab_size == 3_013 + 261 + 300
    usual, own = sizes_for(text(1_000_000)), sizes_for(text(1_000_000, **chinese))
    assert own.vocab_size == pytest.approx(usual.vocab_size / 2, rel=0.03)


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
    "which",
    others_slow(
        ("additive", {}),
        ("additive", {"layer_norm": False}),
        ("location", {}),
        ("additive", {"lexical_model": True}),
    ),
)
def test_activations_are_near_the_tensors_that_are_held_for_the_backward_pass(which, monkeypatch):
    """Without kernels, which hold less, and without rows that only pad, of which so small a batch has many."""
    import torch

    from nmt_cli.data.batch import make_batch
    from nmt_cli.model.build import build_model, initialize
    from nmt_cli.model.dropout import Noise
    from nmt_cli.ops import matmul, native
    from nmt_cli.training.loss import TranslationLoss

    monkeypatch.setattr(matmul, "has_onednn", lambda: False)
    attention, options = which
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

    def held():  # those of the loops are no saved tensors of autograd; matrices laid out for oneDNN have no storage
        gc.collect()
        tensors = [thing for thing in gc.get_objects() if type(thing) is torch.Tensor]
        return [tensor for tensor in tensors if tensor.layout is torch.strided]

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
    assert (loss.total.ndim, batch.num_target_tokens) == (0, length * sentences)
    reckoned = training_memory(small, num_parameters=0, target_vocab_size=0, longest=length).activations
    assert 0.9 <= reckoned / 1.3 / counted <= 1.15
