"""Limits on what one client may ask of the server, and the check of its API key."""

from __future__ import annotations

import hashlib
import hmac
import math
from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from nmt_cli.system.errors import InputError

MAX_CLIENTS = 10_000
"""Clients whose requests are counted at most; beyond this number, the one that asked longest ago is forgotten."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Largest amounts that the server accepts."""

    body_bytes: int = 16_000_000
    """Largest body of one request, in bytes."""
    bytes_in_flight: int = 64_000_000
    """Largest total size of the bodies of all requests in work."""
    bytes_of_client: int = 32_000_000
    """Largest total size of the bodies of one client's requests, so that no client keeps all others out with slow
    bodies."""
    characters: int = 500_000
    """Most characters in all texts of one request together."""
    costly_characters: int = 20_000
    """Most characters in the texts of a request for alternatives or alignment, which take more memory."""
    prefix_characters: int = 1_000
    """Most characters in a prefix (the given beginning of a translation). The model reads it while all other requests
    wait."""
    glossary_characters: int = 100_000
    """Most characters in the glossary of a request."""
    texts: int = 10_000
    """Most texts in one request."""
    parts: int = 1_000_000
    """Limit for the parts (tags, attributes, lines, sentences and so on, see `formats/work.py`) of one document, or
    of the texts of one request. The limit on bytes does not limit memory and time: 16 MB of short tags would take
    gigabytes."""
    parts_in_flight: int = 2_000_000
    """Limit for the parts of all documents in work together."""
    weights: int = 1_000_000
    """Most attention weights in one answer. An answer with more has only the links between words, no weights."""
    sentences: int = 50_000
    """Sentences that may wait for a worker in one direction."""
    requests: int = 256
    """Requests that may be answered at the same time."""
    connections: int = 1_024
    alternatives: int = 10
    requests_per_minute: int = 0
    """Most requests per minute from one client; 0 means no limit."""
    header_seconds: float = 10.0
    body_seconds: float = 60.0
    """Time within which the whole body must arrive."""
    discarded_bytes: int = 256_000_000
    """Bytes that a client may still send after the answer to its request, or after the last answer of its
    connection. They are read and discarded; after more, the connection is broken off."""
    answer_seconds: float = 60.0
    """Time within which the client must take each piece of an answer (`app.MAX_PIECE_BYTES` bytes)."""

    @property
    def field_bytes(self) -> int:
        """Largest body of a request without a file, in bytes, if JSON or a form writes each character in the longest
        way."""
        characters = self.characters + self.prefix_characters + self.glossary_characters
        return min(self.body_bytes, 12 * characters + 4 * self.texts + 100_000)


class Keys:
    """The API keys that the server accepts."""

    def __init__(self, keys: Sequence[str]) -> None:
        self._digests = [_digest(key) for key in keys]

    @classmethod
    def read(cls, path: Path) -> Keys:
        """Return the keys of a file, one on each line; lines that begin with `#` are comments.

        Raises:
            InputError: the file cannot be read, or has no keys.
        """
        try:
            lines = path.read_text(encoding="utf-8-sig").splitlines()
        except OSError as error:
            raise InputError(f"{path}: cannot be read: {(error.strerror or str(error)).lower()}") from None
        except UnicodeDecodeError:
            raise InputError(f"{path}: is not UTF-8; write one key on each line") from None
        keys = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
        if not keys:
            raise InputError(f"{path}: has no keys; write one on each line")
        return cls(keys)

    def has(self, key: str) -> bool:
        """Return whether a key is accepted, in a time that does not depend on how much of the key is right."""
        digest = _digest(key)
        found = False
        for own in self._digests:
            found |= hmac.compare_digest(own, digest)
        return found


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", errors="replace")).digest()


class RateLimiter:
    """Limits the requests of each client by a token bucket.

    The bucket holds at most `per_minute` requests and fills at that rate, so a client may send the requests of a minute
    at once. 0 means no limit.
    """

    def __init__(self, per_minute: int) -> None:
        self._per_minute = per_minute
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """By client: the requests that were left, and the time (`time.monotonic`) at which that many were left."""

    def take_token(self, client: str) -> int:
        """Count a request of `client`; return 0 if it is allowed, otherwise the seconds to wait before another try."""
        if not self._per_minute:
            return 0
        now = monotonic()
        left, since = self._left.pop(client, (float(self._per_minute), now))
        left = min(float(self._per_minute), left + (now - since) * self._per_minute / 60)
        allowed = left >= 1
        self._left[client] = (left - allowed, now)
        if len(self._left) > MAX_CLIENTS:
            self._left.popitem(last=False)
        return 0 if allowed else math.ceil((1 - left) * 60 / self._per_minute)


class Budget:
    """A limited amount, such as bytes of memory, that requests take and give back; one client has at most `most`."""

    def __init__(self, amount: int, most: int) -> None:
        self._left, self._most = amount, most
        self._taken: Counter[str] = Counter()
        """The amount that each client has taken and not given back."""

    def take(self, amount: int, client: str) -> bool:
        """Take an amount for a client and return True; if too little is left for it, take nothing and return False."""
        if amount > min(self._left, self._most - self._taken[client]):
            return False
        self._left -= amount
        self._taken[client] += amount
        return True

    def give_back(self, amount: int, client: str) -> None:
        """Give back an amount that a client has taken."""
        self._left += amount
        self._taken[client] -= amount
        if not self._taken[client]:
            del self._taken[client]
