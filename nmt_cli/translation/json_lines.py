"""Lines of a bulk input: plain text, or JSON objects with the text in one field."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


class LineFormat(Protocol):
    """Reads the text in an input line, and makes the output line with its translation."""

    def text(self, line: bytes) -> bytes:
        """Return the text to translate.

        Raises:
            ValueError: the line does not have this format; the message says how.
        """
        ...

    def output_line(self, line: bytes, translation: bytes, /) -> bytes:
        """Return the output line. The input line has no line feed; the translation and the output line end with one."""
        ...


class PlainText:
    """Plain text: the whole input line is translated, and the output line is the translation."""

    def text(self, line: bytes) -> bytes:
        return line

    def output_line(self, _: bytes, translation: bytes) -> bytes:
        return translation


@dataclass(frozen=True, slots=True)
class JsonField:
    """A line is a JSON object; `field` is translated, and the translation is added to the line as `output_field`.

    The rest of the line is copied byte by byte: its numbers, spaces and escapes stay as they are.
    """

    field: str
    output_field: str

    def text(self, line: bytes) -> bytes:
        try:
            record = json.loads(line.decode("utf-8"))
        except (ValueError, RecursionError) as error:
            raise ValueError(f"is not valid JSON: {error}") from None
        if not isinstance(record, dict):
            raise ValueError("is not a JSON object")
        if not isinstance(text := record.get(self.field), str):
            found = "is not a string" if self.field in record else "is missing"
            raise ValueError(f"the field {self.field!r} {found}; --field NAME says which is translated")
        if self.output_field in record:
            raise ValueError(f"has the field {self.output_field!r} already; choose another --output-field")
        return text.encode("utf-8", errors="surrogatepass")  # half of a pair becomes invalid UTF-8, which is counted

    def output_line(self, line: bytes, translation: bytes) -> bytes:
        head, brace, tail = line.rpartition(b"}")
        name = json.dumps(self.output_field, ensure_ascii=False).encode()
        value = json.dumps(translation[:-1].decode("utf-8"), ensure_ascii=False).encode()
        return head + b", " + name + b": " + value + brace + tail + b"\n"


def is_json_lines(path: Path) -> bool:
    """Return whether the name of a file is that of JSON lines: it ends in `.jsonl` or `.jsonl.gz`."""
    return path.name.endswith((".jsonl", ".jsonl.gz"))
