"""What `status` and the margin of retention say while a service works, or after records were deleted."""

from __future__ import annotations

import logging
import socket
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from simstream.log import open_log, options_of
from simstream.log.base import Log, Publisher, TopicInfo
from simstream.log.command_hints import USUAL_SHARDS
from simstream.log.options import FINGERPRINTS, MATCHES, POSITIONS, VERDICTS, LogOptions
from simstream.roles.context import RoleContext
from simstream.roles.judge.retention import RetentionWatch
from simstream.roles.judge.snapshots import NoSnapshots
from simstream.settings import Settings
from simstream.tools.status.processes import ask_processes
from simstream.tools.status.status import StatusReader
from simstream.wire import position as positions
from simstream.wire.position import Position
from tests.kafka_fixtures import TopicPlace
from tests.waiting import until


@pytest.fixture
def log(tmp_path: Path) -> Log:
    made = open_log(str(tmp_path))
    made.create_topics(1)
    return made


def go_on(log: Log) -> None:
    """Append a frame and publish its position, as a service does between any two questions."""
    with log.open_appender(FINGERPRINTS) as appender:
        appender.append(b"frame")
        appender.flush(10)
    with log.open_publisher() as publisher:
        publisher.start()
        end = log.end_offsets(FINGERPRINTS)[0]
        publisher.publish([], positions.encode(Position(log.topic(FINGERPRINTS).id, end, end, "0" * 16, "P")))


def test_a_service_that_publishes_while_it_is_looked_at_has_no_position_behind_the_log(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends, publishers = log.end_offsets, log.open_publisher

    def work() -> None:
        with monkeypatch.context() as real:
            real.setattr(log, "end_offsets", ends)
            real.setattr(log, "open_publisher", publishers)
            go_on(log)

    def end_offsets(topic: str) -> dict[int, int]:
        found = ends(topic)
        work()
        return found

    def open_publisher() -> Publisher:
        work()
        return publishers()

    go_on(log)
    monkeypatch.setattr(log, "end_offsets", end_offsets)
    monkeypatch.setattr(log, "open_publisher", open_publisher)
    reader = StatusReader(log, "log", LogOptions(), "--log log")
    reader._read_position()
    reader._look_at_publishing(Settings())
    assert reader.status.published is not None
    assert reader.status.published.frame > 1
    assert not [problem for problem in reader.status.wrong if "the log ends" in problem.what]


def test_a_position_of_another_log_needs_a_person(log: Log) -> None:
    with log.open_publisher() as publisher:
        publisher.start()
        publisher.publish([], positions.encode(Position("other", 1, 1, "0" * 16, "P")))
    reader = StatusReader(log, "log", LogOptions(), "--log log")
    reader._read_position()
    assert not reader._look_at_publishing(Settings())
    assert ["published for the log other" in problem.what for problem in reader.status.wrong] == [True]


def test_roles_that_run_are_named_also_while_a_topic_is_missing(log: Log, tmp_path: Path) -> None:
    """Else a person starts a second set of them."""
    with log.join_election() as election, log.open_consumer() as source:
        until(lambda: source.poll(0, 0.01) and election.elected and log.running().fingerprinters, "both run")
        TopicPlace(str(tmp_path), "simstream").delete(POSITIONS)
        reader = StatusReader(log, "log", LogOptions(), "--log log")
        reader.look(Settings())
    assert (len(reader.status.judges), len(reader.status.fingerprinters)) == (1, 1)
    [wrong] = reader.status.wrong
    assert wrong.what == "topics are missing: simstream.positions"
    assert wrong.todo.endswith("if positions had records, publish under another prefix: simstream replay --to")


@pytest.mark.parametrize(
    ("given", "asked", "flags"),
    [
        ({"shards": 4}, "shards is 4", "--shards 4 --log log"),
        ({"matches": "other"}, "matches is other", f"--shards {USUAL_SHARDS} --matches other --log log"),
    ],
)
def test_matchers_that_the_settings_name_need_their_topic(
    log: Log, tmp_path: Path, given: dict[str, Any], asked: str, flags: str
) -> None:
    settings = Settings(**given)
    options = options_of(settings, 0.0)
    reader = StatusReader(open_log(str(tmp_path), options), "log", options, "--log log")
    reader.look(settings)
    [wrong] = reader.status.wrong
    assert wrong.what == f"{asked}, but there is no topic {options.full_name(MATCHES)}"
    assert wrong.todo == f"run: simstream topics create {flags}"


@pytest.mark.parametrize(("first", "kept", "margin"), [(33, 0, 0.0), (33, 40, float("inf")), (0, 0, float("inf"))])
def test_a_log_that_was_cut_before_the_snapshot_leaves_no_margin(first: int, kept: int, margin: float) -> None:
    snapshots = NoSnapshots()
    snapshots.kept = kept
    cut: Any = SimpleNamespace(
        retention_ms=lambda _: None, low_watermarks=lambda _: {0: first}, topic=lambda _: None
    )
    context = RoleContext(Settings())

    def metric(name: str) -> float | None:
        return context.metrics.registry.get_sample_value(f"simstream_{name}")

    with RetentionWatch(cut, snapshots, context, ()):
        until(lambda: metric("log_first_frame") == first, "it has asked")
        assert metric("retention_margin_seconds") == float("inf"), "nothing is read yet, so nothing is known"
        snapshots.note_frame(kept, int(time.time() * 1000))
        assert metric("retention_margin_seconds") == margin


def test_a_topic_that_is_gone_is_told_once_though_nothing_is_published(
    log: Log, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("simstream.roles.judge.retention.ASK_EVERY_S", 0.01)
    asked, info = list[str](), log.topic

    def noted(topic: str) -> TopicInfo:
        asked.append(topic)
        return info(topic)

    monkeypatch.setattr(log, "topic", noted)

    def said() -> list[logging.LogRecord]:
        return [record for record in caplog.records if record.name == "simstream.judge"]

    with RetentionWatch(log, NoSnapshots(), RoleContext(Settings()), (VERDICTS,)):
        until(lambda: len(asked) > 1, "it looks again and again")
        TopicPlace(str(tmp_path), "simstream").delete(VERDICTS)
        until(said, "it is told")
        seen = len(asked)
        until(lambda: len(asked) > seen + 5, "it goes on")
    [told] = said()
    assert (told.levelname, "simstream.verdicts" in told.getMessage()) == ("WARNING", True)


@pytest.mark.parametrize("answer", [b"SSH-2.0-OpenSSH\r\n", b""])
def test_what_is_no_process_of_the_service_is_named_beside_all_the_rest(answer: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with server.accept()[0] as wire:
                wire.recv(10_000)
                wire.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        [other, wrong] = ask_processes([address, "127.0.0.1:abc"])
        thread.join()
    assert other.error
    assert wrong.error
