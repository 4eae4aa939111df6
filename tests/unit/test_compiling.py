"""A process that compiles meanwhile: what it is given, and that nothing is lost if it cannot do its work."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from simstream.compiling import CompilingProcess


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


def test_on_one_core_there_is_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    assert CompilingProcess(__name__, "_hang")._process is None
