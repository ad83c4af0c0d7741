"""Rules that learn from the corpus: languages, steps, lengths. Every noise is injected, so the truth is known."""

import random

import numpy as np
import pytest

from nmt_cli.corpora.filter_pairs import count_filtered, filtered_pairs, first_pass
from nmt_cli.corpora.filters import dropping_filters
from nmt_cli.corpora.language_filter import NUM_BUCKETS, SMOOTHING, LanguageFilter, _trigrams
from nmt_cli.corpora.out_of_step import OutOfStepDetector
from nmt_cli.corpora.pair_filter import PairFilters
from nmt_cli.demo import phrasebook


@pytest.fixture(scope="module")
def pairs():
    """Pairs of the phrase book, none of them twice."""
    return [(pair.source, pair.target) for pair in phrasebook.generate(seed=3, num_train=1_500).train]


def recall_and_false(found, truth):
    hits = sum(f and t for f, t in zip(found, truth, strict=True))
    others = sum(f and not t for f, t in zip(found, truth, strict=True))
    return hits / max(1, sum(truth)), others / max(1, len(truth) - sum(truth))


@pytest.mark.parametrize("share", [0.0, 0.05, 0.3])
def test_exchanged_and_untranslated_lines_are_found_though_the_model_learnt_from_them(pairs, share):
    draw = random.Random(5)
    kinds = [draw.choice(("swapped", "source", "target")) if draw.random() < share else "" for _ in pairs]
    noisy = [
        {"swapped": (target, source), "source": (source, source), "target": (target, target)}.get(
            kind, (source, target)
        )
        for kind, (source, target) in zip(kinds, pairs, strict=True)
    ]
    sources, targets = [source for source, _ in noisy], [target for _, target in noisy]
    model = LanguageFilter(sources, targets)
    assert model.is_sure
    flags = model.flag(sources, targets)
    for found, wanted in ((flags.swapped, ("swapped",)), (flags.wrong_language, ("source", "target"))):
        recall, false = recall_and_false(found, [kind in wanted for kind in kinds])
        assert false < 0.005
        assert recall > 0.85 or not share


def test_two_sides_in_one_language_cannot_be_told_apart(pairs):
    sources = [source for source, _ in pairs]
    model = LanguageFilter(sources, sources[::-1])
    assert not model.is_sure
    assert not model.flag(sources, sources).swapped.any()


def test_a_line_is_judged_by_what_the_others_teach(pairs):
    texts = [source for source, _ in pairs[:60]]
    learnt = np.arange(len(texts)) % 3 != 0
    lines = _trigrams(texts)
    means = lines.held_out_means(learnt)
    num_checked = 0
    for row, text in enumerate(texts):
        others = learnt & (np.arange(len(texts)) != row)
        weights = np.where(others, lines.lengths[learnt].mean() / lines.lengths, 0.0)
        counts = np.bincount(lines.buckets, np.repeat(weights, lines.lengths), minlength=NUM_BUCKETS) + SMOOTHING
        own = _trigrams([text]).buckets
        if len(set(own)) == len(own):
            num_checked += 1
            assert means[row] == pytest.approx(np.log(counts[own] / counts.sum()).mean(), rel=1e-9)
    assert num_checked > 30


def test_the_line_after_it_says_nothing_about_a_line():
    alone, first = _trigrams(["Un chat dort."]), _trigrams(["Un chat dort.", "Wer schläft?"])
    assert first.buckets[: first.lengths[0]].tolist() == alone.buckets.tolist()


def test_right_lines_of_rare_words_stay_in_a_small_corpus(pairs):
    rare = [
        ("The judge objected to the budget.", "Il achète quatre chevaux gris."),
        ("She buys rugby jackets for Zimbabwe.", "Il achète quatre chevaux gris."),
    ]
    sample = [*pairs[:250], *rare]
    sources, targets = [source for source, _ in sample], [target for _, target in sample]
    model = LanguageFilter(sources, targets)
    assert model.is_sure
    assert not model.flag(sources, targets).wrong_language.any()


@pytest.mark.parametrize("shift", [1, -1, 3])
def test_a_stretch_out_of_step_is_found_with_its_ends(pairs, shift):
    first, last = 500, 700
    targets = [target for _, target in pairs]
    targets[first:last] = targets[first + shift : last] + targets[first : first + shift] if shift > 0 else [
        targets[last - 1], *targets[first : last - 1]
    ]  # fmt: skip
    noisy = [(source, target) for (source, _), target in zip(pairs, targets, strict=True)]
    flags = OutOfStepDetector(noisy).flag(noisy)
    assert abs(int(flags.argmax()) - first) <= 3
    recall, false = recall_and_false(flags, [first <= row < last for row in range(len(pairs))])
    assert recall > 0.95
    assert false < 0.01


def test_files_in_step_have_no_stretch(pairs):
    assert not OutOfStepDetector(pairs).flag(pairs).any()


def test_strangers_have_no_words_in_common_and_nothing_is_said(pairs):
    strangers = list(zip([source for source, _ in pairs], [target for _, target in pairs[::-1]], strict=True))
    steps = OutOfStepDetector(strangers)
    assert not steps.is_sure
    assert not steps.flag(strangers).any()


def write(directory, pairs):
    for side, name in enumerate(("a.en", "a.fr")):
        (directory / name).write_text("".join(pair[side] + "\n" for pair in pairs), encoding="utf-8")
    return [str(directory / "a.en"), str(directory / "a.fr")]


def test_pairs_come_back_in_order_and_the_first_of_equal_ones_stays(pairs, tmp_path):
    draw = random.Random(2)
    many = [draw.choice(pairs) for _ in range(9_000)]  # more than two blocks
    paths = write(tmp_path, many)
    known = first_pass(paths)
    judged = list(filtered_pairs(paths, known, PairFilters(known.sample)))
    assert [(pair.source.decode(), pair.target.decode()) for pair in judged] == many
    seen = set()
    for pair, text in zip(judged, many, strict=True):
        assert ("duplicate" in pair.failed_filters) == (text in seen)
        seen.add(text)


@pytest.mark.slow
def test_a_part_of_a_corpus_gives_about_the_same_shares(pairs, tmp_path):
    draw = random.Random(2)
    many = [(source, target[:2]) if draw.random() < 0.1 else (source, target) for source, target in pairs * 12]
    paths = write(tmp_path, many)
    whole, part = (count_filtered(paths, dropping_filters(), max_pairs=limit) for limit in (None, 9_000))
    assert part.examined < whole.examined == part.read == len(many)
    rule = "length-ratio"
    assert part.share(part.found[rule]) == pytest.approx(whole.share(whole.found[rule]), abs=1.5)
    assert whole.share(whole.found[rule]) == pytest.approx(10, abs=2)


def test_no_text_is_judged_too(tmp_path):
    paths = write(tmp_path, [])
    assert count_filtered(paths, dropping_filters()).examined == 0
    paths = write(tmp_path, [("", ""), ("a", "b")])
    assert count_filtered(paths, dropping_filters()).dropped_by == {"empty": 1}
