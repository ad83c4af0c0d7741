"""Batches of the dev set."""

import random

from nmt_cli.training.validation import BATCH_TOKENS, _chunks


def test_no_batch_is_larger_than_it_may_be_but_by_a_single_pair():
    """Whatever is longest in it, and however the order was made."""
    chance = random.Random(1)
    lengths = [chance.choice([3, 20, 90, 700, 5_000]) for _ in range(500)]
    order = sorted(range(500), key=lambda index: lengths[index] % 7)
    chunks = _chunks(order, lengths)
    assert [index for chunk in chunks for index in chunk] == order
    for chunk in chunks:
        assert len(chunk) == 1 or len(chunk) * max(lengths[index] for index in chunk) <= BATCH_TOKENS
    assert any(len(chunk) > 1 for chunk in chunks)
