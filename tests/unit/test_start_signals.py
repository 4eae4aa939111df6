"""A signal while a service starts, and signals that come after it."""

from __future__ import annotations

import signal
import sys
import threading
from typing import Any

import pytest

from simstream.cli.signals import StartSignals


def test_a_signal_that_comes_again_finds_its_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    """The interpreter prints a traceback for a signal that it cannot note."""
    told: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", told.append)
    before = signal.signal(signal.SIGUSR1, lambda number, frame: None)
    begun = threading.Event()
    try:
        signals = StartSignals(begun.set)
        signal.raise_signal(signal.SIGUSR1)
        assert begun.wait(30)
        signals._watch.join(0.1)
        for _ in range(3):
            signal.raise_signal(signal.SIGUSR1)
        with pytest.raises(KeyboardInterrupt):
            signals.started()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert not told
    assert not signals._watch.is_alive()
