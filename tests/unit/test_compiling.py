"""Compiling: what another process is given, that nothing is lost if it cannot do its work, and what is said."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

import pytest

from simstream import compiling
from simstream.compiling import CompilingProcess, announced
from tests.waiting import until


def _write() -> None:
    """What a process of these tests does."""
    Path(sys.stdin.read()).write_text("done")


def _hang() -> None:
    time.sleep(600)


@pytest.fixture
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})


@pytest.mark.usefixtures("two_cores")
def test_the_function_gets_what_is_given_and_is_waited_for(tmp_path: Path) -> None:
    with CompilingProcess(__name__, "_write", str(tmp_path / "file").encode()) as process:
        process.wait()
    assert (tmp_path / "file").read_text() == "done"


@pytest.mark.usefixtures("two_cores")
def test_a_process_that_is_not_waited_for_ends_with_its_block() -> None:
    with CompilingProcess(__name__, "_hang") as process:
        running = process._process
    assert running is not None
    assert running.poll() is not None


@pytest.mark.usefixtures("two_cores")
@pytest.mark.parametrize("function", ["_not_there", "_write"])
def test_a_process_that_fails_costs_nothing_and_says_nothing(
    function: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with CompilingProcess(__name__, function, b"/not/there") as process:
        process.wait()
    assert capfd.readouterr() == ("", "")


@pytest.mark.usefixtures("two_cores")
def test_without_an_interpreter_there_is_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/not/there")
    with CompilingProcess(__name__, "_write") as process:
        process.wait()
    assert process._process is None


@pytest.mark.usefixtures("two_cores")
def test_a_frozen_program_does_not_start_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    with CompilingProcess(__name__, "_hang") as process:
        assert process._process is None


def test_on_one_core_there_is_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    assert CompilingProcess(__name__, "_hang")._process is None


def test_work_that_takes_longer_than_loading_is_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    heard = threading.Event()
    monkeypatch.setattr(compiling, "LOADING_S", 0.0)
    with announced(lambda sentence: (said.append(sentence), heard.set())[0], "the judge"):
        assert heard.wait(60)
    assert said == ["compiling the kernels of the judge, once: this takes half a minute, or more on a busy machine"]


def test_work_that_ends_in_time_or_fails_is_not_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    threads = threading.active_count()
    with announced(said.append, "the judge"):
        pass
    with pytest.raises(ZeroDivisionError), announced(said.append, "the judge"):
        raise ZeroDivisionError
    until(lambda: threading.active_count() <= threads, "its thread has ended")
    assert said == []
