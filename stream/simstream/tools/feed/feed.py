"""Sends records of pages from files to the topic `pages`."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

from simstream.amounts import say_pages
from simstream.errors import BrokerUnreachable, InputError, RecordTooLarge
from simstream.log.base import Appender, Log
from simstream.log.options import PAGES
from simstream.model import Record
from simstream.tools.feed.position import FeedPosition
from simstream.wire.page import NO_TIME

PATIENCE_S = 150.0
_LAST_S = 5.0
"""Seconds to wait for acknowledgements after Ctrl-C."""


class FeedResult(NamedTuple):
    """The topic, the number of pages sent to it, and the number that it refused."""

    topic: str
    sent: int
    refused: int


class _FeedRun:
    """The records in flight: where each came from, until it is acknowledged or refused."""

    def __init__(
        self, appender: Appender, largest: int, refused: Callable[[str], None], position: FeedPosition | None
    ) -> None:
        self._appender = appender
        self._position = position
        self._number = 0
        self._largest = largest
        self._say = refused
        self._origin: dict[int, str] = {}
        self._numbers: deque[int] = deque()
        """Ascending; some may have left `_origin` already."""
        self._written = 0
        self.sent = 0
        self.refused = 0

    def append(self, record: Record) -> None:
        self._append(record)
        if self._position is not None:
            self._position.note_sent(record, self._number)
            if self._position.due:
                self.save(PATIENCE_S)

    def save(self, patience: float) -> None:
        """Wait some seconds for the records in flight, and save the position."""
        self._settle(lambda: self._appender.flush(patience))
        if self._position is not None:
            self._position.save(self._written)

    def _append(self, record: Record) -> None:
        name = f"{record.topic}:{record.offset + 1}"
        if len(record.value or b"") > self._largest:
            # A reader of files passes on only the beginning of such a line.
            self._refuse(name, RecordTooLarge(f"it has more than {self._largest} bytes"))
            return
        timestamp = None if record.timestamp == NO_TIME else record.timestamp
        try:
            number = self._appender.append(record.value, record.key, record.headers, timestamp=timestamp)
        except RecordTooLarge as error:
            self._refuse(name, error)
            return
        self._number = number
        self._origin[number] = name
        self._numbers.append(number)
        self.sent += 1
        if len(self._origin) > 2_000:
            self._settle(self._appender.acknowledged)

    def finish(self) -> None:
        """Wait until every record is acknowledged. Raises BrokerUnreachable."""
        self.save(PATIENCE_S)
        if self._origin:
            raise BrokerUnreachable(
                f"{say_pages(len(self._origin), 'was', 'were')} not acknowledged",
                "feed them again: pages that arrive twice do no harm",
            )

    def _settle(self, look: Callable[[], int]) -> None:
        while True:
            try:
                done = look()
                break
            except RecordTooLarge as error:
                self._refuse(self._origin.pop(error.number or 0, "a page"), error)
                self.sent -= 1
        self._written = done
        while self._numbers and self._numbers[0] <= done:
            self._origin.pop(self._numbers.popleft(), None)

    def _refuse(self, name: str, error: RecordTooLarge) -> None:
        self.refused += 1
        self._say(f"{name} was not sent: {error.what}")


def feed(
    log: Log,
    records: Iterable[Record],
    largest: int,
    refused: Callable[[str], None],
    position: FeedPosition | None = None,
) -> FeedResult:
    """Append all records to `pages` and wait until they are acknowledged.

    With a `position`, goes on from it, and saves it about every second and at the end. After Ctrl-C, waits some
    seconds for the records in flight. `refused` hears a sentence about each record of more than `largest` bytes,
    and about each record that the topic refuses. Raises TopicMissing, BrokerUnreachable, DeliveryFailed, and an
    InputError of `records` once all earlier records are acknowledged.
    """
    with log.open_appender(PAGES) as appender:
        run = _FeedRun(appender, largest, refused, position)
        try:
            for record in records if position is None else position.skip_sent(records):
                run.append(record)
        except InputError:
            run.finish()
            raise
        except KeyboardInterrupt:
            if position is not None:
                run.save(_LAST_S)
            raise
        run.finish()
    return FeedResult(log.topic(PAGES).name, run.sent, run.refused)
