"""Tables for the terms of a glossary that depend on the tokenizer alone are made once."""

from __future__ import annotations

from collections import Counter

import pytest

from nmt_cli.data.tokenizer import Tokenizer, train_tokenizer
from nmt_cli.translation import terms
from nmt_cli.translation.glossary import Glossary
from nmt_cli.translation.prefix import PieceIndex
from nmt_cli.translation.terms import TermFinder


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
    spellings = Tokenizer.spellings

    def counting(tokenizer: Tokenizer):
        counts["spellings"] += 1
        return spellings(tokenizer)

    monkeypatch.setattr(Tokenizer, "spellings", counting)
    return counts


def finder(tokenizer: Tokenizer, term: str) -> TermFinder:
    """Return the finder of a request."""
    return TermFinder((tokenizer, tokenizer), Glossary.of_lines("glossary", [f"{term}\tdog".encode()]))


def used(found: TermFinder) -> tuple[object, ...]:
    return found.inside_words, found.finals, found.digits, found.words(range(4, 40))


def test_the_glossaries_of_two_requests_share_their_tables(tokenizer: Tokenizer, num_made: Counter[str]):
    first = used(finder(tokenizer, "cat"))
    num_before = num_made["spellings"]
    assert num_before
    assert used(finder(tokenizer, "car")) == first
    assert num_made["spellings"] == num_before


def test_the_tables_of_a_request_are_those_of_its_tokenizer(tokenizer: Tokenizer):
    used(finder(tokenizer, "cat"))
    found = finder(tokenizer, "car")
    assert found.inside_words == terms.inside_words(tokenizer)
    assert found.finals == terms.finals(tokenizer)
    spelt = [(spelling or b"").decode(errors="ignore") for spelling in tokenizer.spellings()]
    assert found.digits == tuple(id_ for id_, text in enumerate(spelt) if any(map(str.isdecimal, text)))
    other = train_tokenizer(
        iter(["x y z 1"] * 9), model_type="bpe", vocab_size=265, normalization="identity", character_coverage=1.0
    )
    assert finder(other, "y").inside_words == terms.inside_words(other) != found.inside_words


def test_the_pieces_of_two_prefixes_are_sorted_once(tokenizer: Tokenizer, num_made: Counter[str]):
    assert tokenizer.once(PieceIndex) is tokenizer.once(PieceIndex)
    assert num_made["spellings"] == 1
