"""Properties of text on its way through pieces, for whatever text there is."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt_cli.config.loader import dump_config, parse_yaml, validate
from nmt_cli.data import phrasebook
from nmt_cli.data.tokenizer import Tokenizer, segments, train_tokenizer
from nmt_cli.errors import ConfigError

BOOK = phrasebook.generate(seed=3, num_train=300, num_dev=1, num_test=1).train
TEXT = [text for pair in BOOK for text in (pair.source, pair.target)]
LINES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n"), max_size=60)


@pytest.fixture(scope="module", params=["unigram", "bpe", "char", "word"])
def tokenizer(request) -> Tokenizer:
    return train_tokenizer(
        TEXT, model_type=request.param, vocab_size=400, normalization="identity", character_coverage=1.0
    )


@given(line=LINES)
@settings(max_examples=150, deadline=None)
def test_words_of_pieces_rise_and_stay_inside_the_line(tokenizer: Tokenizer, line: str):
    pieces = tokenizer.encode_words(line)
    assert pieces.num_words == len(line.split())
    assert list(pieces.ids) == tokenizer.encode(line)
    assert list(pieces.words) == sorted(pieces.words)
    assert all(0 <= word < max(1, pieces.num_words) for word in pieces.words)


@given(line=LINES)
@settings(max_examples=150, deadline=None)
def test_no_character_is_lost_but_white_space_is_joined(tokenizer: Tokenizer, line: str):
    if not tokenizer.spells_bytes:
        return
    # Identity normalisation still joins spaces; SentencePiece's own space mark stands for one.
    line = line.replace("▁", "_")
    assert tokenizer.decode(tokenizer.encode(line)).split() == line.split()


@given(line=LINES, length=st.integers(1, 20))
@settings(max_examples=150, deadline=None)
def test_a_line_in_segments_has_the_pieces_of_the_whole_and_comes_back_from_them(tokenizer: Tokenizer, line, length):
    """Breaks where a segment ends inside a word."""
    if not tokenizer.spells_bytes:
        return  # neighbouring unknown words are one piece
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nmt_cli.data.tokenizer.SEGMENT_LENGTH", length)
        ids = [id_ for segment in segments(line) for id_ in tokenizer.encode(segment)]
        assert ids == tokenizer.encode(line)
        pieces = " ".join(tokenizer.pieces(ids))
        parts = [tokenizer.decode(tokenizer.ids_of(part.split())) for part in segments(pieces, " ▁")]
    assert " ".join(filter(None, parts)).split() == tokenizer.decode(tokenizer.ids_of(pieces.split())).split()


@given(ids=st.lists(st.integers(4, 399), max_size=30))
@settings(max_examples=150, deadline=None)
def test_any_pieces_decode_to_one_line(tokenizer: Tokenizer, ids: list[int]):
    allowed = [id_ for id_ in ids if id_ < tokenizer.vocab_size]
    text, pieces = tokenizer.decode_words(allowed)
    assert "\n" not in text
    assert "\n" not in tokenizer.decode(allowed)
    assert len(pieces.ids) == len(pieces.words)


@pytest.mark.parametrize("model_type", ["unigram", "bpe", "char"])
def test_a_symbol_is_one_piece_wherever_it_stands_and_comes_back(model_type):
    with_symbol = train_tokenizer(
        TEXT, model_type=model_type, vocab_size=400, normalization="identity", character_coverage=1.0,
        symbols=["<BT>", "a,b"],
    )  # fmt: skip
    for symbol in ("<BT>", "a,b"):
        for line in (f"{symbol} Where is it?", f"Where{symbol}is it?", symbol):
            assert symbol in with_symbol.pieces(with_symbol.encode(line))
            assert with_symbol.decode(with_symbol.encode(line)) == line
    assert with_symbol.encode_words("Where <BT> is").num_words == 3


@given(value=st.recursive(st.text(max_size=8) | st.integers() | st.booleans() | st.floats(allow_nan=False), st.lists))
@settings(max_examples=100, deadline=None)
def test_any_values_in_a_configuration_are_refused_as_a_configuration_error(value):
    with pytest.raises(ConfigError):
        validate({"name": value, "data": value, "training": {"batch_size": value}}, "here")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("no", "no"), ("12:30", "12:30"), ("1e-3", 1e-3), ("0o17", 15), ("017", 17), ("~", None), ("true", True),
        ("yes", "yes"), ("1_000", "1_000"), (".5", 0.5), ("0x1F", 31), ("2001-01-01", "2001-01-01"), ("1.", 1.0),
    ],
)  # fmt: skip
def test_values_are_those_of_yaml_1_2(text: str, value: object):
    found = parse_yaml(text, "here")
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: &x 1\nb: *x", "here:2:4: not valid YAML: aliases are not supported"),
        ("a: 1\na: 2", "here:2:1: not valid YAML: the key 'a' stands twice"),
        ("a: !!python/object/apply:os.system [x]", "tags such as !!python/object/apply:os.system are not supported"),
        ("a: [1", "here:"),
        ("[" * 3000, "too deeply nested"),
    ],
)
def test_yaml_that_is_not_a_configuration_is_refused_with_its_place(text: str, message: str):
    with pytest.raises(ConfigError) as error:
        parse_yaml(text, "here")
    assert message in str(error.value)


def test_a_configuration_written_out_is_read_back_equal():
    values = {
        "name": "1e-3", "model_dir": "no", "seed": 3,
        "data": {"source_lang": "no", "target_lang": "null", "train": [{"source": "12:30", "target": "0x1"}]},
        "training": {"epsilon": 1e-9, "learning_rate": 2.0},
    }  # fmt: skip
    config = validate(values, "here")
    assert validate(parse_yaml(dump_config(config), "written"), "written") == config
