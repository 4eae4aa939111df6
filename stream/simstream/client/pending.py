"""Finds the page of each verdict among the pages that wait for one, and completes its future."""

from __future__ import annotations

import copy
import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from simstream.client.pages import SendablePage
from simstream.client.room import RoomPlace
from simstream.errors import DeliveryFailed, LogDamaged, SimstreamError, VerdictLate
from simstream.model import Record, Verdict
from simstream.wire import verdict as wire

logger = logging.getLogger("simstream.client")
Place = tuple[int, int]
"""Partition and offset of a page."""
MAX_EARLY_VERDICTS = 64
"""The most verdicts of one id that are kept while the place of one of its pages is not known yet."""


@dataclass(eq=False, slots=True)
class PendingPage:
    """A page on its way. It takes up room until it is written or refused, and its future is completed."""

    page: SendablePage
    deadline: float
    """When its time is over, by `time.monotonic`."""
    room_place: RoomPlace
    future: Future[Verdict] = field(default_factory=Future)
    place: Place | None = None
    waits: bool = True
    """Whether the page waits for its verdict."""
    unsent: bool = True
    """Whether the log has neither acknowledged nor refused the page."""


@dataclass(slots=True)
class _Name:
    """The pages of one id that are on their way, and its verdicts that no page has claimed yet."""

    entries: list[PendingPage] = field(default_factory=list)
    early: dict[Place, Verdict] = field(default_factory=dict)


class PendingPages:
    """The pages on their way, by id and place. Safe between threads; it completes futures outside its lock.

    A signal's handler may call it in the middle of another call of the same thread.

    A verdict belongs to a page by topic, partition and offset; the id only says which verdicts are worth reading.
    """

    def __init__(self, topic: str, leave: Callable[[RoomPlace], None]) -> None:
        """`topic` is the full name of `pages`. `leave` is called once a page no longer takes up room."""
        self._topic = topic
        self._leave = leave
        self._lock = threading.RLock()
        self._names: dict[bytes, _Name] = {}
        self._closing_error: SimstreamError | None = None
        self._damaged = False

    def add(self, entry: PendingPage) -> None:
        """Add a page. After `close`, raises the error that `close` got."""
        key, alone = entry.page.verdict_key, _Name([entry])
        # Without a call below, CPython runs no handler while the lock is held: its `close` would wait for threads
        # that wait for the lock.
        with self._lock:
            if self._closing_error is None and key in self._names:
                self._names[key].entries += [entry]
            elif self._closing_error is None:
                self._names[key] = alone
            error = self._closing_error
        if error is not None:
            raise copy.copy(error)

    def note_written(self, entry: PendingPage, partition: int, offset: int) -> None:
        """Note where a page was written. Its verdict may be there already. Offset -1: the log does not know it."""
        if offset < 0:
            unknown = "the page was written, but the log did not say where"
            self.fail(entry, DeliveryFailed(unknown, "submit it again: a page that arrives twice does no harm"))
            return
        with self._lock:
            if not entry.unsent:
                return
            entry.place, entry.unsent = (partition, offset), False
            name = self._names.get(entry.page.verdict_key)
            verdict = name.early.pop(entry.place, None) if name else None
            over = verdict is not None and self._over(entry)
            if name and all(other.place for other in name.entries):
                name.early.clear()
            leaves = not entry.waits
        self._finish([entry] if over else [], verdict)
        if leaves:
            self._leave(entry.room_place)

    def fail(self, entry: PendingPage, error: SimstreamError) -> None:
        """Complete the future of a page that was not written."""
        with self._lock:
            if not entry.unsent:
                return
            entry.unsent = False
            over = self._over(entry)
        self._finish([entry] if over else [], error)
        self._leave(entry.room_place)

    def take_verdict(self, record: Record) -> None:
        """Give a record of `verdicts` to its page. A record of another id costs one lookup."""
        if record.key not in self._names:
            return
        try:
            verdict = wire.decode(record.value or b"")
        except LogDamaged as error:
            if not self._damaged:
                self._damaged = True
                logger.warning("%s", error)
            return
        if verdict.source.topic != self._topic:
            return
        place = (verdict.source.partition, verdict.source.offset)
        with self._lock:
            entry = self._find(record.key, place, verdict)
            over = entry is not None and self._over(entry)
        if entry is not None and over:
            self._finish([entry], verdict)
            self._leave(entry.room_place)

    def expire(self) -> float:
        """Complete the futures whose time is over. Return the seconds until the next one; 60 if no page waits."""
        now = time.monotonic()
        with self._lock:
            waiting = self._waiting()
            late = [entry for entry in waiting if entry.deadline <= now and self._over(entry)]
            done = [entry for entry in late if not entry.unsent]
            rest = min((entry.deadline for entry in waiting if entry.waits), default=now + 60.0) - now
        self._finish(
            late, VerdictLate("no verdict came in time", "check with `simstream status` that the service runs")
        )
        for entry in done:
            self._leave(entry.room_place)
        return rest

    def close(self, error: SimstreamError) -> None:
        """Complete all futures with this error, and accept no further page."""
        with self._lock:
            self._closing_error = self._closing_error or error
            over = [entry for entry in self._waiting() if self._over(entry)]
        self._finish(over, error)

    def __len__(self) -> int:
        """Return how many pages wait for a verdict."""
        with self._lock:
            return len(self._waiting())

    def _waiting(self) -> list[PendingPage]:
        return [entry for name in list(self._names.values()) for entry in name.entries]

    def _find(self, key: bytes, place: Place, verdict: Verdict) -> PendingPage | None:
        """Return the page of a verdict, or None.

        If a page of this id is not acknowledged yet, the verdict may belong to that page, so it is kept.
        """
        name = self._names.get(key)
        if name is None:
            return None
        found = next((entry for entry in name.entries if entry.place == place), None)
        if found is None and not all(entry.place for entry in name.entries):
            name.early[place] = verdict
            if len(name.early) > MAX_EARLY_VERDICTS:
                del name.early[next(iter(name.early))]
        return found

    def _over(self, entry: PendingPage) -> bool:
        """Take a page out. Return whether it still waited."""
        if not entry.waits:
            return False
        entry.waits = False
        name = self._names[entry.page.verdict_key]
        name.entries.remove(entry)
        if not name.entries:
            self._names.pop(entry.page.verdict_key, None)
        return True

    def _finish(self, entries: Sequence[PendingPage], with_: Verdict | SimstreamError | None) -> None:
        """Complete the futures of these pages, except for futures that the caller has cancelled."""
        for entry in entries:
            if not entry.future.set_running_or_notify_cancel():
                continue
            try:
                if isinstance(with_, Verdict):
                    entry.future.set_result(with_)
                elif with_ is not None:
                    entry.future.set_exception(copy.copy(with_))  # each `result` adds to the traceback of its own
            except KeyboardInterrupt:
                raise
            except BaseException:  # such as sys.exit in a callback: the future itself logs an Exception
                logger.exception("a callback of a page's future failed")
