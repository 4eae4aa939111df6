"""The power goes on a lone broker: of one topic the last records are gone that only the page cache held."""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from deploy.kafka.broker import KafkaBroker
from simstream.log.options import FINGERPRINTS, PAGES, POSITIONS
from simstream.model import Record
from simstream.wire import verdict as wire
from tests.e2e.harness import Program, by_ordinal, read_topic, watching
from tests.kafka_fixtures import TopicPlace

pytestmark = pytest.mark.kafka
COUNT = 30
SMALL = {"SIMSTREAM_FRAME_MAX_PAGES": "10"}


class LoneBrokerProgram(NamedTuple):
    """A program with a single broker."""

    broker: KafkaBroker
    program: Program
    place: TopicPlace

    def segments(self, name: str) -> list[Path]:
        """The files with the records of a topic, one for each partition."""
        return sorted((self.broker.data / "log").glob(f"{name}-*/{0:020}.log"))

    def judge(self, seed: int, verdicts: int) -> None:
        """Send COUNT pages as the feed with this number, and serve until the verdicts reach `verdicts`."""
        self.program.feed(COUNT, seed)
        with self.place.open() as log, watching(log) as watcher, self.program.serve(**SMALL) as service:
            watcher.wait(verdicts, service)
            service.until(lambda: sum(log.source_offsets().values()) == seed * COUNT, "offsets are committed")
            assert service.end() == 0

    def verdicts(self) -> list[Record]:
        """All verdicts that a reader sees."""
        with self.place.open() as log, watching(log) as watcher:
            return watcher.rest()


@pytest.fixture
def lone(module_broker: KafkaBroker, tmp_path: Path, cache: Path) -> LoneBrokerProgram:
    place = TopicPlace(module_broker.address, f"s{secrets.token_hex(4)}")
    program = Program(tmp_path, cache, place)
    program.good("topics", "create", "--partitions", 1)
    return LoneBrokerProgram(module_broker, program, place)


def lose(lone: LoneBrokerProgram, name: str) -> None:
    """Judge COUNT pages twice; then the power goes, and a topic (by its full name) has its first records alone."""
    lone.judge(1, COUNT)
    safe = {path: path.stat().st_size for path in lone.segments(name)}
    lone.judge(2, 2 * COUNT)
    lone.broker.kill()
    assert any(path.stat().st_size > size for path, size in safe.items())
    for path, size in safe.items():
        os.truncate(path, size)
    lone.broker.start()


def distinct(records: Sequence[Record]) -> dict[int, bytes]:
    """The verdicts by ordinal. A verdict that came twice is the same, byte for byte."""
    found: dict[int, bytes] = {}
    for record in records:
        value = record.value or b""
        assert found.setdefault(wire.decode(value).ordinal, value) == value
    return found


def test_frames_that_are_gone_behind_their_verdicts_stop_the_judge_by_name(lone: LoneBrokerProgram) -> None:
    lose(lone, f"{lone.place.prefix}.{FINGERPRINTS}")
    assert "verdicts were published up to frame" in lone.program.refused("--roles", "judge", **SMALL)
    assert b"the log ends at frame" in lone.program.on_log("status").stdout
    lone.program.feed(COUNT, seed=3)
    with lone.place.open() as log, lone.program.serve("--roles", "fingerprint", **SMALL) as service:
        service.until(lambda: sum(log.source_offsets().values()) == 3 * COUNT, "other frames take their place")
        assert service.end() == 0
    assert "published" in lone.program.refused("--roles", "judge", **SMALL)
    assert len(by_ordinal(lone.verdicts())) == 2 * COUNT


def test_pages_that_are_gone_behind_a_commit_stop_the_fingerprinter_by_name(lone: LoneBrokerProgram) -> None:
    lose(lone, f"{lone.place.prefix}.{PAGES}")
    error = lone.program.refused("--roles", "fingerprint", **SMALL)
    assert f".{PAGES} has no offset {2 * COUNT} in partition 0" in error
    assert "the broker has lost pages" in error
    with lone.place.open() as log:
        assert len(read_topic(log, PAGES)) == COUNT


def test_pages_whose_commit_is_gone_are_read_again_and_not_judged_again(lone: LoneBrokerProgram) -> None:
    lose(lone, "__consumer_offsets")
    lone.judge(3, 3 * COUNT)
    assert len(by_ordinal(lone.verdicts())) == 3 * COUNT


def test_verdicts_whose_position_is_gone_come_again_as_they_were(lone: LoneBrokerProgram) -> None:
    lose(lone, f"{lone.place.prefix}.{POSITIONS}")
    lone.judge(3, 4 * COUNT)
    verdicts = lone.verdicts()
    assert sorted(distinct(verdicts)) == list(range(3 * COUNT))
    assert len(verdicts) == 4 * COUNT
