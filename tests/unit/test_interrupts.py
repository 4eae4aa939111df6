"""Ctrl-C and SIGTERM wait for what must not be left half done."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from types import FrameType

import pytest
from numba import njit

from simstream.interrupts import PATIENCE, interrupts_held, raise_interrupts


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


@pytest.fixture
def raised() -> Iterator[None]:
    """The handlers of a command."""
    before = {one: signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    raise_interrupts()
    yield
    for one, handler in before.items():
        signal.signal(one, handler)


class _Interrupting:
    """Its end is interrupted."""

    def __del__(self) -> None:
        os.kill(os.getpid(), signal.SIGINT)


def _drop() -> None:
    made = _Interrupting()
    del made


def _load_a_kernel() -> None:
    """Interrupt what LLVM calls while a kernel is compiled."""

    def interrupting(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_name == "_raw_object_cache_notify":
            sys.setprofile(None)
            os.kill(os.getpid(), signal.SIGINT)

    sys.setprofile(interrupting)
    try:
        njit(lambda number: number + 1)(1)
        assert sys.getprofile() is None, "LLVM has called nothing"
    finally:
        sys.setprofile(None)


@pytest.mark.usefixtures("raised")
@pytest.mark.parametrize("interrupted", [_drop, _load_a_kernel])
def test_an_interrupt_where_it_would_be_dropped_comes_a_little_later(interrupted: Callable[[], None]) -> None:
    def interrupted_soon() -> None:
        interrupted()
        time.sleep(20)

    with pytest.raises(KeyboardInterrupt):
        interrupted_soon()


@pytest.mark.usefixtures("raised")
def test_an_interrupt_that_comes_later_is_held_too() -> None:
    ended = False

    def end_held() -> None:
        nonlocal ended
        _drop()
        with interrupts_held():
            time.sleep(0.1)
            ended = True

    with pytest.raises(KeyboardInterrupt):
        end_held()
    assert ended


@pytest.mark.usefixtures("raised")
def test_signals_that_are_ignored_stay_so() -> None:
    for one in (signal.SIGINT, signal.SIGTERM):
        signal.signal(one, signal.SIG_IGN)
    raise_interrupts()
    assert {signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)} == {signal.SIG_IGN}
