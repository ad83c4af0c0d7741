import errno
import gzip
import io
import os
import sys
import tracemalloc
from pathlib import Path

import pytest

from nmt_cli.data.lines import decode_line, input_name, is_standard_input, iter_lines, open_input, read_text_lines
from nmt_cli.system.errors import InputError


class _BrokenStream(io.BytesIO):
    name = "/mnt/broken"

    def readline(self, *_):
        raise OSError(5, "Input/output error")


def _lines_of(path):
    with open_input(path) as stream:
        return list(iter_lines(stream))


def _error_of(path):
    with pytest.raises(InputError) as caught:
        _lines_of(path)
    return str(caught.value)


def test_lines_end_at_newline_only():
    odd = ["a\rb", "c\r", "\x0bd\x0c", "\x1ce\x1d\x1e", "f\u0085", "g\u2028h\u2029", "\x00", " ", ""]
    data = "".join(line + "\n" for line in odd).encode()
    assert [line.decode() for line in iter_lines(io.BytesIO(data))] == odd


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"\n", [b""]),
        (b"a", [b"a"]),
        (b"a\n", [b"a"]),
        (b"a\nb", [b"a", b"b"]),
        (b"a\n\n", [b"a", b""]),
        (b"\na", [b"", b"a"]),
    ],
)
def test_a_last_line_without_newline_is_a_line(data, lines, tmp_path):
    path = tmp_path / "text"
    path.write_bytes(data)
    assert _lines_of(path) == _lines_of(str(path)) == lines


def test_a_name_in_gz_is_decompressed(tmp_path):
    path = tmp_path / "text.gz"
    path.write_bytes(gzip.compress(b"a\r\nb\n") + gzip.compress(b"c"))
    assert _lines_of(path) == [b"a\r", b"b", b"c"]


@pytest.mark.parametrize("path", [None, "-"])
def test_none_and_a_dash_are_standard_input_which_stays_open(path, monkeypatch):
    reader, writer = os.pipe()
    os.write(writer, b"a\nb")
    os.close(writer)
    with os.fdopen(reader) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        assert _lines_of(path) == [b"a", b"b"]
        assert not stdin.closed
    assert is_standard_input(path)
    assert input_name(path) == "standard input"


def test_a_file_is_closed_after_use(tmp_path):
    path = tmp_path / "text"
    path.write_bytes(b"a\n")
    with open_input(path) as stream:
        pass
    assert stream.closed
    assert not is_standard_input(path)
    assert input_name(path) == str(path)


def test_a_closed_standard_input_is_an_input_error(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    assert _error_of(None) == "standard input is closed; give a file"


@pytest.mark.parametrize("name", ["missing", "missing.gz", "missing/deeper"])
def test_a_missing_file_is_named(name, tmp_path):
    path = tmp_path / name
    assert _error_of(path) == f"{path}: there is no such file"


def test_an_empty_name_is_refused():
    assert _error_of("") == "the name of an input file is empty"


@pytest.mark.parametrize("name", ["folder", "folder.gz"])
def test_a_directory_is_refused(name, tmp_path):
    path = tmp_path / name
    path.mkdir()
    assert _error_of(path) == f"{path}: is a directory; give a text file"


def test_a_file_as_directory_is_refused(tmp_path):
    (tmp_path / "text").write_bytes(b"")
    path = tmp_path / "text" / "deeper"
    assert _error_of(path) == f"{path}: cannot be opened: not a directory"


def test_an_impossible_name_is_refused():
    assert _error_of("a\0b") == "a\0b: cannot be opened: embedded null byte"


def test_a_file_without_permission_is_refused(tmp_path, monkeypatch):
    def refuse(*_):  # a file mode would not stop root
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    path = tmp_path / "secret"
    assert _error_of(path) == f"{path}: cannot be opened: permission denied"


def test_a_gz_that_is_not_gzip_is_refused(tmp_path):
    path = tmp_path / "text.gz"
    path.write_bytes(b"hello\n")
    assert _error_of(path) == f"{path}: is not gzip data, or damaged: Not a gzipped file (b'he')"


def test_a_gz_that_is_cut_off_is_refused(tmp_path):
    path = tmp_path / "text.gz"
    path.write_bytes(gzip.compress(os.urandom(10_000))[:-2000])
    assert _error_of(path) == f"{path}: the compressed data ends too early; the file is cut off"


def test_a_gz_with_wrong_bytes_is_refused(tmp_path):
    path = tmp_path / "text.gz"
    data = bytearray(gzip.compress(b"hello hello hello\n" * 100))
    data[10:30] = b"\xff" * 20
    path.write_bytes(bytes(data))
    assert _error_of(path).startswith(f"{path}: is not gzip data, or damaged: ")


def test_a_failing_stream_is_named():
    with pytest.raises(InputError) as caught:
        list(iter_lines(_BrokenStream()))
    assert str(caught.value) == "/mnt/broken: cannot be read: input/output error"


def test_errors_of_the_reader_are_not_taken_for_errors_of_the_input(tmp_path):
    path = tmp_path / "text.gz"
    path.write_bytes(gzip.compress(b"a\nb\n"))

    def fail_while_reading():
        with open_input(path) as stream:
            for _ in iter_lines(stream):
                raise EOFError("mine")

    with pytest.raises(EOFError, match=r"^mine$"):
        fail_while_reading()


def test_invalid_bytes_become_replacement_characters():
    assert decode_line("gr\u00fcn \ufffd".encode()) == ("gr\u00fcn \ufffd", True)
    assert decode_line(b"gr\xfcn") == ("gr\ufffdn", False)
    assert decode_line(b"\xed\xa0\x80")[1] is False
    assert decode_line(b"") == ("", True)


def test_reading_all_counts_the_invalid_lines(tmp_path):
    path = tmp_path / "text"
    path.write_bytes(b"\xef\xbb\xbfa\r\n\xff\n\xff\xfe\n\nb")
    assert read_text_lines(path) == (["\ufeffa\r", "\ufffd", "\ufffd\ufffd", "", "b"], 2)


def test_memory_is_that_of_the_longest_line(tmp_path):
    path = tmp_path / "text"
    num_bytes = 1_000_000
    path.write_bytes((b"x" * num_bytes + b"\n") * 20)
    tracemalloc.start()
    try:
        with open_input(path) as stream:
            assert sum(len(line) for line in iter_lines(stream)) == 20 * num_bytes
        assert tracemalloc.get_traced_memory()[1] < 6 * num_bytes
    finally:
        tracemalloc.stop()
