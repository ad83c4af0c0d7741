"""The work of the translator on lines, before and after the model."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt_cli.config.decoding import DecodingConfig, DecodingOptions
from nmt_cli.config.model import ModelConfig
from nmt_cli.data.output import open_output
from nmt_cli.data.tokenizer import PAD
from nmt_cli.model.build import build_model, initialize
from nmt_cli.system.errors import InputError
from nmt_cli.system.memory import retry_in_halves
from nmt_cli.text.alignment import alignment_error_rate, format_pharaoh, hard_alignment, merge_to_words
from nmt_cli.translation import long_lines
from nmt_cli.translation.long_lines import _cuts
from nmt_cli.translation.results import Part
from nmt_cli.translation.step_model import TrainedModels
from nmt_cli.translation.translator import Translator
from nmt_cli.translation.windows import windows_of_lines, windows_of_list


def test_work_that_runs_out_of_memory_is_done_in_halves_and_said(capsys: pytest.CaptureFixture[str]):
    def work(items):
        if len(items) > 3:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory")
        return [item * 2 for item in items]

    assert retry_in_halves(list(range(10)), work) == [item * 2 for item in range(10)]
    assert "out of memory with 10 sentences at once; going on with 5" in capsys.readouterr().err


def test_other_errors_and_a_single_sentence_too_large_are_not_hidden():
    def fail(items):
        raise RuntimeError("can't allocate memory" if len(items) == 1 else "another thing")

    with pytest.raises(RuntimeError, match="another thing"):
        retry_in_halves([1, 2], fail)
    with pytest.raises(RuntimeError, match="can't allocate memory"):
        retry_in_halves([1], fail)


def test_a_search_that_runs_out_of_memory_goes_on_with_fewer_and_keeps_what_it_has(
    capsys: pytest.CaptureFixture[str],
):
    """Sentences that were done before are not searched again."""
    model = build_model(ModelConfig(), source_vocab_size=50, target_vocab_size=50)
    initialize(model, seed=1)
    models = TrainedModels([model.requires_grad_(False)], device=torch.device("cpu"))
    target = SimpleNamespace(banned_ids=lambda: (PAD,), decode_spans=lambda ids: ("", []))
    tokenizers = (SimpleNamespace(), target)
    # Sources are padded to 16 pieces, so 20 sentences with a beam of 2 fill a batch.
    options = DecodingOptions.of(
        DecodingConfig(), beam_size=2, max_length_a=1.0, max_length_b=0, batch_tokens=20 * 16 * 2
    )
    ours = Translator(models, tokenizers, options)
    jobs = [Part(number, number, 0, tuple(range(4, 4 + number % 7 + 2)), ()) for number in range(20)]
    expected = dict(ours.search(jobs))
    calls, step = [], models.step

    def failing(ids_N, state):
        calls.append(len(ids_N))
        if len(ids_N) > 10 and len(calls) > 4:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory")
        return step(ids_N, state)

    models.step = failing
    found = list(ours.search(jobs))
    assert sorted(job.line for job, _ in found) == list(range(20))
    assert dict(found) == expected
    assert max(calls) > 10
    assert max(calls[calls.index(max(calls)) + 8 :]) <= 10
    said = capsys.readouterr().err
    assert "out of memory with 20 sentences at once; going on with 10" in said
    assert "out of memory with 10 sentences at once; going on with 5" in said


def test_word_weights_are_sums_over_source_pieces_and_means_over_target_pieces():
    random = np.random.default_rng(3)
    weights = random.random((5, 7))
    source_words, target_words = [0, 0, 1, 3, 3, 3], [0, 1, 1, 1, 2]
    merged = merge_to_words(weights, source_words, target_words, (3, 4))
    for target in range(3):
        for source in range(4):
            rows = [row for row, word in enumerate(target_words) if word == target]
            expected = sum(weights[row, p] for row in rows for p, word in enumerate(source_words) if word == source)
            assert merged[target, source] == pytest.approx(expected / len(rows))
        assert merged[target].sum() == pytest.approx(weights[rows].sum() / len(rows))


def test_what_lies_on_no_word_of_the_source_has_a_column_of_its_own():
    """Seen to fail on a line that is a line separator: white space to a reader, a piece to the tokenizer."""
    assert merge_to_words(np.ones((1, 2)), [0], [0], (0, 0)).shape == (0, 1)
    assert merge_to_words(np.ones((1, 3)), [0, 0], [0], (0, 1)).shape == (0, 2)
    weights = np.array([[0.5, 0.25, 0.125, 0.0625]])
    assert merge_to_words(weights, [0, 0, 1], [0], (1, 1)).tolist() == [[0.75, 0.1875]]


def test_hard_links_take_the_heaviest_source_word_and_none_where_there_is_no_weight():
    assert hard_alignment(np.array([[0.1, 0.9], [0.0, 0.0], [0.6, 0.4]])) == [(1, 0), (0, 2)]
    assert format_pharaoh([(1, 0), (0, 2)]) == "1-0 0-2"
    assert hard_alignment(np.zeros((0, 3))) == []


def test_the_alignment_error_rate_is_that_of_och_and_ney():
    found = [[(0, 0), (1, 1), (2, 2)]]
    assert alignment_error_rate(found, [{(0, 0), (1, 1)}], [{(2, 2)}]) == 0.0
    # |A & S| = 1, |A & P| = 2, |A| = 3, |S| = 2
    assert alignment_error_rate(found, [{(0, 0), (3, 3)}], [{(1, 1)}]) == pytest.approx(1 - 3 / 5)


def test_long_lines_are_cut_at_words_where_there_are_any_and_nothing_is_lost():
    pieces = ["▁a", "b", "▁c", "d", "e", "▁f", "g", "h", "i", "j", "k", "l"]
    tokenizer = SimpleNamespace(pieces=lambda ids: [pieces[id_] for id_ in ids])
    ends = _cuts(tokenizer, range(len(pieces)), 4)
    assert _cuts(tokenizer, range(4), 4) == [4]
    assert ends[-1] == len(pieces)
    assert ends == sorted(set(ends))
    assert all(end - start <= 4 for start, end in zip([0, *ends], ends, strict=False))
    assert pieces[ends[0]].startswith("▁") or ends[0] == 4


def test_windows_hold_every_line_in_order_and_no_more_than_the_bound():
    lines = [str(number).encode() for number in range(10_000)]
    windows = list(windows_of_lines(lines, 64))
    assert [line for window in windows for line in window] == lines
    assert max(map(len, windows)) <= 64


@pytest.mark.parametrize("windows_of", [windows_of_lines, windows_of_list])
def test_windows_hold_few_lines_of_many_words_whose_matrices_are_large(windows_of):
    """A matrix of a thousand words has a million cells."""
    lines = [b"a " * 1_000] * 100 + [b"a"] * 5_000
    windows = list(windows_of(lines))
    assert [line for window in windows for line in window] == lines
    assert max(sum(len(line.split()) ** 2 for line in window) for window in windows) <= 17_000_000
    assert max(map(len, windows)) <= 4096


def test_a_window_closes_when_no_line_is_waiting():
    answered = threading.Event()

    def writer():
        yield b"one"
        answered.wait(timeout=10)  # the next line comes only after the answer to the first
        yield b"two"

    windows = windows_of_lines(writer(), 64)
    assert next(windows) == [b"one"]
    answered.set()
    assert next(windows) == [b"two"]


def test_an_error_of_the_reader_comes_where_its_line_would_be():
    def broken():
        yield b"one"
        raise InputError("cut off")

    seen: list[bytes] = []
    with pytest.raises(InputError, match="cut off"):
        seen.extend(line for window in windows_of_lines(broken(), 8) for line in window)
    assert seen == [b"one"]


def test_a_file_that_fails_half_way_is_absent(tmp_path):
    def write_half() -> None:
        with open_output(tmp_path / "out") as stream:
            stream.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_half()
    assert list(tmp_path.iterdir()) == []


@settings(max_examples=200, deadline=None)
@given(
    text=st.text(st.sampled_from("ab \t\u2028\u00a0\u00e9"), max_size=80),
    length=st.integers(2, 12),
    bound=st.integers(1, 40),
)
def test_the_segments_of_a_line_are_the_line(text: str, length: int, bound: int):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(long_lines, "SEGMENT_LENGTH", length)
        patch.setattr(long_lines, "SEGMENT_BATCH_LENGTH", bound)
        segment_batches = list(long_lines.segment_batches([text, "", text]))
    for line in (0, 2):
        segments = [segment for some in segment_batches for segment in some if segment.line == line]
        assert "".join(segment.text for segment in segments) == ("" if text.isspace() else text)
        assert all(0 < len(segment.text) <= length for segment in segments)
        assert all(segment.text == text[segment.begin : segment.begin + len(segment.text)] for segment in segments)
    assert all(sum(len(segment.text) for segment in some[:-1]) < bound for some in segment_batches)
