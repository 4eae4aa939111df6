"""The outbox: publishes judged batches in order, in a thread of its own, while the next ones are judged.

Encoded verdicts are kept until their commit has returned; what fails is sent again, the same bytes. At most
`LIMIT` batches wait; then the judge waits.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import NamedTuple, Self

from stream.errors import DiskFull
from stream.log.base import Outgoing, Publisher

LIMIT = 4
PAUSE_S = 1.0
_log = logging.getLogger("simstream.judge")


class Batch(NamedTuple):
    """Verdicts and the position after them, with their number by kind, and how many came at which ms.

    `appended`: their frames into the log; `came`: their pages into the source topic.

    Without verdicts only the position moves, to `frame`, the next one of the log.
    """

    verdicts: Sequence[Outgoing]
    position: bytes
    kinds: Counter[str]
    appended: Mapping[int, int]
    came: Mapping[int, int]
    frame: int = 0
    seconds: float = 0.0
    """How long publishing took, once it is done."""


class Outbox:
    """A bounded queue before a publisher. An error of the publisher is raised by the next call."""

    def __init__(
        self,
        publisher: Publisher,
        committed: Callable[[Batch], None],
        waiting: Callable[[Outbox], None] = lambda outbox: None,
        give_up_s: float = 0.0,
    ) -> None:
        """`committed` hears of every batch in the publisher's thread, `waiting` every moment that `put` waits.
        A full disk is waited for, up to `give_up_s` seconds."""
        self._publisher = publisher
        self._give_up_s = give_up_s
        self._waiting = waiting
        self._committed = committed
        self._queue: queue.Queue[Batch | None] = queue.Queue(LIMIT)
        self._error: BaseException | None = None
        self._since: float | None = None
        self._thread = threading.Thread(target=self._run, name="publish", daemon=True)
        self._thread.start()

    def put(self, batch: Batch) -> None:
        """Hand over a batch; waits while the queue is full."""
        while True:
            self.check()
            try:
                self._queue.put(batch, timeout=0.2)
            except queue.Full:
                self._waiting(self)
                continue
            return

    def check(self) -> None:
        """Raise what the publisher raised."""
        if self._error is not None:
            raise self._error

    @property
    def busy_s(self) -> float:
        """Seconds since the batch that is being published was begun; 0 where none is."""
        since = self._since
        return 0.0 if since is None else time.monotonic() - since

    def finish(self) -> None:
        """Wait until everything handed over is committed."""
        while self._thread.is_alive():
            try:
                self._queue.put(None, timeout=0.2)
                break
            except queue.Full:
                continue
        self._thread.join()
        self.check()

    def _run(self) -> None:
        try:
            while (batch := self._queue.get()) is not None:
                self._since = time.monotonic()
                self._publish(batch)
                seconds, self._since = self.busy_s, None
                self._committed(batch._replace(seconds=seconds))
        except BaseException as error:  # noqa: BLE001  # carried over to the judge's thread, whatever it is
            self._error = error

    def _publish(self, batch: Batch) -> None:
        while True:
            try:
                self._publisher.publish(batch.verdicts, batch.position)
                return
            except DiskFull as error:
                if self.busy_s > self._give_up_s:
                    raise
                _log.warning("%s; trying again", error.what)
                time.sleep(PAUSE_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None and self._thread.is_alive():
            # The judge failed: what is queued must not be published after it; the thread is a daemon.
            with self._queue.mutex:
                self._queue.queue.clear()
                self._queue.not_full.notify_all()
            self._queue.put(None)
            self._thread.join(timeout=10)
