"""Ctrl-C and SIGTERM wait for what must not be left half done."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from simstream.interrupts import PATIENCE, interrupts_held


@pytest.fixture(params=[signal.SIGINT, signal.SIGTERM])
def interrupt(request: pytest.FixtureRequest) -> Iterator[signal.Signals]:
    """A signal that is an interrupt, as in every command."""
    before = signal.signal(request.param, signal.default_int_handler)
    yield request.param
    signal.signal(request.param, before)


def send_held(interrupt: signal.Signals, times: int, sent: list[int]) -> None:
    """Send a signal some times while interrupts are held, and note after which of them the work goes on."""
    with interrupts_held():
        for number in range(1, times + 1):
            os.kill(os.getpid(), interrupt)
            sent.append(number)


def test_an_interrupt_is_raised_at_the_end(interrupt: signal.Signals) -> None:
    sent: list[int] = []
    with pytest.raises(KeyboardInterrupt):
        send_held(interrupt, 1, sent)
    assert sent == [1]
    assert signal.getsignal(interrupt) is signal.default_int_handler


def test_the_last_of_several_interrupts_is_raised_at_once(interrupt: signal.Signals) -> None:
    sent: list[int] = []
    with pytest.raises(KeyboardInterrupt):
        send_held(interrupt, 2 * PATIENCE, sent)
    assert sent == list(range(1, PATIENCE))


def test_a_handler_of_the_program_is_left_alone(interrupt: signal.Signals) -> None:
    heard: list[int] = []
    signal.signal(interrupt, lambda number, _: heard.append(number))
    with interrupts_held():
        os.kill(os.getpid(), interrupt)
        assert heard == [interrupt]


def test_a_signal_between_two_handlers_leaves_both_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    both = signal.SIGINT, signal.SIGTERM
    before = [signal.signal(one, signal.default_int_handler) for one in both]
    change, changed = signal.signal, []

    def change_and_interrupt(number: int, handler: object) -> object:
        found = change(number, handler)  # type: ignore[arg-type]
        changed.append(number)
        if len(changed) == 1:  # SIGINT is held, SIGTERM not yet
            os.kill(os.getpid(), signal.SIGTERM)
        return found

    monkeypatch.setattr(signal, "signal", change_and_interrupt)
    with pytest.raises(KeyboardInterrupt), interrupts_held():
        pass
    monkeypatch.undo()
    assert [signal.getsignal(one) for one in both] == [signal.default_int_handler] * 2
    for one, handler in zip(both, before, strict=True):
        signal.signal(one, handler)
