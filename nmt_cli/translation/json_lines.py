"""Lines of a bulk input: plain text, or JSON objects with the text in one field."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


class LineFormat(Protocol):
    """Takes the text from a line of an input, and puts its translation into the line of the output."""

    def text(self, line: bytes) -> bytes:
        """Return the text to translate; `ValueError` says what is wrong with the line."""
        ...

    def written(self, line: bytes, translation: bytes, /) -> bytes:
        """Return the line of the output. `line` has no line feed; the translation and the result end with one."""
        ...


class PlainText:
    """A line is a sentence."""

    def text(self, line: bytes) -> bytes:
        return line

    def written(self, _: bytes, translation: bytes) -> bytes:
        return translation


@dataclass(frozen=True, slots=True)
class JsonField:
    """A line is a JSON object; `field` is translated, and the translation is added to the line as `output_field`.

    The line itself is not written anew: its numbers, spaces and escapes stay as they stand.
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

    def written(self, line: bytes, translation: bytes) -> bytes:
        head, brace, tail = line.rpartition(b"}")
        name = json.dumps(self.output_field, ensure_ascii=False).encode()
        value = json.dumps(translation[:-1].decode("utf-8"), ensure_ascii=False).encode()
        return head + b", " + name + b": " + value + brace + tail + b"\n"


def is_json_lines(path: Path) -> bool:
    """Return whether the name stands for JSON lines."""
    return path.name.endswith((".jsonl", ".jsonl.gz"))
