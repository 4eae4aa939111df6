"""Runs merges: in the caller's thread, or in two background threads."""

from __future__ import annotations

import threading

from simstream.closing import Closing
from simstream.index.merge import ReleasedCounter, SegmentMerger
from simstream.index.packed import Pause

SMALLER = 4
"""Work that is this many times smaller than long work goes first: beside it, or between two of its steps."""
BEAT_S = 0.1
"""Seconds between two signs of life while the caller waits."""

Work = SegmentMerger | ReleasedCounter
"""The work of a worker; it reads nothing that changes."""


class WorkStoppedError(Exception):
    """Raised inside work whose result is no longer needed."""


class InlineWorker:
    """Does work at once when it is submitted."""

    def __init__(self) -> None:
        self._done: list[Work] = []

    @property
    def outstanding(self) -> int:
        """The number of works submitted and not collected."""
        return len(self._done)

    def submit(self, work: Work) -> None:
        """Do the work at once."""
        work.run(lambda: None)
        self._done.append(work)

    def collect(self) -> list[Work]:
        """Return the work done since the last call."""
        done, self._done = self._done, []
        return done

    def failed(self) -> None:
        """Return nothing: `submit` raises the errors of work."""

    def wait(self, beat: Pause) -> None:
        """Return at once: no work is ever in progress."""

    def close(self) -> None:
        """Do nothing: there is no thread to stop."""


class BackgroundWorker(Closing):
    """Two threads that do the smallest work first.

    The second thread only does work that is SMALLER times smaller than the first one's. So small work never waits
    for a step of large work, which takes seconds. Both do smaller work also between two steps. The threads start
    with the first work, and keep no reference to its submitter. One other thread may call the methods.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._queue: list[Work] = []
        self._done: list[Work] = []
        self._failed: list[tuple[Work, BaseException]] = []
        self._threads: list[threading.Thread] = []
        self._size = 0
        """The size of the first thread's work; 0 without work."""
        self._stopping = False
        self.outstanding = 0
        """The number of works submitted, and neither collected nor failed."""

    def submit(self, work: Work) -> None:
        """Submit work. After `close` it is never done."""
        with self._changed:
            if self._stopping:
                return
            self.outstanding += 1
            self._queue.append(work)
            self._changed.notify_all()
        if not self._threads:
            loops = ("simstream-merge", self._loop), ("simstream-small-merge", self._loop_beside)
            self._threads = [threading.Thread(target=loop, name=name, daemon=True) for name, loop in loops]
            for thread in self._threads:
                thread.start()

    def collect(self) -> list[Work]:
        """Return the work done since the last call. Never waits."""
        with self._changed:
            done, self._done = self._done, []
            self.outstanding -= len(done)
            return done

    def failed(self) -> tuple[Work, BaseException] | None:
        """Return failed work with its error, each once."""
        with self._changed:
            if not self._failed:
                return None
            self.outstanding -= 1
            return self._failed.pop(0)

    def wait(self, beat: Pause) -> None:
        """Wait until there is work to collect, or none in progress. Calls `beat` every BEAT_S."""
        while not self._waited():
            beat()

    def _waited(self) -> bool:
        """Wait for BEAT_S, and return whether `wait` is over."""
        with self._changed:
            return bool(self._changed.wait_for(lambda: self._done or self._failed or not self.outstanding, BEAT_S))

    def close(self) -> None:
        """End the threads at their next steps; other work is never done."""
        self.stop()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()

    def stop(self) -> None:
        """Do what `close` does, without waiting."""
        with self._changed:
            self._stopping = True
            self.outstanding -= len(self._queue)
            self._queue.clear()
            self._changed.notify_all()

    def _loop(self) -> None:
        while (work := self._next()) is not None:
            self._do(work)
            del work  # otherwise the replaced segments would live on until the next work
            with self._changed:
                self._size = 0

    def _next(self) -> Work | None:
        """Wait for work of any size and return it; None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._stopping)
            work = None if self._stopping else self._take(None)
            self._size = work.size if work else 0
            return work

    def _loop_beside(self) -> None:
        while (work := self._next_beside()) is not None:
            self._do(work)
            del work

    def _next_beside(self) -> Work | None:
        """Wait for work that is much smaller than the first thread's and return it; None at the end."""
        with self._changed:
            while not self._stopping:
                work = self._take(self._size // SMALLER)
                if work is not None:
                    return work
                self._changed.wait()
            return None

    def _take(self, below: int | None) -> Work | None:
        """Return the smallest waiting work, if it is smaller than `below`."""
        smallest = min(self._queue, key=lambda work: work.size, default=None)
        if smallest is None or (below is not None and smallest.size >= below):
            return None
        self._queue.remove(smallest)
        return smallest

    def _do(self, work: Work) -> None:
        error: BaseException | None = None
        try:
            work.run(self._between(work.size))
        except WorkStoppedError:
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
                        raise WorkStoppedError
                    smaller = self._take(size // SMALLER)
                if smaller is None:
                    return
                self._do(smaller)

        return pause
