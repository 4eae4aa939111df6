"""Lets SIGTERM and SIGINT end a service: while it starts, and once it runs."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from queue import SimpleQueue

from simstream.closing import Closing


class StartSignals(Closing):
    """Sees to it that a signal ends a service that is still starting. For the main thread.

    A handler raises a KeyboardInterrupt there. A library may drop it and go on, or hang while it is left. So
    `begun` is called in another thread when a signal comes, even if no handler can run.
    """

    def __init__(self, begun: Callable[[], None]) -> None:
        self._begun = begun
        self._came = False
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        self._writer = os.fdopen(writer, "wb", buffering=0)
        self._watch = threading.Thread(target=self._wait, args=(reader,), name="signals", daemon=True)
        self._watch.start()
        signal.set_wakeup_fd(writer)

    def _wait(self, reader: int) -> None:
        with os.fdopen(reader, "rb", buffering=0) as signals:
            if signals.read(1):
                self._came = True
                self._begun()
                while signals.read(64):
                    pass  # a signal that comes again, as of the timer that raises an interrupt once more

    def close(self) -> None:
        """The start is over, or has failed."""
        signal.set_wakeup_fd(-1)
        self._writer.close()

    def started(self) -> None:
        """The start is over. Raises KeyboardInterrupt if a signal has come whose interrupt was lost."""
        self.close()
        self._watch.join()
        if self._came:
            raise KeyboardInterrupt


def stop_on_signals(stop: threading.Event) -> None:
    """Set `stop` on SIGTERM and SIGINT, and on SIGHUP unless it is ignored, as by `nohup`. For the main thread.

    A signal's handler runs between two steps of the main thread. If that thread is about to wait for `stop`, it
    holds the lock of `stop`: `stop.set()` in the handler would wait for ever. So the handler only puts a note into
    a queue that handlers may use, and another thread sets `stop`.
    """
    notes: SimpleQueue[int] = SimpleQueue()

    def set_once_asked() -> None:
        notes.get()
        stop.set()

    threading.Thread(target=set_once_asked, name="stop", daemon=True).start()
    names = [signal.SIGTERM, signal.SIGINT]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        names.append(signal.SIGHUP)
    for name in names:
        signal.signal(name, lambda number, _: notes.put(number))
