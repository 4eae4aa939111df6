"""WARC and ARC: which records are pages and what they say, and what damage costs."""

from __future__ import annotations

import gzip
import io
import lzma
import zlib
from collections.abc import Callable
from pathlib import Path
from random import Random
from time import thread_time
from typing import IO

import pytest
from fastwarc.stream_io import BrotliWriter, Lz4Writer
from fastwarc.warc import ArchiveIterator, WarcRecordType
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from simstream.errors import InputError, UsageError
from simstream.files.zstandard import zstd
from simstream.model import Page, PageKind, Record
from simstream.sources.archives import framing
from simstream.sources.archives.byte_buffer import MAX_BEGINS, ArchiveFlow
from simstream.sources.archives.framing import RecordFramer
from simstream.sources.archives.http import response
from simstream.sources.archives.unpacking import ArchiveBreak, MemberBegin, pieces
from simstream.sources.input_files import files_of
from simstream.sources.read import read_pages
from simstream.wire.page import PageLimits, decode
from tests import archives, corpora
from tests.archives import PACKINGS, answer, arc, body, warc
from tests.cpu_time import least_seconds
from tests.peak_memory import peak_memory
from tests.short import examples

LIMIT = 1 << 20
NOISE = Random(6).randbytes(5 << 20)


def read(path: Path, limit: int = LIMIT) -> tuple[list[Page], str]:
    """The pages of an archive, and what was said of damage."""
    said: list[str] = []
    records = read_pages([str(path)], limit, say=said.append, forgiving=True)
    pages = [decode(record, PageLimits(limit)) for record in records]
    return pages, "; ".join(said[:-1])


def written(folder: Path, data: bytes, name: str = "crawl.warc") -> Path:
    (folder / name).write_bytes(data)
    return folder / name


def numbers(pages: list[Page]) -> list[int]:
    """The numbers of the pages that came whole."""
    whole = [page for page in pages if page.kind is PageKind.READABLE]
    for page in whole:
        assert page.raw == body(int(page.id.rsplit("/", 1)[1]))
    return [int(page.id.rsplit("/", 1)[1]) for page in whole]


@pytest.mark.parametrize("packing", list(PACKINGS))
@pytest.mark.parametrize("record", [warc, arc])
def test_an_archive_gives_its_pages_however_it_is_packed(tmp_path: Path, packing: str, record: object) -> None:
    data = PACKINGS[packing](archives.pages(range(30), arc if record is arc else warc))
    pages, said = read(written(tmp_path, data))
    assert numbers(pages) == list(range(30))
    assert said == ""
    assert (pages[3].url, pages[3].time, pages[3].offset) == ("http://site.example/3", 1_767_323_045_000, 3)
    assert pages[3].content_type == "text/html; charset=utf-8"


@pytest.mark.parametrize("name", ["CC-MAIN-1.warc.wet", "CC-MAIN-1.warc.wet.gz"])
def test_the_texts_of_common_crawl_are_read_under_their_names(tmp_path: Path, name: str) -> None:
    record = warc(b"the text of a page", 4, b"conversion", media=b"text/plain")
    data = gzip.compress(record) if name.endswith(".gz") else record
    (page,), said = read(written(tmp_path, data, name))
    assert (page.url, page.raw, said) == ("http://site.example/4", b"the text of a page", "")


@pytest.mark.parametrize("name", ["news.xml", "news.rss"])
def test_a_feed_among_the_inputs_is_refused_with_the_option_that_reads_it(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("<rss/>")
    with pytest.raises(UsageError, match="an RSS or Atom feed is read by: simstream feed --rss ADDRESS"):
        read_pages([str(tmp_path / name)])


def test_the_endings_of_archives_are_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"ending that is not read: .*\.warc\.wet.*archives also with \.lz4"):
        files_of([str(written(tmp_path, b"", "crawl.wet"))])


def lz4(records: list[bytes]) -> bytes:
    out = io.BytesIO()
    for record in records:
        writer = Lz4Writer(out)
        writer.write(record)
        writer.close()
    return out.getvalue()


def with_dictionary(records: list[bytes]) -> bytes:
    """Frames of Zstandard that share a dictionary, which stands before them in a frame to be skipped."""
    words = zstd.train_dict(archives.pages(range(1000, 1400)), 4096)
    options = {zstd.CompressionParameter.checksum_flag: 1}
    packed = zstd.compress(words.dict_content)
    first = b"\x5d\x2a\x4d\x18" + len(packed).to_bytes(4, "little") + packed
    return first + b"".join(zstd.compress(record, options=options, zstd_dict=words) for record in records)


@pytest.mark.parametrize(
    ("ending", "pack"),
    [(".lz4", lz4), (".xz", lambda records: lzma.compress(b"".join(records))), (".zst", with_dictionary)],
)
def test_rarer_packings_are_read_and_their_damage_is_told(
    tmp_path: Path, ending: str, pack: Callable[[list[bytes]], bytes]
) -> None:
    data = pack(archives.pages(range(300)))
    pages, said = read(written(tmp_path, data, f"crawl.warc{ending}"))
    assert (numbers(pages), said) == (list(range(300)), "")
    pages, said = read(written(tmp_path, data[: len(data) // 2], f"crawl.warc{ending}"))
    found = numbers(pages)
    assert found == list(range(len(found)))
    assert len(found) < 200
    assert "is damaged" in said


def test_what_is_no_page_is_passed_over_and_counted(tmp_path: Path) -> None:
    records = [
        warc(b"software: none\r\n", 0, b"warcinfo", media=b"application/warc-fields"),
        warc(b"GET / HTTP/1.1\r\n\r\n", 1, b"request"),
        warc(answer(b"<p>here"), 1),
        warc(answer(b"GIF89a", b"image/gif"), 2),
        warc(b"a: b", 2, b"metadata", media=b"text/anvl"),
        warc(answer(b""), 3, b"revisit"),
        warc(b"the text of a page", 4, b"conversion", media=b"text/plain"),
        warc(answer(b"some text", b"text/plain"), 5),
        warc(answer(b"<p>x", b"application/xhtml+xml; charset=gbk"), 6),
        warc(answer(b"<!DOCTYPE html><p>x").replace(b"Content-Type", b"X-Type"), 7),
    ]
    said: list[str] = []
    path = written(tmp_path, b"".join(records))
    pages = [decode(record, PageLimits(LIMIT)) for record in read_pages([str(path)], say=said.append)]
    assert [(page.id[-1], page.content_type) for page in pages] == [
        ("1", "text/html; charset=utf-8"),
        ("4", "text/plain"),
        ("5", "text/plain"),
        ("6", "text/html; charset=gbk"),
        ("7", "text/html"),
    ]
    assert said == [
        "5 pages in 10 records of a web archive; skipped: 1 warcinfo, 1 request, 1 image/gif, 1 metadata, 1 revisit"
    ]


def test_error_pages_say_so_also_without_a_body(tmp_path: Path) -> None:
    path = written(tmp_path, warc(answer(b"", status=302), 0) + warc(answer(b"<p>", status=404), 1))
    pages, _ = read(path)
    assert [(page.kind, page.reason) for page in pages] == [
        (PageKind.FAILED, "http_status"),
        (PageKind.TOO_SHORT, "http_status"),
    ]


def brotli(data: bytes) -> bytes:
    out = io.BytesIO()
    writer = BrotliWriter(out)
    writer.write(data)
    writer.close()
    return out.getvalue()


def chunked(data: bytes) -> bytes:
    parts = [data[at : at + 50] for at in range(0, len(data), 50)]
    return b"".join(b"%x;x=y\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


ENCODED = {
    "Content-Encoding: gzip": gzip.compress,
    "Content-Encoding:  gzip": lambda data: gzip.compress(data[:60]) + gzip.compress(data[60:]),
    "Content-Encoding: x-gzip ": lambda data: data,
    "content-encoding: deflate": zlib.compress,
    "Content-Encoding: Deflate": raw_deflate,
    "Content-Encoding: br": brotli,
    "Content-Encoding: zstd": zstd.compress,
    "Content-Encoding:  zstd": lambda data: zstd.compress(data[:60]) + zstd.compress(data[60:]),
    "Content-Encoding: br, gzip": lambda data: gzip.compress(brotli(data)),
    "Content-Encoding: identity": lambda data: data,
    "Transfer-Encoding: chunked": chunked,
    "transfer-encoding: Chunked ": lambda data: data,
    "Transfer-Encoding: chunked\r\nContent-Encoding: gzip": lambda data: chunked(gzip.compress(data)),
}


@pytest.mark.parametrize("lines", list(ENCODED))
def test_a_body_is_read_as_it_was_meant(tmp_path: Path, lines: str) -> None:
    block = answer(ENCODED[lines](body(1)), more=lines.encode() + b"\r\n")
    pages, _ = read(written(tmp_path, warc(block, 1)))
    assert numbers(pages) == [1]


def test_a_decoded_body_under_the_header_of_a_chunked_one_keeps_a_first_line_that_is_a_number() -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert response(head + b"5\nThe five rules", 100).body == b"5\nThe five rules"


def test_a_body_is_found_behind_a_long_head() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n" + b"X-A: b\r\n" * 20_000
    assert response(head + b"\r\n<p>text", LIMIT) == (200, b"text/html", b"<p>text")
    assert response(b"HTTP/1.1 100 Continue\r\n\r\n" + head + b"\r\n<p>text", LIMIT).body == b"<p>text"


def test_blocks_that_hold_nothing_cost_what_they_cost_zlib() -> None:
    """Ten megabytes of empty blocks: what is left of a body is not copied at every step."""
    packed = b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + b"\0\0\0\xff\xff" * 2_000_000
    block = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + packed
    assert response(block, LIMIT).body == b""
    alone = least_seconds(lambda: zlib.decompressobj(31).decompress(packed))
    assert least_seconds(lambda: response(block, LIMIT)) < 5 * alone


@pytest.mark.parametrize(
    ("name", "pack", "unpack", "empty"),
    [
        (b"zstd", zstd.compress, zstd.decompress, b"\x28\xb5\x2f\xfd\x00\x00\x01\x00\x00"),
        (b"gzip", gzip.compress, gzip.decompress, gzip.compress(b"", mtime=0)),
    ],
)
def test_frames_that_hold_nothing_cost_no_more_than_their_length(
    name: bytes, pack: Callable[[bytes], bytes], unpack: Callable[[bytes], bytes], empty: bytes
) -> None:
    assert unpack(empty) == b""
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: %s\r\n\r\n" % b", ".join([name] * 4)
    few, many = (head + empty * count for count in (20_000, 200_000))
    seconds = least_seconds(lambda: response(few, LIMIT))
    assert least_seconds(lambda: response(many, LIMIT)) < 20 * seconds
    assert response(head[:-2] + b"\r\n" + empty * 900 + pack(b"<p>text"), LIMIT).body == b"<p>text"


@pytest.mark.parametrize("behind", [b"\0" * 100, b"garbage", b"\x1f\x8b", gzip.compress(b"more", mtime=0)[:-9]])
def test_what_is_no_whole_member_behind_a_body_of_gzip_costs_none_of_it(behind: bytes) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n"
    assert response(head + gzip.compress(b"<p>text") + behind, LIMIT).body.startswith(b"<p>text")
    assert response(head + gzip.compress(b"<p>text") * 3, 9).body == b"<p>text<p>"


def test_a_header_costs_its_length_however_many_lines_it_has_or_folds(tmp_path: Path) -> None:
    def seconds(lines: bytes) -> float:
        record = b"WARC/1.0\r\n%sWARC-Type: resource\r\nContent-Length: 3\r\n\r\nabc\r\n\r\n" % lines
        path = written(tmp_path, record * (1_000_000 // len(record)))
        return least_seconds(lambda: list(read_pages([str(path)])))

    ordinary = seconds(b"WARC-Record-ID: <urn:uuid:%032d>\r\n" % 1)
    assert seconds(b"a:\n" + b" x\n" * 20_000) < 1.5 * ordinary
    assert seconds(b"%x:\n" * 15_000) < 1.5 * ordinary


@pytest.mark.parametrize("begin", range(0, 60, 7))
def test_a_header_is_found_wherever_the_pieces_end(begin: int) -> None:
    record = (
        b"WARC/1.0\r\nA: 1\r\n  2\r\na: 3\r\n 4\r\nContent-Length: 2\r\n \r\nxy\r\n\r\nWARC/1.1\nb:1\nWARC/1.0\n\nz"
    )
    parts = [record[:begin], *(record[at : at + 1] for at in range(begin, len(record)))]
    framer = RecordFramer(ArchiveFlow(iter(parts)), LIMIT, lambda: 0)
    first, second = framer
    assert (first.fields, first.block, first.damage) == ({"a": b"1 2", "content-length": b"2"}, b"xy", "")
    assert (second.fields, framer.header) == ({}, b"WARC/1.0\n\n")
    assert framer.damage.first == "near byte 0: a record's header breaks off"


@pytest.mark.parametrize("packing", list(PACKINGS))
def test_a_file_that_breaks_off_keeps_all_that_came_before(tmp_path: Path, packing: str) -> None:
    records = archives.pages(range(200))
    data = PACKINGS[packing](records)
    cut = written(tmp_path, data[: len(data) * 2 // 3])
    pages, said = read(cut)
    found = numbers(pages)
    assert found == list(range(len(found)))
    assert 100 < len(found) < 150
    assert "crawl.warc is damaged" in said
    assert {page.reason for page in pages} <= {"", "damaged"}
    with pytest.raises(InputError, match=r"crawl\.warc is damaged near byte [\d,]+.*pages of it that were read"):
        list(read_pages([str(cut)]))


def flushed(records: list[bytes]) -> bytes:
    """One frame of Zstandard with a block for each record."""
    packer = zstd.ZstdCompressor()
    return b"".join(packer.compress(record, packer.FLUSH_BLOCK) for record in records) + packer.flush()


@pytest.mark.parametrize(
    ("ending", "pack", "unpacked"),
    [
        ("gz", PACKINGS["gzip of one member"], lambda data: zlib.decompressobj(31).decompress(data)),
        ("zst", flushed, lambda data: zstd.ZstdDecompressor().decompress(data)),
        (
            "xz",
            lambda records: lzma.compress(b"".join(records)),
            lambda data: lzma.LZMADecompressor().decompress(data),
        ),
    ],
)
def test_of_one_member_all_that_comes_before_a_cut_is_unpacked(
    ending: str, pack: Callable[[list[bytes]], bytes], unpacked: Callable[[bytes], bytes]
) -> None:
    rng = Random(5)
    records = [warc(answer(rng.randbytes(1_000).hex().encode()), number) for number in range(200)]
    whole = pack(records)
    for cut in (len(whole) // 2, len(whole) * 9 // 10, len(whole) - 3):
        *parts, last = pieces(io.BytesIO(whole[:cut]), f"crawl.warc.{ending}")
        assert isinstance(last, ArchiveBreak)
        assert b"".join(part for part in parts if isinstance(part, bytes)) == unpacked(whole[:cut])


class ShortReads(io.RawIOBase):
    """A file of which each read returns the next of these pieces, or raises an error."""

    def __init__(self, *pieces: bytes | OSError) -> None:
        self._pieces = iter(pieces)

    def read(self, size: int = -1) -> bytes:
        piece = next(self._pieces, b"")
        if isinstance(piece, OSError):
            raise piece
        assert len(piece) <= size
        return piece


@pytest.mark.parametrize("ending", ["warc", "warc.gz"])
def test_a_pipe_whose_reads_are_short_loses_no_byte(ending: str) -> None:
    content = warc(answer(NOISE[:300_000].hex().encode()), 1)
    data, parts, size = gzip.compress(content) if ending == "warc.gz" else content, [], 4096
    while data:
        parts.append(data[:size])
        data, size = data[size:], 1 << 16
    assert b"".join(part for part in pieces(ShortReads(*parts), ending) if isinstance(part, bytes)) == content


@pytest.mark.parametrize("before", [b"", b"WARC/1.0\r\n", b"WARC/1.0\r\n" * 6000])
def test_a_disk_that_fails_at_any_read_of_a_plain_archive_is_a_break(before: bytes) -> None:
    parts = [before[:65536], before[65536:]] if before else []
    *found, last = pieces(ShortReads(*filter(None, parts), OSError(5, "Input/output error")), "a.warc")
    assert b"".join(part for part in found if isinstance(part, bytes)) == before
    assert isinstance(last, ArchiveBreak)
    assert (last.at, last.why) == (len(before), "Input/output error")


@pytest.mark.parametrize(
    ("records", "whole"),
    [(archives.pages(range(200)), b"".join(archives.pages(range(199)))), ([NOISE], NOISE[: 4 << 20])],
    ids=["a frame for each record", "one frame with blocks of 4 MB"],
)
def test_of_lz4_all_that_comes_before_a_cut_is_unpacked(records: list[bytes], whole: bytes) -> None:
    data = b"".join(lz4([record]) for record in records)[:-8]
    *parts, last = pieces(io.BytesIO(data), "crawl.warc.lz4")
    assert isinstance(last, ArchiveBreak)
    assert b"".join(part for part in parts if isinstance(part, bytes)) == whole


def test_a_small_file_of_lz4_that_unpacks_to_much_takes_little_longer_than_one_of_gzip() -> None:
    """Its end is not read byte by byte, however much that end holds."""
    content = bytes(16 << 20)
    files = {"lz4": lz4([content]), "gz": gzip.compress(content)}
    seconds = {}
    for ending, data in files.items():
        found = [part for part in pieces(io.BytesIO(data), f"a.{ending}") if isinstance(part, bytes)]
        assert b"".join(found) == content
        seconds[ending] = least_seconds(
            lambda data=data, ending=ending: list(pieces(io.BytesIO(data), f"a.{ending}"))
        )
    assert seconds["lz4"] < 10 * seconds["gz"]


def test_damage_in_the_middle_of_lz4_keeps_every_byte_before_its_block() -> None:
    content, block = NOISE[: 4 << 20], 1 << 16
    data = bytearray(lz4([content[at : at + block] for at in range(0, len(content), block)]))
    frame = data.index(content[2 << 20 :][:100]) - 4
    data[frame : frame + 4] = b"\xff\xff\xff\x7f"
    *parts, last = pieces(io.BytesIO(data), "crawl.warc.lz4")
    assert isinstance(last, ArchiveBreak)
    assert b"".join(part for part in parts if isinstance(part, bytes)) == content[: 2 << 20]


@pytest.mark.parametrize("packing", ["plain", "gzip of one member"])
@pytest.mark.parametrize("record", [warc, arc])
def test_a_record_is_whole_wherever_the_file_breaks_off_behind_it(
    tmp_path: Path, packing: str, record: Callable[[bytes, int], bytes]
) -> None:
    records = archives.pages(range(4), record)
    data, end = b"".join(records), len(b"".join(records[:3])) - (4 if record is warc else 1)
    block = data.index(b"HTTP/1.1", end)
    for cut in (end, end + 1, end + 2, end + 5, end + 12, block - 1):
        path = written(tmp_path, data[:cut] if packing == "plain" else gzip.compress(data[:cut])[:-8])
        pages, said = read(path)
        assert numbers(pages) == [0, 1, 2], cut
        assert "is damaged" in said or packing == "plain"


@pytest.mark.parametrize("record", [warc, arc])
def test_places_stay_right_behind_a_length_that_ends_before_line_ends(record: Callable[..., bytes]) -> None:
    """A compressed member is known by its place: with wrong places records would be looked for in pages."""
    first = answer(body(5) + b"\r\n\r\n" + record(answer(body(900)), 900) + b"<p>")
    records = [
        record(answer(body(1)), 1),
        record(first + b"\n" * 9 + body(5), 5, length=len(first)),
        *archives.pages([6, 7], record),
    ]
    data = b"".join(records)

    class CheckedFlow(ArchiveFlow):
        def line(self, limit: int) -> bytes:
            at, line = self.at, super().line(limit)
            assert data[at : at + len(line)] == line
            return line

    flow = CheckedFlow(piece for one in records for piece in (MemberBegin(), one))
    found = list(RecordFramer(flow, LIMIT, lambda: 0))
    assert found[1].damage == "its length is wrong"
    assert [one.damage for one in found[-2:]] == ["", ""]
    assert flow.at == len(data)


@pytest.mark.parametrize("wrong", [-500, -1, 6, 100, 3_000])
@pytest.mark.parametrize("packing", ["plain", "gzip", "zstd", "gzip of one member"])
@pytest.mark.parametrize("record", [warc, arc])
def test_a_wrong_length_costs_one_page(tmp_path: Path, wrong: int, packing: str, record: object) -> None:
    make = arc if record is arc else warc
    records = archives.pages(range(20), make)
    block = answer(body(5))
    records[5] = make(block, 5, length=max(3, len(block) + wrong))
    pages, said = read(written(tmp_path, PACKINGS[packing](records)))
    assert numbers(pages) == [number for number in range(20) if number != 5]
    assert [page.reason for page in pages if page.kind is not PageKind.READABLE] == ["damaged"]
    assert "length" in said or "breaks off" in said


@pytest.mark.parametrize(
    ("packing", "last"), [("plain", 5), ("gzip of one member", 5), ("gzip", 600), ("zstd", 600)]
)
@pytest.mark.parametrize("record", [warc, arc])
@pytest.mark.parametrize("limit", [LIMIT, 1_000])
def test_behind_a_length_beyond_the_end_only_records_with_a_member_of_their_own_count(
    tmp_path: Path, packing: str, last: int, record: Callable[..., bytes], limit: int
) -> None:
    """Nobody can tell such a length from that of a page which is cut off, whatever bytes that page holds."""
    records = archives.pages(range(600), record)
    records[5] = record(answer(body(5)), 5, length=10**7)
    pages, said = read(written(tmp_path, PACKINGS[packing](records)), limit)
    assert numbers(pages) == [number for number in range(600) if number < last and number != 5]
    assert [page.reason for page in pages if page.kind is not PageKind.READABLE] == ["damaged"]
    assert "breaks off" in said


@pytest.mark.parametrize("lost", [400, 599], ids=["in the middle", "at the end"])
@pytest.mark.parametrize("packing", ["gzip", "zstd"])
@pytest.mark.parametrize("record", [warc, arc])
@pytest.mark.parametrize("limit", [LIMIT, 1_000])
def test_a_length_that_reaches_over_a_break_costs_no_record_with_a_member_of_its_own(
    tmp_path: Path, limit: int, record: Callable[..., bytes], packing: str, lost: int
) -> None:
    records = archives.pages(range(600), record)
    records[5] = record(answer(body(5)), 5, length=10**7)
    members = [PACKINGS[packing]([one]) for one in records]
    members[lost] = members[lost][:-40]
    pages, said = read(written(tmp_path, b"".join(members)), limit)
    assert numbers(pages) == [number for number in range(600) if number not in (5, lost)]
    assert "breaks off" in said or "damaged" in said


@pytest.mark.parametrize("packing", list(PACKINGS))
@pytest.mark.parametrize("record", [warc, arc])
@pytest.mark.parametrize("before", [100, 200_000])
def test_a_page_that_is_cut_off_and_holds_records_injects_none(
    tmp_path: Path, before: int, record: Callable[..., bytes], packing: str
) -> None:
    """Within what is held of a block and beyond it."""
    inner = b"".join(record(answer(b"<p>forged"), number) for number in (7, 8, 9))
    bytes_that_stay = Random(3).randbytes
    evil = answer(b"<p>" + bytes_that_stay(before) + b"\n\r\n" + inner + bytes_that_stay(300_000))
    data = PACKINGS[packing]([*archives.pages([1], record), record(evil, 2)])
    pages, said = read(written(tmp_path, data[:-100_000]), 1_000)
    assert {page.id[-1] for page in pages} <= {"1", "2"}
    assert numbers(pages) == [1]
    assert "breaks off" in said


def _skipped(content: bytes, size: int | None = None) -> bytes:
    return b"\x5d\x2a\x4d\x18" + (len(content) if size is None else size).to_bytes(4, "little") + content


@pytest.mark.parametrize(
    "first",
    [_skipped(b"\x37\xa4\x30\xec" + b"\xff" * 100), _skipped(b"\xff" * 10, size=1 << 18)],
    ids=["which is damaged", "which is cut off"],
)
def test_a_dictionary_that_cannot_be_read_is_told(tmp_path: Path, first: bytes) -> None:
    pages, said = read(written(tmp_path, first + zstd.compress(archives.pages([1])[0]), "pages.warc.zst"))
    assert pages == []
    assert "the dictionary cannot be read" in said


def test_a_dictionary_may_be_any_bytes_or_none(tmp_path: Path) -> None:
    raw = b"".join(archives.pages(range(1000, 1010)))
    words = zstd.ZstdDict(raw, is_raw=True)
    for first, zstd_dict in ((_skipped(raw), words), (_skipped(b""), None)):
        data = first + b"".join(zstd.compress(record, zstd_dict=zstd_dict) for record in archives.pages([1, 2]))
        pages, said = read(written(tmp_path, data, "pages.warc.zst"))
        assert numbers(pages) == [1, 2], said


@pytest.mark.parametrize("packing", ["gzip", "zstd"])
def test_garbage_between_members_and_within_one_costs_that_one(tmp_path: Path, packing: str) -> None:
    members = [PACKINGS[packing]([record]) for record in archives.pages(range(10))]
    bad = bytearray(members[4])
    bad[len(bad) // 2] ^= 0xFF
    members[4] = bytes(bad)
    members[7] = b"what is this?" + members[7]
    members[8] = b"\0" * 512 + members[8]
    pages, said = read(written(tmp_path, b"".join(members)))
    assert numbers(pages) == [0, 1, 2, 3, 5, 6, 7, 8, 9]
    assert "at 1 more places" in said


def test_a_text_that_a_checksum_denies_is_no_page(tmp_path: Path) -> None:
    members = [gzip.compress(record, 0) for record in archives.pages(range(3))]
    members[1] = members[1].replace(b"baker", b"maker")
    pages, said = read(written(tmp_path, b"".join(members)))
    assert numbers(pages) == [0, 2]
    assert said


def test_damage_in_one_archive_leaves_the_other_inputs(tmp_path: Path) -> None:
    bad = written(tmp_path, archives.pages([1])[0][:-100], "bad.warc")
    good = written(tmp_path, archives.pages([2])[0], "good.warc")
    records: list[Record] = []
    with pytest.raises(InputError, match=r"bad\.warc"):
        records.extend(read_pages([str(bad), str(good)]))
    assert [record.key for record in records] == [b"http://site.example/1", b"http://site.example/2"]


def test_one_page_that_is_too_large_is_one_verdict_and_memory_stays(tmp_path: Path) -> None:
    flood = b"<p>" + b"x" * (30 << 20)
    block = answer(gzip.compress(flood), more=b"Content-Encoding: gzip\r\n")
    records = [*archives.pages([1]), warc(block, 2), warc(answer(flood), 3), *archives.pages([4])]
    path = written(tmp_path, PACKINGS["gzip"](records), "crawl.warc.gz")
    del flood, block, records
    with peak_memory() as peak:
        pages, said = read(path)
    assert [page.reason for page in pages] == ["", "too_large", "too_large", ""]
    assert said == ""
    assert peak.bytes < 16 << 20


@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.sampled_from(["plain", "gzip", "zstd"]),
    st.lists(st.tuples(st.sampled_from(["flip", "cut", "add"]), st.floats(0, 1), st.integers(1, 200)), max_size=3),
)
def test_damage_costs_what_it_touches(
    tmp_path_factory: pytest.TempPathFactory, packing: str, blows: list[tuple[str, float, int]]
) -> None:
    records = archives.pages(range(12))
    members = [PACKINGS[packing]([record]) for record in records]
    starts = [sum(map(len, members[:number])) for number in range(len(members) + 1)]
    data, touched = bytearray(b"".join(members)), set()
    more = sum(size for what, _, size in blows if what == "cut")  # a cut brings what follows under the next one
    for what, part, size in blows:
        at = int(part * (starts[-1] - 1))
        first = max(number for number in range(12) if starts[number] <= at)
        last = max(number for number in range(12) if starts[number] < at + size + more)
        # A blow at a record's last bytes may also hide where the next one begins.
        touched.update(range(first, min(12, last + 2)))
        if what == "flip":
            data[at : at + size] = bytes(value ^ 0x55 for value in data[at : at + size])
    # Those that change lengths come last, from the back, so that places stay what they were.
    for what, part, size in sorted(blows, key=lambda blow: -blow[1]):
        at = int(part * (starts[-1] - 1))
        if what == "cut":
            del data[at : at + size]
        elif what == "add":
            data[at:at] = b"\x07" * size
    path = written(tmp_path_factory.mktemp("archive"), bytes(data))
    pages, _ = read(path)
    texts = {page.raw for page in pages if page.kind is PageKind.READABLE}
    whole = {number for number in range(12) if body(number) in texts}
    assert whole >= set(range(12)) - touched


@pytest.mark.corpora
def test_real_archives_give_the_same_records_as_fastwarc() -> None:
    folder = corpora.folder()
    assert folder is not None
    compared = 0
    for path in sorted((folder / "warc").iterdir()):
        pages, said = read(path)
        assert said == "", path
        if ".warc" not in path.name:
            continue
        expected = [
            record.headers["WARC-Target-URI"].strip("<>")
            for record in ArchiveIterator(str(path), record_types=WarcRecordType.response, parse_http=True)
            if (record.http_content_type or "").split(";")[0].strip().lower()
            in ("text/html", "text/plain", "application/xhtml+xml")
        ]
        assert [page.id for page in pages] == expected, path
        compared += len(expected)
    assert compared


@pytest.mark.corpora
def test_an_arc_and_a_warc_of_one_crawl_hold_the_same_pages() -> None:
    folder = corpora.folder()
    assert folder is not None
    one, other = (read(folder / "warc" / f"aut_example.{kind}.gz")[0] for kind in ("arc", "warc"))
    assert [(page.id, page.raw) for page in one] == [(page.id, page.raw) for page in other]
    assert len(one) == 177


@pytest.mark.parametrize("packing", list(PACKINGS))
@pytest.mark.parametrize("record", [warc, arc])
@pytest.mark.parametrize("before", [100, 5_000, 100_000])
def test_a_page_that_holds_records_injects_none(
    tmp_path: Path, before: int, record: Callable[..., bytes], packing: str
) -> None:
    """Within what is held of a block and beyond it, whatever the length of the page."""
    limit = 1_000
    inner = b"".join(record(answer(b"<p>forged"), number) for number in (1, 7, 9))
    evil = answer(b"<p>" + b"x" * before + b"\n\r\n" + inner + b"y" * 300_000)
    records = [*archives.pages([1], record), record(evil, 2), *archives.pages([3], record)]
    pages, said = read(written(tmp_path, PACKINGS[packing](records)), limit)
    assert [(page.id[-1], page.reason) for page in pages] == [("1", ""), ("2", "too_large"), ("3", "")]
    assert said == ""


@pytest.mark.parametrize("packing", ["plain", "gzip"])
def test_records_within_a_long_wrong_length_are_found_again(tmp_path: Path, packing: str) -> None:
    """Also where so many lengths are wrong that the file is not read to its end for each."""
    records = archives.pages(range(3_000))
    wrong = list(range(10, 2_600, 100))  # none of the lengths goes beyond the file's end
    for number in wrong:
        records[number] = warc(answer(body(number)), number, length=800_000 + number)
    pages, said = read(written(tmp_path, PACKINGS[packing](records)), 1_000)
    assert numbers(pages) == [number for number in range(3_000) if number not in wrong]
    assert [page.reason for page in pages if page.kind is not PageKind.READABLE] == ["damaged"] * len(wrong)
    assert f"at {len(wrong) - 1} more places" in said


@pytest.mark.parametrize("wrong", [8, 64, 127])
def test_whole_records_that_quote_a_header_stay_whole_behind_some_wrong_lengths(wrong: int) -> None:
    def one(block: bytes, length: int) -> bytes:
        return b"WARC/1.0\r\nContent-Length: %d\r\n\r\n%s\r\n\r\n" % (length, block)

    quoting = b"page\r\n\r\n" + one(b"forged", 6) + b"rest of the page"
    data = (one(b"x" * 50, 20_000) + one(b"y" * 30_000, 30_000)) * wrong + one(quoting, len(quoting)) * 20
    flow = ArchiveFlow(data[begin : begin + 65_536] for begin in range(0, len(data), 65_536))
    found = list(RecordFramer(flow, 10_000, lambda: 0))
    assert [record.damage for record in found].count("its length is wrong") == wrong
    assert [record.block for record in found[2 * wrong :]] == [quoting] * 20


@pytest.mark.parametrize(("fresh", "places"), [(False, 1), (True, 2)])
def test_what_follows_a_break_within_a_member_is_no_further_damage(fresh: bool, places: int) -> None:
    record = warc(answer(body(1)), 1)
    framer = RecordFramer(
        ArchiveFlow(iter([record, ArchiveBreak(7, "bad", fresh), b"rest\r\n\r\n" + record])), LIMIT, lambda: 0
    )
    assert [found.is_whole for found in framer] == [True, True]
    assert framer.damage.places == places


@pytest.mark.parametrize("pieces", [0, 1])
@pytest.mark.parametrize("split", range(0, 14, 3))
def test_a_header_within_a_long_wrong_length_is_found_wherever_the_pieces_end(split: int, pieces: int) -> None:
    """The bytes behind the block that is held are passed in pieces."""
    most = 1_000
    filler = b"x" * (most + pieces * framing._CHUNK_BYTES - split)
    data = b"WARC/1.0\r\nContent-Length: %d\r\n\r\n%s\r\n\r\n" % (len(filler) + 230, filler)
    data += b"".join(b"WARC/1.0\r\nContent-Length: 5\r\n\r\npage%d\r\n\r\n" % number for number in range(9))
    wrong, *others = RecordFramer(ArchiveFlow(iter([data])), most, lambda: 0)
    assert wrong.damage == "its length is wrong"
    assert [record.block for record in others] == [b"page%d" % number for number in range(9)]


@pytest.mark.parametrize("length", [2_003, 20_000, 10**9], ids=["within a block", "beyond it", "beyond the end"])
@pytest.mark.parametrize("members", [False, True], ids=["one member", "a member a record"])
def test_wrong_lengths_without_number_cost_what_their_bytes_cost(length: int, members: bool) -> None:
    class CountingFlow(ArchiveFlow):
        taken = 0

        def take(self, count: int) -> bytes:
            data = super().take(count)
            self.taken += len(data)
            return data

    record = b"WARC/1.0\r\nContent-Length: %d\r\n\r\nx\r\n\r\n" % length
    begins = [MemberBegin()] if members else []
    flow = CountingFlow(piece for _ in range(2_000) for piece in (*begins, record))
    found = list(RecordFramer(flow, 10_000, lambda: 0))
    assert len(found) == (1 if length == 10**9 and not members else 2_000)
    assert {one.damage for one in found} <= {"its length is wrong", "it breaks off"}
    assert flow.taken < 128 * 30_000 + 10 * 2_000 * len(record)


def test_breaks_without_number_behind_wrong_lengths_make_few_bytes_be_read_again() -> None:
    class CountingFlow(ArchiveFlow):
        again = 0

        def replay(self, data: IO[bytes]) -> None:
            self.again += data.tell()
            super().replay(data)

    record = b"WARC/1.0\r\nContent-Length: 1000000000\r\n\r\nx"
    part = (MemberBegin(), record, MemberBegin(), record, ArchiveBreak(0, "bad", fresh=True))
    flow = CountingFlow(piece for _ in range(2_000) for piece in part)
    most = 10_000
    found = list(RecordFramer(flow, most, lambda: 0))
    assert {one.damage for one in found} == {"it breaks off"}
    assert 0 < flow.again <= framing._LONG_PATIENCE * most


def test_headers_that_match_slowly_cost_time_linear_in_their_length(tmp_path: Path) -> None:
    line = b"http:" + b" - 20200101000000 " * 450 + b"1" * 57_000 + b"x\n"
    path = written(tmp_path, arc(answer(body(0)), 0) + line + arc(answer(body(1)), 1))
    began = thread_time()
    pages, _ = read(path)
    assert thread_time() - began < 1
    assert 1 in numbers(pages)


def test_lines_that_belong_to_no_record_cost_what_their_bytes_cost(tmp_path: Path) -> None:
    long, short = (b"x" * size + b"\n" for size in (9_999, 1))
    paths = [tmp_path / f"{len(line)}.warc" for line in (long, short)]
    for path, line in zip(paths, (long, short), strict=True):
        path.write_bytes(warc(answer(body(0)), 0) + line * (4_000_000 // len(line)) + warc(answer(body(1)), 1))
        assert numbers(read(path)[0]) == [0, 1]
    of_long, of_short = (least_seconds(lambda path=path: read(path)) for path in paths)
    assert of_short < 10 * of_long  # 1.1 times; line by line it was 50 times


@pytest.mark.parametrize("interim", [b"HTTP/1.1 100 Continue\r\n\r\n", b"ICY 103\n\n"])
def test_any_number_of_interim_answers_may_come_before_the_answer(tmp_path: Path, interim: bytes) -> None:
    found = response(interim * 40_000 + answer(body(1)), LIMIT)
    assert (found.status, found.body) == (200, body(1))
    pages, _ = read(written(tmp_path, warc(interim * 2_000 + answer(body(1)), 1) + archives.pages([2])[0]))
    assert numbers(pages) == [1, 2]


@pytest.mark.parametrize("between", [b"", b"x"], ids=["empty members", "tiny members"])
def test_members_without_number_take_bounded_memory(between: bytes) -> None:
    count = MAX_BEGINS + 1_000
    flow = ArchiveFlow(piece for _ in range(count) for piece in (MemberBegin(), between))
    assert len(flow.take(count)) == count * len(between)
    assert len(flow._begins) == (1 if not between else MAX_BEGINS)
