"""Remembers 64 bits of each record, for a second reading of the inputs, also in another process."""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from collections.abc import Iterable, Iterator

from simstream.model import PageSource, Record


class RecordNotes(ABC):
    """A hash of each record, in their order. A subclass says of what, and remembers where the records were.

    Memory: 8 bytes a record, and what the subclass remembers.
    """

    def __init__(self) -> None:
        self._hashes = array("Q")

    def noted(self, records: Iterable[Record]) -> Iterator[Record]:
        """Yield the records unchanged."""
        for record in records:
            self._note(record.topic, record.offset, self._hash_of(record))
            yield record

    def notes(self, begin: int, end: int) -> bytes:
        """Return the hashes of the records from `begin` up to `end`."""
        return self._hashes[begin:end].tobytes()

    def restore(self, sources: Iterable[PageSource], notes: bytes) -> None:
        """Remember the next records again: where they were, and what `notes` returned of them."""
        for source, digest in zip(sources, array("Q", notes), strict=True):
            self._note(source.topic, source.offset, digest)

    def _note(self, topic: str, offset: int, digest: int) -> None:
        self._note_place(topic, offset)
        self._hashes.append(digest)

    @abstractmethod
    def _hash_of(self, record: Record) -> int:
        """Return what a second reading is compared with."""

    @abstractmethod
    def _note_place(self, topic: str, offset: int) -> None:
        """Remember where the next record is, before its hash is added."""
