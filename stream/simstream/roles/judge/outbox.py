"""Publishes judged frames in order, in a thread of its own, while the next frames are judged.

A transaction takes all waiting verdicts, as far as they fit. So few verdicts never wait, and many share the cost.
Encoded verdicts are kept until their commit returns. After a failure the same bytes are sent again, in parts if the
transaction outlived its time. The number of waiting verdicts is bounded; then the judge waits.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import wait
from types import TracebackType
from typing import NamedTuple, Self

from simstream.errors import DiskFull, TransactionOutlived
from simstream.log.base import OutgoingVerdict, Publisher
from simstream.processors import call_in_daemon
from simstream.roles.judge.transaction_room import TransactionRoom
from simstream.telemetry.tracing import TracedPage

MAX_BYTES = 8 << 20
"""No more frames are taken while this many bytes of verdicts wait. One batch may exceed the limit."""
MAX_FRAMES = 4_096
"""No more frames are taken while this many wait, with or without verdicts."""
PAUSE_S = 1.0
_logger = logging.getLogger("simstream.judge")


class PendingFrame(NamedTuple):
    """The verdicts of a frame and the position behind it, with the numbers to count once they are committed.

    A frame without verdicts only moves the position, to `frame`, the log's next frame.
    """

    verdicts: Sequence[OutgoingVerdict]
    position: bytes
    kinds: Mapping[str, int]
    """The number of verdicts of each kind."""
    appended_ms: int
    """When the frame came into the log, in ms since 1970."""
    arrival_counts: Mapping[int, int]
    """The number of its pages by arrival in the source topic, in ms."""
    frame: int = 0
    header_bytes: int = 0
    """The bytes of the headers that pages gave to its verdicts."""
    traced: Sequence[TracedPage] = ()
    """Its pages that get a span."""

    @property
    def bytes(self) -> int:
        """The bytes of its encoded verdicts, with the headers of pages."""
        return self.header_bytes + sum(len(verdict.value) + len(verdict.key) for verdict in self.verdicts)


class CommittedBatch(NamedTuple):
    """One published transaction, counted as in `PendingFrame`."""

    kinds: Counter[str]
    appended: Counter[int]
    arrival_counts: Counter[int]
    frame: int
    seconds: float
    """The seconds that it took."""
    traced: Sequence[TracedPage] = ()


class VerdictOutbox:
    """A bounded queue before a publisher. The next call raises an error of the publisher."""

    def __init__(
        self,
        publisher: Publisher,
        committed: Callable[[CommittedBatch], None],
        waiting: Callable[[VerdictOutbox], None] = lambda outbox: None,
        give_up_s: float = 0.0,
    ) -> None:
        """Start the publisher's thread.

        The outbox calls `committed` after each transaction, in that thread, and `waiting` while `put` waits. It
        tries for `give_up_s` seconds if the disk is full, or if the broker is too slow for a frame.
        """
        self._publisher = publisher
        self._give_up_s = give_up_s
        self._waiting = waiting
        self._committed = committed
        self._room = TransactionRoom()
        self._queue: deque[tuple[PendingFrame, int]] = deque()
        self._bytes = 0
        self._changed = threading.Condition()
        self._ending = self._failed = False
        self._since: float | None = None
        self.obstacle = ""
        """Why the current transaction is tried again; empty if it is not."""
        self._publishing = call_in_daemon(self._run, "publish")

    def put(self, frames: Sequence[PendingFrame]) -> None:
        """Hand over frames. Waits while the queue is full."""
        sized = [(frame, frame.bytes) for frame in frames]
        while True:
            self.check()
            with self._changed:
                full = self._bytes >= MAX_BYTES or len(self._queue) >= MAX_FRAMES
                if not full:
                    self._queue.extend(sized)
                    self._bytes += sum(size for _, size in sized)
                    self._changed.notify_all()
                    return
                self._changed.wait(0.2)
            self._waiting(self)

    def check(self) -> None:
        """Raise the publisher's error, if it failed."""
        if self._publishing.done():
            self._publishing.result()

    @property
    def busy_s(self) -> float:
        """Return the seconds since the current transaction began; 0 without one."""
        since = self._since
        return 0.0 if since is None else time.monotonic() - since

    def finish(self) -> None:
        """Wait until all frames are committed."""
        self._end()
        self._publishing.result()

    def _end(self) -> None:
        with self._changed:
            self._ending = True
            self._changed.notify_all()

    def _run(self) -> None:
        try:
            while frames := self._next():
                self._since = time.monotonic()
                self._publish(frames)
                self._since = None
        finally:
            with self._changed:
                self._changed.notify_all()

    def _next(self) -> list[tuple[PendingFrame, int]]:
        """Return the waiting frames that fit into a transaction; an empty list once the outbox ends."""
        with self._changed:
            while not self._queue and not self._ending:
                self._changed.wait()
            frames = [] if self._failed else list(self._queue)
            return frames[: self._room.count_fitting([size for _, size in frames])]

    def _publish(self, frames: Sequence[tuple[PendingFrame, int]]) -> None:
        """Publish these frames, the first of the queue, and remove them from it.

        If the transaction outlives its time, publish fewer of them. The others stay in the queue.
        """
        begun = time.monotonic()
        while True:
            verdicts = [verdict for frame, _ in frames for verdict in frame.verdicts]
            size, began = sum(size for _, size in frames), time.monotonic()
            try:
                self._publisher.publish(verdicts, frames[-1][0].position)
                break
            except DiskFull as error:
                if time.monotonic() - begun > self._give_up_s:
                    raise
                self.obstacle = error.what
                _logger.warning("%s; trying again", error.what)
                time.sleep(PAUSE_S)
            except TransactionOutlived as error:
                self._room.note_timeout(size)
                if time.monotonic() - begun > self._give_up_s:
                    raise
                self.obstacle = error.what
                frames = frames[: self._room.count_fitting([size for _, size in frames])]
                _logger.warning("%s; trying again with %d of its frames", error.what, len(frames))
        self.obstacle = ""
        seconds = time.monotonic() - began
        self._room.note_commit(size, seconds)
        _logger.debug("published %d verdicts of %d frames in %.1f ms", len(verdicts), len(frames), 1e3 * seconds)
        with self._changed:
            for _, taken in frames:
                self._queue.popleft()
                self._bytes -= taken
            self._changed.notify_all()
        self._committed(_committed([frame for frame, _ in frames], seconds))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None and not self._publishing.done():
            # The judge failed: queued frames must not be published after it. The thread is a daemon.
            self._failed = True
            self._end()
            wait([self._publishing], 10)


def _committed(frames: Sequence[PendingFrame], seconds: float) -> CommittedBatch:
    kinds: Counter[str] = Counter()
    appended: Counter[int] = Counter()
    arrival_counts: Counter[int] = Counter()
    for frame in frames:
        kinds.update(frame.kinds)
        arrival_counts.update(frame.arrival_counts)
        if frame.verdicts:
            appended[frame.appended_ms] += len(frame.verdicts)
    traced = [page for frame in frames for page in frame.traced]
    return CommittedBatch(kinds, appended, arrival_counts, frames[-1].frame, seconds, traced)
