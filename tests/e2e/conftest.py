"""Fixtures of the end-to-end and fault tests: the program over a fresh place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from simstream.cli.main import invoke
from tests.e2e.harness import Program
from tests.kafka_fixtures import TopicPlace


@pytest.fixture
def program(tmp_path: Path, cache: Path, place: TopicPlace) -> Program:
    """The program over both logs by turns, without topics."""
    return Program(tmp_path, cache, place)


@pytest.fixture
def on_kafka(tmp_path: Path, cache: Path, kafka_place: TopicPlace) -> Program:
    """The program over a fresh prefix on the broker, without topics."""
    return Program(tmp_path, cache, kafka_place)


@pytest.fixture
def on_folder(tmp_path: Path, cache: Path, local_place: TopicPlace) -> Program:
    """The program over a log in a fresh folder, without topics."""
    return Program(tmp_path, cache, local_place)


@pytest.fixture
def alone(tmp_path: Path, cache: Path) -> Program:
    """The program without a log."""
    return Program(tmp_path, cache)


@pytest.fixture
def refuses(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[[str, str], None]:
    """A function that gives `dedup` arguments, in the test's folder. `dedup` must refuse them, say why, and leave
    the folder as it was."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SIMSTREAM_CACHE", str(cache))

    def check(arguments: str, said: str) -> None:
        before = sorted(tmp_path.rglob("*"))
        assert invoke(["dedup", *arguments.split()]) == 2
        assert said in capsys.readouterr().err
        assert sorted(tmp_path.rglob("*")) == before

    return check
