"""Properties of text on its way through pieces, for whatever text there is."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pieces import decode_words
from sentencepiece import SentencePieceProcessor

from nmt_cli.config.loader import dump_config, validate
from nmt_cli.config.yaml_text import parse_yaml
from nmt_cli.data.tokenizer import UNK, Tokenizer, segments, train_tokenizer
from nmt_cli.demo import phrasebook
from nmt_cli.system.errors import ConfigError

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


def words_of(raw: bytes, begin: int, end: int) -> list[int]:
    """The slow truth: the words of which a stretch of bytes holds a part, or the next where it holds none."""
    text = raw.decode()
    spans = [
        (len(text[: word.start()].encode()), len(text[: word.end()].encode())) for word in re.finditer(r"\S+", text)
    ]
    following = sum(word_end <= begin for _, word_end in spans)
    touched = [number for number, (first, last) in enumerate(spans) if first < end and last > begin]
    return touched or [max(0, min(following, len(spans) - 1))]


ODD = st.lists(
    st.sampled_from(
        ["the house", "Zzyx", "é", "e\u0301", "日本", "🎈", "ﬁ", "①", "½", "İ", "▁", "<unk>", "</s>", "<0x41>"]
    )
    | st.sampled_from(list(" \0\t\r\x0b\x1c\x85\xa0\u200b\u2028\u3000\ufeff\ufffd\U0010ffff")),
    max_size=12,
).map("".join)


@pytest.mark.parametrize("normalization", ["identity", "nmt_nfkc"])
@pytest.mark.parametrize("model_type", ["unigram", "bpe", "char", "word"])
def test_pieces_stand_in_the_words_where_the_protocol_buffers_of_sentencepiece_have_them(model_type, normalization):
    """It counts bytes there, and needs protobuf, which the package does without."""
    tokenizer = train_tokenizer(
        TEXT, model_type=model_type, vocab_size=400, normalization=normalization, character_coverage=1.0
    )
    processor = SentencePieceProcessor(model_proto=tokenizer.model)

    def words(proto):
        return [(piece.id, words_of(proto.text.encode(), piece.begin, piece.end)) for piece in proto.pieces]

    @given(line=LINES | ODD)
    @settings(max_examples=150, deadline=None)
    def same_of_text(line: str):
        truth = words(processor.encode(line, return_type="proto"))
        found = tokenizer.encode_words(line)
        assert list(zip(found.ids, found.words, strict=True)) == [(id_, where[0]) for id_, where in truth]
        unknown = [where for id_, where in truth if id_ == UNK and len(where) > 1]
        assert tokenizer.unknown_runs(line) == {where[0]: where[-1] + 1 for where in unknown}

    @given(ids=st.lists(st.integers(0, tokenizer.vocab_size - 1), max_size=30))
    @settings(max_examples=150, deadline=None)
    def same_of_pieces(ids: list[int]):
        truth = processor.decode(ids, return_type="proto")
        text, found = decode_words(tokenizer, ids)
        assert text == truth.text.replace("\n", " ")
        assert found.num_words == len(truth.text.split())
        assert list(zip(found.ids, found.words, strict=True)) == [(id_, where[0]) for id_, where in words(truth)]

    same_of_text()
    same_of_pieces()


@given(line=LINES)
@settings(max_examples=150, deadline=None)
def test_no_character_is_lost_but_white_space_is_joined(tokenizer: Tokenizer, line: str):
    if not tokenizer.has_byte_fallback:
        return
    # Identity normalisation still joins spaces; SentencePiece's own space mark stands for one.
    line = line.replace("▁", "_")
    assert tokenizer.decode(tokenizer.encode(line)).split() == line.split()


@given(line=LINES, length=st.integers(1, 20))
@settings(max_examples=150, deadline=None)
def test_a_line_in_segments_has_the_pieces_of_the_whole_and_comes_back_from_them(tokenizer: Tokenizer, line, length):
    """Fails if a segment ends inside a word."""
    if not tokenizer.has_byte_fallback:
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
    text, pieces = decode_words(tokenizer, allowed)
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
        ("a: 1\nb: *x", "here:2:4: not valid YAML: found undefined alias 'x'"),
        ("a: 1\na: 2", 'here:2:1: not valid YAML: the key "a" is given twice'),
        ("1: a\ntrue: b\n1: c", "here:3:1: not valid YAML: the key 1 is given twice"),
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
