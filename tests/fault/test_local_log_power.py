"""Power that goes at any moment of a local log's life: pages, frames, dead letters, verdicts and commits together.

One thread plays a fingerprinter, a judge and a standby over the log's own interface. It records the history once,
lays it out as each power cut may leave it, and goes on from there. Then each page that is there has exactly one
verdict, the verdict is that page's, and what had been promised is there.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest

from simstream.errors import DeliveryFailed, LogDamaged, LogError
from simstream.log.base import OutgoingVerdict
from simstream.log.local import topic_file as local_files
from simstream.log.local.log import LocalLog
from simstream.log.local.topic_file import LogFiles
from simstream.log.options import DEAD_LETTERS, FINGERPRINTS, PAGES, POSITIONS, VERDICTS, LogOptions
from simstream.wire import position as positions
from simstream.wire.position import Position
from tests.contract.helpers import read_all
from tests.power import PowerCutDisk, RecordingFiles

PARTITIONS = 2
ROUNDS = 7


class UnsyncedFiles(LogFiles):
    """Files without power cuts: the tests wait for no disk."""

    def sync_data(self, descriptor: int) -> None: ...

    fsync = sync_data


class SteppedService:
    """The roles over one local log, a step at a time, in the order in which a test calls them."""

    def __init__(self, folder: Path, files: LogFiles | None = None) -> None:
        self.files = files
        self.log = LocalLog(folder, LogOptions(), files)
        self.log.create_topics(PARTITIONS)
        self.log_id = self.log.topic(FINGERPRINTS).id
        self.stack = ExitStack()
        enter = self.stack.enter_context
        self.feeder = enter(self.log.open_appender(PAGES))
        self.source = enter(self.log.open_consumer())
        self.frames, self.dead = (
            enter(self.log.open_appender(FINGERPRINTS)),
            enter(self.log.open_appender(DEAD_LETTERS)),
        )
        self.publisher = enter(self.log.open_publisher())
        self.standby = enter(self.log.open_reader(POSITIONS))
        self.starts: dict[int, bool] = {}
        self.next: dict[int, int] = {}
        self.accepted: dict[int, int] = {}
        self.frame = 0
        published = self.publisher.start()
        self.reader = enter(self.log.open_reader(FINGERPRINTS))
        self.judge(until=positions.decode(published).frame if published else 0)

    def promise(self, what: str, value: int) -> None:
        if isinstance(self.files, RecordingFiles):
            self.files.promise(what, value)

    def feed(self, *pages: bytes) -> None:
        for page in pages:
            self.feeder.append(b"%s of the text" % page, page)

    def fingerprint(self) -> int:
        """Read pages, write a frame a partition, and dead letters; how many pages there were."""
        polled = self.source.poll(100, 0)
        for start in polled.started:
            self.starts[start.partition], self.next[start.partition] = start.first, start.offset
        records = polled.records or self.source.poll(100, 0).records
        for partition in sorted({record.partition for record in records}):
            mine = [record for record in records if record.partition == partition]
            self.next[partition], start = mine[-1].offset + 1, self.next[partition]
            keys = [(record.key or b"").decode() for record in mine]
            first = self.starts[partition]
            self.starts[partition] = False
            self.frames.append(json.dumps([partition, start, first, keys]).encode())
            for record in mine:
                if (record.key or b"").startswith(b"bad"):
                    self.dead.append(record.value, record.key, partition=0)
        return len(records)

    def judge(self, until: int | None = None) -> None:
        """Judge the log's frames; below a given frame silently, as a judge does below the published position."""
        for record in self.reader.poll(1_000 if until is None else until, 0):
            partition, start, first, keys = json.loads(record.value or b"")
            assert first or partition in self.accepted
            position = self.accepted.get(partition, start)
            assert start <= position, "a gap"
            self.accepted[partition] = max(position, start + len(keys))
            self.frame = record.offset + 1
            if until is None:
                places = range(position, start + len(keys))
                self.publish(
                    [OutgoingVerdict(keys[at - start].encode(), b"%d/%d" % (partition, at), ()) for at in places]
                )
        assert until is None or self.frame == until

    def publish(self, verdicts: list[OutgoingVerdict]) -> None:
        self.publisher.publish(verdicts, positions.encode(Position(self.log_id, self.frame, 0, "0" * 16, "p")))
        self.promise("frame", self.frame)

    def follow(self) -> None:
        """A standby. Its snapshot is safe as soon as it has read a position."""
        for record in self.standby.poll(100, 0):
            self.promise("standby", positions.decode(record.value or b"").frame)

    def commit(self) -> None:
        self.source.commit(self.next)
        self.promise("commit", sum(self.next.values()))

    def flush(self, pages: int) -> None:
        self.feeder.flush(1)
        self.promise("pages", pages)

    def work_off(self) -> None:
        """Turn until every page that was fed has its verdict."""
        while self.fingerprint():
            pass
        self.judge()
        self.commit()

    def close(self) -> None:
        self.stack.close()


def record_history(folder: Path) -> RecordingFiles:
    """Rounds in which the roles come in every order, each with another part of the log not yet on the disk."""
    files = RecordingFiles()
    service = SteppedService(folder, files)
    files.beside = service.follow
    for i in range(ROUNDS):
        service.feed(*(b"%s %d.%d" % (b"bad" if n == 1 else b"page", i, n) for n in range(3)))
        if i % 3 == 1:
            service.flush(3 * i + 3)
        if i % 4 != 3:
            service.fingerprint()
        if i % 3 != 2:
            service.judge()
        service.follow()
        if i % 2:
            service.commit()
    files.beside = None
    service.close()
    return files


@pytest.mark.parametrize("syncs_every", [pytest.param(1_000.0, marks=pytest.mark.long), 0.0])
def test_power_that_goes_at_any_moment_loses_no_page_and_no_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, syncs_every: float
) -> None:
    monkeypatch.setattr(local_files, "SYNC_EVERY_S", syncs_every)
    disk, seen, cut = PowerCutDisk(), set(), tmp_path / "cut"
    for step in record_history(tmp_path / "clean").steps:
        disk.apply(step)
        for image in disk.images():
            if (key := hash((*image.items(), *disk.promises.items()))) in seen:
                continue
            seen.add(key)
            lay_out(image, cut)
            goes_on(cut, disk.promises)
    assert len(seen) > 100


def lay_out(image: dict[str, bytes], folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name, data in image.items():
        (folder / name).write_bytes(data)


def goes_on(folder: Path, promises: dict[str, int]) -> None:
    """Start again after the cut, feed the missing pages, and check everything."""
    if (folder / "topics.json").exists() and len(json.loads((folder / "topics.json").read_bytes())["topics"]) == 5:
        log = LocalLog(folder)
        committed = log.open_publisher().committed()
        frame = positions.decode(committed).frame if committed else 0
        assert frame >= max(promises.get("frame", 0), promises.get("standby", 0))
        assert sum(log.source_offsets().values()) >= promises.get("commit", 0)
    service = SteppedService(folder, UnsyncedFiles())
    there = {record.key for record in read_all(service.log, PAGES)}
    assert len(there) >= promises.get("pages", 0)
    pages = [b"%s %d.%d" % (b"bad" if n == 1 else b"page", i, n) for i in range(ROUNDS + 1) for n in range(3)]
    service.feed(*(page for page in reversed(pages) if page not in there))  # lost pages may come in another order
    service.work_off()
    fed = Counter((record.key, f"{record.partition}/{record.offset}") for record in read_all(service.log, PAGES))
    judged = Counter((one.key, (one.value or b"").decode()) for one in read_all(service.log, VERDICTS))
    assert judged == fed
    dead = {record.key for record in read_all(service.log, DEAD_LETTERS)}
    assert dead == {page for page in pages if page.startswith(b"bad")}
    service.close()


@pytest.fixture
def judged_log(tmp_path: Path) -> Path:
    """A log with six judged and committed pages, each in its own frame."""
    service = SteppedService(tmp_path / "log")
    for i in range(3):
        service.feed(b"page %d.0" % i, b"page %d.1" % i)
        service.work_off()
    service.close()
    return tmp_path / "log"


def lose(folder: Path, topic: str, kept: int) -> None:
    """Cut a file as a lying disk would: only the first records are left."""
    path = folder / f"simstream.{topic}.log"
    tally = local_files.RecordCounts(path)
    tally.advance(kept)
    with path.open("r+b") as file:
        file.truncate(tally.at)


@pytest.mark.parametrize("topic", [PAGES, FINGERPRINTS])
def test_nothing_is_appended_where_records_that_were_read_are_gone(judged_log: Path, topic: str) -> None:
    lose(judged_log, topic, 2)
    with pytest.raises(LogDamaged, match=f"simstream.{topic} ends at offset .* the disk lost records"):
        LocalLog(judged_log).open_appender(topic)


@pytest.mark.parametrize("topic", [PAGES, FINGERPRINTS])
def test_a_log_whose_records_were_all_read_and_judged_is_appended_to(judged_log: Path, topic: str) -> None:
    log = LocalLog(judged_log)
    before = sum(log.end_offsets(topic).values())
    with log.open_appender(topic) as appender:
        appender.append(b"next", b"key")
    assert sum(log.end_offsets(topic).values()) == before + 1


def test_a_fingerprinter_is_refused_where_pages_that_it_committed_are_gone(judged_log: Path) -> None:
    lose(judged_log, PAGES, 2)
    with pytest.raises(LogDamaged, match=r"simstream.pages ends at offset .* the disk lost"):
        LocalLog(judged_log).open_consumer()
    LocalLog(judged_log).open_reader(PAGES).close()  # and who only reads is not


def test_groups_behind_a_hole_of_a_power_cut_are_cut_off_and_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = LocalLog(tmp_path)
    log.create_topics()
    path = tmp_path / "simstream.pages.log"
    with log.open_appender(PAGES) as appender:
        appender.append(b"safe", b"1")
        appender.flush(1)
        hole = path.stat().st_size
        appender.append(b"lost", b"2")
        behind = path.stat().st_size
        appender.append(b"behind it", b"3")
    data = path.read_bytes()
    path.write_bytes(data[:hole] + bytes(behind - hole) + data[behind:])
    assert [record.value for record in read_all(log, PAGES)] == [b"safe"]
    with log.open_appender(PAGES) as appender:
        appender.append(b"another", b"4")
    assert [record.value for record in read_all(log, PAGES)] == [b"safe", b"another"]
    assert f"cut off {len(data) - hole} bytes" in caplog.text


def test_a_body_of_zeros_among_unsynced_groups_is_cut_off_with_all_groups_behind_it(tmp_path: Path) -> None:
    log = LocalLog(tmp_path)
    log.create_topics()
    path = tmp_path / "simstream.pages.log"
    with log.open_appender(PAGES) as appender:
        appender.append(b"first", b"1")
        appender.append(b"its body is lost", b"2")
        behind = path.stat().st_size
        appender.append(b"behind it", b"3")
    data = path.read_bytes()
    path.write_bytes(data[: behind - 5] + bytes(5) + data[behind:])
    with log.open_appender(PAGES) as appender:
        appender.append(b"another", b"4")
    assert [record.value for record in read_all(log, PAGES)] == [b"first", b"another"]


def test_a_reader_from_the_end_does_not_begin_behind_a_torn_tail_of_full_length(tmp_path: Path) -> None:
    log = LocalLog(tmp_path)
    log.create_topics()
    path = tmp_path / "simstream.pages.log"
    with log.open_appender(PAGES) as appender:
        appender.append(b"whole", b"1")
        appender.append(b"torn, though its length is there", b"2")
    path.write_bytes(path.read_bytes()[:-5] + bytes(5))
    with log.open_reader(PAGES, "end") as reader:
        with log.open_appender(PAGES) as appender:
            appender.append(b"new", b"3")
        assert [record.value for record in reader.poll(10, 1)] == [b"new"]


def test_a_hole_before_a_group_written_after_a_sync_is_damage(tmp_path: Path) -> None:
    log = LocalLog(tmp_path)
    log.create_topics()
    path = tmp_path / "simstream.pages.log"
    with log.open_appender(PAGES) as appender:
        for page in (b"1", b"2", b"3"):
            appender.append(page, page)
            appender.flush(1)
    data = path.read_bytes()
    path.write_bytes(data[:24] + bytes(40) + data[64:])
    with pytest.raises(LogDamaged, match="damaged at byte 24"):
        log.open_appender(PAGES)


class SyncSkippingFiles(LogFiles):
    """A disk that takes all and keeps nothing."""

    def sync_data(self, descriptor: int) -> None:
        raise OSError(5, "Input/output error")


def test_a_disk_that_cannot_sync_stops_each_role_by_name(judged_log: Path) -> None:
    log = LocalLog(judged_log, LogOptions(), SyncSkippingFiles())
    with pytest.raises(LogError, match=r"cannot write .*simstream.pages.log"):
        log.open_appender(PAGES)
    with log.open_consumer() as source, pytest.raises(LogError, match=r"cannot write .*simstream.pages.log"):
        source.commit({0: 1})
    with pytest.raises(LogError, match=r"cannot write .*simstream.verdicts.log"):
        log.open_publisher().start()
    with pytest.raises(LogError, match=r"cannot write .*simstream.verdicts.log"):
        log.open_publisher().committed()  # no reader gets a position that is not on the disk


def test_pages_that_cannot_be_synced_are_not_handed_over(tmp_path: Path) -> None:
    log = LocalLog(tmp_path)
    log.create_topics()
    with log.open_appender(PAGES) as appender:
        appender.append(b"v", b"k")
    with LocalLog(tmp_path, LogOptions(), SyncSkippingFiles()).open_consumer() as source:
        source.poll(0, 0)
        with pytest.raises(LogError, match="cannot write"):
            source.poll(10, 1)


def test_an_appender_whose_disk_cannot_sync_has_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_files, "SYNC_EVERY_S", 0.0)
    files = LogFiles()
    log = LocalLog(tmp_path, LogOptions(), files)
    log.create_topics()
    appender = log.open_appender(FINGERPRINTS)
    monkeypatch.setattr(files, "sync_data", SyncSkippingFiles().sync_data)
    with pytest.raises(DeliveryFailed, match="cannot write"):
        appender.append(b"frame")
    appender.discard()
    assert read_all(log, FINGERPRINTS) == []
