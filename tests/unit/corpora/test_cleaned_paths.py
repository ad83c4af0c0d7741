"""The names of the files that cleaning writes."""

import pytest

from nmt_cli.corpora.filter_pairs import cleaned_paths


@pytest.mark.parametrize(
    ("texts", "endings"),
    [
        (("a.en", "a.de"), (".en", ".de")),
        (("a.en.gz", "b.de"), (".en.gz", ".de")),
        (("a.txt", "b.txt"), (".source.txt", ".target.txt")),
        (("a", "a.de"), (".source", ".de")),
        (("a", "b"), (".source", ".target")),
        (("a", "b.source"), (".source", ".target.source")),
        (("a",), (".txt",)),
        (("a.gz",), (".gz",)),
    ],
)
def test_each_side_keeps_its_ending_if_that_tells_them_apart(texts, endings):
    assert [str(path) for path in cleaned_paths(texts, "made")] == [f"made{one}" for one in (*endings, ".dropped.tsv")]
