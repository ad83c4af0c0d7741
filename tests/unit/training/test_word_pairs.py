"""Word pairs are learned as two slow models by hand learn them."""

from __future__ import annotations

import random
from collections import defaultdict

import pytest

from nmt_cli.training import word_pairs
from nmt_cli.training.word_pairs import NULL_INDEX, NUM_ITERATIONS, WordPair, learn_word_pairs

DICTIONARY = {"dog": "chien", "cat": "chat", "sees": "voit", "eats": "mange", "Tom": "Tom", "Anna": "Anna"}


def sentences(number, seed=1):
    """Word-by-word translations with a word for `phone` that has two, and one with none in the other language."""
    chance = random.Random(seed)
    for _ in range(number):
        source = [chance.choice(list(DICTIONARY)) for _ in range(chance.randrange(1, 5))]
        target = [DICTIONARY[word] for word in source]
        if chance.random() < 0.3:
            source.append("phone")
            target += ["điện", "thoại"]
        if chance.random() < 0.3:
            source.insert(0, "do")
        yield tuple(source), tuple(target)


def slowly_linked(sources, targets):
    """IBM Model 1, sum by sum over dictionaries: the place of each target word's most likely source word."""
    probability = defaultdict(lambda: 1.0)
    for _ in range(NUM_ITERATIONS):
        counts, totals = defaultdict(float), defaultdict(float)
        for source, target in zip(sources, targets, strict=True):
            for word in target:
                whole = sum(probability[one, word] for one in ("", *source))
                for one in ("", *source):
                    counts[one, word] += probability[one, word] / whole
                    totals[one] += probability[one, word] / whole
        probability = {pair: count / totals[pair[0]] for pair, count in counts.items()}
    return [
        [max(range(len(source) + 1), key=lambda place: probability[("", *source)[place], word]) - 1 for word in target]
        for source, target in zip(sources, targets, strict=True)
    ]


@pytest.mark.parametrize("seed", range(5))
def test_links_are_those_of_the_slow_model(seed):
    chance = random.Random(seed)
    sources, targets = zip(*sentences(40, seed), strict=True)
    # Noise, or no two probabilities are close.
    targets = [tuple(chance.sample(target, len(target))) + ("x",) * (chance.random() < 0.2) for target in targets]
    assert word_pairs._viterbi_alignments(sources, targets) == slowly_linked(sources, targets)
    assert NULL_INDEX in {place for places in slowly_linked(targets, sources) for place in places}


def test_words_get_their_translations():
    found = dict(learn_word_pairs(sentences(300)))
    assert {("phone",): ("điện", "thoại")} | {(word,): (other,) for word, other in DICTIONARY.items()} == found


def test_the_most_frequent_translation_is_taken_and_a_single_line_is_not_enough():
    lines = [
        (("a", "b"), ("A", "B")), (("a", "c"), ("A", "C")), (("a",), ("A",)), (("a", "a"), ("A", "A")),
        (("b",), ("B",)), (("c",), ("C",)), (("d",), ("D",)),
    ]  # fmt: skip
    assert learn_word_pairs(lines) == [WordPair(("a",), ("A",)), WordPair(("b",), ("B",)), WordPair(("c",), ("C",))]
    assert learn_word_pairs(lines * 2) == learn_word_pairs(lines)  # equal pairs count once


def test_of_two_words_with_one_translation_the_more_frequent_one_gets_it():
    chance = random.Random(3)
    lines = [
        (tuple("hound" if word == "dog" and chance.random() < 0.3 else word for word in source), target)
        for source, target in sentences(300)
    ]
    assert sum("hound" in source for source, _ in lines) > 20
    found = dict(learn_word_pairs(lines))
    assert found["dog",] == ("chien",)
    assert ("hound",) not in found


def units(source, target, source_of, target_of):
    return list(word_pairs._units(tuple(source.split()), tuple(target.split()), source_of, target_of))


def test_a_unit_is_closed_and_stands_together():
    assert units("my phone", "phone của tôi", [1, 0, 0], [2, 0]) == [
        (("my",), ("của", "tôi")),
        (("phone",), ("phone",)),
    ]
    assert units("a b", "A x B", [0, 0, 1], [0, 2]) == [(("a",), ("A", "x")), (("b",), ("B",))]
    assert units("a b", "A B A", [0, 1, 0], [0, 1]) == [(("b",), ("B",))]  # A stands apart
    assert units("a b", "A B", [0, 0], [0, 1]) == []  # two on either side
    assert units("a", "A", [NULL_INDEX], [0]) == []  # a link of one direction alone
    assert units("a", "A B C D", [0, 0, 0, 0], [0]) == []  # too long


def test_nothing_comes_of_nothing():
    assert learn_word_pairs([]) == learn_word_pairs([((), ("A",)), (("a",), ())]) == []


def test_long_lines_are_left_out_and_reading_ends_at_the_limit(monkeypatch):
    lines = list(sentences(300))
    monkeypatch.setattr(word_pairs, "MAX_WORDS", 2)
    short = [(source, target) for source, target in lines if max(len(source), len(target)) <= 2]
    assert learn_word_pairs(lines) == learn_word_pairs(short) != []
    different = list(dict.fromkeys(short))
    sizes = [(len(source) + 1) * len(target) for source, target in different]
    monkeypatch.setattr(word_pairs, "MAX_LINKS", sum(sizes[:10]))
    assert learn_word_pairs(lines) == learn_word_pairs(different[:10])
    assert learn_word_pairs(lines) != learn_word_pairs(short[:1])
