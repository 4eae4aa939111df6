"""How a matcher's answers are written while the disk of a local log is full."""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from simstream.errors import DeliveryFailed
from simstream.log.local.log import LocalLog
from simstream.log.local.topic_file import LogFiles
from simstream.log.local.writing import LocalAppender
from simstream.log.options import MATCHES, LogOptions
from simstream.roles.match import answer_writer
from simstream.roles.match.answer_writer import AnswerWriter
from tests.contract.helpers import read_all
from tests.role_threads import PATIENCE_S
from tests.waiting import until


class SmallRoom(LogFiles):
    """A disk that takes `room` further groups."""

    room = 1_000

    def pwrite(self, descriptor: int, data: bytes, offset: int) -> None:
        if self.room <= 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.room -= 1
        super().pwrite(descriptor, data, offset)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> SmallRoom:
    monkeypatch.setattr(answer_writer, "PAUSE_S", 0.0)
    return SmallRoom()


def opened(folder: Path, disk: SmallRoom) -> LocalLog:
    log = LocalLog(folder, LogOptions(), disk)
    log.create_topics(1, 1)
    return log


def test_answers_wait_in_order_while_the_disk_is_full_and_each_is_written_once(
    tmp_path: Path, disk: SmallRoom
) -> None:
    log = opened(tmp_path / "log", disk)
    with AnswerWriter(log, give_up_s=300) as writer:
        writer.write(0, b"1")
        disk.room = 0
        for answer in (b"2", b"3", b"4"):
            writer.write(0, answer)
            writer.settle()
            assert "no room to write" in writer.obstacle
        disk.room = 2
        writer.settle()
        assert writer.obstacle
        disk.room = 1_000
        writer.settle()
        assert not writer.obstacle
        writer.write(0, b"5")
    assert [record.value for record in read_all(log, MATCHES)] == [b"1", b"2", b"3", b"4", b"5"]


def test_a_matcher_whose_disk_stays_full_gives_up_after_a_time(tmp_path: Path, disk: SmallRoom) -> None:
    with AnswerWriter(opened(tmp_path / "log", disk), give_up_s=0) as writer:
        disk.room = 0
        writer.write(0, b"1")
        with pytest.raises(DeliveryFailed, match="no room to write"):
            writer.settle()


@pytest.fixture
def reopening(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[threading.Event, threading.Event]]:
    """Let the first delivery fail. Opening an appender again sets the first event, and waits for the second."""
    begun, proceed = threading.Event(), threading.Event()
    open_appender = LocalLog.open_appender

    def wait(self: LocalLog, topic: str) -> Any:
        begun.set()
        proceed.wait(PATIENCE_S)
        return open_appender(self, topic)

    def fail(self: LocalAppender) -> int:
        monkeypatch.setattr(LocalAppender, "acknowledged", acknowledged)
        monkeypatch.setattr(LocalLog, "open_appender", wait)
        raise DeliveryFailed("all brokers are away", "mend them")

    acknowledged = LocalAppender.acknowledged
    monkeypatch.setattr(LocalAppender, "acknowledged", fail)
    yield begun, proceed
    proceed.set()


def test_while_a_shard_opens_an_appender_again_the_obstacle_says_why(
    tmp_path: Path, disk: SmallRoom, reopening: tuple[threading.Event, threading.Event]
) -> None:
    begun, proceed = reopening
    log = opened(tmp_path / "log", disk)
    with AnswerWriter(log, give_up_s=300) as writer:
        thread = threading.Thread(target=writer.write, args=(0, b"1"), daemon=True)
        thread.start()
        assert begun.wait(PATIENCE_S)
        writer.settle()
        assert writer.obstacle == "all brokers are away"
        proceed.set()
        thread.join(PATIENCE_S)
        assert not writer.obstacle
    assert {record.value for record in read_all(log, MATCHES)} == {b"1"}


def test_a_failure_is_told_before_the_loop_opens_an_appender_again(
    tmp_path: Path, disk: SmallRoom, reopening: tuple[threading.Event, threading.Event]
) -> None:
    begun, proceed = reopening
    proceed.set()
    with AnswerWriter(opened(tmp_path / "log", disk), give_up_s=300) as writer:
        writer.settle()
        assert writer.obstacle == "all brokers are away"
        assert not begun.is_set()
        writer.settle()
        assert not writer.obstacle
        assert begun.is_set()


def test_while_the_queue_is_full_the_matchers_loop_goes_on_and_hears_why(
    tmp_path: Path, disk: SmallRoom, monkeypatch: pytest.MonkeyPatch
) -> None:
    has_room, append = threading.Event(), LocalAppender.append

    def slow(self: LocalAppender, *arguments: Any, **more: Any) -> int:
        while not has_room.wait(0.01):
            self.waiting()
        return append(self, *arguments, **more)

    monkeypatch.setattr(LocalAppender, "append", slow)
    log = opened(tmp_path / "log", disk)
    with AnswerWriter(log, give_up_s=300) as writer:
        thread = threading.Thread(target=writer.write, args=(0, b"1"), daemon=True)
        thread.start()
        until(lambda: writer.obstacle, "it is told")
        loop = threading.Thread(target=writer.settle, daemon=True)
        loop.start()
        loop.join(PATIENCE_S)
        is_held_up = loop.is_alive()
        assert writer.obstacle == "its queue is full"
        has_room.set()
        thread.join(PATIENCE_S)
        assert not is_held_up
        assert not writer.obstacle
    assert [record.value for record in read_all(log, MATCHES)] == [b"1"]
