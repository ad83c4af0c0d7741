"""Limits on the documents that are being translated: on their number of parts (tags, lines, sentences and so on), and
on how many large ones are read or written at the same time, so that other clients are answered meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock, Semaphore

from nmt_cli.formats.work import Work
from nmt_cli.serve.engine_interface import Busy, Cancellation, RequestTooLarge
from nmt_cli.serve.limits import Limits

TURNS = ((20_000, 2), (1_000, 4))
"""Pairs (parts, number): of the documents with more than `parts` parts, at most `number` are read or written at the
same time. A document counts for the first pair that fits.

Python runs one thread at a time, each for 5 ms. With more documents at a time, the thread that answers other clients
would wait too long. A document of 1,000 parts, which needs no turn, is read within some 20 ms.
"""
WAIT_SECONDS = 0.5
"""Seconds after which a document that waits for its turn checks whether its client still waits."""
RETRY_SECONDS = 10


class DocumentLimiter:
    """Limits how many parts (tags, lines, sentences and so on) the documents that are being translated have together.

    Plain text counts as a document of lines. Any thread may call the methods.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._lock = Lock()
        self._num_parts = 0
        self.turns = [(most, Semaphore(number)) for most, number in TURNS]

    @contextmanager
    def open_document(self, cancellation: Cancellation) -> Iterator[OpenDocument]:
        """Yield a new document to work on; after the block its parts are no longer counted."""
        document = OpenDocument(self, cancellation)
        try:
            yield document
        finally:
            document.end()

    def grow(self, num_parts: int) -> None:
        """Add to the number of parts of all documents; a negative number subtracts parts that are no longer in memory.

        Raises:
            Busy: all documents together would have too many parts.
        """
        with self._lock:
            if num_parts > 0 and self._num_parts + num_parts > self.limits.parts_in_flight:
                raise Busy(RETRY_SECONDS)
            self._num_parts += num_parts


class OpenDocument:
    """A document, or the texts of a request, while it is translated."""

    def __init__(self, documents: DocumentLimiter, cancellation: Cancellation) -> None:
        self.work = Work(cancellation.check, self._grow)
        self._documents, self._cancellation = documents, cancellation
        self._num_parts = 0
        self._turn: Semaphore | None = None

    def _grow(self, num_parts: int) -> None:
        most = self._documents.limits.parts
        if self._num_parts + num_parts > most:
            raise RequestTooLarge(
                f"it has more than {most:,} parts (tags, attributes, entities, lines, sentences and so on); send it in "
                "several requests"
            )
        self._documents.grow(num_parts)
        self._num_parts += num_parts
        self._take_turn()

    def _take_turn(self) -> None:
        """Wait until a document of this size may be read or written (see `TURNS`); many documents need not wait."""
        wanted = next((turn for most, turn in self._documents.turns if self._num_parts > most), None)
        if wanted is self._turn:
            return
        self._end_turn()
        while wanted is not None and not wanted.acquire(timeout=WAIT_SECONDS):
            self._cancellation.check()
        self._turn = wanted

    def _end_turn(self) -> None:
        if self._turn is not None:
            self._turn.release()
            self._turn = None

    @contextmanager
    def translating(self) -> Iterator[None]:
        """Let other large documents be read or written during the block, in which this one waits for its translation.

        After the block, wait until this document may go on.
        """
        self._end_turn()
        yield
        self._take_turn()

    def end(self) -> None:
        """Let the next large document be read or written, and stop counting the parts of this one."""
        self._end_turn()
        self._documents.grow(-self._num_parts)
        self._num_parts = 0
