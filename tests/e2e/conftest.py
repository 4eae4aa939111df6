"""Fixtures of the end-to-end and fault tests: the program over a fresh place."""

from __future__ import annotations

from pathlib import Path

import pytest

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
