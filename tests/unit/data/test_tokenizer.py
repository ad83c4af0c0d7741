"""The text that a tokenizer is trained on, and its treatment of unknown text."""

from __future__ import annotations

import re

import pytest

from nmt_cli.data.tokenizer import MAX_TRAINING_BYTES, train_tokenizer
from nmt_cli.system.errors import InputError

TEXT = ["the house is red", "the car is old", "where is the house", "the old car"] * 5


def trained(lines=TEXT, **options):
    settings = {
        "model_type": "unigram", "vocab_size": 278, "normalization": "identity", "character_coverage": 1.0,
        "symbols": (),
    }  # fmt: skip
    return train_tokenizer(lines, **(settings | options))


def test_words_that_are_one_unknown_piece_together_are_known_as_such():
    tokenizer = trained(model_type="word", vocab_size=20)
    assert tokenizer.unknown_runs("the house is red") == {}
    assert tokenizer.unknown_runs("where is Zzyx ?") == {2: 4}
    assert tokenizer.unknown_runs("John R. Smith is old and has a car") == {0: 3, 5: 8}
    assert tokenizer.unknown_runs("  Zoë\t Müller ") == {0: 2}
    assert tokenizer.unknown_runs("the Zzyx car") == {}
    assert trained().unknown_runs("Zzyx and Müller") == {}  # spelt in bytes


def test_blanks_at_the_end_are_of_no_unknown_word():
    """SentencePiece parts words at U+0020 alone; what our words are parted by may end an unknown piece, or be one."""
    tokenizer = trained(model_type="word", vocab_size=20)
    for blank in "\r\t\x0b\x0c\x1c\x85\xa0\u2003\u2028\u3000":
        assert tokenizer.unknown_runs(f"where is Zzyx ?{blank}") == {2: 4}
        assert tokenizer.unknown_runs(f"where is Zzyx{blank} the car") == {}
        assert tokenizer.unknown_runs(f"the old car {blank}") == {}
        assert tokenizer.unknown_runs(blank) == {}


@pytest.mark.parametrize("failure", [KeyboardInterrupt(), SystemExit(143), InputError("a.en:3: is not valid UTF-8")])
def test_what_ends_the_lines_ends_the_training(failure):
    def lines():
        yield from TEXT
        raise failure

    with pytest.raises(type(failure)) as caught:
        trained(lines())
    assert caught.value is failure


def test_symbols_are_those_that_were_asked_for():
    assert trained(symbols=("<BT>", "__X__")).symbols() == {"<BT>", "__X__"}
    assert trained().symbols() == frozenset()
    assert trained(model_type="word", vocab_size=20).symbols() == frozenset()


@pytest.mark.parametrize(
    ("lines", "options", "message"),
    [
        (TEXT, {"model_type": "char", "vocab_size": 100}, "tokenizer.vocab_size: 100 is too small: 256 bytes and four"),
        (["\u4e00" * 6_000], {}, f"has no line with text in it that is shorter than {MAX_TRAINING_BYTES:,} bytes"),
        ([" ", ""], {}, "the tokenizer cannot be trained: the training text has no line with text in it"),
    ],
)
def test_what_cannot_be_trained_is_said_in_our_words(lines, options, message):
    with pytest.raises(InputError, match=re.escape(message)):
        trained(lines, **options)
