"""Shards, parts and records, with a translator that turns letters into capitals, in this process."""

from __future__ import annotations

import gzip
import json
import os
import random
from pathlib import Path

import pytest

from nmt_cli.data.lines import decode_line
from nmt_cli.system.errors import InputError, NmtError
from nmt_cli.translation import shards
from nmt_cli.translation.json_lines import JsonField
from nmt_cli.translation.shards import FOLDER, BulkTranslation, Part, cut_into_parts

CONDITIONS = {"model": "0123", "beam_size": 5}
FIELD = JsonField("text", "translation")


def begin(
    directory: Path, *sources: Path, part_lines: int = 3, field: JsonField | None = FIELD, **changed
) -> BulkTranslation:
    directory.mkdir(exist_ok=True)
    (directory / FOLDER).mkdir(exist_ok=True)
    return BulkTranslation(directory, sources, {**CONDITIONS, **changed}, part_lines=part_lines, json_field=field)


def work(corpus: BulkTranslation, most: int | None = None, seed: int = 1) -> list[str]:
    """Do so many parts, in any order; returns which."""
    parts = list(corpus.parts())
    random.Random(seed).shuffle(parts)
    for part in parts[:most]:
        corpus.write_part(part, [line.decode(errors="replace").upper().encode() + b"\n" for line in corpus.texts(part)])
    return [str(part) for part in parts[:most]]


def refusal(directory: Path, *sources: Path, **how) -> str:
    with pytest.raises(InputError) as caught:
        begin(directory, *sources, **how)
    return str(caught.value)


def left_in(directory: Path) -> set[str]:
    return {str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()}


@pytest.fixture
def sources(tmp_path: Path) -> list[Path]:
    contents = {
        "a.txt": b"".join(b"line %d\n" % number for number in range(10)),
        "empty": b"",
        "open": b"one\ntwo",
        "odd": b"\n \x00\r\nx\xff\xfe\n" + "a\u2028b\u0085c\n".encode(),
        "z.gz": gzip.compress(b"packed\n" * 7),
        "j.jsonl": b'{"n": 1.50, "text": "first"}\n {"text": "a }\\n b", "z": [1e5]} \r\n',
    }
    folder = tmp_path / "in"
    folder.mkdir()
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    return [folder / name for name in contents]


EXPECTED = {
    "a.txt": b"".join(b"LINE %d\n" % number for number in range(10)),
    "empty": b"",
    "open": b"ONE\nTWO\n",
    "odd": "\n \x00\r\nX\ufffd\ufffd\nA\u2028B\u0085C\n".encode(),
    "z.gz": b"PACKED\n" * 7,
    "j.jsonl": b'{"n": 1.50, "text": "first", "translation": "FIRST"}\n'
    b' {"text": "a }\\n b", "z": [1e5], "translation": "A }\\n B"} \r\n',
}


def check_outputs(directory: Path) -> None:
    for name, content in EXPECTED.items():
        found = (directory / name).read_bytes()
        assert (gzip.decompress(found) if name.endswith(".gz") else found) == content, name


@pytest.mark.parametrize("part_lines", [1, 3, 10, 4096])
def test_each_input_gives_one_output_line_by_line_whatever_the_parts_and_their_order(tmp_path, sources, part_lines):
    """Fails if parts are joined in the order in which they came."""
    corpus = begin(tmp_path / "out", *sources, part_lines=part_lines)
    assert corpus.num_lines == 10 + 2 + 4 + 7 + 2
    work(corpus)
    corpus.close()
    check_outputs(tmp_path / "out")
    assert left_in(tmp_path / "out") == {*EXPECTED, f"{FOLDER}/record.json"}


def test_stopped_after_any_number_of_parts_it_goes_on_and_does_no_part_twice(tmp_path, sources):
    """Fails if the parts that are there are not looked for."""
    total = begin(tmp_path / "whole", *sources).num_parts
    for stop in range(total + 1):
        directory = tmp_path / f"out-{stop}"
        first = work(begin(directory, *sources), stop, seed=stop)
        again = begin(directory, *sources)
        assert again.num_parts == total - stop
        second = work(again)
        assert len({*first, *second}) == len(first) + len(second) == total
        again.close()
        check_outputs(directory)
        finished = begin(directory, *sources)
        assert (finished.num_parts, finished.num_skipped) == (0, len(sources))


def test_a_shard_is_absent_until_it_is_whole(tmp_path, sources):
    corpus = begin(tmp_path / "out", sources[0])
    parts = list(corpus.parts())
    for part in parts:
        assert not (tmp_path / "out/a.txt").exists()
        corpus.write_part(part, [b"x\n"] * len(part.lines))
    assert (tmp_path / "out/a.txt").read_bytes() == b"x\n" * 10


@pytest.mark.parametrize("moment", ["before the rename", "after the rename", "while joining"])
def test_killed_while_a_shard_is_put_in_its_place_it_is_whole_or_made_again(tmp_path, sources, monkeypatch, moment):
    """Fails if a shard counts as finished before its file is in its place, or a leaving of the first try stays."""

    def die(*_):
        raise KeyboardInterrupt

    corpus = begin(tmp_path / "out", sources[0])
    with monkeypatch.context() as broken:
        if moment == "before the rename":
            broken.setattr(os, "replace", _replace_but(die, tmp_path / "out/a.txt"))
        elif moment == "after the rename":
            broken.setattr(shards, "remove_directory", die)
        else:
            broken.setattr(shards, "open_output", die)
        with pytest.raises(KeyboardInterrupt):
            work(corpus)
    (tmp_path / "out" / FOLDER / "joined").mkdir(exist_ok=True)
    (tmp_path / "out" / FOLDER / "joined/.a.txt.0123456789abcdef.tmp").write_bytes(b"torn")
    (tmp_path / "out" / FOLDER / "parts/a.txt").mkdir(exist_ok=True, parents=True)
    (tmp_path / "out" / FOLDER / "parts/a.txt/.00000001.0123456789abcdef.tmp").write_bytes(b"torn")
    again = begin(tmp_path / "out", sources[0])
    work(again)
    again.close()
    assert (tmp_path / "out/a.txt").read_bytes() == EXPECTED["a.txt"]
    assert left_in(tmp_path / "out") == {"a.txt", f"{FOLDER}/record.json"}


def _replace_but(die, target: Path):
    replace = os.replace

    def replaced(source, destination):
        return die() if Path(destination) == target else replace(source, destination)

    return replaced


def test_more_inputs_may_come_later_and_a_moved_input_is_the_same(tmp_path, sources):
    """Fails if the input is looked for in the place that the record names."""
    work(begin(tmp_path / "out", *sources[:2]), 1)
    moved = tmp_path / "elsewhere"
    sources[0].parent.rename(moved)
    corpus = begin(tmp_path / "out", *(moved / source.name for source in sources))
    work(corpus)
    check_outputs(tmp_path / "out")


def test_parts_end_at_a_number_of_bytes_too(monkeypatch):
    monkeypatch.setattr(shards, "MAX_PART_BYTES", 5)
    assert [len(part) for part in cut_into_parts([b"ab", b"cde", b"", b"f", b"g" * 9, b"h"], 3)] == [2, 3, 1]


def test_what_was_begun_otherwise_is_not_gone_on_with(tmp_path, sources):
    begin(tmp_path / "out", *sources)
    directory = tmp_path / "out"
    advice = "Give the options of the first time, or choose another --output"
    assert refusal(directory, *sources, model="4567", beam_size=3) == (
        f"{directory}: was begun with other options: --model or --checkpoint, --beam-size (was 5). {advice}"
    )
    assert refusal(directory, *sources, part_lines=4) == (
        f"{directory}: was begun with other options: --part-lines (was 3). {advice}"
    )
    other = JsonField("text", "out")
    assert "--output-field (was translation)" in refusal(directory, *sources, field=other)
    (directory / FOLDER / "record.json").write_text("{")
    assert "record.json: is damaged" in refusal(directory, *sources)


@pytest.mark.parametrize("num_lines", [5, 6, 11])
def test_an_input_that_has_changed_is_refused_before_a_part_of_it_is_taken(tmp_path, sources, num_lines: int):
    """Cut off within a part, cut off between two, and longer."""
    corpus = begin(tmp_path / "out", sources[0])
    sources[0].write_bytes((b"other\n" * 20)[: num_lines * 6])
    taken: list[Part] = []
    with pytest.raises(InputError) as caught:
        taken.extend(corpus.parts())
    assert all(len(part.lines) == part.shard.part_lines[part.number] for part in taken)
    message = f"{sources[0]}: has changed since its translation began; choose another --output"
    assert str(caught.value) == message
    assert refusal(tmp_path / "out", sources[0]) == message


def test_a_shard_whose_input_has_changed_is_not_put_in_its_place(tmp_path, sources):
    corpus = begin(tmp_path / "out", sources[0])
    *parts, last = corpus.parts()
    for part in parts:
        corpus.write_part(part, [b"x\n"] * len(part.lines))
    sources[0].write_bytes(sources[0].read_bytes().replace(b"1", b"2"))
    os.utime(sources[0], ns=(0, 0))
    with pytest.raises(InputError, match="has changed since its translation began"):
        corpus.write_part(last, [b"x\n"] * len(last.lines))
    assert not (tmp_path / "out/a.txt").exists()


def test_a_file_of_somebody_else_is_not_overwritten(tmp_path, sources):
    directory = tmp_path / "out"
    directory.mkdir()
    (directory / "a.txt").write_text("mine")
    assert refusal(directory, *sources) == (
        f"{directory / 'a.txt'}: exists and was not made here, so it is not overwritten; move it away or choose "
        "another --output"
    )
    assert refusal(sources[0].parent, sources[0]).startswith(f"{sources[0]}: exists and was not made here")
    corpus = begin(directory, sources[2])
    (directory / "open").write_text("mine too")
    with pytest.raises(InputError, match="another program made this file meanwhile"):
        work(corpus)
    assert (directory / "a.txt").read_text() == "mine"
    assert (directory / "open").read_text() == "mine too"


def test_a_file_of_somebody_else_is_no_finished_shard_for_a_run_that_goes_on(tmp_path, sources):
    directory = tmp_path / "out"
    corpus = begin(directory, sources[0])
    work(corpus, 2)
    parts = sorted((directory / FOLDER / "parts/a.txt").iterdir())
    (directory / "a.txt").write_text("mine")
    with pytest.raises(InputError, match=r"a\.txt: another program made this file meanwhile\. Move it away and run"):
        work(begin(directory, sources[0]))
    assert (directory / "a.txt").read_text() == "mine"
    assert sorted((directory / FOLDER / "parts/a.txt").iterdir()) == parts
    (directory / "a.txt").unlink()
    work(begin(directory, sources[0]))
    assert (directory / "a.txt").read_bytes() == sources[0].read_bytes().upper()


def test_parts_of_a_shard_that_is_in_its_place_are_removed(tmp_path, sources):
    """As after a kill between the two."""
    directory = tmp_path / "out"
    work(begin(directory, sources[0]))
    folder = directory / FOLDER / "parts/a.txt"
    folder.mkdir()
    for number in range(4):
        (folder / f"{number:08d}").touch()
    assert work(begin(directory, sources[0])) == []
    assert not folder.exists()
    assert (directory / "a.txt").read_bytes() == sources[0].read_bytes().upper()


def test_inputs_of_one_name_are_refused(tmp_path, sources):
    (tmp_path / "two").mkdir()
    other = tmp_path / "two/a.txt"
    other.write_text("x\n")
    assert refusal(tmp_path / "out", sources[0], other).startswith(f"{sources[0]} and {other}: have the same name")


def test_a_pipe_is_refused(tmp_path):
    assert refusal(tmp_path / "out", Path("-")) == "standard input: is not a regular file, and inputs are read twice"
    os.mkfifo(tmp_path / "pipe")
    assert (
        refusal(tmp_path / "out", tmp_path / "pipe")
        == f"{tmp_path / 'pipe'}: is not a regular file, and inputs are read twice"
    )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"{", "is not valid JSON: "),
        (b"", "is not valid JSON: "),
        (b'{"text": "\xff"}', "is not valid JSON: "),
        (b"[" * 100_000, "is not valid JSON: "),
        (b"[1]", "is not a JSON object"),
        (b'{"a": "b"}', "the field 'text' is missing; --field NAME says which is translated"),
        (b'{"text": null}', "the field 'text' is not a string; --field NAME says which is translated"),
        (b'{"text": "a", "translation": "b"}', "has the field 'translation' already; choose another --output-field"),
    ],
)
def test_a_wrong_line_of_json_is_named_before_anything_is_translated(tmp_path, line: bytes, message: str):
    source = tmp_path / "x.jsonl"
    source.write_bytes(b'{"text": "good"}\n' * 4 + line + b"\n")
    assert refusal(tmp_path / "out", source).startswith(f"{source}:5: {message}")
    assert left_in(tmp_path / "out") == set()


def test_json_lines_need_the_name_of_a_field(tmp_path, sources):
    assert refusal(tmp_path / "out", sources[-1], field=None) == (
        f"{sources[-1]}: --field NAME must say which field of the JSON lines is translated"
    )


def test_what_is_added_to_a_line_of_json_is_json(tmp_path):
    line = b'{"text": "\\ud800 x"}'
    assert json.loads(FIELD.output_line(line, 'say "\\" \u2028\n'.encode()))["translation"] == 'say "\\" \u2028'
    assert decode_line(FIELD.text(line)) == ("\ufffd\ufffd\ufffd x", False)  # so that it is counted as invalid


def test_a_damaged_part_is_named(tmp_path, sources):
    corpus = begin(tmp_path / "out", sources[0])
    *parts, last = corpus.parts()
    for part in parts:
        corpus.write_part(part, [b"x\n"] * len(part.lines))
    damaged = tmp_path / "out" / FOLDER / "parts/a.txt/00000001"
    damaged.write_bytes(b"x\n")
    with pytest.raises(NmtError) as caught:
        corpus.write_part(last, [b"x\n"] * len(last.lines))
    assert str(caught.value) == f"{damaged}: is damaged; remove it and run the same command again"


def test_a_directory_is_held_against_a_second_program(tmp_path):
    directory = tmp_path / "out"
    with BulkTranslation.lock(directory), pytest.raises(InputError) as caught, BulkTranslation.lock(directory):
        pass
    said = str(caught.value)
    assert said.startswith(f"{directory / FOLDER}: is in use by process {os.getpid()} on ")
    assert said.endswith("; wait for it or choose another --output")
    (tmp_path / "file").touch()
    with (
        pytest.raises(InputError, match=r"--output .*: is a file; give a directory"),
        BulkTranslation.lock(tmp_path / "file"),
    ):
        pass
