"""Padded batches."""

import torch

from nmt_cli.data.batch import make_batch
from nmt_cli.data.tokenizer import EOS, PAD


def test_padding_a_batch_adds_nothing_but_padding():
    """Fails if a mask is padded with True, or where the rows' and the widths' padding change places."""
    batch = make_batch([[5, 6], [7]], [[8], [9, 10, 11]], [[(0, 0)], [(1, 2)]])
    padded = batch.padded(3, 5, 7)
    assert padded.source_BS[1].tolist() == [7, EOS, PAD, PAD, PAD]
    assert [tuple(tensor.shape) for tensor in padded] == [(3, 5), (3, 5), (3, 7), (3, 7), (3, 7), (3, 7, 5)]
    assert padded.num_target_tokens == batch.num_target_tokens
    torch.testing.assert_close(padded.source_valid_BS, padded.source_BS != PAD)
    torch.testing.assert_close(padded.target_valid_BT, padded.outputs_BT != PAD)
    assert padded.links_BTS.sum() == batch.links_BTS.sum() == 2
    for whole, part in zip(padded, batch, strict=True):
        torch.testing.assert_close(whole[tuple(slice(size) for size in part.shape)], part)


def test_a_batch_without_links_stays_so_and_a_full_one_is_copied():
    batch = make_batch([[5, 6]], [[8]])
    padded = batch.padded(1, 3, 2)
    assert padded.links_BTS is None
    assert padded.source_BS.data_ptr() != batch.source_BS.data_ptr()
