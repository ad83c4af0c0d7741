"""Repeated pairs, compared with dictionaries that hold everything."""

import errno
import os
import random
import tempfile
from collections import defaultdict

import pytest

from nmt_cli.corpora import duplicates as repeats_module
from nmt_cli.corpora.duplicates import DUPLICATE, HELD_OUT, MANY_TARGETS, MAX_TARGETS, PairIndex, line_hashes
from nmt_cli.system.errors import NmtError


@pytest.mark.parametrize("part", [7, 64, 2**22])
@pytest.mark.parametrize("num_pairs", [0, 1, 5, 700])
def test_repeats_are_those_that_a_dictionary_finds_however_the_hashes_are_parted(
    part, num_pairs, tmp_path, monkeypatch
):
    monkeypatch.setattr(repeats_module, "HASHES_PER_PART", part)
    draw = random.Random(num_pairs)
    held_out = tmp_path / "held_out"
    held_out.write_bytes(b" s7 \n\ns9")
    pairs = [(b"s%d" % draw.randrange(60), b"t%d" % draw.randrange(6)) for _ in range(num_pairs)]
    with PairIndex() as index:
        for pair in pairs:
            index.add(*pair)
        bits = index.bits(line_hashes([str(held_out)])).tolist()
    targets = defaultdict(list)
    expected = []
    for source, target in pairs:
        known = targets[source]
        bit = DUPLICATE if target in known else MANY_TARGETS if len(known) >= MAX_TARGETS else 0
        expected.append(bit | (HELD_OUT if source in (b"s7", b"s9") else 0))
        if target not in known:
            known.append(target)
    assert bits == expected
    if num_pairs > 500:
        assert set(bits) == {bit | held for bit in (0, DUPLICATE, MANY_TARGETS) for held in (0, HELD_OUT)}


class Full:
    """A file on a full disk."""

    def seek(self, *_):
        pass

    def close(self):
        pass

    def write(self, _):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_is_said_in_one_line(monkeypatch):
    monkeypatch.setattr(repeats_module, "HASHES_PER_PART", 16)
    with PairIndex() as index:
        index._pairs.close()
        index._pairs._file = Full()
        with pytest.raises(NmtError, match=f"{tempfile.gettempdir()}: no space left on the device"):
            index.add(b"a", b"b")


def test_pairs_with_an_empty_side_repeat_nothing():
    with PairIndex() as index:
        for _ in range(9):
            index.add(b" ", b"")
            index.add(b"a", b" ")
            index.add(b"", b"b")
        index.add(b"a", b"b")
        assert set(index.bits(line_hashes([])).tolist()) == {0}
        assert index.first_rows(index.source_hashes()[[1, -1]]).tolist() == [-1, 27]
