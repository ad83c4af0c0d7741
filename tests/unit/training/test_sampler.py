"""Which pairs make which batch: every pair once an epoch, and any batch can be reached again."""

from collections import Counter
from itertools import islice, pairwise

import numpy as np
import pytest

from nmt_cli.data import sampler as sampler_module
from nmt_cli.data.sampler import Cursor, Sampler
from nmt_cli.system.errors import InputError

NUM_PAIRS = 230


@pytest.fixture(autouse=True)
def _small_pools(monkeypatch):
    """Several pools in an epoch."""
    monkeypatch.setattr(sampler_module, "BATCHES_IN_POOL", 5)


def lengths(seed, count=NUM_PAIRS, longest=30):
    return np.random.default_rng(seed).integers(1, longest, size=count)


SOURCE, TARGET = lengths(1), lengths(2)


def sampler_of(*, bounds=(0, NUM_PAIRS), weights=(1.0,), batch_size=64, batch_type="tokens", seed=1):
    return Sampler(
        SOURCE,
        TARGET,
        bounds=bounds,
        target_pieces=[int(TARGET[start:end].sum()) for start, end in pairwise(bounds)],
        weights=weights,
        batch_size=batch_size,
        batch_type=batch_type,
        seed=seed,
    )


def drawn(sampler, count, cursor=Cursor()):  # noqa: B008
    return list(islice(sampler.batches_from(cursor), count))


def epoch_of(sampler, epoch=0):
    """All batches of an epoch."""
    batches = []
    for one in sampler.batches_from(Cursor(epoch)):
        batches.append(one)
        if one.next.epoch > epoch:
            return batches
    raise AssertionError("an epoch without end")


def plain(batches):
    return [(one.pairs.tolist(), one.next, one.progress) for one in batches]


KINDS = [("tokens", 64), ("tokens", 40), ("sentences", 7), ("sentences", 1)]


@pytest.mark.parametrize(("batch_type", "batch_size"), KINDS)
def test_every_pair_comes_once_an_epoch(batch_type, batch_size):
    """Fails if the rest of a pool, or of an epoch, is left out."""
    sampler = sampler_of(batch_type=batch_type, batch_size=batch_size)
    for epoch in range(3):
        pairs = np.concatenate([one.pairs for one in epoch_of(sampler, epoch)])
        assert sorted(pairs.tolist()) == list(range(NUM_PAIRS))


def test_the_order_depends_on_seed_and_epoch_and_on_nothing_else():
    first = plain(epoch_of(sampler_of(), 3))
    used = sampler_of()
    drawn(used, 100)
    np.random.default_rng().random()
    assert plain(epoch_of(used, 3)) == first
    pairs = [one[0] for one in first]
    assert [one.pairs.tolist() for one in epoch_of(sampler_of(), 4)] != pairs
    assert [one.pairs.tolist() for one in epoch_of(sampler_of(seed=2), 3)] != pairs


@pytest.mark.parametrize(("batch_type", "batch_size"), KINDS)
def test_from_any_cursor_the_batches_go_on_as_without_interruption(batch_type, batch_size):
    """At every batch of the first two epochs, by the cursor that the batch before it gave."""
    sampler = sampler_of(batch_type=batch_type, batch_size=batch_size)
    count = len(epoch_of(sampler)) + 3
    straight = plain(drawn(sampler, count + 4))
    cursors = [Cursor(), *(cursor for _, cursor, _ in straight)]
    places = range(0, count, 1 if count < 60 else 17)
    for place in places:
        resumed = sampler_of(batch_type=batch_type, batch_size=batch_size)
        assert plain(drawn(resumed, 4, cursors[place])) == straight[place : place + 4]
    assert {cursor.epoch for cursor in cursors} >= {0, 1}


@pytest.mark.parametrize("batch_size", [20, 64, 200])
def test_the_token_budget_holds_but_for_a_pair_that_is_longer_by_itself(batch_size):
    """Padded target pieces with </s>: the longest of the batch times its pairs."""
    sampler = sampler_of(batch_size=batch_size)
    too_long = 0
    for one in epoch_of(sampler):
        padded = len(one.pairs) * int((TARGET[one.pairs] + 1).max())
        assert padded <= batch_size or len(one.pairs) == 1
        too_long += padded > batch_size
    assert too_long == sum(length + 1 > batch_size for length in TARGET)


def test_batches_of_sentences_have_their_number_but_for_the_last_of_a_pool():
    sizes = [len(one.pairs) for one in epoch_of(sampler_of(batch_type="sentences", batch_size=7))]
    assert max(sizes) == 7
    assert sum(size < 7 for size in sizes) <= -(-NUM_PAIRS // (5 * 7))


def test_pairs_of_like_length_share_a_batch():
    """Padding stays far below that of batches of random pairs."""

    def padding(batches):
        padded = sum(len(pairs) * (TARGET[pairs] + 1).max() for pairs in batches)
        return padded / (TARGET + 1).sum()

    ours = [one.pairs for one in epoch_of(sampler_of(batch_type="sentences", batch_size=10))]
    shuffled = np.array_split(np.random.default_rng(1).permutation(NUM_PAIRS), NUM_PAIRS // 10)
    assert padding(ours) - 1 < (padding(shuffled) - 1) / 3


def test_batches_do_not_come_in_the_order_of_their_lengths():
    longest = [int(TARGET[one.pairs].max()) for one in epoch_of(sampler_of())]
    assert longest[:5] not in (sorted(longest[:5]), sorted(longest[:5], reverse=True))


@pytest.mark.parametrize("weight", [2.5, 0.5, 2.0, 2.75])
def test_a_weight_is_how_often_an_epoch_goes_through_a_corpus(weight):
    """2.5: every pair twice and half of them a third time, another half each epoch; the other corpus is not touched."""
    sampler = sampler_of(bounds=(0, 100, NUM_PAIRS), weights=(weight, 1.0))
    halves = []
    for epoch in range(3):
        counts = Counter(np.concatenate([one.pairs for one in epoch_of(sampler, epoch)]).tolist())
        assert all(counts[pair] == 1 for pair in range(100, NUM_PAIRS))
        more = frozenset(pair for pair in range(100) if counts[pair] == int(weight) + 1)
        assert len(more) == round(weight % 1 * 100)
        assert all(counts[pair] == int(weight) for pair in range(100) if pair not in more)
        halves.append(more)
    assert weight == 2.0 or len(set(halves)) == 3


@pytest.mark.parametrize(("batch_type", "batch_size"), KINDS)
def test_the_progress_of_an_epoch_is_the_share_of_its_pairs(batch_type, batch_size):
    sampler = sampler_of(batch_type=batch_type, batch_size=batch_size)
    done, batches, cursor = 0, epoch_of(sampler, 2), Cursor(2)
    for one in batches:
        done += len(one.pairs)
        assert one.progress == pytest.approx(2 + done / NUM_PAIRS)
        assert cursor < one.next <= Cursor(3)
        cursor = one.next
    assert cursor == Cursor(3)
    assert batches[-1].progress == 3.0


@pytest.mark.parametrize(("batch_type", "batch_size"), KINDS)
def test_a_cursor_that_counts_the_batches_of_all_pools_goes_on_at_the_same_place(batch_type, batch_size):
    """The state of a sampler of version 0.1 has no pool."""
    sampler = sampler_of(batch_type=batch_type, batch_size=batch_size)
    straight = plain(drawn(sampler, len(epoch_of(sampler)) + 4))
    for place in (0, 7, len(straight) // 2, len(straight) - 5):
        assert plain(drawn(sampler, 4, Cursor(0, 0, place))) == straight[place : place + 4]


class Counted:
    """Lengths of which it is known how many were looked at."""

    def __init__(self, lengths):
        self.lengths, self.num_read = lengths, 0

    def __getitem__(self, numbers):
        self.num_read += len(numbers)
        return self.lengths[numbers]


@pytest.mark.parametrize("num_pairs", [1_000, 1_000_000])
def test_a_batch_and_going_on_anywhere_cost_the_same_whatever_the_corpus(num_pairs):
    """One pool's lengths are looked at. Fails if the order of an epoch is made as a whole, or gone through."""
    source, target = Counted(np.full(num_pairs, 9)), Counted(np.full(num_pairs, 9))
    sampler = Sampler(
        source, target, bounds=(0, num_pairs), target_pieces=[9 * num_pairs], weights=[1.0], batch_size=100,
        batch_type="tokens", seed=1,
    )  # fmt: skip
    last_pool = -(-num_pairs // (5 * 10)) - 1
    for cursor in (Cursor(), Cursor(3, last_pool // 2, 2), Cursor(0, last_pool, 0)):
        source.num_read = target.num_read = 0
        drawn(sampler, 1, cursor)
        assert source.num_read == target.num_read <= 5 * 10


@pytest.mark.parametrize(("batch_type", "batch_size"), [("tokens", 300), ("sentences", 7), ("sentences", 1)])
def test_the_number_of_batches_an_epoch_is_about_right(batch_type, batch_size, monkeypatch):
    """About: a budget of tokens is never quite filled, and the last batch of a pool even less, so pools are large."""
    monkeypatch.setattr(sampler_module, "BATCHES_IN_POOL", 100)
    sampler = sampler_of(bounds=(0, 100, NUM_PAIRS), weights=(2.0, 0.5), batch_type=batch_type, batch_size=batch_size)
    assert sampler.batches_per_epoch() == pytest.approx(len(epoch_of(sampler)), rel=0.2)


def test_a_corpus_of_which_no_pair_would_come_is_refused():
    with pytest.raises(InputError) as caught:
        sampler_of(bounds=(0, 0, 20, 25, NUM_PAIRS), weights=(1.0, 0.02, 0.1, 1.0))
    assert str(caught.value).split("\n") == [
        "data.train.1.weight: 0.02 leaves none of 20 pairs for an epoch; raise it, or leave the corpus out",
        "data.train.2.weight: 0.1 leaves none of 5 pairs for an epoch; raise it, or leave the corpus out",
    ]
