"""Input files as records: which are read, in what order, under what names, and how they fail."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import os
import sys
from pathlib import Path

import pytest

from simstream.errors import InputError, InputMissing, UsageError
from simstream.files.zstandard import zstd
from simstream.model import Page, PageKind, Record
from simstream.sources.demo import demo_records
from simstream.sources.read import read_pages, size_of
from simstream.wire.page import NO_TIME, PageLimits, decode
from tests.peak_memory import peak_memory

LINES = b'{"id":"a","text":"x"}\n\n{"url":"u","text":"x"}\r\n   \n{"text":"no name"}\n{broken\n{"text":"last"}'
LIMITS = PageLimits(1 << 20)
PACK = {
    "": lambda data: data,
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".zst": zstd.compress,
}


def pages_of(*inputs: str) -> list[Page]:
    return [decode(record, LIMITS) for record in read_pages(inputs)]


@pytest.mark.parametrize("ending", list(PACK))
def test_jsonl_gives_a_page_for_each_line_that_is_not_blank(tmp_path: Path, ending: str) -> None:
    path = str(tmp_path / f"pages.jsonl{ending}")
    Path(path).write_bytes(PACK[ending](LINES))
    assert [(page.id, page.offset) for page in pages_of(path)] == [
        ("a", 0),
        ("u", 2),
        (f"{path}:5", 4),
        (f"{path}:6", 5),
        (f"{path}:7", 6),
    ]


def test_a_record_says_where_it_lies_and_that_files_have_no_time(tmp_path: Path) -> None:
    path = tmp_path / "pages.ndjson"
    path.write_bytes(b'{"text":"x"}\n{"id":"b","text":"x","time":5}\n')
    first, second = read_pages([str(path)])
    assert first == Record(str(path), 0, 0, f"{path}:1".encode(), b'{"text":"x"}', (), NO_TIME)
    assert (second.key, second.offset) == (b"b", 1)
    assert [decode(record, LIMITS).time for record in (first, second)] == [NO_TIME, 5]


def test_the_key_is_the_name_that_the_page_would_have_without_it(tmp_path: Path) -> None:
    path = tmp_path / "pages.jsonl"
    path.write_bytes(b'{"id":"a","url":"u","text":"x"}\n{"id":"","url":"u","text":"x"}\n{"id":5.5,"text":"x"}\n')
    assert [record.key for record in read_pages([str(path)])] == [b"a", b"u", f"{path}:3".encode()]
    assert not any(page.key_differs for page in pages_of(str(path)))


def test_a_byte_order_mark_before_the_first_line_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "pages.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"id":"a","text":"x"}\n')
    assert [page.text for page in pages_of(str(path))] == ["x"]


def test_standard_input_is_read_as_jsonl(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"text":"x"}\n')))
    assert [page.id for page in pages_of("-")] == ["-:1"]
    assert size_of(["-"]) is None


def test_html_files_are_named_by_their_path_as_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.HTM").write_bytes(b"<p>x")
    (page,) = pages_of("./a.HTM")
    assert (page.id, page.offset, page.raw, page.content_type) == ("./a.HTM", 0, b"<p>x", "text/html")


def test_a_folder_gives_its_html_in_byte_order_of_relative_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("b.html", "a/z.html", "a-b.htm", "B.xhtml", "é.html", "a/deep/x.html", "c.txt", "d.jsonl"):
        Path("web", name).parent.mkdir(parents=True, exist_ok=True)
        Path("web", name).write_bytes(b"<p>x")
    expected = ["B.xhtml", "a-b.htm", "a/deep/x.html", "a/z.html", "b.html", "é.html"]
    assert [page.id for page in pages_of("web")] == [f"web/{name}" for name in expected]
    assert [page.id for page in pages_of("web/")] == [f"web/{name}" for name in expected]
    assert size_of(["web"]) == 24


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["a.html"], []),
        (["x.CSS", "b/y.css", "z.png", ".hidden"], ["web: other files are left out (2 .css, 1 no ending, 1 .png)"]),
        (
            ["a.1", "b.2", "c.3", "d.4", "e.txt"],
            ["web: other files are left out (1 .1, 1 .2, 1 .3, 1 .4 and others)"],
        ),
    ],
)
def test_the_reader_of_a_folder_hears_what_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: list[str], said: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("page.html", *more):
        Path("web", name).parent.mkdir(parents=True, exist_ok=True)
        Path("web", name).write_bytes(b"<p>x")
    heard: list[str] = []
    assert len(list(read_pages(["web"], say=heard.append))) == 1 + more.count("a.html")
    assert heard == said


def test_links_to_folders_and_what_is_no_file_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text("<p>a")
    (tmp_path / "b.html").symlink_to(tmp_path / "a.html")
    (tmp_path / "gone.html").symlink_to(tmp_path / "nothing")
    (tmp_path / "loop").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "pipe.html")
    said: list[str] = []
    assert len(list(read_pages([str(tmp_path)], say=said.append))) == 2
    assert said == [f"{tmp_path}: links to folders, and what is no file, are left out (gone.html, loop, pipe.html)"]


@pytest.mark.parametrize("ending", [".jsonl", ".csv", ".jsonl.gz"])
def test_utf_16_is_named(tmp_path: Path, ending: str) -> None:
    path, data = tmp_path / f"p{ending}", "id,text\n".encode("utf-16")
    path.write_bytes(gzip.compress(data) if ending.endswith("gz") else data)
    with pytest.raises(InputError, match="is UTF-16: convert it to UTF-8"):
        list(read_pages([str(path)]))


def test_text_files_are_pages_and_a_folder_without_html_is_one_of_text(tmp_path: Path) -> None:
    for name in ("b.txt", "a/z.TXT", "a.md"):
        Path(tmp_path, name).parent.mkdir(exist_ok=True)
        Path(tmp_path, name).write_bytes("正文".encode("gbk"))
    pages = pages_of(str(tmp_path))
    assert [(page.id, page.content_type) for page in pages] == [
        (str(tmp_path / name), "text/plain") for name in ("a/z.TXT", "b.txt")
    ]
    (tmp_path / "c.html").write_bytes(b"<p>x")
    assert [page.id for page in pages_of(str(tmp_path), str(tmp_path / "b.txt"))] == [
        str(tmp_path / "c.html"),
        str(tmp_path / "b.txt"),
    ]


def test_an_empty_html_file_is_unreadable(tmp_path: Path) -> None:
    (tmp_path / "a.html").touch()
    (page,) = pages_of(str(tmp_path / "a.html"))
    assert (page.kind, page.reason) == (PageKind.UNREADABLE, "empty_value")


WARC = b"WARC/1.0\r\nWARC-Type: conversion\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nwords\r\n\r\n"


@pytest.mark.parametrize(
    ("ending", "data", "place"),
    [
        (b".html", b"<p>x", ""),
        (b".txt", b"x", ""),
        (b".jsonl", b'{"text":"x"}\n', ":1"),
        (b".csv", b"text\nx\n", ":2"),
        (b".warc", WARC, ":1"),
    ],
)
def test_bytes_of_a_path_that_are_not_utf8_are_escaped_in_names(
    ending: bytes, data: bytes, place: str, tmp_path: Path
) -> None:
    folder = os.fsencode(tmp_path) + b"/\xe4\xb8\xad\xff"
    os.mkdir(folder)
    for name in (b"\xfe", b"\xfd"):
        Path(os.fsdecode(folder + b"/" + name + ending)).write_bytes(data)
        path = os.fsdecode(folder + b"/" + name + ending)
        (record,) = read_pages([path])
        page, shown = decode(record, LIMITS), f"{tmp_path}/中\\xff/\\x{name.hex()}{ending.decode()}"
        assert (page.kind, page.id, record.topic) == (PageKind.READABLE, shown + place, shown)


def test_pages_of_a_long_path_are_named_by_its_beginning_and_a_hash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = "./" * 1_020 + "a.jsonl"
    Path(path).write_bytes(b'{"text":"x"}\n' * 2)
    pages = pages_of(path, "a.jsonl")
    assert [page.kind for page in pages] == [PageKind.READABLE] * 4
    assert len({page.id for page in pages}) == 4
    assert pages[1].id.endswith(":2")


@pytest.mark.parametrize("extra", [-1, 0, 1, 2, 3, 5_000])
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b""])
def test_a_line_over_the_limit_is_too_large_and_the_next_is_whole(tmp_path: Path, extra: int, end: bytes) -> None:
    limit = 1_000
    line = b'{"text":"' + b"x" * (limit + extra - 11) + b'"}'
    path = tmp_path / "pages.jsonl"
    path.write_bytes(line + end + (b'{"id":"next","text":"x"}\n' if end else b""))
    pages = [decode(record, PageLimits(limit)) for record in read_pages([str(path)], limit)]
    assert pages[0].reason == ("too_large" if extra > 0 else "")
    assert [(page.id, page.offset) for page in pages[1:]] == ([("next", 1)] if end else [])


@pytest.mark.parametrize("ending", [".gz", ".xz", ".zst"])
def test_a_line_that_unpacks_to_a_flood_takes_little_memory(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"bomb.jsonl{ending}"
    path.write_bytes(PACK[ending](b'{"text":"' + b"x" * (200 << 20) + b'"}'))
    with peak_memory() as peak:
        (record,) = read_pages([str(path)])
    assert decode(record, LIMITS).reason == "too_large"
    assert peak.bytes < 64 << 20


@pytest.mark.parametrize("ending", [".gz", ".xz", ".zst"])
@pytest.mark.parametrize("cut", [0.5, 0.999])
def test_a_compressed_file_that_breaks_off_is_an_error_that_names_the_line(
    tmp_path: Path, ending: str, cut: float
) -> None:
    path = tmp_path / f"pages.jsonl{ending}"
    data = PACK[ending](
        b"".join(b'{"id":"%d","text":"%s"}\n' % (i, os.urandom(50).hex().encode()) for i in range(9000))
    )
    path.write_bytes(data[: int(len(data) * cut)])
    records: list[Record] = []
    with pytest.raises(InputError, match=r"pages\.jsonl.* after line \d+") as error:
        records.extend(read_pages([str(path)]))
    assert f" after line {len(records)} " in str(error.value)
    assert len(records) > 4_000 * cut
    if ending == ".gz":  # 1 KB of packed bytes holds some 15 of these lines
        assert len(records) > 8_950 * cut


@pytest.mark.parametrize("ending", [".gz", ".xz", ".zst"])
def test_all_whole_parts_before_a_cut_are_read(tmp_path: Path, ending: str) -> None:
    lines = [b'{"id":"%d","text":"%s"}\n' % (i, os.urandom(50).hex().encode()) for i in range(1_200)]
    parts = [PACK[ending](b"".join(lines[at : at + 100])) for at in range(0, 1_200, 100)]
    path = tmp_path / f"pages.jsonl{ending}"
    path.write_bytes(b"".join(parts[:3]) + parts[3][:100])
    records: list[Record] = []
    with pytest.raises(InputError, match=r"after line \d+"):
        records.extend(read_pages([str(path)]))
    assert 300 <= len(records) <= 302


@pytest.mark.parametrize("ending", [".gz", ".xz", ".zst"])
def test_a_file_with_a_wrong_ending_is_an_error(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"pages.jsonl{ending}"
    path.write_bytes(LINES)
    with pytest.raises(InputError, match="does not begin as its ending says"):
        list(read_pages([str(path)]))


@pytest.mark.parametrize("ending", [".gz", ".xz", ".zst"])
def test_parts_compressed_one_after_another_are_one_file(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"pages.jsonl{ending}"
    path.write_bytes(PACK[ending](b'{"id":"a","text":"x"}\n{"id":') + PACK[ending](b'"b","text":"x"}\n'))
    assert [page.id for page in pages_of(str(path))] == ["a", "b"]


@pytest.mark.parametrize("ending", [".gz", ".xz", ".zst"])
def test_damage_behind_a_whole_stream_costs_none_of_its_lines(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"pages.jsonl{ending}"
    lines = [b'{"id":"%d","text":"%s"}\n' % (i, os.urandom(50).hex().encode()) for i in range(2_000)]
    for damage in (b"garbage!!", PACK[ending](lines[0])[:-3]):
        path.write_bytes(PACK[ending](b"".join(lines)) + damage)
        records: list[Record] = []
        with pytest.raises(InputError, match=r"after line \d+"):
            records.extend(read_pages([str(path)]))
        assert len(records) >= 2_000


@pytest.mark.parametrize("ending", ["", ".gz", ".xz", ".zst"])
def test_an_empty_file_has_no_pages(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"pages.jsonl{ending}"
    path.touch()
    assert pages_of(str(path)) == []


def test_a_missing_input_is_told_before_anything_is_read(tmp_path: Path) -> None:
    good = tmp_path / "pages.jsonl"
    good.write_bytes(LINES)
    with pytest.raises(InputMissing, match=r"nowhere\.jsonl"):
        read_pages([str(good), str(tmp_path / "nowhere.jsonl")])


def test_a_file_of_an_unknown_kind_is_refused_with_the_known_kinds(tmp_path: Path) -> None:
    (tmp_path / "pages.tsv").touch()
    with pytest.raises(UsageError, match=r"\.jsonl.*\.zst.*\.xhtml"):
        read_pages([str(tmp_path / "pages.tsv")])


def test_progress_ends_at_the_size_of_the_inputs(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_bytes(b"<p>x")
    (tmp_path / "pages.jsonl.gz").write_bytes(gzip.compress(LINES * 100))
    inputs = [str(tmp_path), str(tmp_path / "pages.jsonl.gz")]
    reader = read_pages(inputs)
    seen = [reader.consumed for _ in reader]
    assert seen == sorted(seen)
    assert seen[0] > 0
    assert reader.consumed == size_of(inputs)


def test_the_demo_has_about_a_hundred_pages_of_both_languages_and_some_that_fail() -> None:
    pages = [decode(record, LIMITS) for record in demo_records()]
    texts = [page.text or str(page.raw or "") for page in pages]
    chinese = sum(any("\u4e00" <= char <= "\u9fff" for char in text) for text in texts)
    assert 90 <= len(pages) <= 120
    assert 40 <= chinese <= 65
    assert {page.reason for page in pages} == {"", "bad_json", "wrong_type", "no_text", "http_status"}
    assert {page.kind for page in pages} == {
        PageKind.READABLE,
        PageKind.TOO_SHORT,
        PageKind.FAILED,
        PageKind.UNREADABLE,
    }
    assert any(page.text == "" for page in pages)
    assert sum(page.raw is not None for page in pages) >= 5
    assert len({page.id for page in pages}) < len(pages)


def test_the_demo_speaks_of_reserved_names_only_and_in_order_of_time() -> None:
    records = list(demo_records())
    pages = [decode(record, LIMITS) for record in records]
    assert all(".example/" in page.url for page in pages if page.url)
    times = [page.time for page in pages if page.time != NO_TIME]
    assert times == sorted(times)
    assert len(times) == len(pages) - 1  # the broken line has none
    assert json.loads(records[0].value or b"")["time"]


def test_a_folder_without_html_is_missing_and_says_how_to_name_jsonl(tmp_path: Path) -> None:
    (tmp_path / "pages.jsonl").write_text('{"text":"x"}')
    with pytest.raises(InputMissing, match=r"has no \.html, \.htm, \.xhtml or \.txt file: name the files if"):
        read_pages([str(tmp_path)])
