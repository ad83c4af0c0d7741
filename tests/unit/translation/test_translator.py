"""What the translator does with lines before and after the model."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from nmt_cli.data.output import open_output
from nmt_cli.errors import InputError
from nmt_cli.translation.alignment import alignment_error_rate, hard_links, merge_to_words, pharaoh
from nmt_cli.translation.translator import _cuts, without_running_out
from nmt_cli.translation.windows import ReadAhead


def test_work_that_runs_out_of_memory_is_done_in_halves_and_said(capsys: pytest.CaptureFixture[str]):
    def work(items):
        if len(items) > 3:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory")
        return [item * 2 for item in items]

    assert without_running_out(list(range(10)), work) == [item * 2 for item in range(10)]
    assert "out of memory with 10 sentences at once; going on with 5" in capsys.readouterr().err


def test_other_errors_and_a_single_sentence_too_large_are_not_hidden():
    def fail(items):
        raise RuntimeError("can't allocate memory" if len(items) == 1 else "another thing")

    with pytest.raises(RuntimeError, match="another thing"):
        without_running_out([1, 2], fail)
    with pytest.raises(RuntimeError, match="can't allocate memory"):
        without_running_out([1], fail)


def test_word_weights_are_sums_over_source_pieces_and_means_over_target_pieces():
    random = np.random.default_rng(3)
    weights = random.random((5, 6))
    source_words, target_words = [0, 0, 1, 3, 3, 3], [0, 1, 1, 1, 2]
    merged = merge_to_words(weights, source_words, target_words, (3, 4))
    for target in range(3):
        for source in range(4):
            rows = [row for row, word in enumerate(target_words) if word == target]
            expected = sum(weights[row, p] for row in rows for p, word in enumerate(source_words) if word == source)
            assert merged[target, source] == pytest.approx(expected / len(rows))


def test_hard_links_take_the_heaviest_source_word_and_none_where_there_is_no_weight():
    assert hard_links(np.array([[0.1, 0.9], [0.0, 0.0], [0.6, 0.4]])) == [(1, 0), (0, 2)]
    assert pharaoh([(1, 0), (0, 2)]) == "1-0 0-2"
    assert hard_links(np.zeros((0, 3))) == []


def test_the_alignment_error_rate_is_that_of_och_and_ney():
    found = [[(0, 0), (1, 1), (2, 2)]]
    assert alignment_error_rate(found, [{(0, 0), (1, 1)}], [{(2, 2)}]) == 0.0
    # |A & S| = 1, |A & P| = 2, |A| = 3, |S| = 2
    assert alignment_error_rate(found, [{(0, 0), (3, 3)}], [{(1, 1)}]) == pytest.approx(1 - 3 / 5)


def test_long_lines_are_cut_at_words_where_there_are_any_and_nothing_is_lost():
    pieces = ["▁a", "b", "▁c", "d", "e", "▁f", "g", "h", "i", "j", "k", "l"]
    ends = _cuts(pieces, 4)
    assert ends[-1] == len(pieces)
    assert ends == sorted(set(ends))
    assert all(end - start <= 4 for start, end in zip([0, *ends], ends, strict=False))
    assert pieces[ends[0]].startswith("▁") or ends[0] == 4


def test_windows_hold_every_line_in_order_and_no_more_than_the_bound():
    lines = [str(number).encode() for number in range(10_000)]
    windows = list(ReadAhead(lines, 64).windows())
    assert [line for window in windows for line in window] == lines
    assert max(map(len, windows)) <= 64


def test_a_window_closes_when_no_line_is_waiting():
    answered = threading.Event()

    def writer():
        yield b"one"
        answered.wait(timeout=10)  # the next line comes only after the answer to the first
        yield b"two"

    windows = ReadAhead(writer(), 64).windows()
    assert next(windows) == [b"one"]
    answered.set()
    assert next(windows) == [b"two"]


def test_an_error_of_the_reader_comes_where_its_line_would_be():
    def broken():
        yield b"one"
        raise InputError("cut off")

    seen: list[bytes] = []
    with pytest.raises(InputError, match="cut off"):
        seen.extend(line for window in ReadAhead(broken(), 8).windows() for line in window)
    assert seen == [b"one"]


def test_a_file_that_fails_half_way_is_absent(tmp_path):
    def write_half() -> None:
        with open_output(tmp_path / "out") as stream:
            stream.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_half()
    assert list(tmp_path.iterdir()) == []
