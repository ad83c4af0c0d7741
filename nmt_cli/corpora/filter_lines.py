"""Filtering of text in one language, line by line, in two passes: the first finds repeated lines and leaks.

Memory is one byte for each line, and 8 bytes for each distinct line of the files whose lines count as leaks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nmt_cli.corpora.character_filters import failed_line_filters
from nmt_cli.corpora.duplicates import DUPLICATE, HELD_OUT, PairIndex, line_hashes
from nmt_cli.corpora.filter_pairs import BLOCK, FilteredPair
from nmt_cli.corpora.filters import LINE_FILTERS
from nmt_cli.data.lines import decode_line, iter_lines, open_input
from nmt_cli.system.console import Progress
from nmt_cli.system.errors import InputError

_RANK = {filter_.name: rank for rank, filter_ in enumerate(LINE_FILTERS)}


def filtered_lines(path: str, without: Sequence[str] = ()) -> Iterator[FilteredPair]:
    """Yield each line of a file, in order, with the filters that it fails; it is the `source`, and `target` is empty.

    A line fails the filter `leak` if it is also in one of the files `without`, white space around it aside.

    Raises:
        InputError: a file cannot be read, or changes while it is read.
    """
    with PairIndex() as index:
        with open_input(path) as stream:
            for line in iter_lines(stream):
                index.add(line, line)
        bits = index.bits(line_hashes(without))
    marks = (("leak", HELD_OUT), ("duplicate", DUPLICATE))
    number = 0
    with open_input(path) as stream, Progress("filtering", unit="line", total=len(bits)) as progress:
        for number, line in enumerate(iter_lines(stream), start=1):
            if number > len(bits):
                break
            text, is_valid = decode_line(line)
            failed_filters = failed_line_filters(text)
            if not is_valid and "encoding" not in failed_filters:
                failed_filters.append("encoding")
            if "empty" not in failed_filters:
                failed_filters += [name for name, bit in marks if bits[number - 1] & bit]
            yield FilteredPair(number, line, b"", sorted(failed_filters, key=_RANK.__getitem__))
            if not number % BLOCK:
                progress.advance(BLOCK)
    if number != len(bits):
        raise InputError(f"{path}: changed while it was read; run the command again")
