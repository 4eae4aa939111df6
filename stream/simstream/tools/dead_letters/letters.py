"""Reads dead letters: the page's record, the error, and which letters were replayed.

A dead letter is the page's record with headers of `roles/fingerprint/dead_letters` behind its own. A replayed
letter is followed, in the same topic, by a *mark*: the same key, no value, and the header `simstream-replayed` with
the letter's place. So every reader of the topic knows which letters were replayed, and none is replayed twice.
Letters and marks of earlier versions have headers without a prefix; they are read, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from simstream.log.base import Log
from simstream.log.committed_records import committed
from simstream.log.options import DEAD_LETTERS
from simstream.model import Record
from simstream.roles.fingerprint.dead_letters import CUT, OLD_ORIGIN, ORIGIN, PREFIX

MARK = PREFIX + "replayed"
"""Header of a mark: `PARTITION/OFFSET` of the letter that was replayed."""
REPLAYED_FROM = PREFIX + "replayed-from"
"""Header of a page that was sent again: `TOPIC/PARTITION/OFFSET` of its dead letter."""
MAX_POLL_RECORDS = 200
LAYOUTS = (ORIGIN, ORIGIN[1:], OLD_ORIGIN)
"""The headers of a letter in this and in earlier versions."""
_NUMBER = re.compile(rb"[0-9]{1,19}")
_CUT_NOTE = re.compile(rb"\(cut: the record of \d+ bytes does not fit\)$")  # as versions before the header wrote it


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One dead letter. `time`: when it was written, in ms since 1970. `size`: bytes of the page's value."""

    record: Record
    time: int
    reason: str
    error: str
    source_topic: str
    source_partition: int
    source_offset: int
    size: int
    cut: bool
    """The topic has only the page's beginning: the page cannot be sent again."""
    replayed: bool
    """Whether a mark says that this letter was replayed."""
    added: int
    """The number of headers behind the page's own."""

    @property
    def place(self) -> str:
        """`PARTITION/OFFSET` in `dead-letters`."""
        return _place(self.record)

    @property
    def page(self) -> Record:
        """The page's record as it was read; of a cut letter, what is left of it."""
        place = self.source_topic, self.source_partition, self.source_offset
        return Record(*place, self.record.key, self.record.value, self.headers, self.record.timestamp)

    @property
    def headers(self) -> tuple[tuple[str, bytes], ...]:
        """The page's own headers; of a cut letter, those that fit."""
        return self.record.headers[: -self.added]

    @property
    def failed_again(self) -> bool:
        """Whether the page was sent again from an earlier letter, and failed again."""
        is_old = not self.record.headers[-1][0].startswith(PREFIX)
        wanted = REPLAYED_FROM.removeprefix(PREFIX) if is_old else REPLAYED_FROM
        return any(name == wanted for name, _ in self.headers)


@dataclass(frozen=True, slots=True)
class LetterFilter:
    """Selects the letters of one reason, written at or after `since` (ms since 1970)."""

    reason: str | None = None
    since: int = 0

    def __call__(self, letter: DeadLetter) -> bool:
        return letter.time >= self.since and self.reason in (None, letter.reason)


def letters(log: Log, letter_filter: LetterFilter) -> Iterator[DeadLetter]:
    """Return the present letters, the oldest first. Skips records that are not letters.

    Cost: two passes over the topic, since a mark stands behind its letter. Memory: the places of the marks.
    """
    marked = {place for record in _records(log) if (place := _marks(record)) is not None}
    for record in _records(log):
        letter = read(record, _place(record) in marked)
        if letter is not None and letter_filter(letter):
            yield letter


def read(record: Record, replayed: bool = False) -> DeadLetter | None:
    """Return the letter in a record of `dead-letters`; None for a mark or a foreign record."""
    headers = record.headers
    cut = bool(headers) and _is_ours(headers[-1][0], CUT)
    said = headers[: len(headers) - cut]
    names = tuple(name for name, _ in said[-len(ORIGIN) :])
    layout = next((layout for layout in LAYOUTS if names[-len(layout) :] == layout), None)
    if layout is None:
        return None
    error, reason, topic, partition, offset = (value for _, value in said[-len(OLD_ORIGIN) :])
    if not (_NUMBER.fullmatch(partition) and _NUMBER.fullmatch(offset)):
        return None
    size = int(headers[-1][1]) if cut and _NUMBER.fullmatch(headers[-1][1]) else len(record.value or b"")
    return DeadLetter(
        record=record,
        time=record.timestamp,
        reason=reason.decode("utf-8", "replace"),
        error=error.decode("utf-8", "replace"),
        source_topic=topic.decode("utf-8", "replace"),
        source_partition=int(partition),
        source_offset=int(offset),
        size=size,
        cut=cut or _CUT_NOTE.search(error) is not None,
        replayed=replayed,
        added=len(layout) + cut,
    )


def _marks(record: Record) -> str | None:
    """Return the place that a mark names; None if the record is not a mark."""
    if record.value is None and len(record.headers) == 1 and _is_ours(record.headers[0][0], MARK):
        return record.headers[0][1].decode("latin-1")
    return None


def _is_ours(name: str, wanted: str) -> bool:
    """Return whether a header has this name, with the prefix, or without it as in earlier versions."""
    return name in (wanted, wanted.removeprefix(PREFIX))


def _place(record: Record) -> str:
    return f"{record.partition}/{record.offset}"


def _records(log: Log) -> Iterator[Record]:
    for records in committed(log, DEAD_LETTERS, MAX_POLL_RECORDS):
        yield from records
