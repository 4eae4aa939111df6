"""What only files do: torn tails, damage, locks, several processes on one folder."""

from __future__ import annotations

import errno
import os
import re
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simstream.errors import DeliveryFailed, LogDamaged, LogError, LogLocked, SettingsError, TopicMissing
from simstream.log import open_log
from simstream.log.base import Log
from simstream.log.local import following, reading
from simstream.log.local.log import LocalLog
from simstream.log.local.record_groups import HEADER_SIZE
from simstream.log.local.topic_file import LogFiles
from simstream.log.options import FINGERPRINTS, PAGES, POSITIONS, VERDICTS
from simstream.log.partitioner import murmur2, partition_of, partitions_of
from tests.contract.helpers import batch, read_all, take, writer
from tests.forked_process import lingering
from tests.kafka_fixtures import PARTITIONS, TopicPlace


def file_of(place: TopicPlace, topic: str) -> Path:
    return Path(place.address) / f"{place.prefix}.{topic}.log"


def frames(log: Log, *values: bytes) -> None:
    with log.open_appender(FINGERPRINTS) as appender:
        for value in values:
            appender.append(value)


def test_a_tail_torn_at_any_byte_is_not_shown_and_the_next_writer_cuts_it_off(
    local_place: TopicPlace, local_log: Log
) -> None:
    frames(local_log, b"one", b"two")
    path = file_of(local_place, FINGERPRINTS)
    kept = path.stat().st_size
    frames(local_log, b"three")
    whole = path.read_bytes()
    for size in range(kept, len(whole)):
        path.write_bytes(whole[:size])
        assert [r.value for r in read_all(local_log, FINGERPRINTS)] == [b"one", b"two"]
        frames(local_log, b"other")
        assert [r.value for r in read_all(local_log, FINGERPRINTS)] == [b"one", b"two", b"other"]


def test_a_tail_of_zeros_is_torn_too(local_place: TopicPlace, local_log: Log) -> None:
    frames(local_log, b"one")
    path = file_of(local_place, FINGERPRINTS)
    path.write_bytes(path.read_bytes() + bytes(5000))
    assert [r.value for r in read_all(local_log, FINGERPRINTS)] == [b"one"]
    frames(local_log, b"two")
    assert [r.value for r in read_all(local_log, FINGERPRINTS)] == [b"one", b"two"]


def test_a_reader_sees_what_replaced_a_torn_tail_that_it_had_looked_at(
    local_place: TopicPlace, local_log: Log
) -> None:
    frames(local_log, b"one", b"two")
    path = file_of(local_place, FINGERPRINTS)
    path.write_bytes(path.read_bytes()[:-2])
    with local_log.open_reader(FINGERPRINTS) as reader:
        assert [r.value for r in reader.poll(10, 0.1)] == [b"one"]
        assert reader.caught_up()
        frames(local_log, b"another one")
        assert [r.value for r in reader.poll(10, 1)] == [b"another one"]


def test_any_changed_byte_in_the_middle_is_damage(local_place: TopicPlace, local_log: Log) -> None:
    frames(local_log, b"one")
    path = file_of(local_place, FINGERPRINTS)
    start = path.stat().st_size
    frames(local_log, b"two")
    end = path.stat().st_size
    frames(local_log, b"three")
    whole = path.read_bytes()
    for at in range(start, end):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x40]) + whole[at + 1 :])
        with pytest.raises(LogDamaged, match=f"damaged at byte {start}"):
            read_all(local_log, FINGERPRINTS)


def test_a_publish_torn_at_any_byte_leaves_the_one_before_it(local_place: TopicPlace, local_log: Log) -> None:
    with local_log.open_publisher() as publisher:
        publisher.start()
        publisher.publish(batch(1, 3), b"one")
        path = file_of(local_place, VERDICTS)
        kept = path.stat().st_size
        publisher.publish(batch(2, 3), b"two")
    whole = path.read_bytes()
    for size in range(kept, len(whole), 7):
        path.write_bytes(whole[:size])
        assert [r.value for r in read_all(local_log, POSITIONS)] == [b"one"]
        assert len(read_all(local_log, VERDICTS)) == 3
    with local_log.open_publisher() as publisher:
        assert publisher.start() == b"one"


def test_one_poll_brings_about_as_many_bytes_as_it_may_however_many_records_are_asked_for(
    local_log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "MAX_BYTES", 5_000)
    with local_log.open_appender(PAGES) as appender:
        for _ in range(20):
            appender.append(b"x" * 1_000, partition=0)
    with local_log.open_consumer() as source, local_log.open_reader(PAGES) as reader:
        for records in (source.poll(10_000, 5).records, reader.poll(10_000, 5)):
            assert 5_000 <= sum(len(record.value or b"") for record in records) < 6_000


def test_a_second_writer_is_told_who_the_first_is(local_place: TopicPlace, local_log: Log) -> None:
    with writer(local_place, "append") as process:
        assert process.stdout is not None
        process.stdout.readline()
        with pytest.raises(LogLocked, match=f"process {process.pid} already writes to simstream.fingerprints"):
            local_log.open_appender(FINGERPRINTS)
    local_log.open_appender(FINGERPRINTS).close()


def test_a_forked_process_does_not_keep_the_lock_of_a_closed_writer(local_log: Log) -> None:
    first = local_log.open_appender(FINGERPRINTS)
    with lingering():
        first.close()
        local_log.open_appender(FINGERPRINTS).close()


def test_a_second_writer_of_pages_is_told_to_send_them_over_http(local_log: Log) -> None:
    first = local_log.open_appender(PAGES)
    with pytest.raises(LogLocked, match="already writes to") as refused:
        local_log.open_appender(PAGES)
    assert "send pages over HTTP" in str(refused.value)
    first.close()


def test_a_second_source_is_told_who_the_first_is(local_log: Log) -> None:
    with local_log.open_consumer(), pytest.raises(LogLocked, match=f"process {os.getpid()} already reads"):
        local_log.open_consumer()


def test_many_readers_follow_a_writer_in_another_process(local_place: TopicPlace, local_log: Log) -> None:
    with writer(local_place, "append"):
        for _ in range(2):
            with local_log.open_reader(FINGERPRINTS) as reader:
                values = [int(record.value or b"") for record in take(reader, 2000)]
                assert values == list(range(1, len(values) + 1))


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "[]",
        '{"version":1,"topics":5}',
        '{"version":1,"topics":{"a":5}}',
        '{"version":1,"topics":{"a":{"id":"x","partitions":"y"}}}',
    ],
)
def test_a_damaged_list_of_topics_is_refused_by_name(local_place: TopicPlace, local_log: Log, content: str) -> None:
    (Path(local_place.address) / "topics.json").write_text(content)
    with pytest.raises(LogDamaged, match=r"topics\.json"):
        local_log.topic(PAGES)


def test_topics_are_not_created_over_files_that_hold_records(local_place: TopicPlace, local_log: Log) -> None:
    """A list of topics that is lost, or damaged and then removed, must not cost the log."""
    frames(local_log, b"one")
    listed = Path(local_place.address) / "topics.json"
    kept = listed.read_bytes()
    listed.unlink()
    for _ in range(2):
        with pytest.raises(LogDamaged, match=re.escape(f"{file_of(local_place, FINGERPRINTS)} holds records")):
            local_place.open().create_topics(1)
    listed.write_bytes(kept)
    restored = local_place.open()
    assert [record.value for record in read_all(restored, FINGERPRINTS)] == [b"one"]
    with restored.open_appender(PAGES) as appender:
        appender.append(b"two")
    assert [record.value for record in read_all(restored, PAGES)] == [b"two"]


def test_an_appender_notices_that_its_folder_was_moved_and_made_anew(
    local_place: TopicPlace, local_log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "CHECK_EVERY_S", 0.0)
    folder = Path(local_place.address)
    with local_log.open_appender(PAGES) as appender:
        appender.append(b"one")
        folder.rename(folder.with_name("gone"))
        with pytest.raises(DeliveryFailed, match="there is no topic"):
            appender.append(b"two")
    with local_place.open() as log:
        log.create_topics(1)
        with log.open_appender(PAGES) as appender:
            monkeypatch.setattr(reading, "CHECK_EVERY_S", 3600.0)
            appender.append(b"three")
            folder.rename(folder.with_name("gone, too"))
            local_place.open().create_topics(1)
            appender.append(b"four")  # nobody has looked yet
            with pytest.raises(DeliveryFailed, match="was deleted and created again"):
                appender.flush(1)


def test_a_relative_folder_stays_where_it_is_when_the_working_directory_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even another log of this name gets a page."""
    monkeypatch.setattr(reading, "CHECK_EVERY_S", 0.0)
    (tmp_path / "other").mkdir()
    for folder in (tmp_path / "other", tmp_path):
        monkeypatch.chdir(folder)
        open_log("log").create_topics(1)
    log = open_log("log")
    offsets: list[int] = []
    with log.open_appender(PAGES) as appender:
        for _ in range(2):
            appender.append(b"a page", placed=lambda _, offset: offsets.append(offset))
            monkeypatch.chdir(tmp_path / "other")
    assert offsets == [0, 1]
    assert log.end_offsets(PAGES) == {0: 2}
    assert open_log("log").end_offsets(PAGES) == {0: 0}


def test_a_relative_folder_in_a_directory_that_is_gone_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(SettingsError, match="the working directory was removed"):
        open_log("log")


@contextmanager
def no_more_files() -> Iterator[None]:
    """Let this process open no further file."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.dup(0)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_an_appender_opens_no_file_for_a_page_and_one_that_cannot_be_opened_says_why(local_log: Log) -> None:
    """As a client's: an error that is no LogError would end it for good."""
    offsets: list[int] = []
    with local_log.open_appender(PAGES) as appender:
        appender.append(b"0", partition=1)
        for value in (b"1", b"2"):
            appender.append(value, partition=1, placed=lambda _, offset: offsets.append(offset))
        with no_more_files():
            appender.append(b"3", partition=1, placed=lambda _, offset: offsets.append(offset))
        appender.append(b"other", partition=0, placed=lambda _, offset: offsets.append(offset))
        with no_more_files(), pytest.raises(LogError, match="Too many open files: close some files"):
            local_log.open_appender(FINGERPRINTS)
    assert offsets == [1, 2, 3, 0]
    assert local_log.end_offsets(PAGES)[1] == 4


def test_an_appender_that_cannot_be_opened_leaves_no_file_open(
    local_place: TopicPlace, local_log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    def open_files() -> int:
        return len(os.listdir("/proc/self/fd"))

    before = open_files()
    for owner, name in ((LogFiles, "sync_data"), (os, "pread")):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, fail)
            with pytest.raises(LogError, match="Input/output error"):
                local_log.open_appender(PAGES)
        assert open_files() == before


def test_a_count_survives_a_writer_that_cuts_off_a_torn_tail_of_its_full_length(
    local_place: TopicPlace, local_log: Log
) -> None:
    """Read through the map, a file that became shorter ends the process with SIGBUS."""
    frames(local_log, b"one")
    path = file_of(local_place, FINGERPRINTS)
    kept = path.stat().st_size
    frames(local_log, b"x" * (1 << 20))
    torn = path.read_bytes()
    path.write_bytes(torn[: kept + HEADER_SIZE] + bytes(len(torn) - kept - HEADER_SIZE))
    counted = subprocess.run(
        [sys.executable, "-c", CUT_WHILE_COUNTED, path, str(kept)], capture_output=True, check=False
    )
    assert (counted.returncode, counted.stdout) == (0, b"1\n"), counted.stderr


CUT_WHILE_COUNTED = """
import os, sys
from pathlib import Path
from simstream.log.local import topic_file
from simstream.log.local.topic_file import RecordCounts

path, kept = Path(sys.argv[1]), int(sys.argv[2])
decode = topic_file.decode_header

def cut(view, at):
    header = decode(view, at)
    if at == kept:
        os.truncate(path, kept)
    return header

topic_file.decode_header = cut
counts = RecordCounts(path)
counts.advance()
print(counts.records[0])
"""


def test_a_local_log_never_imports_the_kafka_client(tmp_path: Path) -> None:
    code = (
        "import sys; from simstream.log import open_log; log = open_log(sys.argv[1]); log.create_topics(1);"
        "log.open_appender('pages').append(b'v'); log.open_publisher().start();"
        "sys.exit('confluent_kafka' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False).returncode == 0


def test_an_address_that_is_neither_is_refused() -> None:
    with pytest.raises(SettingsError, match="directory"):
        open_log("http://example.org")


def test_murmur2_gives_the_hashes_that_javas_client_documents() -> None:
    known = {b"21": -973932308, b"foobar": -790332482, b"a-little-bit-long-string": -985981536}
    assert {key: murmur2(key) for key in known} == {key: value & 0xFFFFFFFF for key, value in known.items()}


@given(st.lists(st.binary(max_size=40), max_size=60), st.integers(1, 20))
def test_the_partitions_of_many_keys_are_those_of_each(keys: list[bytes], partitions: int) -> None:
    assert partitions_of(keys, partitions) == [partition_of(key, partitions) for key in keys]


@pytest.mark.parametrize("is_pipe", [False, True])
def test_a_file_that_is_gone_is_named_and_a_pipe_in_its_place_does_not_hang(
    local_place: TopicPlace, local_log: Log, is_pipe: bool
) -> None:
    with local_log.open_publisher() as publisher:
        publisher.start()
        publisher.publish([], b"position")
    [path] = Path(local_place.address).glob("*verdicts.log")
    path.unlink()
    if is_pipe:
        os.mkfifo(path)
    log = local_place.open()
    with log.open_publisher() as publisher:
        if not is_pipe:
            with pytest.raises(TopicMissing, match=r"verdicts\.log is gone: restore the file"):
                publisher.committed()
        with pytest.raises((LogError, OSError) if is_pipe else LogError):
            publisher.start()


def test_all_partitions_of_a_topic_share_one_file(local_place: TopicPlace, local_log: Log) -> None:
    with local_log.open_appender(PAGES) as appender:
        for partition in range(PARTITIONS):
            appender.append(b"v", partition=partition)
    assert [r.partition for r in read_all(local_log, PAGES)] == list(range(PARTITIONS))
    assert file_of(local_place, PAGES).is_file()


@pytest.mark.parametrize("address", ["127.0.0.1:9092", "a-host:1,other.host:65535", "[::1]:9092"])
def test_servers_without_kafka_before_them_are_understood(address: str) -> None:
    with pytest.raises(SettingsError, match=rf"did you mean kafka://{re.escape(address)}\?"):
        open_log(address)


def test_a_folder_that_looks_like_a_server_is_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("host:9092").mkdir()
    assert isinstance(open_log("host:9092"), LocalLog)


def test_a_file_is_no_place_for_a_log(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    with pytest.raises(SettingsError, match="is a file"):
        open_log(str(path))


@pytest.mark.parametrize("folder", ["/proc/nowhere/log", "/proc"])
def test_a_folder_that_cannot_be_made_or_written_to_is_named(folder: str) -> None:
    with pytest.raises(LogError, match=rf"cannot use {folder}.*check --log"):
        open_log(folder).create_topics()


def test_a_folder_below_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    log = open_log(str(tmp_path / "file" / "log"))
    with pytest.raises(LogError, match="cannot use"):
        log.create_topics()
    with pytest.raises(LogError, match="cannot use"):
        log.topic(PAGES)
