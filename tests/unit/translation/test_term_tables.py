"""Tables for the terms of a glossary that depend on the tokenizer alone are made once."""

from __future__ import annotations

from collections import Counter

import pytest

from nmt_cli.data.tokenizer import Tokenizer, train_tokenizer
from nmt_cli.translation import terms
from nmt_cli.translation.glossary import Glossary
from nmt_cli.translation.prefix import PieceIndex
from nmt_cli.translation.terms import TermEncoder


@pytest.fixture
def tokenizer() -> Tokenizer:
    lines = ["the red dog sees 3 cats.", "a man has 20 dogs!", "she saw a red car."] * 20
    return train_tokenizer(
        iter(lines), model_type="bpe", vocab_size=320, normalization="nmt_nfkc", character_coverage=1.0
    )


@pytest.fixture
def num_made(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often all pieces of a tokenizer have been spelt."""
    counts: Counter[str] = Counter()
    piece_bytes = Tokenizer.piece_bytes

    def counting(tokenizer: Tokenizer):
        counts["piece_bytes"] += 1
        return piece_bytes(tokenizer)

    monkeypatch.setattr(Tokenizer, "piece_bytes", counting)
    return counts


def finder(tokenizer: Tokenizer, term: str) -> TermEncoder:
    """Return the finder of a request."""
    return TermEncoder((tokenizer, tokenizer), Glossary.of_lines("glossary", [f"{term}\tdog".encode()]))


def used(found: TermEncoder) -> tuple[object, ...]:
    return found.continuation_pieces, found.sentence_terminals, found.digits, found.words(range(4, 40))


def test_the_glossaries_of_two_requests_share_their_tables(tokenizer: Tokenizer, num_made: Counter[str]):
    first = used(finder(tokenizer, "cat"))
    num_before = num_made["piece_bytes"]
    assert num_before
    assert used(finder(tokenizer, "car")) == first
    assert num_made["piece_bytes"] == num_before


def test_the_tables_of_a_request_are_those_of_its_tokenizer(tokenizer: Tokenizer):
    used(finder(tokenizer, "cat"))
    found = finder(tokenizer, "car")
    assert found.continuation_pieces == terms.continuation_pieces(tokenizer)
    assert found.sentence_terminals == terms.sentence_terminals(tokenizer)
    spelt = [(spelling or b"").decode(errors="ignore") for spelling in tokenizer.piece_bytes()]
    assert found.digits == tuple(id_ for id_, text in enumerate(spelt) if any(map(str.isdecimal, text)))
    other = train_tokenizer(
        iter(["x y z 1"] * 9), model_type="bpe", vocab_size=265, normalization="identity", character_coverage=1.0
    )
    assert finder(other, "y").continuation_pieces == terms.continuation_pieces(other) != found.continuation_pieces


def test_the_pieces_of_two_prefixes_are_sorted_once(tokenizer: Tokenizer, num_made: Counter[str]):
    assert tokenizer.compute_once(PieceIndex) is tokenizer.compute_once(PieceIndex)
    assert num_made["piece_bytes"] == 1
