"""What strangers' bytes reach, each as a strategy that makes them and a function that hands them over.

A target's function raises where anything but a verdict or a named error (`simstream.errors`) comes of it. The short
form is `test_fuzz.py`, the long one `python -m tests.fault.fuzz`.
"""

from __future__ import annotations

import atexit
import contextlib
import gzip
import lzma
import shutil
import socket
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import strategies as st

from simstream.errors import (
    AnswerDamaged,
    FrameDamaged,
    FrameFormat,
    InputError,
    LogError,
    SettingsError,
    StateError,
    UsageError,
    WrongAnswer,
)
from simstream.files import checksum, header, manifest, sealed
from simstream.files.file_system import FileSystem
from simstream.files.snapshot_part import SnapshotPart
from simstream.files.zstandard import zstd
from simstream.index.index import Index
from simstream.judge.acceptor import Acceptor
from simstream.judge.answer_book import AnswerBook
from simstream.model import REASONS, Record
from simstream.settings import resolve
from simstream.sources.read import read_pages
from simstream.telemetry.health import ServiceHealth
from simstream.telemetry.http import HttpLimits, HttpServer
from simstream.telemetry.metrics import Metrics
from simstream.text import decode as charsets
from simstream.text.extraction.article import TREES, article_of
from simstream.text.extraction.html_bytes import html_in_utf8
from simstream.text.extraction.pool import ExtractionPool
from simstream.wire import answer, frame, page, position, verdict
from simstream.wire.field_paths import parse_paths
from simstream.wire.frame_versions import FORMAT
from tests import naive_article
from tests.fault.fuzz_questions import BODIES, questions, run_question
from tests.naive_page import NaivePage
from tests.old_format import as_format
from tests.property.test_index_damage import saved
from tests.property.test_page import records
from tests.unit import test_answer
from tests.unit.test_frame import small

LIMIT = 4096
PATIENCE_S = 20.0


@dataclass(frozen=True)
class FuzzTarget:
    """`strategy` makes what `run` is given."""

    strategy: st.SearchStrategy[Any]
    run: Callable[[Any], None]


# How bytes are damaged


@st.composite
def damaged(draw: st.DrawFn, whole: bytes) -> bytes:
    """Valid bytes with a few of them changed, removed, repeated or added; or others altogether."""
    data = bytearray(whole)
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, len(data)))
        what = draw(st.integers(0, 4))
        if what == 0 and at < len(data):
            data[at] = draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]) | st.integers(0, 255))
        elif what == 1:
            data[at:at] = draw(st.binary(min_size=1, max_size=12))
        elif what == 2:
            del data[at : at + draw(st.integers(1, 40))]
        elif what == 3:
            data[at:at] = data[at : at + draw(st.integers(1, 40))] * draw(st.integers(1, 4))
        elif at + 8 <= len(data):
            number = draw(st.sampled_from([2**31, 2**32 - 1, 2**63, 2**64 - 1, 0, 1]))
            data[at : at + 8] = number.to_bytes(8, "little")
    return bytes(data)


def nested(opening: bytes, closing: bytes, inside: bytes = b"1") -> st.SearchStrategy[bytes]:
    """From one level to as many as a record has room for, closed or not."""
    depths = st.sampled_from([1, 10, 500, 990, 1010, 5_000, 100_000])
    return st.tuples(depths, st.booleans()).map(
        lambda d: opening * d[0] + inside + (closing * d[0] if d[1] else b"")
    )


# Pages

JSON_PAGE = (
    '{"id":"a","url":"http://a.example/","text":"六 w \\ud83d\\ude00","time":1700000000000,"status":200}'.encode()
)
json_values = st.one_of(
    damaged(JSON_PAGE),
    nested(b"[", b"]"),
    nested(b'{"text":', b"}"),
    nested(b'{"x":[', b"]}", b'"\\ud800"'),
    st.sampled_from(
        [b"1" * 5000, b"-" + b"9" * 400, b"1e999999", b'{"time":1e400}', b'{"time":NaN}', b'{"status":1e5}']
    ),
)


PATHS = parse_paths({"text": "text.text", "title": "title", "url": "a.b", "id": "id"})


def run_page(record: Record) -> None:
    for limits in (page.PageLimits(LIMIT), page.PageLimits(1 << 20), page.PageLimits(1 << 20, PATHS)):
        found = page.decode(record, limits)
        found.id.encode()
        assert found.reason in REASONS
        assert min(0, record.timestamp) <= found.time <= max(record.timestamp, page.MAX_TIME_MS)
    if record.value:
        page.own_name(record.value)


# Character sets and HTML

TOKENS = st.sampled_from(
    [
        *("<div>", "</div>", "<p>", "<table><tr><td>", "<svg><desc>", "<math><mi>", "<template>", "</template>"),
        *(
            "<!--",
            "-->",
            "<![CDATA[",
            "]]>",
            "<script>",
            "</script>",
            "<style>",
            "<title>",
            "<textarea>",
            "<plaintext>",
        ),
        *(
            "<a href='",
            "'>",
            '">',
            "&amp;",
            "&#x110000;",
            "&#0;",
            "&#xD800;",
            "&lol;",
            "&",
            "<",
            ">",
            "\x00",
            "\ufffd",
        ),
        *(
            "<meta charset=gbk>",
            "<meta charset='utf-16'>",
            "<meta http-equiv=content-type content='text/html;charset=big5'>",
        ),
        *(
            "<b><i><u>",
            "<form><form>",
            "<select><option>",
            "<frameset>",
            "<noscript>",
            "<body><body>",
            "<br/>" * 50,
        ),
        '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;">]><x>&c;</x>',
        *("中文页面的正文", "plain words of a page ", "\ud800", "é", "\u2028", "𠀀", "=" * 300),
    ]
)
soup = st.lists(TOKENS | st.text(max_size=8), max_size=40).map("".join)
deep = st.builds(
    lambda tag, depth, closed: f"<{tag}>" * depth + "x" + (f"</{tag}>" * depth if closed else ""),
    st.sampled_from(["div", "b", "table", "svg", "ul><li", "a", "font", "template"]),
    st.sampled_from([10, 400, 3000]),
    st.booleans(),
)
CODECS = ("utf-8", "gb18030", "big5", "utf-16", "utf-16-le", "shift_jis", "euc_kr", "latin-1", "utf-7", "hz")
raw_pages = st.one_of(
    st.tuples(soup, st.sampled_from(CODECS)).map(lambda made: made[0].encode(made[1], "replace")),
    st.binary(max_size=300),
    soup.map(lambda text: text.encode("utf-8", "surrogatepass")),
)
labels = st.none() | st.sampled_from([*CODECS, "x-user-defined", "iso-2022-kr", "\x00", "utf-8\n", "zip", "rot13"])


def run_charset(given: tuple[bytes, str | None, bool]) -> None:
    text, codec = charsets.decode(*given)
    text.encode("utf-8", "surrogatepass")
    assert len(text) <= len(given[0])
    "".encode(codec)


@cache
def pool() -> ExtractionPool:
    return ExtractionPool(1, PATIENCE_S, 1 << 30)


def run_html(raw: bytes | str) -> None:
    [found] = pool().extract([(raw, "text/html; charset=gbk")])
    assert (found.text is None) == bool(found.reason)
    assert "died" not in found.detail, found.detail
    assert "took longer" not in found.detail, found.detail


def run_article(raw: bytes | str) -> None:
    """The kernels that find articles in the fingerprinter's own process, against the plain reading."""
    html = html_in_utf8(raw, "text/html; charset=gbk")
    wanted = naive_article.article(NaivePage(html), TREES.tolist())
    assert article_of(html) == wanted.encode("latin-1"), html


COSTLY = st.sampled_from(
    [
        *(
            "<div>",
            "<p>",
            "<b id=%d>",
            "<a href=%d>",
            "<font size=%d>",
            "<i>",
            "<nobr>",
            "<li>",
            "<dd>",
            "<option>",
        ),
        *(
            "<table>",
            "<tr>",
            "<td>",
            "<caption>",
            "</td>",
            "<select>",
            "<optgroup>",
            "<svg>",
            "<math>",
            "<template>",
        ),
        *(
            "</p>",
            "</b>",
            "</a>",
            "</font>",
            "</div>",
            "</table>",
            "</select>",
            "<br>",
            "<form>",
            "<button>",
            "<h1>",
        ),
        *(
            "<ruby>",
            "<rt>",
            "<rp>",
            "<applet>",
            "<object>",
            "<body a%d=1>",
            "<html a%d=1>",
            "x",
            "&amp;",
            "<!--x-->",
        ),
        *(
            "<p a%d=1 b%d=2>",
            "<textarea>",
            "<iframe>",
            "<frameset>",
            "<colgroup>",
            "<title>",
            "<svg><desc>",
            "</svg>",
        ),
    ]
)
costly_pages = st.lists(
    st.tuples(st.lists(COSTLY, min_size=1, max_size=4), st.sampled_from([1, 3, 100, 1_000, 12_000])),
    min_size=1,
    max_size=4,
)
"""A few tags, over and over: what a tree builder is made to do again and again."""
MAX_COSTLY_BYTES = 150_000


def run_budget(repeated: list[tuple[list[str], int]]) -> None:
    """A page is either refused before it is parsed, or it is parsed well within its budget."""
    html = ""
    for tags, times in repeated:
        unit = "".join(tags)
        for number in range(min(times, MAX_COSTLY_BYTES // len(unit))):
            html += unit.replace("%d", str(number))
    [found] = budgeted().extract([(html[:MAX_COSTLY_BYTES], "text/html")])
    assert "died" not in found.detail, found.detail
    assert "took longer" not in found.detail, found.detail


@cache
def budgeted() -> ExtractionPool:
    """With the budget that a service gives a page."""
    return ExtractionPool(1)


# Records of the log

FRAME = frame.encode(*small())


def under_its_checksum(body: bytes) -> bytes:
    """A frame of format 1 or of today's, by the body's length."""
    return as_format((1, FORMAT)[len(body) % 2], FRAME, body)


def with_header(head: bytes) -> bytes:
    return under_its_checksum(len(head).to_bytes(4, "little") + (2).to_bytes(4, "little") + head)


NINE_FIELDS = b"\x9a\xa1a\xa1a\xa1a\x00\x00\x00\x00\xc2\xc2"
"""A header that says it has ten: what nobody knows is passed over."""
frames = st.one_of(
    damaged(FRAME[16:]).map(under_its_checksum),
    nested(b"\x91", b"").map(with_header),
    nested(b"\x91", b"").map(lambda more: with_header(NINE_FIELDS + more)),
    nested(b"\x81\x01", b"").map(with_header),
    st.binary(max_size=200),
)


def run_frame(data: bytes) -> None:
    acceptor = Acceptor("1234abcd", 2)
    acceptor.next_frame = 7
    try:
        found = frame.decode(data)
        assert len(found.columns.id_list()) == len(found.columns.url_list()) == len(found.columns)
    except FrameDamaged:
        pass
    except FrameFormat:
        with pytest.raises(FrameFormat):
            acceptor.accept(7, data, 1_700_000_000_000)
        assert acceptor.next_frame == 7
        return
    acceptor.accept(7, data, 1_700_000_000_000)
    assert acceptor.next_frame == 8
    acceptor.accept(8, FRAME, 1_700_000_000_000)
    assert 0 <= acceptor.digest < 2**64


SMALL_ANSWER = test_answer.small()
answers = st.one_of(
    damaged(SMALL_ANSWER[test_answer.CHECKED :]).map(test_answer.under_its_checksum),
    damaged(SMALL_ANSWER),
    nested(b"\x91", b"").map(
        lambda head: test_answer.under_its_checksum(len(head).to_bytes(4, "little") + bytes(4) + head)
    ),
    st.dictionaries(
        st.sampled_from(["shard", "shards", "tables", "frame", "to_frame", "ordinal", "pages"]),
        st.sampled_from(
            [-1, 0, 3, 8, 9, 10, 11, 49, 50, 70, 1_000, 1_020, 2**31, 2**32, 2**63 - 1, 2**63, 2**64 - 1]
        ),
        max_size=4,
    ).map(lambda changes: test_answer.small(**changes)),
    st.binary(max_size=200).map(test_answer.under_its_checksum),
    st.binary(max_size=200),
)


def run_answer(data: bytes) -> None:
    """Decode an answer, and give it to a judge that waits for this one, or for what begins within its frames."""
    for frame_at, ordinal in ((10, 1_000), (11, 1_020)):
        book = AnswerBook("log", "1234abcd", 8, 4)
        book.begin(frame_at, ordinal, [0] * 8)
        try:
            issue = book.add(3, 0, data)
        except WrongAnswer:
            continue
        if issue is None:
            with contextlib.suppress(WrongAnswer):
                book.check(frame_at + 1, 0)
            for ordinals, matches in book.of(ordinal, ordinal + 100):
                assert (ordinals >= ordinal).all()
                assert len(ordinals) == len(matches.place) == len(matches.best)
            book.used(1 << 64)
        else:
            assert book.frames == [frame_at] * 8
    with contextlib.suppress(AnswerDamaged):
        found = answer.decode(data)
        assert len(test_answer.rows_of(found.matches)) == len(found.matches.place)


VERDICT = (
    b'{"id":"a","url":null,"verdict":"new","reason":null,"near_duplicate_of":null,"distance":null,"similarity":null,'
    b'"cluster_id":"0","canonical":"a","merged_clusters":[],"fingerprint":"9c41f07ab2e35d68","policy":"5be0c2d1",'
    b'"ordinal":0,"time":1,"source":{"topic":"p","partition":0,"offset":0}}'
)
REGISTERED = [verdict.encoder_of(form, 7)(verdict.decode(VERDICT)) for form in ("avro", "protobuf", "json_schema")]
POSITION = position.encode(position.Position("t", 3, 4, "00" * 8, "5be0c2d1"))


def json_records(whole: bytes) -> st.SearchStrategy[bytes]:
    return st.one_of(damaged(whole), nested(b'{"x":', b"}"), nested(b"[", b"]"), st.binary(max_size=60))


def run_verdict(data: bytes) -> None:
    with contextlib.suppress(LogError):
        verdict.encode(verdict.decode(data))


def run_position(data: bytes) -> None:
    with contextlib.suppress(StateError):
        position.encode(position.decode(data))


# State on disk, under checksums that agree


@cache
def folder() -> Path:
    """A folder that goes when the process ends."""
    made = tempfile.mkdtemp(prefix="simstream-fuzz-")
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return Path(made)


MANIFEST = manifest.Manifest(
    1,
    {"frame": 3},
    (manifest.ManifestFile("a", "kind", "a-1.seal", 100, 80, b"12345678"),),
    (manifest.ChangingPart("b", "kind", {}, (manifest.ChangingArray("c", "<u8", (2,), b"1234"),)),),
    (),
)


def run_manifest(body: bytes) -> None:
    data = header.encode(header.MANIFEST) + body
    with contextlib.suppress(StateError):
        for named in manifest.decode(Path("manifest"), data + checksum.of_bytes(data)).files():
            assert "/" not in named.file


@cache
def sealed_file() -> tuple[bytes, int]:
    """A file's bytes, and where its footer begins."""
    path = folder() / "whole"
    path.unlink(missing_ok=True)
    arrays = {"a": np.arange(5, dtype=np.uint64), "b": np.zeros((2, 3), np.uint8)}
    sealed.write(FileSystem(), path, SnapshotPart("part", "kind", {"x": 1}, arrays))
    data = path.read_bytes()
    length, _, _ = sealed._TRAILER.unpack(data[-sealed._TRAILER.size :])
    return data, len(data) - sealed._TRAILER.size - length


def sealed_footers() -> st.SearchStrategy[bytes]:
    data, start = sealed_file()
    return st.one_of(
        damaged(data[start : -sealed._TRAILER.size]), nested(b"\x81\xa1a", b""), st.binary(max_size=80)
    )


def run_sealed(footer: bytes) -> None:
    data, start = sealed_file()
    length = len(footer).to_bytes(8, "little")
    digest = checksum.of_block(data[: header.SIZE_BYTES] + footer + length)
    path = folder() / "forged"
    path.write_bytes(data[:start] + footer + sealed._TRAILER.pack(len(footer), digest, header.SEALED))
    with contextlib.suppress(StateError):
        for array in sealed.open(FileSystem(), path).arrays.values():
            array.sum() if array.dtype.kind in "iuf" else array.tobytes()


@st.composite
def index_parts(draw: st.DrawFn) -> list[SnapshotPart]:
    """Parts of an index with one changed array or fact."""
    parts = saved()
    which = draw(st.integers(0, len(parts) - 1))
    part = parts[which]
    arrays, facts = dict(part.arrays), dict(part.facts)
    if draw(st.booleans()):
        name = draw(st.sampled_from(sorted(arrays)))
        array = arrays[name].copy()
        flat = array.reshape(-1).view(np.uint8)
        for _ in range(draw(st.integers(1, 4))):
            if flat.size:
                flat[draw(st.integers(0, flat.size - 1))] = draw(st.integers(0, 255))
        arrays[name] = array[: draw(st.integers(0, len(array)))] if draw(st.booleans()) else array
    else:
        name = draw(st.sampled_from(sorted(facts)))
        facts[name] = draw(st.sampled_from([None, -1, 0, 2**31, 2**63 - 1, "x", [], [1, 2], {}, 1.5]))
    parts[which] = SnapshotPart(part.name, part.kind, facts, arrays)
    return parts


def run_index(parts: list[SnapshotPart]) -> None:
    index = Index(None, 1, 8, 0, memtable_limit=10)
    with contextlib.suppress(StateError):
        index.restore(parts)
        index.check()


# Files that people name

LINES = b'{"id":"a","text":"some words"}\n\n{"id":"b","html":"<p>x"}\r\n' + b'{"text":"' + b"x" * 5000 + b'"}\n'
ANSWER = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\nContent-Encoding: gzip\r\n\r\n"
    + b"%x\r\n%s\r\n0\r\n\r\n" % (len(gzip.compress(LINES, mtime=0)), gzip.compress(LINES, mtime=0))
)
WARC = (
    b"WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: http://a.example/\r\nWARC-Date: 2020-01-01T00:00:00Z\r\n"
    b"Content-Type: application/http\r\nContent-Length: %d\r\n\r\n%s\r\n\r\n" % (len(ANSWER), ANSWER)
) * 2
ARC = b"http://a.example/ 10.0.0.1 20200101000000 text/html %d\n%s\n" % (len(ANSWER), ANSWER) * 2
PACKED = {
    ".jsonl": LINES,
    ".jsonl.gz": gzip.compress(LINES, mtime=0),
    ".jsonl.xz": lzma.compress(LINES),
    ".jsonl.zst": zstd.compress(LINES),
    ".html": b"<p>" + b"words " * 50,
    ".warc": WARC,
    ".warc.gz": gzip.compress(WARC, mtime=0) + gzip.compress(WARC, mtime=0),
    ".warc.zst": zstd.compress(WARC) * 2,
    ".arc": ARC,
}
inputs = st.sampled_from(sorted(PACKED)).flatmap(lambda ending: st.tuples(st.just(ending), damaged(PACKED[ending])))


def run_input(given: tuple[str, bytes]) -> None:
    ending, data = given
    path = folder() / f"input{ending}"
    path.write_bytes(data)
    with contextlib.suppress(InputError, UsageError):  # UsageError: no line has a field with a text
        for record in read_pages([str(path)], LIMIT):
            assert len(record.value or b"") <= LIMIT + 2
            run_page(record)


KAFKA = b'[kafka]\n"security.protocol" = "SSL"\n"sasl.password" = "correct-horse-7"\n'
SETTINGS = b'prefix = "a"\nwindow = "72h"\nsimilarity = "0.6"\n[frame]\nmax_pages = 10\n' + KAFKA


def run_settings(data: bytes) -> None:
    path = folder() / "simstream.toml"
    path.write_bytes(data)
    said = ""
    try:
        resolve({}, {}, str(path))
    except SettingsError as error:
        said = str(error)
    where_it_belongs = KAFKA in data and data.count(b"correct-horse") == 1
    assert not (where_it_belongs and "correct-horse" in said), said


# The HTTP port

REQUEST = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept: text/plain\r\nConnection: keep-alive\r\n\r\n"


def header_lines(count: int) -> bytes:
    return b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * count


requests = damaged(REQUEST) | st.binary(max_size=100) | st.integers(0, 5_000).map(header_lines)


@cache
def server() -> HttpServer:
    return HttpServer("127.0.0.1", 0, Metrics(), ServiceHealth(), HttpLimits(connections=4, seconds=30.0))


def run_http(request: bytes) -> None:
    for sent in (request, b"GET /health/live HTTP/1.1\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", server().port), timeout=PATIENCE_S) as wire:
            with contextlib.suppress(OSError):  # it need not read all of it
                wire.sendall(sent)
                wire.shutdown(socket.SHUT_WR)
            with contextlib.suppress(ConnectionResetError):
                answer = b""
                while part := wire.recv(65_536):
                    answer += part
    assert answer.startswith(b"HTTP/1.0 200 ")


def as_record(value: bytes) -> Record:
    return Record("p", 0, 1, None, value, (), 0)


TARGETS: dict[str, FuzzTarget] = {
    "pages": FuzzTarget(records | json_values.map(as_record), run_page),
    "charset": FuzzTarget(st.tuples(raw_pages, labels, st.booleans()), run_charset),
    "html": FuzzTarget(raw_pages | soup | deep, run_html),
    "articles": FuzzTarget(raw_pages | soup, run_article),
    "budgets": FuzzTarget(costly_pages, run_budget),
    "frames": FuzzTarget(frames, run_frame),
    "answers": FuzzTarget(answers, run_answer),
    "verdicts": FuzzTarget(json_records(VERDICT) | st.one_of(*map(damaged, REGISTERED)), run_verdict),
    "positions": FuzzTarget(json_records(POSITION), run_position),
    "manifests": FuzzTarget(
        st.one_of(damaged(msgspec.msgpack.encode(MANIFEST)), nested(b"\x91", b"")), run_manifest
    ),
    "sealed": FuzzTarget(st.deferred(sealed_footers), run_sealed),
    "index": FuzzTarget(index_parts(), run_index),
    "inputs": FuzzTarget(inputs, run_input),
    "http": FuzzTarget(requests, run_http),
    "settings": FuzzTarget(damaged(SETTINGS), run_settings),
    "questions": FuzzTarget(
        questions(st.sampled_from(BODIES).flatmap(damaged) | json_values | st.binary(max_size=99)), run_question
    ),
}
