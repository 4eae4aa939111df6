"""A batch that is divided among threads has the answers that one thread gives."""

from __future__ import annotations

import concurrent.futures.thread
import threading
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from simstream.index import answers as answers_module
from simstream.index import crowds, lookup_threads
from simstream.index import index as index_module
from simstream.index.index import Index
from simstream.index.lookup_threads import MAX_THREADS, LookupThreads
from simstream.index.matches import Matches
from simstream.model import U64, MatchLimits
from tests.forked_process import forked
from tests.naive_index import Answer
from tests.property.test_index import numbers, random_words
from tests.property.test_index_states import answers
from tests.short import examples

WORDS, DISTANCE, AGREEMENT = 2, 6, 20
Keys = tuple[U64, U64]


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every batch of two queries is worth dividing, whatever the index holds."""
    monkeypatch.setattr(lookup_threads, "MIN_PART_QUERIES", 1)
    monkeypatch.setattr(lookup_threads, "MIN_ENTRIES", 0)


def keys(count: int, seed: int) -> Keys:
    """About half of the keys are copies of a few others. A bit is flipped in some words of all."""
    rng = np.random.default_rng(seed)
    words = random_words(seed, count, 1 + WORDS)
    chosen = rng.random(count) < 0.5
    words[chosen] = words[rng.integers(0, max(1, count // 20), int(chosen.sum()))]
    flips = np.uint64(1) << rng.integers(0, 64, words.shape, dtype=np.uint64)
    words ^= np.where(rng.random(words.shape) < 0.3, flips, np.uint64(0))
    return np.ascontiguousarray(words[:, 0]), np.ascontiguousarray(words[:, 1:])


def filled(known: Keys, threads: int) -> Index:
    """An index with several segments and a memtable."""
    index = Index(None, WORDS, DISTANCE, AGREEMENT, 64, MatchLimits(2, 100), further_draws=1)
    index.look_up_by(threads)
    own = numbers(len(known[0]))
    for at in range(0, len(own), 50):
        part = slice(at, at + 50)
        index.add(own[part], known[0][part], known[1][part], (own[part] % 3 == 0).astype(np.uint8), None)
    return index


def divisions(index: Index, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Into how many parts each batch is divided from now on."""
    parts: list[int] = []
    run = LookupThreads.run

    def noting(self: LookupThreads, look_up: Any, spans: list[slice]) -> Any:
        if self is index._threads:
            parts.append(len(spans))
        return run(self, look_up, spans)

    monkeypatch.setattr(LookupThreads, "run", noting)
    return parts


def in_parts(index: Index, asked: Keys, short: NDArray[np.uint8]) -> tuple[list[Answer], list[bool]]:
    """All answers, as the judge asks for them: from the first query without one on. And which are crowded."""
    found: list[Answer] = []
    crowded: list[bool] = []
    while len(found) < len(asked[0]):
        rest = slice(len(found), None)
        got = index.query_apart(asked[0][rest], asked[1][rest], short[rest])
        assert got.done == 1 or (got.done and len(got.entry) <= index_module.MAX_MATCHES)
        found += of_each(got)
        crowded += got.crowded.tolist()
    return found, crowded


def of_each(found: Matches) -> list[Answer]:
    """The matches of each query, in one order."""
    return [sorted(matches) for matches in answers(found)]


@settings(deadline=None, max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 2**32), st.integers(0, 600), st.integers(1, 40), st.integers(2, 5), st.integers(1, 300))
def test_threads_change_no_answer(
    monkeypatch: pytest.MonkeyPatch, seed: int, entries: int, asked: int, threads: int, limit: int
) -> None:
    monkeypatch.setattr(index_module, "MAX_MATCHES", limit)
    known = keys(max(entries, 1), seed)
    more = keys(asked, seed + 1)
    rng = np.random.default_rng(seed)
    same = rng.integers(0, len(known[0]), asked)
    wanted = np.where(rng.random(asked) < 0.6, known[0][same], more[0]), np.where(
        rng.random((asked, 1)) < 0.8, known[1][same], more[1]
    )  # fmt: skip
    short = rng.integers(0, 2, asked).astype(np.uint8)
    divided = filled(known, threads)
    parts = divisions(divided, monkeypatch)
    expected = of_each(divided.query(*wanted, short))
    assert not parts
    try:
        assert in_parts(divided, wanted, short) == (expected, [False] * asked)
        assert parts[0] == min(threads, asked)
    finally:
        divided.close()


def test_the_same_queries_are_crowded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crowds, "MAX_UNCROWDED_MATCHES", 40)
    known = keys(600, 3)
    copied = known[0].copy(), known[1].copy()
    for column, alike in zip(copied, known, strict=True):
        column[100:200] = alike[7]
    short, found = np.zeros(600, np.uint8), []
    for threads in (1, 4):
        index = filled(copied, threads)
        parts = divisions(index, monkeypatch)
        found.append(in_parts(index, copied, short))
        assert parts == [threads]
        index.close()
    assert found[0] == found[1]
    assert 100 <= sum(found[0][1]) < 600


def test_after_many_matches_the_next_batch_is_not_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    known = keys(500, 1)
    index = filled(known, 3)
    parts = divisions(index, monkeypatch)
    matches = len(index.query_apart(*known).entry)
    few = known[0][:60] ^ np.uint64(0xFFFF), known[1][:60] ^ np.uint64(0xFFFF)
    assert len(index.query_apart(*few).entry) == 0
    assert parts == [3, 3]
    monkeypatch.setattr(index_module, "MAX_MATCHES", 3 * matches - 1)
    assert index.query_apart(*known).done == 500
    assert index.query_apart(*few).done == 60
    assert parts == [3, 3, 3]
    index.query_apart(*few)
    assert parts == [3, 3, 3, 3]
    index.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("lookup")]


def test_after_an_answer_that_was_cut_the_next_batch_is_not_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    known = keys(500, 1)
    index = filled(known, MAX_THREADS)
    parts = divisions(index, monkeypatch)
    limit = len(index.query_apart(*known).entry) // 2
    monkeypatch.setattr(index_module, "MAX_MATCHES", limit)
    found = index.query_apart(*known)
    assert found.done < 500
    assert len(found.entry) <= limit // MAX_THREADS
    index.query_apart(*known)
    assert parts == [MAX_THREADS] * 2
    index.close()


def test_each_thread_may_find_its_part_of_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    known, rooms = keys(500, 1), []
    index = filled(known, 4)
    answer_block = answers_module.answer_block

    def noting(*arguments: Any) -> Any:
        block, room = arguments[4:6]
        rooms.append(room if block.start else 0)  # the first query of all may have any number
        return answer_block(*arguments)

    monkeypatch.setattr(answers_module, "answer_block", noting)
    monkeypatch.setattr(index_module, "MAX_MATCHES", 1_000)
    index.query_apart(*known)
    assert max(rooms) == 250
    index.close()


def test_a_whole_batch_counts_as_many_candidates_as_by_one_thread() -> None:
    known = keys(500, 1)
    counts = []
    for threads in (1, 4):
        index = filled(known, threads)
        index.query_apart(*known)
        index.query_apart(known[0], keys(500, 2)[1])
        counts.append((index.candidates, index.rejected))
        index.close()
    assert counts[0] == counts[1]
    assert counts[0][1] > 0


def test_all_parts_are_looked_up_by_the_caller_once_the_main_thread_has_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(concurrent.futures.thread, "_shutdown", True)
    spans = [slice(0, 64), slice(64, 128)]
    assert LookupThreads(2).run(lambda span: (span, threading.get_ident()), spans) == [
        (span, threading.get_ident()) for span in spans
    ]


def test_spans_cover_the_batch_and_small_ones_stay_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup_threads, "MIN_PART_QUERIES", 64)
    monkeypatch.setattr(lookup_threads, "MIN_ENTRIES", 1000)
    assert LookupThreads(4).divide(127, 1000) == [slice(0, 127)]
    assert LookupThreads(4).divide(128, 999) == [slice(0, 128)]
    assert LookupThreads(4).divide(128, 1000) == [slice(0, 64), slice(64, 128)]
    assert LookupThreads(3).divide(1000, 1000) == [slice(0, 333), slice(333, 666), slice(666, 1000)]
    assert len(LookupThreads(100).divide(10_000, 1000)) == MAX_THREADS
    assert LookupThreads(4).divide(0, 1000) == [slice(0, 0)]


def test_an_error_is_raised_once_every_part_has_ended_and_threads_start_again() -> None:
    threads, ended = LookupThreads(3), []

    def look_up(span: slice) -> int:
        if span.start == 0:
            raise ValueError("no")
        time.sleep(0.05)
        ended.append(span.start)
        return span.start

    with pytest.raises(ValueError, match="no"):
        threads.run(look_up, threads.divide(9, 1))
    assert sorted(ended) == [3, 6]
    threads.close()
    assert threads.run(lambda span: (span.start, threading.current_thread().name), threads.divide(4, 1))[0][0] == 0
    all_at_work = threading.Barrier(3, timeout=60)
    names = threads.run(lambda _: (all_at_work.wait(), threading.current_thread().name)[1], threads.divide(9, 1))
    assert names[0] == threading.current_thread().name
    assert len(set(names)) == 3
    threads.close()


def test_a_forked_process_starts_threads_of_its_own() -> None:
    threads = LookupThreads(2)
    spans = threads.divide(2, 1)
    assert threads.run(lambda span: span.start, spans) == [0, 1]

    def child() -> None:
        assert threads.run(lambda span: span.start, spans) == [0, 1]
        threads.close()

    assert forked(child) == 0
    assert forked(threads.close) == 0
    threads.close()


def test_a_thread_that_cannot_start_ends_the_call_after_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    threads, ended, started = LookupThreads(4), [], []
    start = threading.Thread.start

    def failing(thread: threading.Thread) -> None:
        started.append(thread)
        if len(started) > 1:
            raise RuntimeError("can't start new thread")
        start(thread)

    def look_up(span: slice) -> None:
        time.sleep(0.1)
        ended.append(span.start)

    monkeypatch.setattr(threading.Thread, "start", failing)
    with pytest.raises(RuntimeError, match="new thread"):
        threads.run(look_up, threads.divide(16, 1))
    assert ended == [4]
    time.sleep(0.3)
    assert ended == [4]
