"""Pages that wait for their verdicts: finds the page of each verdict, and completes its future."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from simstream.client.pages import SendablePage
from simstream.errors import DeliveryFailed, LogDamaged, SimstreamError, VerdictLate
from simstream.model import Record, Verdict
from simstream.wire import verdict as wire

logger = logging.getLogger("simstream.client")
Place = tuple[int, int]
"""Partition and offset of a page."""
EARLY = 64
"""Verdicts of one id that are kept while it is not known which of them belongs to a page on its way."""


@dataclass(eq=False, slots=True)
class PendingPage:
    """A page on its way. It takes up room until its future is over and nothing of it waits to be written."""

    page: SendablePage
    deadline: float
    """By `time.monotonic`."""
    future: Future[Verdict] = field(default_factory=Future)
    place: Place | None = None
    waits: bool = True
    """For its verdict."""
    unsent: bool = True
    """Neither acknowledged nor refused."""


@dataclass(slots=True)
class _Name:
    """What is known of one id: pages on their way, and verdicts that no page has claimed yet."""

    entries: list[PendingPage] = field(default_factory=list)
    early: dict[Place, Verdict] = field(default_factory=dict)


class PendingPages:
    """Pages on their way, by id and place. Safe between threads; futures end outside its lock.

    A verdict belongs to a page by topic, partition and offset; the id only says which verdicts are worth reading.
    """

    def __init__(self, topic: str, leave: Callable[[], None]) -> None:
        """`topic`: the full name of `pages`. `leave` is called when a page takes up no room any more."""
        self._topic = topic
        self._leave = leave
        self._lock = threading.Lock()
        self._names: dict[bytes, _Name] = {}
        self._failed: SimstreamError | None = None
        self._damaged = False

    def add(self, entry: PendingPage) -> None:
        """Take up a page. Raises what `close` was given."""
        with self._lock:
            if self._failed is not None:
                raise self._failed
            self._names.setdefault(entry.page.verdict_key, _Name()).entries.append(entry)

    def placed(self, entry: PendingPage, partition: int, offset: int) -> None:
        """A page was written; its verdict may be there already."""
        if offset < 0:
            unknown = "the page was written, but Kafka did not say where"
            self.failed(entry, DeliveryFailed(unknown, "submit it again: a page that arrives twice does no harm"))
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
            self._leave()

    def failed(self, entry: PendingPage, error: SimstreamError) -> None:
        """A page was not written."""
        with self._lock:
            if not entry.unsent:
                return
            entry.unsent = False
            over = self._over(entry)
        self._finish([entry] if over else [], error)
        self._leave()

    def heard(self, record: Record) -> None:
        """A record of `verdicts`; those of other ids cost one look-up."""
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
            self._leave()

    def expire(self) -> float:
        """End the futures whose time is over; the seconds until the next is (a minute where none waits)."""
        now = time.monotonic()
        with self._lock:
            waiting = [entry for name in self._names.values() for entry in name.entries]
            late = [entry for entry in waiting if entry.deadline <= now and self._over(entry)]
            done = sum(not entry.unsent for entry in late)
            rest = min((entry.deadline for entry in waiting if entry.waits), default=now + 60.0) - now
        self._finish(
            late, VerdictLate("no verdict came in time", "check with `simstream status` that the service runs")
        )
        for _ in range(done):
            self._leave()
        return rest

    def close(self, error: SimstreamError) -> None:
        """End all futures with this error, and let no page in any more."""
        with self._lock:
            self._failed = self._failed or error
            waiting = [entry for name in self._names.values() for entry in name.entries]
            over = [entry for entry in waiting if self._over(entry)]
        self._finish(over, error)

    def __len__(self) -> int:
        """How many wait for a verdict."""
        with self._lock:
            return sum(len(name.entries) for name in self._names.values())

    def _find(self, key: bytes, place: Place, verdict: Verdict) -> PendingPage | None:
        """The page of a verdict; a verdict whose page may be one that is not acknowledged yet is kept for it."""
        name = self._names.get(key)
        if name is None:
            return None
        found = next((entry for entry in name.entries if entry.place == place), None)
        if found is None and not all(entry.place for entry in name.entries):
            name.early[place] = verdict
            if len(name.early) > EARLY:
                del name.early[next(iter(name.early))]
        return found

    def _over(self, entry: PendingPage) -> bool:
        """Take a page out; False where it was out before."""
        if not entry.waits:
            return False
        entry.waits = False
        name = self._names[entry.page.verdict_key]
        name.entries.remove(entry)
        if not name.entries:
            del self._names[entry.page.verdict_key]
        return True

    def _finish(self, entries: Sequence[PendingPage], with_: Verdict | SimstreamError | None) -> None:
        """End futures; one that its owner has cancelled is left alone."""
        for entry in entries:
            if not entry.future.set_running_or_notify_cancel():
                continue
            if isinstance(with_, Verdict):
                entry.future.set_result(with_)
            elif with_ is not None:
                entry.future.set_exception(with_)
