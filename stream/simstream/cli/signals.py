"""Lets SIGTERM and SIGINT ask a service to stop."""

from __future__ import annotations

import signal
import threading
from queue import SimpleQueue


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
