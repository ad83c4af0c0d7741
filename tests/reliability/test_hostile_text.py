"""Whatever bytes come in: as many lines come out, in order, in bounded memory, with the contract's exit codes."""

from __future__ import annotations

import gzip
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command_line import Result, run_here, start_nmt
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from marks import others_slow

from nmt_cli.formats.recognise import detect_non_text

QUICK = settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
MANY = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
GIGABYTE = 2**30

NASTY = [
    "", " ", "\t", "\r", "a\r", "\x00", "\u2028", "\u0085", "\ufeff", "\u200b", "\U0001f600", "|||", "a ||| b", "<s>",
    "</s>", "<unk>", "<0x0A>", "▁", "\\n", "é" * 50, "e\u0301" * 20, "\u202e abc", "[[", "{}", "-", "a" * 3000,
    "x y " * 200,
]  # fmt: skip
WORDS = ["Where", "is", "the", "station", "?", "house", "old", "."]
lines = st.lists(
    st.binary(max_size=40)
    | st.sampled_from(NASTY).map(lambda text: text.encode("utf-8", "surrogatepass"))
    | st.text(max_size=30).map(lambda text: text.encode("utf-8", "replace"))
    | st.lists(st.sampled_from(WORDS), max_size=12).map(lambda words: " ".join(words).encode()),
    max_size=8,
)
files = st.builds(lambda some, end: b"\n".join(some) + end, lines, st.sampled_from([b"", b"\n", b"\n\n"]))
FORMATS = [
    (), ("--format", "jsonl"), ("--format", "jsonl", "--alignment", "soft"), ("--alignment", "hard"),
    ("--alignment", "soft"), ("--n-best", "2"), ("--sample",), ("--markup",), ("--copy-unknown",),
    ("--no-repeat-ngram", "2"), ("--beam-size", "1", "--batch-tokens", "1"),
]  # fmt: skip


def count(data: bytes) -> int:
    """Lines, of which the last may lack its end."""
    return data.count(b"\n") + (not data.endswith(b"\n") and data != b"")


def is_plain(data: bytes) -> bool:
    """Return True if a named file is taken for text. Random bytes may only be refused if they begin like UTF-16."""
    return detect_non_text(data) is None


def clean(result: Result, codes: tuple[int, ...] = (0,)) -> None:
    assert result.code in codes, result.err
    assert "Traceback" not in result.err, result.err
    assert not result.out or result.out.endswith(b"\n")


def translated(model: Path, data: bytes, options: tuple[str, ...]) -> None:
    result = run_here("translate", "--model", str(model), *options, stdin=data)
    clean(result)
    per_line = 2 if "--n-best" in options else 1
    out = result.out.split(b"\n")[:-1]
    assert len(out) == per_line * count(data)
    if not options:
        for line, answer in zip(data.decode("utf-8", "replace").split("\n"), out, strict=False):
            assert line.strip() or not answer, line
    if "jsonl" in options:
        assert [json.loads(line)["id"] for line in out] == list(range(count(data)))


def encoded_and_decoded(model: Path, data: bytes) -> None:
    pieces = run_here("encode", "--model", str(model), stdin=data)
    clean(pieces)
    assert pieces.out.count(b"\n") == count(data)
    back = run_here("decode", "--model", str(model), stdin=pieces.out)
    clean(back)
    assert back.out.count(b"\n") == count(data)
    any_ = run_here("decode", "--model", str(model), stdin=data)
    clean(any_, (0, 2))
    assert any_.code or any_.out.count(b"\n") == count(data)


def scored(directory: Path, hypotheses: bytes, references: bytes) -> None:
    (directory / "hyp").write_bytes(hypotheses)
    (directory / "ref").write_bytes(references)
    result = run_here("score", str(directory / "hyp"), "--reference", str(directory / "ref"), "--json")
    clean(result, (0, 2))
    if not all(map(is_plain, (hypotheses, references))):
        assert result.code == 2
        assert "but plain text in UTF-8 is expected here" in result.err
    elif count(hypotheses) == count(references) and count(references):
        assert result.code == 0, result.err
        assert set(json.loads(result.out)) == {"bleu", "chrf", "ter"}
    else:
        assert result.code == 2


def aligned(directory: Path, model: Path, sources: bytes, targets: bytes) -> None:
    (directory / "src").write_bytes(sources)
    (directory / "tgt").write_bytes(targets)
    for options in ((), ("--format", "jsonl"), ("--format", "jsonl", "--level", "piece")):
        result = run_here("align", str(directory / "src"), str(directory / "tgt"), "--model", str(model), *options)
        clean(result, (0, 2))
        are_plain = all(map(is_plain, (sources, targets)))
        assert (result.code == 0) == (are_plain and count(sources) == count(targets)), result.err
        assert result.code or result.out.count(b"\n") == count(sources)
    result = run_here("rescore", str(directory / "src"), str(directory / "tgt"), "--model", str(model))
    assert result.code or result.out.count(b"\n") == count(sources)


def checked(directory: Path, config: Path, sources: bytes, targets: bytes) -> None:
    (directory / "train.x").write_bytes(sources)
    (directory / "train.y").write_bytes(targets)
    sets = [f"data.train.0.source={directory / 'train.x'}", f"data.train.0.target={directory / 'train.y'}"]
    result = run_here("check", "--config", str(config), *(word for one in sets for word in ("--set", one)))
    clean(result, (0, 2))
    assert result.out or result.err


@pytest.mark.parametrize(
    "options",
    [*others_slow(*FORMATS[:4]), *(pytest.param(one, marks=pytest.mark.soak) for one in FORMATS[4:])],
    ids=" ".join,
)
def test_as_many_lines_come_out_as_go_in(model: Path, options):
    translated(model, "\u2028\n \n\t\n\u3000\n\u0085".encode(), options)  # white space all, of which some has pieces
    QUICK(given(files)(lambda data: translated(model, data, options)))()


@pytest.mark.slow
def test_text_in_pieces_keeps_its_lines(model: Path):
    QUICK(given(files)(lambda data: encoded_and_decoded(model, data)))()


@pytest.mark.slow
def test_any_text_is_scored_or_refused(tmp_path: Path):
    scored(tmp_path, b"\x00", b"\xfe\xff")
    QUICK(given(files, files)(lambda ours, theirs: scored(tmp_path, ours, theirs)))()
    QUICK(given(files)(lambda data: scored(tmp_path, data, data)))()


@pytest.mark.soak
def test_any_pairs_are_aligned_or_refused(model: Path, tmp_path: Path):
    QUICK(given(files, files)(lambda ours, theirs: aligned(tmp_path, model, ours, theirs)))()
    QUICK(given(files)(lambda data: aligned(tmp_path, model, data, data)))()


def test_any_corpus_is_reported_on(config: Path, tmp_path: Path):
    QUICK(given(files, files)(lambda ours, theirs: checked(tmp_path, config, ours, theirs)))()


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_many_texts_keep_their_lines(model: Path, config: Path, tmp_path: Path):
    MANY(given(files, st.sampled_from(FORMATS))(lambda data, options: translated(model, data, options)))()
    MANY(given(files)(lambda data: encoded_and_decoded(model, data)))()
    MANY(given(files, files)(lambda ours, theirs: scored(tmp_path, ours, theirs)))()
    MANY(given(files)(lambda data: aligned(tmp_path, model, data, data)))()
    MANY(given(files, files)(lambda ours, theirs: checked(tmp_path, config, ours, theirs)))()


# Too much of it ---------------------------------------------------------------------------------------------------


def most_memory(*args: str | Path, stdin: Path | None = None) -> tuple[int, bytes, str, int]:
    """Exit code, the first bytes of the output, stderr, and the resident bytes at most.

    They are those of the process since it was started: `getrusage` would count the memory of the tests too.
    """
    program = "import runpy, sys, atexit, torch\natexit.register(lambda: print('MEMORY', *[line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')], file=sys.stderr))\nsys.argv[0] = 'nmt'\nrunpy.run_module('nmt_cli', run_name='__main__')"  # noqa: E501
    with (stdin or Path(os.devnull)).open("rb") as source:
        done = subprocess.run(
            [sys.executable, "-c", program, *map(str, args)], stdin=source, capture_output=True, check=False
        )
    err = done.stderr.decode()
    return done.returncode, done.stdout, err, int(err.rpartition("MEMORY")[2]) * 1024


@pytest.fixture(scope="module")
def base(model: Path, tmp_path_factory: pytest.TempPathFactory) -> int:
    """The memory of a translation of a few lines."""
    path = tmp_path_factory.mktemp("few") / "few"
    path.write_text("Where is the station?\n" * 8)
    code, _, err, memory = most_memory("translate", path, "--model", model)
    assert code == 0, err
    return memory


@pytest.mark.slow
def test_a_line_that_cannot_be_held_is_refused_before_it_is(model: Path, tmp_path: Path, base: int):
    """A gzip bomb: a few megabytes that stand for a line of four gigabytes."""
    bomb = tmp_path / "bomb.gz"
    with bomb.open("wb") as file:
        part = gzip.compress(b"\0" * 2**24)
        for _ in range(256):  # gzip files may be joined
            file.write(part)
    code, out, err, memory = most_memory("translate", bomb, "--model", model)
    assert code == 2
    assert out == b""
    assert f"{bomb}:1: the line is longer than 256,000,000 bytes; is this text?" in err
    assert memory < base + GIGABYTE


@pytest.mark.soak
def test_a_bomb_of_blank_lines_is_translated_in_flat_memory(model: Path, tmp_path: Path, base: int):
    bomb = tmp_path / "bomb.gz"
    with bomb.open("wb") as file:
        part = gzip.compress(b"\n" * 2**20)
        for _ in range(4):
            file.write(part)
    code, out, err, memory = most_memory("translate", bomb, "--model", model)
    assert code == 0, err
    assert out == b"\n" * 2**22
    assert memory < base + 200 * 2**20


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("megabytes", "text", "options", "times"),
    [
        pytest.param(20, b"Where is the station ? ", (), 40, id="of words"),
        pytest.param(20, b"Whereisthestation?", (), 40, id="without a space"),
        pytest.param(10, b"Where is the station ? ", ("--alignment", "hard"), 150, id="hard alignment"),
        pytest.param(10, b"Whereisthestation?", ("--alignment", "hard"), 150, id="hard alignment without a space"),
    ],
)
def test_the_memory_of_a_line_of_megabytes_is_a_multiple_of_it(
    model: Path, tmp_path: Path, base: int, megabytes: int, text: bytes, options: tuple[str, ...], times: int
):
    path = tmp_path / "long"
    with path.open("wb") as file:
        for _ in range(megabytes):
            file.write(text * (1_000_000 // len(text)))
        file.write(b"\nWhere is the station?")
    code, out, err, memory = most_memory(
        "translate", path, "--model", model, "--beam-size", "1", "--batch-tokens", "65536", *options
    )
    assert code == 0, err
    assert out.count(b"\n") == 2
    assert "1 line has more than 250 pieces and was translated in parts" in err
    assert memory < base + times * megabytes * 1_000_000


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_a_line_of_100_megabytes_goes_through_pieces_in_less_than_a_gigabyte(model: Path, tmp_path: Path, base: int):
    path, pieces = tmp_path / "long", tmp_path / "pieces"
    path.write_bytes(b"Where is the station ? " * 4_500_000)
    code, _, err, memory = most_memory("encode", path, "--model", model, "-o", pieces)
    assert code == 0, err
    assert memory < base + GIGABYTE
    code, out, err, memory = most_memory("decode", pieces, "--model", model)
    assert code == 0, err
    assert memory < base + GIGABYTE
    assert out.split() == path.read_bytes().split()


# Who writes and who reads -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_program_that_waits_for_each_answer_gets_it_from_an_endless_stream(model: Path):
    process = start_nmt("translate", "--model", model, stdin=-1, stdout=-1, stderr=-3)
    assert process.stdin is not None
    assert process.stdout is not None
    for number in range(20):
        process.stdin.write(b"Where is the station?\n" if number % 3 else b"\n")
        process.stdin.flush()
        answer = process.stdout.readline()
        assert answer.endswith(b"\n")
        assert (answer == b"\n") == (number % 3 == 0)
    process.kill()  # the stream never ends
    process.wait()
    process.stdin.close()
    process.stdout.close()


def test_an_error_that_nobody_reads_keeps_its_exit_code():
    reader, writer = os.pipe()
    os.close(reader)
    process = start_nmt("translate", "nil", "--model", "nowhere", stdout=-3, stderr=writer)
    os.close(writer)
    assert process.wait() == 2


@pytest.mark.slow
def test_a_reader_that_goes_away_ends_the_command_quietly(model: Path, tmp_path: Path):
    source = tmp_path / "many"
    source.write_text("Where is the station?\n" * 20_000)
    process = start_nmt("translate", source, "--model", model, stdout=-1, stderr=-1)
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline()
    process.stdout.close()
    assert process.wait() in (0, 141)
    assert process.stderr.read() == b""
    process.stderr.close()


@pytest.mark.slow
def test_a_reader_that_is_slow_holds_the_writer_back(model: Path, tmp_path: Path):
    """The writer waits: what is not read lies in the pipe and in one window, not in memory."""
    process = start_nmt("translate", "--model", model, "--beam-size", "1", stdin=-1, stdout=-1, stderr=-3)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"the\n")
    process.stdin.flush()
    assert process.stdout.readline()  # from now on it reads
    os.set_blocking(process.stdin.fileno(), False)
    line = b"Where is the station? " * 20 + b"\n"
    written, quiet_since = 0, time.monotonic()
    while time.monotonic() - quiet_since < 3.0:
        try:
            sent = os.write(process.stdin.fileno(), line * 50)
            written, quiet_since = written + sent, time.monotonic()
        except BlockingIOError:
            time.sleep(0.02)
        assert written < 64 * 2**20, "the command takes in what nobody reads"
    process.kill()
    process.wait()
    process.stdin.close()
    process.stdout.close()


@pytest.mark.slow
def test_no_more_files_are_open_than_a_user_may_have(model: Path, tmp_path: Path):
    """Standard streams that are closed are a message, too many open files are no traceback."""
    program = "import os, sys; os.close(0); os.execv(sys.executable, [sys.executable, '-m', 'nmt_cli', *sys.argv[1:]])"
    for command in (("translate", "--model", str(model)), ("check", "--config", "-")):
        done = subprocess.run([sys.executable, "-c", program, *command], capture_output=True, check=False)
        assert done.returncode == 2
        assert b"standard input is closed; give a file" in done.stderr
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 3
