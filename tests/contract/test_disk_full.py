"""A local log on a full disk: nothing torn, nothing lost, and on it goes once there is room.

The disk is full for real: a child process may write no longer files than it is told (RLIMIT_FSIZE), or, as root on
Linux, a small file system is mounted for it.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from simstream.errors import DeliveryFailed, DiskFull, LogError
from simstream.log.base import Log
from simstream.log.local.log import LocalLog
from simstream.log.local.topic_file import LogFiles
from simstream.log.options import FINGERPRINTS, PAGES, POSITIONS, VERDICTS
from tests.contract.helpers import batch, read_all
from tests.disks import fill, run_limited, small_disk
from tests.kafka_fixtures import TopicPlace

LIMITED = """
import sys
from simstream.errors import DeliveryFailed, DiskFull
from simstream.log import LogOptions, open_log
from tests.contract.helpers import batch

log = open_log(sys.argv[1], LogOptions())
"""
FULL_FOR_APPENDS = """
room(30_000)
appender = log.open_appender("fingerprints")
try:
    while True:
        print(appender.append(b"x" * 7_000), flush=True)
except DeliveryFailed as error:
    print(error)
appender.discard()
room(-1)
with log.open_appender("fingerprints") as appender:
    appender.append(b"after")
"""
FULL_FOR_VERDICTS = """
publisher = log.open_publisher()
publisher.start()
publisher.publish(batch(1), b"one")
room(1_000)
for _ in range(3):
    try:
        publisher.publish(batch(2), b"two")
    except DiskFull as error:
        print(error)
room(-1)
publisher.publish(batch(2), b"two")
publisher.publish(batch(3), b"three")
"""


def limited(place: TopicPlace, code: str) -> list[str]:
    """What a process said that was limited in the size of its files."""
    return run_limited(LIMITED + code, place.address)


def test_an_append_without_room_is_no_torn_record_in_the_middle(local_place: TopicPlace, local_log: Log) -> None:
    *told, error = limited(local_place, FULL_FOR_APPENDS)
    assert told == ["1", "2", "3", "4"]
    assert "no room to write" in error
    assert error.endswith("File too large): make room")
    assert [len(r.value or b"") for r in read_all(local_log, FINGERPRINTS)] == [7_000] * 4 + [5]


def test_verdicts_without_room_are_published_once_when_there_is_room(
    local_place: TopicPlace, local_log: Log
) -> None:
    errors = limited(local_place, FULL_FOR_VERDICTS)
    assert len(errors) == 3
    assert all(
        "no room to write" in error and error.endswith("make room, then go on: nothing is lost") for error in errors
    )
    assert [r.value for r in read_all(local_log, POSITIONS)] == [b"one", b"two", b"three"]
    assert [r.value for r in read_all(local_log, VERDICTS)] == [b"1"] * 10 + [b"2"] * 10 + [b"3"] * 10


@pytest.fixture
def small_place(tmp_path: Path) -> Iterator[TopicPlace]:
    """A file system of 256 KiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    with small_disk(folder, 256):
        yield TopicPlace(str(folder / "log"), "simstream")


def test_every_write_to_a_full_disk_is_a_named_error_and_goes_on_afterwards(small_place: TopicPlace) -> None:
    log = small_place.open()
    log.create_topics(1)
    with log.open_appender(PAGES) as appender:
        for i in range(3):
            appender.append(b"%d" % i, b"k")
    source, publisher, appender = log.open_consumer(), log.open_publisher(), log.open_appender(FINGERPRINTS)
    publisher.start()
    source.poll(10, 0)
    give_back = fill(Path(small_place.address))
    with pytest.raises(DeliveryFailed):
        appender.append(bytes(5000))
    appender.discard()
    with pytest.raises(DiskFull):
        publisher.publish(batch(1, 200), b"one")
    with pytest.raises(DiskFull):
        source.commit({0: 2})
    with pytest.raises(DiskFull):
        TopicPlace(small_place.address, "other").open().create_topics(1)
    give_back()
    with log.open_appender(FINGERPRINTS) as appender:
        appender.append(bytes(5000))
    publisher.publish(batch(1, 200), b"one")
    source.commit({0: 2})
    source.close()
    publisher.close()
    assert [len(r.value or b"") for r in read_all(log, FINGERPRINTS)] == [5000]
    assert [len(read_all(log, VERDICTS)), len(read_all(log, POSITIONS))] == [200, 1]
    with log.open_consumer() as source:
        assert source.poll(10, 0).started == [(0, 2, False)]


def no_space(*_: object) -> None:
    raise OSError(28, "No space left on device")


def test_verdicts_that_the_disk_takes_only_at_first_are_not_there(
    local_log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    with local_log.open_publisher() as publisher:
        publisher.start()
        publisher.publish(batch(1), b"one")
        monkeypatch.setattr(os, "fdatasync", no_space)
        with pytest.raises(DiskFull, match="No space left on device"):
            publisher.publish(batch(2), b"two")
        monkeypatch.undo()
        assert [r.value for r in read_all(local_log, POSITIONS)] == [b"one"]
        publisher.publish(batch(2), b"two")
    assert [r.value for r in read_all(local_log, POSITIONS)] == [b"one", b"two"]


def test_an_appender_that_failed_once_takes_no_more(local_log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    appender = local_log.open_appender(FINGERPRINTS)
    appender.append(b"one")
    monkeypatch.setattr(os, "pwrite", no_space)
    with pytest.raises(DeliveryFailed):
        appender.append(b"two")
    monkeypatch.undo()
    for use in (lambda: appender.append(b"three"), appender.acknowledged, lambda: appender.flush(1)):
        with pytest.raises(DeliveryFailed, match=r"no room to write .*: make room$"):
            use()
    appender.close()
    assert [r.value for r in read_all(local_log, FINGERPRINTS)] == [b"one"]


def test_a_reader_that_saw_half_a_record_reads_the_one_that_took_its_place(
    local_log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, seen = os.pwrite, []

    def half(fd: int, data: bytes, at: int) -> int:
        if len(data) < 3000:
            seen.append(reader.poll(10, 0))
            raise OSError(28, "No space left on device")
        return real(fd, data[:2000], at)

    with local_log.open_reader(FINGERPRINTS) as reader:
        with local_log.open_appender(FINGERPRINTS) as appender:
            monkeypatch.setattr(os, "pwrite", half)
            with pytest.raises(DeliveryFailed):
                appender.append(b"x" * 3000)
            monkeypatch.undo()
        with local_log.open_appender(FINGERPRINTS) as appender:
            appender.append(b"y")
        assert seen == [[]]
        assert [r.value for r in reader.poll(10, 1)] == [b"y"]


class ReadOnlyFiles(LogFiles):
    """A file system that turns read-only. Before, it may still take `bytes_left` bytes of a group."""

    is_read_only = False
    bytes_left = 0

    def pwrite(self, descriptor: int, data: bytes, offset: int) -> None:
        if self.is_read_only:
            super().pwrite(descriptor, data[: self.bytes_left], offset)
        self._refuse()
        super().pwrite(descriptor, data, offset)

    def truncate(self, descriptor: int, size: int) -> None:
        self._refuse()
        super().truncate(descriptor, size)

    def create(self, path: Path) -> int:
        self._refuse()
        return super().create(path)

    def _refuse(self) -> None:
        if self.is_read_only:
            raise OSError(errno.EROFS, "Read-only file system")


def test_a_file_system_that_turns_read_only_is_a_named_error_and_leaves_no_torn_group(
    local_place: TopicPlace, local_log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = ReadOnlyFiles()
    log = LocalLog(local_place.address, local_log._options, files)  # type: ignore[attr-defined]
    with log.open_publisher() as publisher, log.open_consumer() as source:
        publisher.start()
        files.is_read_only, files.bytes_left = True, 500
        with monkeypatch.context() as patched:
            patched.setattr(Path, "unlink", lambda *_, **__: files._refuse())
            with pytest.raises(LogError, match=r"cannot write .*verdicts\.log: Read-only file system"):
                publisher.publish(batch(1), b"one")
            with pytest.raises(LogError, match=r"cannot write .*source\.json: Read-only file system"):
                source.commit({0: 0})
        files.is_read_only = False
        publisher.publish(batch(2, 1), b"two")
        [verdicts] = Path(local_place.address).glob("*.verdicts.log")
        assert verdicts.stat().st_size == publisher._writer.end  # the longer group before has left nothing
    assert [r.value for r in read_all(local_log, POSITIONS)] == [b"two"]
