"""Inputs by address: web servers that misbehave, stores by fsspec, patterns, and names without secrets."""

from __future__ import annotations

import gzip
import importlib
import io
import json
import os
import random
import re
import signal
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from simstream.cli import output
from simstream.cli.dedup_outputs import written_rows
from simstream.cli.output import places_of, refuse_input, written
from simstream.errors import InputError, InputMissing, NotPut, StoreError, Unavailable, UsageError
from simstream.sources import ranges, web_files
from simstream.sources.addresses import public_address
from simstream.sources.fields import FieldNames
from simstream.sources.input_files import InputFile, files_of, opened, shown_path
from simstream.sources.read import read_pages, size_of
from simstream.sources.read_ahead import ReadAhead
from simstream.tools.dedup.input_copy import make_copier
from simstream.tools.dedup.row_layouts import PAIR_ROWS, NearPair
from simstream.tools.dedup.run_facts import facts_of
from tests.object_store import WebServer
from tests.waiting import until

fsspec = pytest.importorskip("fsspec")
LINES = [json.dumps({"text": f"page {number} " + "word " * 500}).encode() for number in range(400)]
BODY = b"\n".join(LINES)


@pytest.fixture
def web(monkeypatch: pytest.MonkeyPatch) -> Iterator[WebServer]:
    monkeypatch.setattr(web_files, "_PAUSE_S", 0.001)
    server = WebServer()
    server.body = BODY
    yield server
    server.close()


def values(*inputs: str) -> list[bytes | None]:
    return [record.value for record in read_pages(inputs)]


@pytest.mark.parametrize(
    "path",
    [
        "ranged/p.jsonl",
        "plain/p.jsonl",
        "chunked/p.jsonl",
        "away/p.jsonl",
        "longaway/p.jsonl",
        "ranged/p.jsonl?X-Signature=s",
    ],
)
def test_a_file_on_a_web_server_gives_all_its_lines(web: WebServer, path: str) -> None:
    assert values(web.address(path)) == LINES
    assert size_of([web.address(path)]) == len(BODY)


@pytest.mark.parametrize("ending", [".jsonl.gz", ".csv.gz"])
def test_lines_of_a_packed_file_whose_address_has_a_query_are_read_again(web: WebServer, ending: str) -> None:
    lines = LINES if ending == ".jsonl.gz" else [b"id,text", *(b"%d,page" % number for number in range(20))]
    web.body = gzip.compress(b"\n".join(lines) + b"\n")
    inputs = [web.address(f"ranged/p{ending}?X-Signature=s/1")]
    copier = make_copier(inputs, f"kept{ending}", 1 << 20, FieldNames())
    records = list(copier.noted(read_pages(inputs)))
    out = io.BytesIO()
    copier.copy(np.arange(len(records)), out)
    assert out.getvalue().splitlines() == lines


def test_a_file_that_comes_only_whole_is_not_begun_before_its_turn(web: WebServer) -> None:
    """A server drops the connection of a reader that waits for its turn, and cannot go on in the middle."""
    paths = ["ranged/1.jsonl", "plain/2.jsonl", "ranged/3.jsonl"]
    reader = read_pages([web.address(path) for path in paths], ahead=ReadAhead(8))
    first = next(reader)
    until(lambda: web.asked.count("/ranged/3.jsonl") >= 3, "a later file is read ahead")
    assert web.asked.count("/plain/2.jsonl") == 1, "nobody but the list of files has asked for it"
    assert [first.value, *(record.value for record in reader)] == LINES * 3


def _pages_of(files: list[InputFile]) -> object:
    return list(read_pages(files, ahead=ReadAhead(2)))


@pytest.mark.parametrize("missed", [False, True])
@pytest.mark.parametrize("ask", [facts_of, _pages_of])
def test_ctrl_c_does_not_wait_for_a_server_that_stalls(
    web: WebServer, ask: Callable[[list[InputFile]], object], missed: bool
) -> None:
    """`missed`: another thread takes the signal, so it breaks off no wait of the main thread."""
    files = files_of([web.address(path) for path in ("ranged/p.jsonl", "ranged/q.jsonl")])
    real, over = web.answer, threading.Event()

    has_begun = threading.Lock()

    def stalled(request: Any) -> None:
        if has_begun.acquire(blocking=False):  # a second signal could come after the end of this test
            os.kill(os.getpid(), signal.SIGINT)
        over.wait(60)
        real(request)

    web.answer = stalled  # type: ignore[method-assign]
    began = time.monotonic()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT] if missed else [])
    try:
        with pytest.raises(KeyboardInterrupt):
            ask(files)
        assert time.monotonic() - began < 30
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        over.set()


def test_a_run_is_not_kept_over_a_file_whose_change_nobody_would_see(web: WebServer) -> None:
    files = files_of([web.address("untagged/p.jsonl"), web.address("ranged/p.jsonl")])
    with pytest.raises(UsageError, match=r"the server of .*/untagged/p.jsonl does not say when"):
        facts_of(files)
    assert len(facts_of(files[1:] * 40)) == 40


def test_an_empty_file_on_a_web_server_has_no_page(web: WebServer) -> None:
    web.body = b""
    assert values(web.address("plain/p.jsonl")) == []


@pytest.mark.parametrize(
    ("fault", "said"),
    [("short", "broke off at byte"), ("changing", "changed while"), ("shifted", "be read in parts")],
)
def test_an_answer_that_breaks_off_or_changes_is_never_a_shorter_file(
    web: WebServer, fault: str, said: str
) -> None:
    with pytest.raises(StoreError, match=rf"127\.0\.0\.1.*{said}"):
        values(web.address(f"{fault}/p.jsonl"))
    assert len(web.asked) < 30


@pytest.mark.parametrize(
    ("path", "error", "said"),
    [
        ("missing/p.jsonl", InputMissing, "does not exist"),
        ("refused/p.jsonl", InputMissing, "is refused"),
        ("teapot/p.jsonl", StoreError, "418"),
        ("missing/*.jsonl", InputMissing, r"does not exist \(404.*: name each file, because"),
        ("endless/p.jsonl", InputMissing, "does not say how long the file is .*: download the file"),
        ("packed/p.jsonl", InputMissing, "compresses the file on its way .*: download the file"),
        ("round/p.jsonl", StoreError, "302"),
        ("tofile/p.jsonl", StoreError, "not allowed"),
        ("ranged/p.gif", UsageError, "ending that is not read"),
    ],
)
def test_an_address_that_cannot_be_read_is_named_before_a_page_is_read(
    web: WebServer, path: str, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        files_of([web.address(path)])
    assert len(web.asked) <= 12


def test_a_redirect_from_https_to_http_is_not_followed() -> None:
    asked = urllib.request.Request("https://a.example/p.jsonl")
    with pytest.raises(urllib.error.HTTPError, match="less safe"):
        web_files._Redirects().redirect_request(asked, None, 302, "", {}, "http://a.example/p.jsonl")


def test_a_server_that_does_not_listen_is_asked_four_times(web: WebServer) -> None:
    web.close()
    with pytest.raises(StoreError, match=r"4 attempts failed.*refused"):
        files_of([web.address("ranged/p.jsonl")])


@pytest.mark.parametrize(("fault", "asked"), [("dripping", 4), ("trickling", 6)])
def test_an_answer_whose_head_or_chunks_never_end_is_given_up(
    web: WebServer, monkeypatch: pytest.MonkeyPatch, fault: str, asked: int
) -> None:
    monkeypatch.setattr(web_files, "_RANGE_S", 0.3)
    with pytest.raises(StoreError, match=r"4 attempts failed.*took longer than"):
        values(web.address(f"{fault}/p.jsonl"))
    assert len(web.asked) == asked
    assert not [one for one in threading.enumerate() if isinstance(one, threading.Timer)]


@pytest.mark.parametrize("failure", [408, 429, 500])
def test_a_server_that_fails_for_a_moment_is_asked_again_and_at_most_four_times(
    web: WebServer, failure: int
) -> None:
    web.failures, web.failure = web_files.ATTEMPTS - 1, failure
    assert values(web.address("ranged/p.jsonl")) == LINES
    web.failures = web_files.ATTEMPTS
    with pytest.raises(StoreError, match=f"4 attempts failed, the last with {failure}"):
        files_of([web.address("ranged/p.jsonl")])


def test_random_reads_of_an_address_are_those_of_the_bytes(web: WebServer) -> None:
    dice = random.Random(7)
    with opened(web.address("ranged/p.jsonl")) as handle:
        for _ in range(60):
            begin, count = dice.randrange(len(BODY) + 10), dice.choice([0, 1, 700, 70_000, 900_000])
            handle.seek(begin)
            assert handle.read(count) == BODY[begin : begin + count]


def test_what_a_server_without_ranges_gave_once_is_no_other_part_of_the_file(web: WebServer) -> None:
    file = web_files.WebFile(web.address("plain/p.jsonl"))
    assert file.read(0, 9) == file.read(0, 9) == BODY[:9]
    assert file.read(9, 18) == BODY[9:18]
    file.close()


def test_a_reader_that_goes_straight_on_asks_for_larger_ranges_up_to_a_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ranges, "_MIN_BYTES", 2)
    monkeypatch.setattr(ranges, "_MAX_BYTES", 8)
    asked: list[tuple[int, int]] = []

    def read(begin: int, end: int) -> bytes:
        asked.append((begin, end))
        return BODY[begin:end]

    reader: Any = SimpleNamespace(size=100, first_stamp=(), read=read, close=lambda: None)
    with ranges.RemoteFile(reader, "p") as file:
        assert b"".join(iter(lambda: file.read(1), b"")) == BODY[:100]
    sizes = [end - begin for begin, end in asked]
    assert (sizes[:4], max(sizes)) == ([4, 8, 8, 8], 8)


def test_a_range_of_which_fewer_bytes_come_is_no_end_of_the_file() -> None:
    reader: Any = SimpleNamespace(size=100, first_stamp=(), read=lambda *_: b"x", close=lambda: None)
    with (
        ranges.RemoteFile(reader, "p") as file,
        pytest.raises(StoreError, match="p broke off: 1 of 100 bytes came"),
    ):
        file.read()


def test_a_name_has_neither_password_nor_signature() -> None:
    assert public_address("https://a.example/p.jsonl?X-Amz-Signature=secret#x") == "https://a.example/p.jsonl"
    assert public_address("HTTPS://me:a@secret@a.example/p.jsonl?secret") == "HTTPS://a.example/p.jsonl"
    assert public_address("sftp://me:secret@a.example/p.jsonl") == "sftp://a.example/p.jsonl"
    assert shown_path("hf://datasets/a/b@main/p?.parquet") == "hf://datasets/a/b@main/p?.parquet"
    assert public_address("https://a.example/%40secret/p.jsonl") == "https://a.example/%40secret/p.jsonl"
    for user in ("me:secret@", "me%3Asecret%40"):
        with pytest.raises(UsageError, match="given with a user") as refused:
            files_of([f"https://{user}a.example/p.jsonl"])
        assert "secret" not in str(refused.value)


def test_two_addresses_that_differ_in_their_secret_part_only_are_refused(web: WebServer) -> None:
    with pytest.raises(UsageError, match="two inputs have the name"):
        files_of([web.address("ranged/p.jsonl?a=1"), web.address("ranged/p.jsonl?a=2")])


def test_a_pattern_of_a_store_gives_its_files_in_byte_order() -> None:
    store = fsspec.filesystem("memory")
    for name in ("b", "a", "Z", "é"):
        store.pipe_file(f"/order/{name}.jsonl", json.dumps({"text": name}).encode())
    store.pipe_file("/order/deep/c.jsonl", b"{}")
    assert [file.path for file in files_of(["memory://order/*.jsonl"])] == [
        f"memory://order/{name}.jsonl" for name in ("Z", "a", "b", "é")
    ]
    assert [json.loads(value or b"")["text"] for value in values("memory://order/*.jsonl")] == ["Z", "a", "b", "é"]
    assert len(files_of(["memory://order/**/*.jsonl"])) == 5


def test_a_folder_of_a_store_gives_its_html_files() -> None:
    store = fsspec.filesystem("memory")
    for name in ("b.html", "a.htm", "c.txt"):
        store.pipe_file(f"/folder/{name}", b"<p>text")
    assert [file.path for file in files_of(["memory://folder"])] == [
        "memory://folder/a.htm",
        "memory://folder/b.html",
    ]


@pytest.mark.parametrize("path", ["pages", "pages/*.jsonl"])
def test_no_file_is_read_from_another_server_than_its_address_names(web: WebServer, path: str) -> None:
    server = f"webhdfs://me:secret@127.0.0.1:{web.port}/"
    assert [file.path for file in files_of([f"{server}pages/a.jsonl"])] == [f"{server}pages/a.jsonl"]
    with pytest.raises(UsageError, match=f"{re.escape(path)} is a folder or a pattern") as refused:
        files_of([server + path])
    assert "secret" not in str(refused.value)


def test_addresses_of_nothing_are_named() -> None:
    for address in ("memory://nothing.jsonl", "memory://none/*.jsonl"):
        with pytest.raises(InputMissing, match=r"memory://no"):
            files_of([address])
    with pytest.raises(UsageError, match="unknown protocol"):
        files_of(["nosuch://a/p.jsonl"])
    with pytest.raises(Unavailable, match=r"gcsfs.*pip install"):
        files_of(["gs://a/p.jsonl"])


@pytest.mark.parametrize("package", ["s3fs", "fsspec"])
def test_a_missing_package_is_named_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(importlib.import_module("fsspec.registry")._registry, "s3", raising=False)
    with pytest.raises(Unavailable, match=rf"^s3:// needs {package}, which .*pip install 'simstream\[lake\]'$"):
        files_of(["s3://a/p.jsonl"])


def test_a_store_whose_file_changes_while_it_is_read_is_an_error() -> None:
    store = fsspec.filesystem("memory")
    store.pipe_file("/changing.jsonl", BODY)
    pages = read_pages(["memory://changing.jsonl"])
    next(pages)
    store.pipe_file("/changing.jsonl", BODY)
    with pytest.raises(StoreError, match="changed while it was read"):
        list(pages)


def test_local_patterns_and_file_addresses_give_local_files(tmp_path: Path) -> None:
    for name in ("b 1", "a", "[x]"):
        (tmp_path / f"{name}.jsonl").write_bytes(b'{"text":"x"}')
    found = [str(tmp_path / f"{name}.jsonl") for name in ("[x]", "a", "b 1")]
    assert [file.path for file in files_of([f"{tmp_path}/*.jsonl"])] == found
    assert [file.path for file in files_of([f"file://{tmp_path}/*.jsonl"])] == found
    assert [file.path for file in files_of([f"file://{tmp_path}/b%201.jsonl", f"{tmp_path}/[x].jsonl"])] == [
        found[2],
        found[0],
    ]
    with pytest.raises(InputMissing, match="names no file"):
        files_of([f"{tmp_path}/*.csv"])
    with pytest.raises(UsageError, match="names no local file"):
        files_of(["file://elsewhere/x.jsonl"])


def test_csv_and_html_come_from_a_store_as_from_the_disk(tmp_path: Path) -> None:
    store = fsspec.filesystem("memory")
    for name, data in [("p.csv", b"id,text\na,one\nb,two\n"), ("p.html", b"<p>three")]:
        (tmp_path / name).write_bytes(data)
        store.pipe_file(f"/kinds/{name}", data)
        assert values(f"memory://kinds/{name}") == values(str(tmp_path / name))


@pytest.mark.parametrize("kept", [None, InputError("damaged"), StoreError("broke off"), KeyboardInterrupt()])
def test_an_output_of_a_store_appears_whole_or_not_at_all(kept: BaseException | None) -> None:
    store = fsspec.filesystem("memory")
    store.pipe_file("/whole/v.jsonl.gz", b"before")
    with suppress(InputError, StoreError, KeyboardInterrupt), written("memory://whole/v.jsonl.gz", []) as out:
        out.write(b"a line")
        assert store.cat_file("/whole/v.jsonl.gz") == b"before"
        if kept is not None:
            raise kept
    there = store.cat_file("/whole/v.jsonl.gz")
    if kept is None or isinstance(kept, InputError):
        assert gzip.decompress(there) == b"a line"
    else:
        assert there == b"before"
    assert store.find("/whole") == ["/whole/v.jsonl.gz"]


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("https://a.example/v.jsonl", "cannot be written"),
        ("memory://refusals/*.jsonl", "cannot be written"),
        ("memory://refusals/", "cannot be written"),
        ("memory://refusals", "is a folder"),
        ("nosuch://refusals/v.jsonl", "unknown protocol"),
    ],
)
def test_an_output_that_cannot_be_is_refused_at_the_beginning(address: str, said: str) -> None:
    fsspec.filesystem("memory").pipe_file("/refusals/in.jsonl", b"")
    with pytest.raises(UsageError, match=said), written(address, []):
        pass


def test_an_output_that_is_an_input_is_refused() -> None:
    with pytest.raises(UsageError, match="is an input, too"):
        refuse_input("s3://a/b.jsonl", ["c.jsonl", "s3://a/b.jsonl"])
    assert places_of("s3://a/b.jsonl") == places_of("s3://a/b.jsonl") != places_of("s3://a/c.jsonl")
    assert places_of("file:///a/b.jsonl") == places_of("/a/b.jsonl")


@pytest.mark.parametrize("failure", [None, InputMissing("refused"), KeyboardInterrupt(), OSError("no descriptor")])
def test_an_output_that_cannot_be_put_stays_on_the_disk_and_loses_no_other_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: BaseException | None
) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    store = fsspec.filesystem("memory")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    here, table = tmp_path / "v.jsonl", tmp_path / "v.parquet"
    outputs = ExitStack()
    verdicts = outputs.enter_context(written(str(here), []))
    write = outputs.enter_context(written_rows(str(table), [], PAIR_ROWS))
    second = outputs.enter_context(written("memory://unput/second.jsonl", []))
    first = outputs.enter_context(written("memory://unput/first.jsonl", []))
    write(NearPair("a", "b", 1, 0.5))
    for out in (verdicts, second, first):
        out.write(b"a line")
    if failure is None:
        store.pipe_file("/unput", b"")  # what was a folder is now a file
    else:
        store.pipe_file("/unput/first.jsonl", b"")

        def fail(*_: str) -> None:
            raise failure

        monkeypatch.setattr(output, "put", fail)
    with pytest.raises(NotPut) as raised:
        outputs.close()
    store.rm("/unput", recursive=True)
    assert here.read_bytes() == b"a line"
    assert pq.read_table(table).num_rows == 1
    for name in ("first", "second"):
        [whole] = tmp_path.glob(f"simstream-*/{name}.jsonl")
        assert whole.read_bytes() == b"a line"
        assert f"the whole file is {whole}" in raised.value.what
    assert not list(tmp_path.rglob("*.part"))


def test_an_open_descriptor_of_a_file_is_no_place_for_an_output(tmp_path: Path) -> None:
    """A new file would take its place: what it has would be lost, and what still comes to the descriptor."""
    with (tmp_path / "log").open("w+") as log:
        log.write("earlier")
        log.flush()
        for name in (f"/dev/fd/{log.fileno()}", f"/proc/self/fd/{log.fileno()}"):
            with pytest.raises(UsageError, match="is an open file"), written(name, []):
                pass
    assert (tmp_path / "log").read_text() == "earlier"
