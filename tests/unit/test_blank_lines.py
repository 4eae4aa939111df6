"""Runs of blank lines cost little, and change neither pages nor their numbers."""

from __future__ import annotations

import gzip
import io
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from simstream.errors import InputError
from simstream.sources.csv_rows import csv_pages
from simstream.sources.fields import FieldNames
from simstream.sources.lines import lines
from simstream.sources.read import read_pages

BLANK = (b"\n", b" \n", b"\r\n", b"\t\x0b\f\r \n", b" " * 5000 + b"\n")
HEAD = b"id,text\n"


class CountedReader(io.BufferedReader):
    """Counts the lines that were asked for one by one."""

    asked = 0

    def readline(self, size: int | None = -1) -> bytes:
        self.asked += 1
        return super().readline(size)


def _jsonl(stream: io.BufferedReader) -> Iterator[tuple[int, bytes]]:
    return lines(stream, "a.jsonl", 1 << 20)


def _csv(stream: io.BufferedReader) -> Iterator[tuple[int, bytes]]:
    return csv_pages(stream, "a.csv", 1 << 20, FieldNames())


@pytest.mark.parametrize("blank", BLANK[:3])
@pytest.mark.parametrize(("read", "head"), [(_jsonl, b""), (_csv, HEAD)])
def test_a_million_blank_lines_are_not_read_one_by_one(read, head: bytes, blank: bytes) -> None:  # type: ignore[no-untyped-def]
    stream = CountedReader(io.BytesIO(head + blank * 1_000_000 + b'{"text":"a"}'), 1 << 18)
    [(number, _)] = read(stream)
    assert number == head.count(b"\n") + 1_000_001
    assert stream.asked < 20_000


@pytest.mark.parametrize("seed", range(20))
def test_pages_have_the_numbers_of_their_lines_whatever_is_blank_between(seed: int) -> None:
    rng = random.Random(seed)
    kinds = [*BLANK, b'"x"\n']
    content = [line for _ in range(6) for line in [rng.choice(kinds)] * rng.choice((1, 999, 1000, 1001, 4321))]
    content.append(rng.choice((b'"x"', b" ", b"")))
    expected = [number for number, line in enumerate(content, 1) if line.strip()]
    buffer = rng.choice((1 << 10, 1 << 18))
    assert [number for number, _ in _jsonl(io.BufferedReader(io.BytesIO(b"".join(content)), buffer))] == expected
    rows = _csv(io.BufferedReader(io.BytesIO(HEAD + b"".join(content)), buffer))
    assert [number - 1 for number, _ in rows] == expected


@pytest.mark.parametrize(("name", "head"), [("a.jsonl.gz", b""), ("a.csv.gz", HEAD)])
def test_a_file_that_breaks_off_within_blank_lines_names_the_last_one(
    tmp_path: Path, name: str, head: bytes
) -> None:
    path = tmp_path / name
    packed = gzip.compress(head + b"\n" * 5000) + gzip.compress(b"\n" * 5000)
    path.write_bytes(packed[:-1])
    last = 10_000 + head.count(b"\n")
    with pytest.raises(InputError, match=f"after line {last} "):
        list(read_pages([str(path)]))


@pytest.mark.parametrize("row", [b" " * 3000 + b"\n", b" " * 200_000 + b"\n"])
def test_a_csv_row_of_spaces_is_blank_however_long(row: bytes) -> None:
    pages = csv_pages(io.BufferedReader(io.BytesIO(HEAD + row + b"1,x\n")), "a.csv", 100, FieldNames())
    assert [number for number, _ in pages] == [3]


def test_a_line_that_begins_with_spaces_keeps_them_behind_blank_lines() -> None:
    stream = io.BufferedReader(io.BytesIO(b"\n" * 2000 + b'  {"text":"a"}\n'), 1 << 18)
    assert list(lines(stream, "a.jsonl", 1 << 20, ends=True)) == [(2001, b'  {"text":"a"}\n')]
