"""Runs merges: in the caller's thread, or in a background thread."""

from __future__ import annotations

import threading

from simstream.closing import Closing
from simstream.index.merge import ReleasedCounter, SegmentMerger
from simstream.index.packed import Pause

SMALLER = 4
"""Between two steps of long work, work that is so many times smaller goes first."""


Work = SegmentMerger | ReleasedCounter
"""What is done here: it reads nothing that changes."""


class WorkStopped(Exception):
    """Raised inside of work that nobody waits for any more."""


class InlineWorker:
    """Does work when it is submitted."""

    def __init__(self) -> None:
        self._done: list[Work] = []

    @property
    def outstanding(self) -> int:
        """Work submitted and not collected."""
        return len(self._done)

    def submit(self, work: Work) -> None:
        """Do it."""
        work.run(lambda: None)
        self._done.append(work)

    def collect(self) -> list[Work]:
        """What is done since the last call."""
        done, self._done = self._done, []
        return done

    def failed(self) -> None:
        """What work raises is raised by `submit`."""

    def wait(self) -> None:
        """Nothing is ever under way."""

    def close(self) -> None:
        """Nothing to stop."""


class BackgroundWorker(Closing):
    """One thread that does the smallest work first, also between two steps of longer work.

    The thread starts with the first work, and keeps no reference to who submitted it. All methods are for one
    other thread.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._queue: list[Work] = []
        self._done: list[Work] = []
        self._failed: list[tuple[Work, BaseException]] = []
        self._thread: threading.Thread | None = None
        self._stopping = False
        self.outstanding = 0
        """Work submitted, and neither collected nor failed."""

    def submit(self, work: Work) -> None:
        """Have it done. After `close` it is left undone."""
        with self._changed:
            if self._stopping:
                return
            self.outstanding += 1
            self._queue.append(work)
            self._changed.notify_all()
        if self._thread is None:
            self._thread = threading.Thread(target=self._loop, name="simstream-merge", daemon=True)
            self._thread.start()

    def collect(self) -> list[Work]:
        """What is done since the last call; never waits."""
        with self._changed:
            done, self._done = self._done, []
            self.outstanding -= len(done)
            return done

    def failed(self) -> tuple[Work, BaseException] | None:
        """Work that raised, and what; each once."""
        with self._changed:
            if not self._failed:
                return None
            self.outstanding -= 1
            return self._failed.pop(0)

    def wait(self) -> None:
        """Until there is something to collect, or nothing under way."""
        with self._changed:
            self._changed.wait_for(lambda: self._done or self._failed or not self.outstanding)

    def close(self) -> None:
        """End the thread at the next step; work that is not done is left undone."""
        self.stop()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def stop(self) -> None:
        """As `close`, without waiting."""
        with self._changed:
            self._stopping = True
            self.outstanding -= len(self._queue)
            self._queue.clear()
            self._changed.notify_all()

    def _loop(self) -> None:
        while (work := self._next()) is not None:
            self._do(work)
            del work  # the segments that it replaced would live on until there is other work

    def _next(self) -> Work | None:
        """Waits for work; None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._stopping)
            return None if self._stopping else self._take(None)

    def _take(self, below: int | None) -> Work | None:
        """The smallest work waiting, if it is smaller than `below`."""
        smallest = min(self._queue, key=lambda work: work.size, default=None)
        if smallest is None or (below is not None and smallest.size >= below):
            return None
        self._queue.remove(smallest)
        return smallest

    def _do(self, work: Work) -> None:
        error: BaseException | None = None
        try:
            work.run(self._between(work.size))
        except WorkStopped:
            with self._changed:
                self.outstanding -= 1
                self._changed.notify_all()
            return
        except BaseException as caught:  # noqa: BLE001 - handed to the thread that collects
            error = caught
        with self._changed:
            if error is None:
                self._done.append(work)
            else:
                self._failed.append((work, error))
            self._changed.notify_all()

    def _between(self, size: int) -> Pause:
        def pause() -> None:
            while True:
                with self._changed:
                    if self._stopping:
                        raise WorkStopped
                    smaller = self._take(size // SMALLER)
                if smaller is None:
                    return
                self._do(smaller)

        return pause
