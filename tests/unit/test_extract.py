"""Main content, and processes that may die over it."""

from __future__ import annotations

import concurrent.futures.thread
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from deploy.server_process import freeze
from simstream.cli.options import make_deduper
from simstream.errors import ExtractionNotStarted
from simstream.setting_groups import ExtractSettings
from simstream.settings import Settings
from simstream.text.extraction import pool as extraction_pool
from simstream.text.extraction import process as extraction_process
from simstream.text.extraction.extract import ExtractedText, extract_one
from simstream.text.extraction.pool import ExtractionPool
from simstream.text.extraction.process import ExtractionProcess
from simstream.text.extraction.refused_html import refusal
from tests.forked_process import forked
from tests.waiting import until

STORY = "The river rose in the night and carried the old ferry as far as the mill, where it stayed. " * 3
PAGE = (
    "<html><head><title>Ferry</title><script>var x = 1;</script></head><body>"
    '<nav><a href="/">Home</a> <a href="/n">News</a></nav>'
    f"<article><h1>Ferry adrift</h1><p>{STORY}</p></article>"
    "<footer>Copyright</footer></body></html>"
)
HTML = "text/html"
SLOW = "<p>x</p>" * 190_000
"""Just not refused: half a second of CPU, or more."""


@pytest.fixture
def pool() -> Iterator[ExtractionPool]:
    with ExtractionPool(1, timeout=2.0) as pool:
        yield pool


def test_main_content_leaves_out_what_surrounds_it() -> None:
    text = extract_one(PAGE, HTML).text
    assert text is not None
    assert "carried the old ferry" in text
    for outside in ("Home", "Copyright", "var x", "<p>"):
        assert outside not in text


def test_the_title_is_no_part_of_the_text() -> None:
    page = f"<title>Weather</title><article><p>{STORY}</p></article>"
    assert "Weather" not in (extract_one(page, HTML).text or "")


def test_blocks_do_not_run_together() -> None:
    page = "<table><tr><td>北京</td><td>上海</td></tr></table><p>一</p><p>二</p>"
    assert (extract_one(page, HTML).text or "").split() == ["北京", "上海", "一", "二"]


def test_a_page_without_main_content_gives_all_its_text() -> None:
    page = "<html><body><nav>Only links here</nav><footer>and a footer</footer></body></html>"
    assert (extract_one(page, HTML).text or "").split() == ["Only", "links", "here", "and", "a", "footer"]


def test_numbers_of_lists_and_texts_of_images_are_left_out() -> None:
    page = f"<article><p>{STORY}</p><ol><li>one</li><li>two</li></ol><img alt='picture'></article>"
    words = (extract_one(page, HTML).text or "").split()
    assert words[-2:] == ["one", "two"]


def test_fetched_bytes_are_decoded_by_their_charset() -> None:
    assert extract_one("<p>中文</p>".encode("gb18030"), "text/html; charset=gbk").text == "中文"


def test_plain_text_is_decoded_and_nothing_else() -> None:
    assert extract_one("<p>中文".encode("gb18030"), "text/plain; charset=gbk").text == "<p>中文"


@pytest.mark.parametrize(
    "raw",
    [
        b"%PDF-1.7 \n" + b"text " * 100,
        b"\x89PNG\r\n\x1a\n",
        b"PK\x03\x04",
        bytes(range(256)) * 8,
        b"\x00" * 100,
        b"abc\x00\x00\x00" * 50,
    ],
)
@pytest.mark.parametrize("content_type", ["text/html", "text/plain"])
def test_binary_data_is_told_from_text(raw: bytes, content_type: str) -> None:
    result = extract_one(raw, content_type)
    assert (result.text, result.reason) == (None, "binary")
    assert result.detail


@pytest.mark.parametrize("codec", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf16_is_no_binary_data(codec: str) -> None:
    assert "carried the old ferry" in (extract_one(PAGE.encode(codec), HTML).text or "")


def test_lone_surrogates_and_nuls_become_replacement_characters() -> None:
    assert extract_one("<p>a\ud800b\x00c</p>", HTML).text == "a�b�c"


def test_no_html_at_all_is_empty_text() -> None:
    assert extract_one("", HTML) == ("", "", "")


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_a_pool_gives_what_one_call_gives_in_order(workers: int) -> None:
    items: list[tuple[bytes | str, str]] = [
        (PAGE, HTML),
        (PAGE.encode("utf-16"), HTML),
        (b"plain", "text/plain"),
        (b"%PDF-", HTML),
        ("a\ud800b", HTML),
        (f"<p>{STORY * 5_000}", HTML),
    ]
    with ExtractionPool(workers) as pool:
        assert pool.extract(items) == [extract_one(*item) for item in items]


def test_a_pool_extracts_in_the_calling_thread_once_the_main_thread_has_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pages = [(f"<p>page {number}</p>", "text/html") for number in range(40)]
    with ExtractionPool(2) as pool:
        expected = pool.extract(pages)
        monkeypatch.setattr(concurrent.futures.thread, "_shutdown", True)
        assert pool.extract(pages) == expected


def test_no_process_starts_before_there_is_html(pool: ExtractionPool) -> None:
    pool.extract([(b"plain", "text/plain")])
    assert pool.pids() == []
    pool.extract([(PAGE, HTML)])
    assert len(pool.pids()) == 1


def test_a_page_that_eats_its_time_costs_itself_only() -> None:
    with ExtractionPool(1, timeout=0.1) as pool:
        first, slow, last = pool.extract([(PAGE, HTML), (SLOW, HTML), (PAGE, HTML)])
    assert first == last == extract_one(PAGE, HTML)
    assert slow == (None, "extract_failed", "the extraction took longer than 0.1 seconds")


def test_a_process_that_somebody_freezes_costs_nothing() -> None:
    with ExtractionPool(1, timeout=0.3) as pool:
        pool.extract([(PAGE, HTML)])
        (pid,) = pool.pids()
        freeze(pid)
        assert pool.extract([(PAGE, HTML)] * 2) == [extract_one(PAGE, HTML)] * 2
        assert pid not in pool.pids()


def test_only_the_page_at_fault_is_lost_of_a_batch() -> None:
    pages = [f"<p>{number} {STORY}</p>" for number in range(40)]
    items = [(page, HTML) for page in pages]
    items[7] = items[8] = items[20] = (SLOW, HTML)
    with ExtractionPool(1, timeout=0.1) as pool:
        found = pool.extract(items)
    assert [i for i, one in enumerate(found) if one.reason] == [7, 8, 20]
    assert all(found[i] == extract_one(*items[i]) for i in range(40) if i not in (7, 8, 20))


def test_time_that_others_take_from_a_process_is_not_held_against_a_page() -> None:
    with ExtractionPool(1, timeout=0.5) as pool:
        pool.extract([(PAGE, HTML)])
        (pid,) = pool.pids()
        freeze(pid)
        waker = threading.Timer(1.0, os.kill, (pid, signal.SIGCONT))
        waker.start()
        assert pool.extract([(PAGE, HTML)]) == [extract_one(PAGE, HTML)]
        waker.join()
        assert pool.pids() == [pid]


def cpu_ticks(pid: int) -> int:
    """CPU time that a process has used outside of the system."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11])


def test_a_process_killed_in_the_middle_of_a_page_costs_nothing(pool: ExtractionPool) -> None:
    pool.extract([(PAGE, HTML)])
    slow = "<p>a</p>" * 20_000 + STORY
    results = []
    thread = threading.Thread(target=lambda: results.extend(pool.extract([(slow, HTML)] * 20)))
    (pid,) = pool.pids()
    before = cpu_ticks(pid)
    thread.start()
    until(lambda: cpu_ticks(pid) > before, "a page is in work", every=0.001)
    os.kill(pid, signal.SIGKILL)
    thread.join(60)
    assert pid not in pool.pids()
    assert results == [extract_one(slow, HTML)] * 20


def test_a_page_that_kills_its_process_again_and_again_costs_itself_only(pool: ExtractionPool) -> None:
    done = threading.Event()

    def kill_whatever_runs() -> None:
        while not done.is_set():
            for pid in pool.pids():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)

    killer = threading.Thread(target=kill_whatever_runs)
    killer.start()
    try:
        (result,) = pool.extract([(SLOW, HTML)])
    finally:
        done.set()
        killer.join()
    assert result.reason == "extract_failed"
    assert pool.extract([(PAGE, HTML)]) == [extract_one(PAGE, HTML)]


def test_a_page_that_wants_too_much_memory_costs_itself_only() -> None:
    with ExtractionPool(1, timeout=20, memory_bytes=400 << 20) as pool:
        huge, good = pool.extract([("<p>x</p>" * 3_000_000, HTML), (PAGE, HTML)])
    assert huge.reason == "extract_failed"
    assert good == extract_one(PAGE, HTML)


def may_take(pool: ExtractionPool) -> int:
    """The address space, in bytes, that the pool's one process may have."""
    [pid] = pool.pids()
    return resource.prlimit(pid, resource.RLIMIT_AS)[0]


def test_a_process_may_take_half_a_gigabyte_or_the_set_limit() -> None:
    text = f"<p>{'word ' * 8_000_000}</p>"
    with ExtractionPool(1, timeout=20.0) as pool:
        [found] = pool.extract([(text, HTML)])
        assert found.text is not None
        assert may_take(pool) == 512 << 20
    with ExtractionPool(1, timeout=20.0, memory_bytes=128 << 20) as pool:
        large, good = pool.extract([(text, HTML), (PAGE, HTML)])
        assert (large.reason, good) == ("extract_failed", extract_one(PAGE, HTML))
        assert may_take(pool) == 128 << 20


def test_the_setting_reaches_the_process(cache: Path) -> None:
    settings = Settings(cache=str(cache), recipe="google2007", extract=ExtractSettings(1, 20.0, 96 << 20))
    with make_deduper(settings) as deduper:
        deduper.judge([{"id": "a", "html": PAGE}])
        assert may_take(deduper._fingerprinter._extractor) == 96 << 20


@pytest.mark.parametrize(
    "page",
    [
        "<p x='" + "a" * 3_000_000 + "'>text",
        "<p " + "a=b " * 300_000 + ">text",
        "<table>" * 5_000 + "text",
        "<p>\x00" * 10_000 + "text",
        "<!--" * 10_000,
        "&#x110000;&#0;&notanentity;" * 1_000,
    ],
)
def test_hostile_html_gets_an_answer_in_time(pool: ExtractionPool, page: str) -> None:
    (result,) = pool.extract([(page, HTML)])
    assert (result.text is None) == (result.reason == "extract_failed")


@contextmanager
def no_descriptor_for_a_socket() -> Iterator[None]:
    """Leave room for one file descriptor, where a pair of sockets takes two."""
    refusal(PAGE.encode())  # imports and compiles, which takes files
    free = os.dup(0)
    os.close(free)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free + 1, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_pages_wait_for_a_process_that_cannot_start_yet() -> None:
    items, found = [(PAGE, HTML)] * 3, list[ExtractedText]()
    with ExtractionPool(1) as pool:
        thread = threading.Thread(target=lambda: found.extend(pool.extract(items)))
        with no_descriptor_for_a_socket():
            thread.start()
            time.sleep(0.5)
        thread.join(60)
    assert found == [extract_one(PAGE, HTML)] * 3


def test_a_process_that_cannot_start_is_an_error_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extraction_process, "START_PATIENCE_S", 0.5)
    with ExtractionPool(1, clock=time.monotonic) as pool:
        for _ in range(4):
            with no_descriptor_for_a_socket(), pytest.raises(ExtractionNotStarted, match=r"open files.*ulimit -n"):
                pool.extract([(PAGE, HTML)], ["https://a.example/1"])
        assert pool.extract([(PAGE, HTML)], ["https://a.example/1"]) == [extract_one(PAGE, HTML)]


def test_a_process_that_ends_before_it_is_asked_is_not_the_pages_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extraction_process, "START_PATIENCE_S", 0.5)
    with monkeypatch.context() as without, ExtractionPool(1) as pool:
        without.setattr(extraction_process, "_BOOT", "raise SystemExit(9)")
        with pytest.raises(ExtractionNotStarted, match="exit code 9"):
            pool.extract([(PAGE, HTML)])
        without.undo()
        assert pool.extract([(PAGE, HTML)]) == [extract_one(PAGE, HTML)]


def test_a_process_of_a_version_that_was_installed_meanwhile_extracts_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as earlier:
        earlier.setattr(extraction_pool, "versions", lambda: "simstream 0.0.1, resiliparse 2.0.1")
        pool = ExtractionPool(1)
    with pool, pytest.raises(ExtractionNotStarted, match=r"installed while this process ran \(simstream 0\.0\.1"):
        pool.extract([(PAGE, HTML)])
    with ExtractionPool(1) as pool:
        assert pool.extract([(PAGE, HTML)]) == [extract_one(PAGE, HTML)]


def test_a_frozen_program_does_not_start_itself_to_extract(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    with ExtractionPool(1) as pool, pytest.raises(ExtractionNotStarted, match=r"is a frozen program: .*to 0, or"):
        pool.extract([(PAGE, HTML)])
    with ExtractionPool(0) as pool:
        assert pool.extract([(PAGE, HTML)]) == [extract_one(PAGE, HTML)]


def test_closing_ends_the_wait_for_a_process_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_FIRST_PAUSE_S", "_MAX_PAUSE_S", "START_PATIENCE_S"):
        monkeypatch.setattr(extraction_process, name, 600.0)
    tried, start = threading.Event(), ExtractionProcess._start

    def noted(self: ExtractionProcess) -> None:
        tried.set()
        start(self)

    monkeypatch.setattr(ExtractionProcess, "_start", noted)
    pool, refused = ExtractionPool(1), threading.Event()

    def extract() -> None:
        with pytest.raises(ValueError, match="the extraction pool is closed"):
            pool.extract([(PAGE, HTML)] * 3)
        refused.set()

    thread = threading.Thread(target=extract)
    with no_descriptor_for_a_socket():
        thread.start()
        assert tried.wait(60)
        time.sleep(0.5)  # by now it pauses for ten minutes
        pool.close()
        thread.join(60)
        assert not thread.is_alive()
    assert refused.is_set(), "good pages have failed"


def test_a_pool_that_is_closed_while_it_makes_batches_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    with ExtractionPool(2) as pool:
        batches = extraction_pool._batches

        def close_first(*arguments: Any) -> Iterator[tuple[int, int]]:
            pool.close()
            return batches(*arguments)

        monkeypatch.setattr(extraction_pool, "_batches", close_first)
        with pytest.raises(ValueError, match="the extraction pool is closed"):
            pool.extract([(PAGE, HTML)] * 40)


def test_a_batch_that_closing_cancels_says_that_the_pool_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, cancelled = threading.Event(), threading.Event()

    def answer(*_: object) -> list[ExtractedText]:
        begun.set()
        cancelled.wait(60)
        return []

    def shutdown(threads: ThreadPoolExecutor, **_: bool) -> None:
        end(threads, wait=False, cancel_futures=True)
        cancelled.set()

    end = ThreadPoolExecutor.shutdown
    monkeypatch.setattr(ExtractionPool, "_answer", answer)
    monkeypatch.setattr(ThreadPoolExecutor, "shutdown", shutdown)
    pool = ExtractionPool(2)
    closing = threading.Thread(target=lambda: begun.wait(60) and pool.close())
    closing.start()
    with pytest.raises(ValueError, match="the extraction pool is closed"):
        pool.extract([(PAGE, HTML)] * 40)
    closing.join(60)


def test_several_threads_may_share_a_pool() -> None:
    expected = extract_one(PAGE, HTML)
    results: list[bool] = []
    with ExtractionPool(2) as pool:
        threads = [
            threading.Thread(target=lambda: results.append(pool.extract([(PAGE, HTML)] * 20) == [expected] * 20))
            for _ in range(6)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert results == [True] * 6


@pytest.mark.parametrize("workers", [1, 2])
def test_a_forked_process_extracts_in_processes_of_its_own(workers: int) -> None:
    """By one socket each got the texts of the other's pages."""
    items, expected = [(PAGE, HTML)] * 40, [extract_one(PAGE, HTML)] * 40
    with ExtractionPool(workers) as pool:
        assert pool.extract(items) == expected
        started = pool.pids()

        def extract_and_close() -> None:
            assert pool.extract(items) == expected
            assert pool.pids()
            assert not {*started} & {*pool.pids()}
            pool.close()

        assert forked(extract_and_close) == 0
        assert pool.extract(items) == expected
        assert pool.pids() == started


def test_processes_end_with_the_pool() -> None:
    pool = ExtractionPool(1)
    pool.extract([(PAGE, HTML)])
    (pid,) = pool.pids()
    pool.close()
    pool.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    with pytest.raises(ValueError, match="closed"):
        pool.extract([(PAGE, HTML)])
