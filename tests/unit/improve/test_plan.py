"""The plan of `nmt improve`: a pure function from a configuration and counts to stages."""

from __future__ import annotations

from pathlib import Path

import pytest

from nmt_cli.config.loader import validate
from nmt_cli.data.sampler import check_weights
from nmt_cli.improve.plan import LineCounts, Recipe, final_models, plan

HERE = Path("/work/de-improved")


def config(**changes):
    values = {
        "name": "de",
        "model_dir": "/work/de",
        "seed": 5,
        "data": {
            "source_lang": "en",
            "target_lang": "de",
            "train": [{"source": "/d/a.en", "target": "/d/a.de"}],
            "dev": {"source": "/d/dev.en", "target": "/d/dev.de"},
            "test": [{"name": "t", "source": "/d/test.en", "target": "/d/test.de"}],
            "monolingual": {"target": ["/d/m.de"]},
        },
        "training": {"max_epochs": 10, "validation_freq": 100},
        "scoring": {"tokenize": "none"},
    }
    for key, value in changes.items():
        section, _, name = key.partition("__")
        (values.setdefault(section, {}) if name else values)[name or section] = value
    return validate(values, "test")


def stages(recipe=None, line_counts=None, **changes):
    return plan(config(**changes), recipe or Recipe(), line_counts or LineCounts((1_000,), (10_000,)), HERE)


def names(found):
    return [stage.name for stage in found]


def trained(found):
    return [stage for stage in found if stage.config is not None]


def test_one_round_cleans_trains_the_reverse_translates_back_and_trains_on_both():
    found = stages()
    assert names(found) == ["01-pairs", "02-text", "03-reverse", "04-back-translate", "05-back", "06-forward"]
    assert [stage.arguments[0] for stage in found] == ["clean", "clean", "train", "translate", "clean", "train"]
    assert final_models(found) == [HERE / "stages/06-forward/model"]


def test_each_stage_reads_what_a_stage_before_it_made_or_a_file_of_the_user():
    for recipe in (Recipe(), Recipe(rounds=3, ensemble=2, distil=True)):
        found = stages(recipe, LineCounts((1_000,), (10_000,), (500,)), data=DATA_OF_BOTH)
        made = set()
        for stage in found:
            assert all(path in made or str(path).startswith("/d/") for path in stage.inputs), stage.name
            assert all(str(path) in stage.command or stage.config for path in stage.inputs), stage.name
            assert made.isdisjoint(stage.outputs)
            assert all(stage.directory in path.parents for path in stage.outputs)
            # Texts that a cleaning or translation makes; the list of dropped lines is read by nobody.
            made.update(stage.outputs)


def test_a_training_reads_alignments_vectors_and_the_run_before_it_too():
    data = {
        "source_lang": "en", "target_lang": "de",
        "train": [{"source": "/d/a.en", "target": "/d/a.de", "alignment": "/d/links"}],
        "monolingual": {"target": ["/d/m.de"]},
    }  # fmt: skip
    found = stages(data=data, model={"pretrained": {"target": "/d/v"}}, training={"max_epochs": 1, "init_from": "/d/r"})
    reverse, forward = ({str(path) for path in stage.inputs} for stage in trained(found))
    assert {"/d/links", "/d/v", "/d/r"} <= forward
    assert {"/d/links", "/d/r"}.isdisjoint(reverse)
    assert "/d/v" in reverse


DATA_OF_BOTH = {
    "source_lang": "en",
    "target_lang": "de",
    "train": [{"source": "/d/a.en", "target": "/d/a.de", "weight": 2.0}],
    "dev": {"source": "/d/dev.en", "target": "/d/dev.de"},
    "monolingual": {"target": ["/d/m.de"], "source": ["/d/m.en"]},
}


def test_the_reverse_has_the_sides_of_everything_exchanged():
    (reverse, forward) = trained(stages())
    data = reverse.config.data
    assert (data.source_lang, data.target_lang) == ("de", "en")
    assert (data.train[0].source, data.train[0].target) == tuple(
        str(HERE / f"stages/01-pairs/pairs.{language}") for language in ("de", "en")
    )
    assert (data.dev.source, data.dev.target) == ("/d/dev.de", "/d/dev.en")
    assert data.test == ()
    assert reverse.config.tokenizer.symbols == ()
    assert forward.config.data.test[0].name == "t"


@pytest.mark.parametrize(("source", "tokenize"), [("en", None), ("zh", "zh"), ("th", "char")])
def test_the_reverse_is_scored_by_the_language_that_it_writes(source, tokenize):
    data = {**DATA_OF_BOTH, "source_lang": source, "monolingual": {"target": ["/d/m.de"]}}
    reverse = trained(stages(data=data, scoring={}))[0].config
    assert (reverse.data.target_lang, reverse.scoring.tokenize) == (source, tokenize)


def test_translated_text_is_tagged_and_weighted_by_the_ratio_at_most_all_of_it():
    back = stages()[4]
    assert back.arguments[-2:] == ("--tag", "<BT>")
    for ratio, weight in ((2.0, 0.2), (3.333, 0.333), (50.0, 1.0)):
        forward = trained(stages(Recipe(ratio=ratio)))[-1].config
        assert [corpus.weight for corpus in forward.data.train] == [1.0, weight]
        assert forward.tokenizer.symbols == ("<BT>",)


def test_a_small_corpus_beside_a_huge_one_has_lines_in_an_epoch_too():
    """Its share by the ratio would be 0.3 lines, which training refuses after all else is done."""
    data = {**DATA_OF_BOTH, "monolingual": {"target": ["/d/huge.de", "/d/small.de", "/d/tiny.de"]}}
    corpora = trained(stages(line_counts=LineCounts((5_000,), (5_000_000, 150, 7)), data=data))[-1].config.data.train
    weights = [corpus.weight for corpus in corpora]
    assert weights[1:] == [0.004, 0.0133, 0.286]
    check_weights([5_000, 5_000_000, 150, 7], weights)


def test_weights_and_lengths_follow_from_the_lines_that_cleaning_has_left():
    output_line_counts = {
        HERE / "stages/01-pairs/pairs.de": 500, HERE / "stages/02-text/text.de": 3_000,
        HERE / "stages/05-back/back.de": 2_000,
    }  # fmt: skip
    found = plan(
        config(), Recipe(ratio=2.0), LineCounts((1_000,), (10_000,)), HERE, output_line_counts=output_line_counts
    )
    reverse, forward = trained(found)
    assert [corpus.weight for corpus in forward.config.data.train] == [1.0, 0.5]
    assert (reverse.work.lines, forward.work.lines) == (5_000, 15_000)
    assert (reverse.config.training.validation_freq, forward.config.training.validation_freq) == (50, 150)
    assert found[3].work.lines == 3_000
    assert [stage.command for stage in found] == [stage.command for stage in stages()]


def test_words_that_a_model_of_words_does_not_know_are_copied_into_the_text_to_learn_from():
    recipe, line_counts = Recipe(rounds=2, distil=True), LineCounts((1_000,), (10_000,), (500,))
    for model_type, is_copying in (("word", True), ("bpe", False)):
        found = stages(recipe, line_counts, data=DATA_OF_BOTH, tokenizer={"model_type": model_type})
        translating = [stage.arguments for stage in found if stage.arguments[0] == "translate"]
        assert len(translating) > 5
        assert {"--copy-unknown" in arguments for arguments in translating} == {is_copying}


def test_an_update_of_more_pieces_counts_for_more():
    sizes = {"training.batch_size": 8_192}
    found = plan(
        config(training={"max_steps": 1_000, "validation_freq": 100}),
        Recipe(ratio=4.0), LineCounts((1_000,), (10_000,)), HERE, sizes,
    )  # fmt: skip
    training = trained(found)[-1].config.training
    assert (training.batch_size, training.validation_freq, training.max_steps) == (8_192, 250, 2_500)


def test_validations_keep_their_distance_in_epochs():
    reverse, forward = trained(stages(Recipe(ratio=4.0)))
    assert (reverse.config.training.validation_freq, forward.config.training.validation_freq) == (100, 500)
    assert forward.config.training.max_epochs == 10
    assert (reverse.work.lines, forward.work.lines) == (10_000, 50_000)
    reverse, forward = trained(stages(training={"max_steps": 60, "max_epochs": None}))
    assert (reverse.config.training.max_steps, forward.config.training.max_steps) == (60, 180)


@pytest.mark.parametrize(
    ("sample", "pairs", "options"),
    [
        (None, 499_999, ["--beam-size", "5"]),
        (None, 500_000, ["--sample", "--seed", "5"]),
        (True, 1_000, ["--sample", "--seed", "5"]),
        (False, 10**6, ["--beam-size", "5"]),
    ],
)
def test_few_pairs_take_the_best_translation_and_many_a_sampled_one(sample, pairs, options):
    arguments = stages(Recipe(sample=sample), LineCounts((pairs,), (10,)))[3].arguments
    assert list(arguments[6 : 6 + len(options)]) == options


def test_no_line_of_the_dev_and_test_sets_or_of_an_earlier_file_is_learnt_from():
    data = {**config().data.model_dump(mode="json"), "monolingual": {"target": ["/d/m.de", "/d/n.de"], "source": []}}
    found = stages(line_counts=LineCounts((1_000,), (10, 10)), data=data)
    known = ["/d/dev.de", "/d/test.de", "/d/a.de"]
    for stage, without in ((found[1], known), (found[2], [*known, str(HERE / "stages/02-text/text.de")])):
        assert [word for word in stage.arguments[4:] if word != "--without"] == without


def test_a_second_round_teaches_the_reverse_by_the_model_so_far():
    found = stages(Recipe(rounds=2))
    assert names(found)[6:] == [
        "07-forth-translate", "08-forth", "09-reverse", "10-back-translate", "11-back", "12-forward",
    ]  # fmt: skip
    forth, reverse, back = found[7], found[8], found[9]
    assert forth.arguments[1:3] == (
        str(HERE / "stages/07-forth-translate/translated.de"),
        str(HERE / "stages/01-pairs/pairs.en"),
    )
    assert reverse.config.data.train[1].source == str(HERE / "stages/08-forth/forth.de")
    assert reverse.config.tokenizer.symbols == ("<BT>",)
    assert str(HERE / "stages/09-reverse/model") in back.arguments


def test_text_in_the_source_language_alone_teaches_the_model_itself():
    data = {**config().data.model_dump(mode="json"), "monolingual": {"target": [], "source": ["/d/m.en"]}}
    found = stages(line_counts=LineCounts((1_000,), (), (10_000,)), data=data)
    assert names(found) == ["01-pairs", "02-text", "03-forward", "04-self-translate", "05-self", "06-forward"]
    assert found[-1].config.data.train[1].target == str(HERE / "stages/05-self/self.de")
    assert "--tag" not in found[4].arguments


def test_an_ensemble_differs_in_the_seed_alone_and_is_distilled_into_one_model():
    members = trained(stages(Recipe(ensemble=3)))[1:]
    assert [member.config.seed for member in members] == [5, 6, 7]
    same = {member.config.model_copy(update={"seed": 0, "model_dir": ""}).model_dump_json() for member in members}
    assert len(same) == 1
    found = stages(Recipe(ensemble=3, distil=True))
    assert len(final_models(found)) == 1
    teach, student = found[-2:]
    assert teach.arguments.count("--model") == 3
    assert teach.arguments[1] == str(HERE / "stages/01-pairs/pairs.en")
    assert [corpus.target for corpus in student.config.data.train] == [
        str(HERE / f"stages/{teach.name}/translated.de"),
        str(HERE / "stages/05-back/back.de"),
    ]


def test_pairs_with_alignments_stay_as_they_are_so_that_the_links_fit():
    data = config().data.model_dump(mode="json")
    data["train"] = [{"source": "/d/a.en", "target": "/d/a.de", "alignment": "/d/a.align"}]
    found = stages(data=data)
    assert names(found)[0] == "01-text"
    reverse, forward = trained(found)
    assert reverse.config.data.train[0].alignment is None
    assert forward.config.data.train[0].alignment == "/d/a.align"


def test_sizes_for_the_whole_text_go_to_trainings_that_see_it():
    sizes = {"tokenizer.vocab_size": 4_000, "model.dropout": {"readout": 0.4}}
    reverse, forward = trained(plan(config(), Recipe(), LineCounts((1_000,), (10_000,)), HERE, sizes))
    assert (reverse.config.tokenizer.vocab_size, forward.config.tokenizer.vocab_size) == (8_000, 4_000)
    assert forward.config.model.dropout.readout == 0.4


def pair(source, target, part="train"):
    prefix = f"/d/{part}.{source}-{target}"
    texts = {"source": f"{prefix}.{source}", "target": f"{prefix}.{target}"}
    return {**texts, "source_lang": source, "target_lang": target}


def of_directions(directions, **more):
    """Return the values of `data` of a model of several directions."""
    return {
        "train": [pair(*direction) for direction in directions],
        "dev": [pair(*direction, "dev") for direction in directions],
        "test": [{"name": "-".join(direction), **pair(*direction, "test")} for direction in directions],
        **more,
    }


def test_several_directions_are_exchanged_together_and_text_goes_back_into_each_source():
    data = of_directions([("vi", "en"), ("fr", "en")], monolingual={"target": ["/d/m.en"]}, corpus_temperature=5.0)
    found = stages(
        line_counts=LineCounts((1_000, 32_000), (50_000,)), data=data, training={"early_stopping_direction": "vi-en"}
    )
    reverse, forward = (stage.config for stage in trained(found))
    assert reverse.data.directions == (("en", "vi"), ("en", "fr"))
    assert [(dev.source, dev.source_lang) for dev in reverse.data.dev_sets] == [
        ("/d/dev.vi-en.en", "en"), ("/d/dev.fr-en.en", "en"),
    ]  # fmt: skip
    assert (reverse.training.early_stopping_direction, forward.training.early_stopping_direction) == ("en-vi", "vi-en")
    ways = [stage.arguments[-4:] for stage in found if stage.arguments[0] == "translate"]
    assert ways == [
        ("--source-lang", "en", "--target-lang", "vi"),
        ("--source-lang", "en", "--target-lang", "fr"),
    ]
    corpora = forward.data.train
    assert [forward.data.direction_of(corpus) for corpus in corpora] == [("vi", "en"), ("fr", "en")] * 2
    # 33,000 pairs, of which each direction counts n^(1/5): one third is Vietnamese; twice as much translated text.
    assert [corpus.weight for corpus in corpora] == [11.0, 0.688, 0.44, 0.881]
    assert forward.data.corpus_temperature == 1.0
    (text,) = (stage for stage in found if stage.name.endswith("text"))
    assert {"/d/dev.vi-en.en", "/d/test.fr-en.en", "/d/train.fr-en.en"} <= {*text.arguments}
    assert not any(word.endswith((".vi", ".fr")) for word in text.arguments)


def test_a_given_reverse_model_translates_back_in_the_first_round_and_is_trained_in_the_second():
    found = stages(Recipe(rounds=2, reverse="/work/many"))
    assert [stage.name.partition("-")[2] for stage in found] == [
        "pairs", "text", "back-translate", "back", "forward",
        "forth-translate", "forth", "reverse", "back-translate", "back", "forward",
    ]  # fmt: skip
    first, _, second = (stage for stage in found if stage.arguments[0] == "translate")
    assert Path("/work/many") in first.inputs
    assert first.arguments[-4:] == ("--source-lang", "de", "--target-lang", "en")  # it may have more directions
    assert Path("/work/many") not in second.inputs
    assert "--source-lang" not in second.arguments


def test_text_in_the_source_language_waits_for_the_second_round_where_the_reverse_model_is_given():
    line_counts = LineCounts((1_000,), (10_000,), (500,))
    found = stages(Recipe(rounds=2, reverse="/work/many"), line_counts, data=DATA_OF_BOTH)
    assert [stage.name.partition("-")[2] for stage in found][:4] == ["pairs", "text", "text", "back-translate"]
    reverse = next(stage for stage in trained(found) if stage.name.endswith("reverse"))
    assert any("forth" in corpus.source for corpus in reverse.config.data.train)


def test_a_model_of_both_ways_translates_back_by_itself():
    both = [("vi", "en"), ("en", "vi")]
    texts = {"target": [{"text": "/d/m.en", "lang": "en"}], "source": [{"text": "/d/m.vi", "lang": "vi"}]}
    found = stages(
        Recipe(rounds=2), LineCounts((1_000, 1_000), (4_000,), (2_000,)), data=of_directions(both, monolingual=texts)
    )
    assert [stage.name.partition("-")[2] for stage in found] == [
        "pairs", "pairs", "text", "text", "forward",
        *["back-translate", "back", "back-translate", "back", "forward"] * 2,
    ]  # fmt: skip
    last = trained(found)[-1].config
    assert last.data.directions == tuple(both)
    assert [(Path(corpus.target).name, corpus.weight) for corpus in last.data.train] == [
        ("pairs.en", 1.0), ("pairs.vi", 1.0), ("back.en", 0.5), ("back.vi", 1.0),
    ]  # fmt: skip
