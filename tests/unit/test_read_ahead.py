"""Files that are read several at a time: the same records and errors in the same order, in bounded memory."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import os
import sys
import threading
from pathlib import Path

import pytest

from simstream.cli import dedup_run
from simstream.cli.main import invoke
from simstream.errors import InputError, SimstreamError
from simstream.files.zstandard import zstd
from simstream.model import Record
from simstream.sources.fields import FieldNames
from simstream.sources.file_pages import FilePages
from simstream.sources.input_files import Inputs, files_of
from simstream.sources.read import read_pages
from simstream.sources.read_ahead import ONE_BY_ONE, FilesAhead, ReadAhead

LIMIT = 1 << 20
SMALL = ReadAhead(3, 1 << 14)
MANY = ReadAhead(16, 64 << 20)


def rows(name: str, count: int = 200) -> bytes:
    pages = (
        {"id": f"{name}-{number}", "text": f"text {number} of {name} " * (number % 9)} for number in range(count)
    )
    return b"".join(json.dumps(page).encode() + b"\n" for page in pages)


def archive(pages: int) -> bytes:
    body = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p>text"
    head = b"WARC/1.0\r\nWARC-Target-URI: http://a/%d\r\nWARC-Type: %b\r\nContent-Length: %d\r\n\r\n%b\r\n\r\n"
    answers = [head % (number, b"response", len(body), body) for number in range(pages)]
    return b"".join(map(gzip.compress, [head % (0, b"warcinfo", 0, b""), *answers]))


@pytest.fixture
def mixed(tmp_path: Path) -> list[str]:
    """Files of every format, in an order that is not that of their sizes."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pages = [{"id": f"row-{number}", "text": "of a table " * 40} for number in range(300)]
    pq.write_table(pa.Table.from_pylist(pages), tmp_path / "b.parquet", row_group_size=50)
    contents = {
        "a.jsonl.xz": lzma.compress(rows("a", 2000)),
        "c.csv": b"id,text\n" + b"".join(b'c-%d,"many, many words"\n' % number for number in range(500)),
        "d.warc.gz": archive(40),
        "e.html": b"<p>one page",
        "f.jsonl": b"",
        "g.jsonl.zst": zstd.compress(rows("g")),
        "h.txt": b"another page",
        "i.ndjson.gz": gzip.compress(rows("i", 900)),
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    return [str(tmp_path / name) for name in sorted([*contents, "b.parquet"])]


def outcome(inputs: Inputs, ahead: ReadAhead) -> tuple[list[Record], list[str], str]:
    """All records, all that was said, and the error at the end."""
    records, said = list[Record](), list[str]()
    try:
        records.extend(read_pages(inputs, LIMIT, say=said.append, ahead=ahead))
    except SimstreamError as error:
        return records, said, str(error)
    return records, said, ""


@pytest.mark.parametrize("ahead", [SMALL, MANY])
def test_many_files_at_a_time_give_the_records_of_one_after_the_other(mixed: list[str], ahead: ReadAhead) -> None:
    inputs = [*mixed, *mixed[::-1]]
    alone = outcome(inputs, ONE_BY_ONE)
    assert outcome(inputs, ahead) == alone
    assert len(alone[0]) == 2 * (2000 + 300 + 500 + 40 + 1 + 200 + 1 + 900)
    assert alone[1] == ["80 pages in 82 records of 2 web archives; skipped: 2 warcinfo"]


@pytest.mark.parametrize("number", [0, 1, 2, 3, 6, 8])
def test_the_error_of_a_broken_file_comes_after_the_records_before_it(mixed: list[str], number: int) -> None:
    broken = Path(mixed[number])
    content = broken.read_bytes()
    broken.write_bytes(content[: len(content) // 2])
    alone = outcome(mixed, ONE_BY_ONE)
    for ahead in (SMALL, MANY):
        assert outcome(mixed, ahead) == alone
    assert alone[2] or number == 2  # half a CSV file is one, too


def test_a_file_that_vanishes_meanwhile_fails_when_its_turn_comes(mixed: list[str]) -> None:
    found = files_of(mixed)
    os.unlink(mixed[4])
    for ahead in (ONE_BY_ONE, SMALL, MANY):
        records, _, error = outcome(found, ahead)
        assert len(records) == 2000 + 300 + 500 + 40
        assert error.startswith(f"{mixed[4]} cannot be read (No such file or directory)")


def test_what_waits_is_bounded_however_slow_the_reader_is(tmp_path: Path) -> None:
    line = json.dumps({"text": "x" * 10_000}).encode() + b"\n"
    for number in range(6):
        (tmp_path / f"{number}.jsonl").write_bytes(line * 300)
    paths = sorted(map(str, tmp_path.glob("*.jsonl")))
    pages = [FilePages(file, LIMIT, FieldNames()) for file in files_of(paths)]
    limits = ReadAhead(4, 1 << 20)
    most = limits.max_bytes * 5 // 4 + limits.files * (2 << 18)  # with a batch and a buffer in each thread
    used = 0
    with FilesAhead(pages, limits) as files:
        for _, records in files:
            for record in records:
                used += len(record.value or b"")
                assert sum(each.taken for each in pages) - used <= most + (1 << 18)
    assert used == 6 * 300 * (len(line) - 1)


def test_a_reader_that_stops_early_leaves_no_thread_behind(mixed: list[str]) -> None:
    with FilesAhead([FilePages(file, LIMIT, FieldNames()) for file in files_of(mixed)], SMALL) as files:
        _, records = next(iter(files))
        next(records)
        assert [thread for thread in threading.enumerate() if thread.name.startswith("read-")]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("read-")]


def test_standard_input_between_files_is_read_when_its_turn_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.jsonl").write_bytes(rows("a"))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(rows("stdin", 3))))
    path = str(tmp_path / "a.jsonl")
    topics = [record.topic for record in read_pages([path, "-", path], LIMIT, ahead=MANY)]
    assert topics == [path] * 200 + ["-"] * 3 + [path] * 200


def test_dedup_reads_as_far_ahead_as_the_settings_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[ReadAhead] = []

    def noted(*_: object, ahead: ReadAhead) -> None:
        asked.append(ahead)
        raise InputError("it was asked", "ask again")

    monkeypatch.setattr(dedup_run, "read_pages", noted)
    monkeypatch.setenv("SIMSTREAM_READ_FILES", "2")
    monkeypatch.setenv("SIMSTREAM_READ_AHEAD_BYTES", str(5 << 20))
    files = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    for file in files:
        file.write_bytes(rows(file.stem, 1))
    assert invoke(["dedup", *map(str, files), "-o", str(tmp_path / "verdicts.jsonl")]) == 1
    assert asked == [ReadAhead(2, 5 << 20)]
