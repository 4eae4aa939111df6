"""Records unlike others on a broker: header names that are no text, 50 MB, very many bytes at once."""

from __future__ import annotations

import ctypes
import re
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from simstream.log.base import Log
from simstream.log.kafka import reader as kafka_reader
from simstream.log.kafka.reader import MAX_BYTES, to_record
from simstream.log.options import DEAD_LETTERS, PAGES, LogOptions, largest_record
from simstream.model import Record
from tests.contract.helpers import read_all, read_source
from tests.kafka_fixtures import TopicPlace

pytestmark = pytest.mark.kafka
MIB = 1 << 20


def client_library() -> ctypes.CDLL:
    """The client's own C library, which takes any bytes as the name of a header."""
    found = re.search(r"\S*librdkafka\S*\.so\S*", Path("/proc/self/maps").read_text())
    assert found
    library = ctypes.CDLL(found.group())
    pointer, text = ctypes.c_void_p, ctypes.c_char_p
    for name in ("rd_kafka_conf_new", "rd_kafka_new", "rd_kafka_headers_new"):
        getattr(library, name).restype = pointer
    library.rd_kafka_conf_set.argtypes = [pointer, text, text, text, ctypes.c_size_t]
    library.rd_kafka_new.argtypes = [ctypes.c_int, pointer, text, ctypes.c_size_t]
    library.rd_kafka_headers_new.argtypes = [ctypes.c_size_t]
    library.rd_kafka_header_add.argtypes = [pointer, text, ctypes.c_ssize_t, text, ctypes.c_ssize_t]
    library.rd_kafka_flush.argtypes = [pointer, ctypes.c_int]
    library.rd_kafka_destroy.argtypes = [pointer]
    return library


def produce_raw(place: TopicPlace, headers: list[tuple[bytes, bytes | None]]) -> None:
    """A page with any headers, as a program in another language may send it."""
    library = client_library()
    said = ctypes.create_string_buffer(500)
    config = library.rd_kafka_conf_new()
    servers = place.servers.encode()
    library.rd_kafka_conf_set(config, b"bootstrap.servers", servers, said, 500)
    producer = library.rd_kafka_new(0, config, said, 500)
    made = library.rd_kafka_headers_new(len(headers))
    for name, value in headers:
        library.rd_kafka_header_add(made, name, len(name), value, len(value or b""))
    arguments = [  # rd_kafka_vtype_t: 1 topic, 4 value, 10 headers, 0 the end
        *(ctypes.c_int(1), ctypes.c_char_p(f"{place.prefix}.{PAGES}".encode())),
        *(ctypes.c_int(4), ctypes.c_char_p(b"v"), ctypes.c_size_t(1)),
        *(ctypes.c_int(10), ctypes.c_void_p(made), ctypes.c_int(0)),
    ]
    assert library.rd_kafka_producev(ctypes.c_void_p(producer), *arguments) == 0
    assert library.rd_kafka_flush(producer, 10_000) == 0
    library.rd_kafka_destroy(producer)


@pytest.mark.skipif(sys.platform != "linux", reason="finds the client's C library as Linux shows it")
def test_a_header_with_a_binary_name_loses_only_itself(kafka_place: TopicPlace, kafka_log: Log) -> None:
    produce_raw(
        kafka_place, [(b"content-type", b"text/html"), (b"\xff\xfe", b"2"), (b"\xff", None), (b"url", b"u")]
    )
    produce_raw(kafka_place, [(b"\xff", b"x")])
    produce_raw(kafka_place, [(b"empty", None), ("页".encode(), b"\xff")])
    assert sorted(record.headers for record in read_all(kafka_log, PAGES)) == [
        (),
        (("content-type", b"text/html"), ("url", b"u")),
        (("empty", b""), ("页", b"\xff")),
    ]


@pytest.mark.skipif(sys.platform != "linux", reason="finds the client's C library as Linux shows it")
def test_many_records_do_not_crash_the_interpreter(
    kafka_place: TopicPlace, kafka_log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    with kafka_log.open_appender(PAGES) as appender:
        for _ in range(100):  # the interpreter specializes the calls that it sees often
            appender.append(b"", headers=[("good", b"1")])
    assert len(read_all(kafka_log, PAGES)) == 100

    def with_nothing_cached(message: Any) -> Record:
        sys._clear_type_cache()  # looking up a type's name then drops an error that is set, and says nothing
        return to_record(message)

    monkeypatch.setattr(kafka_reader, "to_record", with_nothing_cached)
    produce_raw(kafka_place, [(b"\xff", b"x")])
    assert sorted(record.headers for record in read_all(kafka_log, PAGES)) == [(), *[(("good", b"1"),)] * 100]


def test_a_page_without_a_timestamp_came_when_it_was_read(kafka_log: Log) -> None:
    """Before 0.10, Kafka's producers sent no timestamps."""
    with kafka_log.open_appender(PAGES) as appender:
        appender.append(b"{}", timestamp=-1)
    [unread] = read_all(kafka_log, PAGES)
    assert unread.timestamp == 0  # whoever reads it again gets the same
    began = int(time.time() * 1000)
    with kafka_log.open_consumer() as source:
        [record] = read_source(source, 1).records
    assert began <= record.timestamp <= time.time() * 1000


def total(records: list[Record]) -> int:
    return sum(len(record.value or b"") for record in records)


def test_one_poll_brings_about_16_mib_however_many_records_are_asked_for(kafka_log: Log) -> None:
    with kafka_log.open_appender(PAGES) as appender:
        for i in range(100):
            appender.append(b"x" * 900_000, partition=i % 4)
    with kafka_log.open_consumer() as source, kafka_log.open_reader(PAGES) as reader:
        for opened, polls in ((source, []), (reader, [])):
            end = time.monotonic() + 120
            while sum(map(len, polls)) < 100:
                assert time.monotonic() < end
                found = opened.poll(100_000, 5)
                polls.append(list(getattr(found, "records", found)))
                time.sleep(0.3)  # so that the client fetches as much as it may
            assert max(map(total, polls)) > 8 * MIB
            assert max(map(total, polls)) < MAX_BYTES + MIB


def test_a_page_of_50_mb_is_fed_read_and_set_aside(kafka_place: TopicPlace) -> None:
    log = kafka_place.open(max_record_bytes=64 * MIB)
    log.create_topics(1)
    page, small = bytes(50_000_000), b"small"
    with log.open_appender(PAGES) as appender:
        for value in (small, page, small):
            appender.append(value, b"k")
    with log.open_consumer() as source:
        found = read_source(source, 3).records
    assert [len(record.value or b"") for record in found] == [5, 50_000_000, 5]
    with log.open_appender(DEAD_LETTERS) as appender:
        appender.append(found[1].value, b"k", [("error", b"x" * 2000)])
    (letter,) = read_all(log, DEAD_LETTERS)
    assert letter.value == page
    assert largest_record(DEAD_LETTERS, LogOptions(max_record_bytes=64 * MIB)) > 64 * MIB
