"""The place where files with unequal numbers of lines part; the truth is where a line was taken out or doubled."""

import functools
import gzip
import subprocess

import pytest
from marks import others_slow

from nmt_cli.corpora import unequal_files
from nmt_cli.corpora.unequal_files import first_mismatch
from nmt_cli.demo import phrasebook


@functools.cache
def pairs():
    return [(pair.source.encode(), pair.target.encode()) for pair in phrasebook.generate(seed=3, num_train=3_000).train]


def write(directory, sources, targets):
    paths = [str(directory / "a b.en"), str(directory / "a b.fr")]
    for path, texts in zip(paths, (sources, targets), strict=True):
        with open(path, "wb") as file:
            file.write(b"".join(text + b"\n" for text in texts))
    return paths, [len(sources), len(targets)]


def sides():
    return [source for source, _ in pairs()], [target for _, target in pairs()]


@pytest.mark.parametrize("row", [30, 1_500, 2_900])
@pytest.mark.parametrize("what", ["a target is missing", "a target is doubled", "forty sources are missing"])
def test_the_place_is_found_wherever_it_is(tmp_path, row, what):
    sources, targets = sides()
    if what == "a target is missing":
        del targets[row]
    elif what == "a target is doubled":
        targets.insert(row, targets[row])
    else:
        del sources[row : row + 40]
    part = first_mismatch(*write(tmp_path, sources, targets))
    assert not part.is_at_end
    assert abs(part.line - (row + 1)) <= 20


@pytest.mark.parametrize("every", others_slow(2, 1, 5))
def test_of_a_large_corpus_a_part_of_the_blocks_leads_to_the_place(tmp_path, monkeypatch, every):
    monkeypatch.setattr(unequal_files, "BLOCK", 100)
    monkeypatch.setattr(unequal_files, "MAX_EXAMINED", 3_000 // every)
    for row in (30, 650, 2_900):
        sources, targets = sides()
        del targets[row]
        part = first_mismatch(*write(tmp_path, sources, targets))
        assert abs(part.line - (row + 1)) <= 20, row


def test_lines_at_the_end_of_one_file_are_told_from_a_shift(tmp_path):
    sources, targets = sides()
    part = first_mismatch(*write(tmp_path, sources, [*targets, b"", b""]))
    assert (part.is_at_end, part.line) == (True, len(pairs()) + 1)
    assert "up to the end of the shorter file" in str(part)


def test_the_command_shows_the_place_and_works_as_it_is_printed(tmp_path):
    sources, targets = sides()
    del targets[1_500]
    paths, counts = write(tmp_path, sources, targets)
    shown = b"%b\t%b" % (sources[1_500], targets[1_500])
    command = first_mismatch(paths, counts).command
    assert shown in subprocess.run(["bash", "-c", command], capture_output=True, check=True).stdout.split(b"\n")
    for number, path in enumerate(paths):
        with open(path, "rb") as plain, gzip.open(f"{path}.gz", "wb") as packed:
            packed.write(plain.read())
        paths[number] = f"{path}.gz"
    command = first_mismatch(paths, counts).command
    assert shown in subprocess.run(["bash", "-c", command], capture_output=True, check=True).stdout.split(b"\n")


def test_words_that_say_nothing_name_no_place(tmp_path):
    assert first_mismatch(*write(tmp_path, [b"a"] * 10, [b"b"] * 9)) is None
    assert first_mismatch(*write(tmp_path, [b"a"] * 10, [])) is None
