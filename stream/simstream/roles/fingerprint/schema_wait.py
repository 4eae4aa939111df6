"""Holds records back until the schemas of their values are known. The role's loop goes on meanwhile."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Sequence
from concurrent import futures
from functools import partial

from simstream.errors import RegistryFailed
from simstream.model import Record
from simstream.registry.schemas import MAX_KEPT_BYTES, SchemaAnswer, SchemaBook
from simstream.roles.registry_inquiry import RegistryInquiry
from simstream.telemetry.metrics import Metrics

UNKNOWN_PAUSE_S = 0.01
"""Seconds between the answer that an id is unknown and the next request: ids that a stranger makes up cost the
registry at most 100 requests a second."""
MAX_FIRST_WAIT_S = 2.0
"""The most seconds that `admit_soon` waits for a registry."""
_logger = logging.getLogger("simstream.fingerprint")


class _Inquiry(RegistryInquiry):
    """Asks for schemas until each has an answer or the answers have MAX_KEPT_BYTES."""

    def __init__(self, book: SchemaBook, numbers: Iterable[int], metrics: Metrics) -> None:
        self.answers: dict[int, SchemaAnswer] = {}
        self._book, self._numbers = book, list(numbers)
        super().__init__(book.url, metrics)

    def work(self) -> None:
        left = MAX_KEPT_BYTES
        for number in self._numbers:
            answer = self.insist(partial(self._book.ask, number))
            if answer is None:
                break
            self.answers[number] = answer
            self.metrics.registry_requests.labels("found" if answer.is_final else "unknown").inc()
            if not answer.is_final:
                self.stop.wait(UNKNOWN_PAUSE_S)
            left -= answer.bytes
            if self.stop.is_set() or left < 0:
                break


class SchemaWait:
    """Admits records in the order of reading. For the role's thread only.

    Every id is asked for after the pages that name it were read: a page is `unreadable` for an unknown schema only
    if the registry did not know the schema then.
    """

    def __init__(self, book: SchemaBook | None, metrics: Metrics, give_up_s: float) -> None:
        """Without a book it admits every record at once."""
        self._book = book
        self._metrics = metrics
        self._give_up_s = give_up_s
        self._held: list[Record] = []
        self._next: list[Record] = []
        """Records that came while schemas were asked for, as they may from a new partition. They wait for a round
        of their own."""
        self._inquiry: _Inquiry | None = None
        self._told = False

    @property
    def is_waiting(self) -> bool:
        """Whether records wait for a schema."""
        return self._inquiry is not None or bool(self._next)

    @property
    def partitions(self) -> set[int]:
        """The partitions that have waiting records."""
        return {record.partition for record in (*self._held, *self._next)}

    @property
    def trouble(self) -> str:
        """What the registry did instead of answering; empty if nothing is wrong."""
        failure = self._inquiry.failure if self._inquiry else None
        return f"waits for a schema: {failure.what}" if failure else ""

    def wait(self, seconds: float) -> None:
        """Wait for the answers, at most so long."""
        if self._inquiry is not None:
            futures.wait([self._inquiry.outcome], seconds)

    def admit(self, records: Sequence[Record] = ()) -> Sequence[Record]:
        """Return the records whose schemas are known, in order; none while schemas are asked for.

        If their schemas are more than memory is to hold at once, the later records wait for a round of their own.

        Raises RegistryFailed if the registry has not answered for too long.
        """
        if self._book is None:
            return records
        self._next += records
        if self._inquiry is None:
            self._held, self._next = self._next, []
            self._book.begin()
            wanted = dict.fromkeys(self._book.unknown_of(record.value) for record in self._held)
            if numbers := [number for number in wanted if number is not None]:
                self._inquiry = _Inquiry(self._book, numbers, self._metrics)
                return ()
        elif not self._take_answers(self._inquiry):
            return ()
        else:
            unknown = (at for at, one in enumerate(self._held) if self._book.unknown_of(one.value) is not None)
            end = next(unknown, len(self._held))
            self._held, self._next = self._held[:end], self._held[end:] + self._next
        admitted, self._held = self._held, []
        return admitted

    def admit_soon(self, records: Sequence[Record]) -> Sequence[Record]:
        """Return the records whose schemas are known within MAX_FIRST_WAIT_S. Holds none of the others."""
        admitted, end = list(self.admit(records)), time.monotonic() + MAX_FIRST_WAIT_S
        while self.is_waiting and time.monotonic() < end:
            self.wait(MAX_FIRST_WAIT_S / 10)
            admitted += self.admit()
        self.forget()
        return admitted

    def drop(self, partition: int) -> None:
        """Drop the records of a partition that went: they are read again from the commit."""
        self._held = [record for record in self._held if record.partition != partition]
        self._next = [record for record in self._next if record.partition != partition]

    def forget(self) -> None:
        """Drop all records, and stop asking."""
        self._held, self._next = [], []
        if self._inquiry is not None:
            self._inquiry.cancel()
        self._inquiry = None
        self._metrics.registry_wait.set(0)

    def _take_answers(self, inquiry: _Inquiry) -> bool:
        """Return whether all answers are there, and keep them."""
        assert self._book is not None
        waited_s = time.monotonic() - inquiry.began
        if not inquiry.outcome.done():
            self._metrics.registry_wait.set(waited_s)
            if (failure := inquiry.failure) is not None:
                self._note_failure(failure, inquiry.silent_s)
            return False
        inquiry.outcome.result()
        if self._told:
            _logger.info("the schema registry answers again, after %.1f s: pages are read on", waited_s)
        self._told, self._inquiry = False, None
        self._metrics.registry_wait.set(0)
        self._book.keep(inquiry.answers)
        return True

    def _note_failure(self, failure: RegistryFailed, silent_s: float) -> None:
        if silent_s > self._give_up_s:
            raise failure
        if not self._told:
            _logger.warning("%s; no page is read until it answers", failure.what)
            self._told = True
