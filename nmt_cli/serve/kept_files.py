"""Keeps translated files in memory until their clients fetch them, or for some minutes."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from pathlib import PurePath
from threading import Lock
from time import monotonic
from unicodedata import category, normalize

MAX_BYTES = 64_000_000
"""Largest size of all files together; beyond it, the oldest are removed."""
KEEP_SECONDS = 900
"""Seconds for which a file is kept."""


class KeptFiles:
    """Keeps translated files in memory for `KEEP_SECONDS`, and at most `MAX_BYTES` of the newest ones.

    Any thread may call the methods.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._files: OrderedDict[str, tuple[float, bytes]] = OrderedDict()
        """By name, the oldest first: the time (`time.monotonic`) until which a file is kept, and its content."""
        self._num_bytes = 0

    def add(self, name: str, language: str, content: bytes) -> str:
        """Keep the translation of the file `name` into a language; return its new name, which nobody can guess."""
        path = PurePath(normalize("NFC", name))
        stem = "".join(character if _is_filename_character(character) else "_" for character in path.stem)
        kept = f"{secrets.token_urlsafe(18)}.{stem}_{language}{path.suffix.lower()}"
        with self._lock:
            self._forget(len(content))
            self._files[kept] = (monotonic() + KEEP_SECONDS, content)
            self._num_bytes += len(content)
        return kept

    def get(self, name: str) -> bytes | None:
        """Return the content of a file; None if there is no file of this name, or if it is no longer kept."""
        with self._lock:
            self._forget(0)
            _, content = self._files.get(name, (0.0, None))
            return content

    def _forget(self, num_new: int) -> None:
        """Remove the files whose time is over, and the oldest until there is room for `num_new` bytes."""
        while self._files:
            until, content = next(iter(self._files.values()))
            if until > monotonic() and self._num_bytes + num_new <= MAX_BYTES:
                return
            self._files.popitem(last=False)
            self._num_bytes -= len(content)


def _is_filename_character(character: str) -> bool:
    """Return whether a character is allowed in a file's name: letters with their marks, digits, and two signs."""
    return character.isalnum() or character in "-_" or category(character)[0] == "M"
