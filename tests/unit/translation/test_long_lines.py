"""The places where long lines are cut."""

from __future__ import annotations

from itertools import pairwise

import pytest

from nmt_cli.translation.long_lines import _cuts


class Bytes:
    """A tokenizer that spells everything in bytes, and blanks as words begin."""

    def pieces(self, ids):
        return ["▁" if one == ord(" ") else f"<0x{one:02X}>" for one in ids]


@pytest.mark.parametrize("limit", [8, 9, 11, 50])
@pytest.mark.parametrize("text", ["😀" * 20, "漢" * 30, "a😀漢é" * 9, "😀😀😀 漢漢漢漢漢漢漢 ééééé" * 3])
def test_no_part_ends_within_a_character(text, limit):
    ids = text.encode()
    cuts = _cuts(Bytes(), ids, limit)
    parts = [ids[begin:end] for begin, end in pairwise([0, *cuts])]
    assert b"".join(parts) == ids
    assert all(part.decode() and len(part) <= limit for part in parts)


def test_a_word_is_cut_only_where_the_last_half_of_a_part_has_none_that_begins():
    assert _cuts(Bytes(), b"abcdef ghijklm", 10) == [6, 14]
    assert _cuts(Bytes(), b"ab cdefghijklm", 10) == [10, 14]
