"""Ctrl-C and SIGTERM wait for what must not be left half done."""

from __future__ import annotations

import importlib
import operator
import os
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from types import FrameType, SimpleNamespace

import pytest
from numba import njit

from simstream.interrupts import PATIENCE, interrupts_held, is_interrupt, keep_interrupts, leave_interrupts


@pytest.fixture(params=[signal.SIGINT, signal.SIGTERM])
def interrupt(request: pytest.FixtureRequest) -> signal.Signals:
    """A signal that is an interrupt, as in every command."""
    signal.signal(request.param, signal.default_int_handler)
    return request.param


def send_held(interrupt: signal.Signals, times: int, sent: list[int]) -> None:
    """Send a signal some times while interrupts are held, and note after which of them the work goes on."""
    with interrupts_held():
        for number in range(1, times + 1):
            os.kill(os.getpid(), interrupt)
            sent.append(number)


def send(*signals: signal.Signals, sent: list[int] | None = None) -> None:
    """Send these signals to this process, and note after which of them the work goes on."""
    for number in signals:
        os.kill(os.getpid(), number)
        if sent is not None:
            sent.append(number)


def fail_after(*signals: signal.Signals) -> None:
    send(*signals)
    raise ValueError


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


@pytest.mark.parametrize("error", [None, ValueError])
def test_a_handler_of_the_program_may_wait_and_is_called_whatever_is_raised(
    interrupt: signal.Signals, error: type[Exception] | None
) -> None:
    heard: list[int] = []

    def handle(number: int, _: object) -> None:
        heard.append(number)

    signal.signal(interrupt, handle)
    with pytest.raises(error) if error else nullcontext(), interrupts_held(every=True):
        os.kill(os.getpid(), interrupt)
        assert heard == []
        if error:
            raise error
    assert heard == [interrupt]
    assert signal.getsignal(interrupt) is handle


def test_each_handler_is_called_behind_the_work_although_one_raises(interrupt: signal.Signals) -> None:
    heard: list[int] = []

    def limit(*_: object) -> None:
        raise TimeoutError

    signal.signal(interrupt, lambda number, _: heard.append(number))
    signal.signal(signal.SIGALRM, limit)
    with pytest.raises(TimeoutError) as raised, interrupts_held(every=True):
        fail_after(signal.SIGALRM, interrupt)
    assert heard == [interrupt]
    assert isinstance(raised.value.__context__, ValueError), "the error of the work is told, too"


def test_alarms_of_the_program_use_up_nothing_of_the_patience_with_ctrl_c(interrupt: signal.Signals) -> None:
    beats: list[int] = []
    signal.signal(signal.SIGALRM, lambda number, _: beats.append(number))
    sent: list[int] = []
    with pytest.raises(KeyboardInterrupt), interrupts_held(every=True):
        send(*[signal.SIGALRM] * 4, *[interrupt] * 2 * PATIENCE, sent=sent)
    assert sent == [signal.SIGALRM] * 4 + [interrupt] * (PATIENCE - 1)
    assert beats


@pytest.mark.parametrize("at", [1, 3])
def test_a_signal_between_two_handlers_leaves_both_as_they_were(at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    both = signal.SIGINT, signal.SIGTERM
    for one in both:
        signal.signal(one, signal.default_int_handler)
    change, changed = signal.signal, []

    def change_and_interrupt(number: int, handler: object) -> object:
        found = change(number, handler)  # type: ignore[arg-type]  # any handler
        changed.append(number)
        if len(changed) == at:  # first SIGINT is held, SIGTERM not yet; then this one is back, the other not yet
            os.kill(os.getpid(), signal.SIGTERM if at == 1 else number)
        return found

    monkeypatch.setattr(signal, "signal", change_and_interrupt)
    with pytest.raises(KeyboardInterrupt), interrupts_held():
        pass
    monkeypatch.undo()
    assert [signal.getsignal(one) for one in both] == [signal.default_int_handler] * 2


@pytest.fixture
def kept() -> Iterator[None]:
    """The handlers of a command."""
    hook = sys.unraisablehook
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    keep_interrupts()
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    sys.unraisablehook = hook


class _Interrupting:
    """Its end is interrupted."""

    def __del__(self) -> None:
        os.kill(os.getpid(), signal.SIGINT)


def _in_a_destructor() -> None:
    made = _Interrupting()
    del made


def _in_the_callback_of_a_weak_reference() -> None:
    class Made:
        """Anything."""

    made = Made()
    kept = weakref.ref(made, lambda _: os.kill(os.getpid(), signal.SIGINT))
    del made
    assert kept() is None


def _in_a_generator_that_is_destroyed() -> None:
    def numbers() -> Iterator[int]:
        try:
            yield 1
        finally:
            os.kill(os.getpid(), signal.SIGINT)

    next(numbers())


def _in_what_llvm_calls() -> None:
    """It calls while a kernel is compiled."""

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


@pytest.mark.usefixtures("kept")
@pytest.mark.parametrize("signalled", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    "interrupted",
    [
        _in_a_destructor,
        _in_the_callback_of_a_weak_reference,
        _in_a_generator_that_is_destroyed,
        _in_what_llvm_calls,
    ],
)
def test_an_interrupt_that_is_dropped_is_raised_again(
    monkeypatch: pytest.MonkeyPatch, interrupted: Callable[[], None], signalled: int
) -> None:
    send = os.kill
    monkeypatch.setattr(os, "kill", lambda process, _: send(process, signalled))

    def interrupted_soon() -> None:
        interrupted()
        time.sleep(20)

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        interrupted_soon()
    assert time.monotonic() - began < 20


class _Lock(AbstractContextManager[None]):
    """A lock that is interrupted in one of its functions, while it is taken."""

    def __init__(self, function: str, signalled: int) -> None:
        self._function, self._signal, self.is_taken = function, signalled, False

    def __enter__(self) -> None:
        self.is_taken = True
        if self._function == "__enter__":
            signal.raise_signal(self._signal)

    def __exit__(self, *_: object) -> None:
        if self._function == "__exit__":
            signal.raise_signal(self._signal)
        self.is_taken = False


@pytest.mark.usefixtures("kept")
@pytest.mark.parametrize("signalled", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("function", ["__enter__", "__exit__"])
def test_an_interrupt_in_a_function_of_a_lock_leaves_it_to_nobody(function: str, signalled: int) -> None:
    lock = _Lock(function, signalled)

    def take_and_give_back() -> None:
        with lock:
            pass
        time.sleep(20)

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        take_and_give_back()
    assert not lock.is_taken
    assert time.monotonic() - began < 20


@pytest.mark.usefixtures("kept")
@pytest.mark.parametrize("signalled", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_while_a_module_is_imported_comes_behind_it(
    signalled: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "interrupted_module.py").write_text(
        f"import signal, time\nsignal.raise_signal({int(signalled)})\ntime.sleep(0.1)\nis_whole = True\n"
    )
    monkeypatch.syspath_prepend(tmp_path)

    def import_and_wait() -> None:
        importlib.import_module("interrupted_module")
        time.sleep(20)

    with pytest.raises(KeyboardInterrupt):
        import_and_wait()
    assert sys.modules.pop("interrupted_module").is_whole


@pytest.mark.usefixtures("kept")
def test_an_import_that_never_ends_is_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simstream.interrupts._MOST_POSTPONED_IMPORTING", 5)
    (tmp_path / "endless_module.py").write_text(
        "import signal, time\nsignal.raise_signal(signal.SIGINT)\ntime.sleep(20)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        importlib.import_module("endless_module")
    assert time.monotonic() - began < 20


@pytest.mark.usefixtures("kept")
def test_a_lock_within_a_long_import_is_left_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simstream.interrupts._MOST_POSTPONED", 3)
    (tmp_path / "locking_module.py").write_text(
        "import signal, time\nsignal.raise_signal(signal.SIGINT)\n"
        "class Lock:\n    def acquire(self):\n        time.sleep(0.2)\n        self.is_taken = True\n"
        "lock = Lock()\nlock.acquire()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)

    def import_and_wait() -> None:
        importlib.import_module("locking_module")
        time.sleep(20)

    with pytest.raises(KeyboardInterrupt):
        import_and_wait()
    assert sys.modules.pop("locking_module").lock.is_taken


@pytest.mark.usefixtures("kept")
@pytest.mark.parametrize("in_python", [False, True])
def test_an_interrupt_as_a_lock_is_given_back_to_wait_comes_while_it_waits(in_python: bool) -> None:
    lock = threading.Lock()
    condition = threading.Condition(lock)
    steps = map(operator.call, (lock.release, partial(signal.raise_signal, signal.SIGINT)))
    give_back = partial(list, steps)  # without a frame of its own
    if in_python:
        methods = {"acquire": lock.acquire, "__enter__": lock.__enter__, "__exit__": lock.__exit__}
        giving = SimpleNamespace(release=give_back, **methods)
        condition._lock = giving  # type: ignore[attr-defined]  # undeclared
    else:  # as in a Condition with an RLock
        condition._release_save = give_back  # type: ignore[attr-defined]  # undeclared

    def wait() -> None:
        with condition:
            condition.wait(20)

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        wait()
    assert time.monotonic() - began < 20
    assert lock.acquire(blocking=False)


@pytest.mark.usefixtures("kept")
def test_an_interrupt_ends_a_wait_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    again: list[object] = []
    begin = signal.setitimer

    def wait() -> None:
        begin(signal.ITIMER_REAL, 0.2)
        threading.Event().wait(20)

    monkeypatch.setattr(signal, "setitimer", lambda *given: again.append(given))
    with pytest.raises(KeyboardInterrupt):
        wait()
    assert not again


@pytest.mark.usefixtures("kept")
def test_an_interrupt_ends_the_wait_for_a_lock_that_never_comes() -> None:
    class Taken:
        """Another thread has it for ever."""

        def acquire(self) -> None:
            """Wait."""
            signal.raise_signal(signal.SIGINT)
            time.sleep(20)

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        Taken().acquire()
    assert time.monotonic() - began < 20


@pytest.mark.usefixtures("kept")
@pytest.mark.parametrize("kept_twice", [False, True])
def test_the_handlers_of_a_command_are_held_too(kept_twice: bool) -> None:
    if kept_twice:
        keep_interrupts()
    before = {one: signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)}
    sent: list[int] = []
    with pytest.raises(KeyboardInterrupt):
        send_held(signal.SIGINT, 1, sent)
    assert sent == [1]
    assert {one: signal.getsignal(one) for one in before} == before


@pytest.mark.usefixtures("kept")
def test_an_interrupt_that_is_raised_again_is_held_too() -> None:
    ended = False

    def end_held() -> None:
        nonlocal ended
        with interrupts_held():
            signal.raise_signal(signal.SIGALRM)
            ended = True

    with pytest.raises(KeyboardInterrupt):
        end_held()
    assert ended


@pytest.mark.usefixtures("kept")
def test_another_error_that_is_dropped_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda dropped: told.append(dropped.exc_type))
    keep_interrupts()

    class Failing:
        def __del__(self) -> None:
            raise ValueError

    Failing()
    assert told == [ValueError]


@pytest.mark.usefixtures("kept")
def test_as_a_program_ends_ctrl_c_is_pythons_again_and_nothing_that_was_postponed_comes() -> None:
    leave_interrupts()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert {signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGALRM)} == {signal.SIG_IGN}


@pytest.mark.usefixtures("kept")
def test_a_signal_that_is_ignored_stays_so() -> None:
    for one in (signal.SIGINT, signal.SIGTERM):
        signal.signal(one, signal.SIG_IGN)
    keep_interrupts()
    assert {signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)} == {signal.SIG_IGN}


def test_an_interrupt_while_a_class_is_made_is_known() -> None:
    class Interrupting:
        def __set_name__(self, owner: type, name: str) -> None:
            raise KeyboardInterrupt

    with pytest.raises((KeyboardInterrupt, RuntimeError)) as raised:
        type("Made", (), {"field": Interrupting()})
    assert is_interrupt(raised.value)
    assert not is_interrupt(RuntimeError())
