"""Vectors from a file, by piece."""

import re

import pytest
import torch
from torch import nn

from nmt_cli.data.embeddings import check_embeddings, load_embeddings
from nmt_cli.model.build import freeze_rows
from nmt_cli.system.errors import InputError

PIECES = ["<unk>", "\u2581the", "the", "x", "\u2581is"]


def load(tmp_path, text):
    table = nn.Parameter(torch.zeros(len(PIECES), 2))
    (tmp_path / "vectors").write_text(text)
    return load_embeddings(tmp_path / "vectors", PIECES, table), table


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("the 1 1\n", {1: 1.0, 2: 1.0}),
        ("the 1 1\nthe 2 2\n", {1: 1.0, 2: 1.0}),
        ("the 1 1\n\u2581the 2 2\n", {1: 2.0, 2: 1.0}),
        ("\u2581the 2 2\nthe 1 1\n", {1: 2.0, 2: 1.0}),
        ("9 2\nis 3 3\nx 4 4\nno 5 5\n", {3: 4.0, 4: 3.0}),
        (". . . 6 6\nat name 7 7\nx 4 4\n", {3: 4.0}),
    ],
)
def test_a_word_is_that_of_the_piece_and_of_the_piece_that_begins_it(tmp_path, text, expected):
    found, table = load(tmp_path, text)
    assert found == sorted(expected)
    assert table.tolist() == [[expected.get(row, 0.0)] * 2 for row in range(len(PIECES))]


def test_frozen_rows_get_no_gradient(tmp_path):
    found, table = load(tmp_path, "the 1 1\n")
    freeze_rows(table, found)
    table.sum().backward()
    assert table.grad.tolist() == [[1.0] * 2, [0.0] * 2, [0.0] * 2, [1.0] * 2, [1.0] * 2]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "the 1 1\nis 1\n",
            (
                "vectors:2: has 1 numbers after the word, but model.embedding_size is 2; set it to 1, or take other "
                "vectors"
            ),
        ),
        (
            "the 1 1\nis 1 2 3\n",
            (
                "vectors:2: has 3 numbers after the word, but model.embedding_size is 2; set it to 3, or take other "
                "vectors"
            ),
        ),
        ("the 1 nan\n", "vectors:1: has a number that is not finite; remove the line, or take other vectors"),
        ("the 1 1e999\n", "vectors:1: has a number that is not finite; remove the line, or take other vectors"),
        ("the 1 one\n", "vectors:1: 'one' is not a number; a line is a word and its numbers"),
    ],
)
def test_what_is_wrong_with_a_line_is_said(tmp_path, text, message):
    with pytest.raises(InputError, match=re.escape(message)):
        load(tmp_path, text)


def test_the_size_is_seen_in_the_first_line(tmp_path):
    (tmp_path / "vectors").write_text("9 3\nthe 1 1 1\nis 1\n")
    check_embeddings(tmp_path / "vectors", 3)
    with pytest.raises(InputError, match=r"vectors:2: has 3 numbers after the word, but model\.embedding_size is 4"):
        check_embeddings(tmp_path / "vectors", 4)
