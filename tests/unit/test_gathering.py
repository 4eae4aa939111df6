"""Gathering: which records become one batch, and when it goes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from simstream.model import Page, Record, bytes_of
from simstream.roles.context import PublishPace
from simstream.roles.fingerprint import share_gatherer
from simstream.roles.fingerprint.share_gatherer import (
    BATCH_GAP_S,
    LINGER_S,
    MAX_GAP_S,
    MAX_PARSED_PAGES,
    SHARE_GAP_S,
    SMALL_PAGES,
    TRANSACTIONS_A_GAP,
    ShareGatherer,
)
from simstream.roles.fingerprint.shares import PageShare, PartitionFlow, ShareMaker
from simstream.setting_groups import FrameSettings
from simstream.text.fingerprinter import Fingerprinter
from simstream.text.recipe import preset
from simstream.wire import frame as frames
from simstream.wire import page_headers
from simstream.wire.frame import FrameHeader
from simstream.wire.page import PageLimits


class StubShareMaker(ShareMaker):
    """Shares without a fingerprinter."""

    def __init__(self) -> None:
        pass

    def decode(self, record: Record) -> Page:
        value = record.value or b""
        page = Page(id=str(record.offset), identity=b"i" * 16, offset=record.offset, time=0)
        if value.startswith(b"<"):
            page.raw = value
        else:
            page.text = value.decode()
        return page

    def is_parsed(self, page: Page) -> bool:
        return page.raw is not None

    def waits_for_kernels(self, page: Page) -> bool:
        return False

    def share(self, flow: PartitionFlow, records: Sequence[Record], pages: Sequence[Page]) -> PageShare:
        header = FrameHeader("recipe", "pages", "id", flow.partition, flow.next, records[-1].offset + 1, 3)
        flow.next = header.to
        return PageShare(flow, header, records, pages)


def record(partition: int, offset: int, value: bytes = b"text") -> Record:
    return Record("pages", partition, offset, None, value)


def flows(count: int) -> dict[int, PartitionFlow]:
    return {partition: PartitionFlow(partition, 0, True) for partition in range(count)}


def test_what_comes_within_the_linger_is_one_batch_over_all_partitions() -> None:
    gatherer, running = ShareGatherer(StubShareMaker(), 2_000, linger_s=0.04), flows(4)
    for offset in range(5):
        gatherer.add([record(partition, offset) for partition in range(4)], running)
        assert gatherer.take(idle=True) is None
    time.sleep(gatherer.wait_s() + 0.001)
    batch = gatherer.take(idle=True)
    assert batch is not None
    assert batch.pages == 20
    assert [(share.flow.partition, share.header.start, share.header.to) for share in batch.shares] == [
        (partition, 0, 5) for partition in range(4)
    ]
    assert gatherer.pages == gatherer.bytes == 0


@pytest.mark.parametrize(
    ("partitions", "gap_s"), [(1, BATCH_GAP_S + SHARE_GAP_S), (4, BATCH_GAP_S + 4 * SHARE_GAP_S), (45, MAX_GAP_S)]
)
def test_the_gap_grows_with_the_partitions_of_the_previous_batch(
    monkeypatch: pytest.MonkeyPatch, partitions: int, gap_s: float
) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    gatherer, running = ShareGatherer(StubShareMaker(), 50), flows(partitions)
    gatherer.add([record(partition, 0) for partition in range(partitions)], running)
    now += 0.001
    assert gatherer.wait_s() == 0
    assert gatherer.take(idle=True) is not None
    gatherer.add([record(0, 1)], running)
    assert gatherer.take(idle=True) is None
    assert gatherer.wait_s() == pytest.approx(gap_s)
    gatherer.add([record(0, offset) for offset in range(2, 52)], running)
    assert gatherer.take(idle=True) is not None  # full batches do not wait
    now += gap_s
    assert gatherer.take(idle=True) is not None
    now += gap_s
    gatherer.add([record(0, 60)], running)
    assert gatherer.wait_s() == pytest.approx(0.001)


@pytest.mark.parametrize(
    ("transaction_s", "gap_s"),
    [
        (0.001, BATCH_GAP_S + SHARE_GAP_S),
        (0.008, TRANSACTIONS_A_GAP * 0.008),
        (0.04, MAX_GAP_S),
        (5.0, MAX_GAP_S),
    ],
)
def test_the_gap_before_a_small_batch_lasts_as_long_as_two_transactions(
    monkeypatch: pytest.MonkeyPatch, transaction_s: float, gap_s: float
) -> None:
    now, pace = 100.0, PublishPace()
    monkeypatch.setattr(time, "monotonic", lambda: now)
    gatherer, running = ShareGatherer(StubShareMaker(), 2_000, pace), flows(1)
    for _ in range(100):
        pace.note(transaction_s)
    gatherer.add([record(0, 0)], running)
    now += LINGER_S
    assert gatherer.take(idle=True) is not None  # a page that comes alone does not wait
    gatherer.add([record(0, 1)], running)
    assert gatherer.wait_s() == pytest.approx(gap_s, rel=1e-3)
    gatherer.add([record(0, offset) for offset in range(2, SMALL_PAGES)], running)
    assert gatherer.wait_s() == pytest.approx(gap_s, rel=1e-3)
    gatherer.add([record(0, SMALL_PAGES)], running)
    assert gatherer.wait_s() == pytest.approx(BATCH_GAP_S + SHARE_GAP_S)


def test_one_transaction_that_stood_still_hardly_changes_the_pace() -> None:
    pace = PublishPace()
    for _ in range(100):
        pace.note(0.004)
    pace.note(10.0)
    assert pace.seconds < 0.01
    for _ in range(16):
        pace.note(0.004)
    assert pace.seconds < 0.005


def test_while_all_threads_work_a_batch_goes_on_gathering_until_it_is_full() -> None:
    gatherer, running = ShareGatherer(StubShareMaker(), 8, linger_s=0.0), flows(1)
    gatherer.add([record(0, offset) for offset in range(5)], running)
    assert gatherer.take(idle=False) is None
    gatherer.add([record(0, offset) for offset in range(5, 10)], running)
    batch = gatherer.take(idle=False)
    assert batch is not None
    assert batch.pages == 8
    assert gatherer.take(idle=False) is None
    assert gatherer.pages == 2


def test_a_batch_is_full_at_so_many_bytes_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_gatherer, "MAX_BYTES", 2 * bytes_of(record(0, 0)))
    gatherer = ShareGatherer(StubShareMaker(), 2_000)
    gatherer.add([record(0, offset) for offset in range(5)], flows(1))
    assert [batch.pages for batch in gatherer.take_all()] == [2, 2, 1]


def test_what_is_forgotten_is_in_no_batch() -> None:
    gatherer, running = ShareGatherer(StubShareMaker(), 2, linger_s=0.0), flows(1)
    gatherer.add([record(0, offset) for offset in range(3)], running)
    gatherer.forget()
    assert gatherer.pages == gatherer.bytes == 0
    assert gatherer.take_all() == []


def test_the_frames_of_a_share_follow_one_another_and_only_one_is_the_first(cache: Path) -> None:
    trace = (("traceparent", b"00-1"),)
    records = [
        Record("pages", 0, offset, None, b'{"text": "a"}', headers=trace if offset == 7 else ())
        for offset in (3, 4, 7, 8, 9)
    ]
    with Fingerprinter(preset("default"), cache, workers=0) as fingerprinter:
        choice, settings = page_headers.HeaderChoice(["traceparent"]), FrameSettings(max_pages=2)
        maker = ShareMaker(fingerprinter, "pages", "id", PageLimits(), settings, choice)
        gatherer = ShareGatherer(maker, 2_000)
        gatherer.add(records, {0: PartitionFlow(0, 3, True)})
        [batch] = gatherer.take_all()
        [made] = maker.make(batch)
    headers = [frames.decode(data).header for data in made.frames]
    assert [(one.start, one.to, one.first) for one in headers] == [(3, 5, True), (5, 9, False), (9, 10, False)]
    assert [page_headers.unpack(one.headers, one.start) for one in headers] == [{}, {7: trace}, {}]


def test_pages_to_be_extracted_go_in_small_batches() -> None:
    gatherer, running = ShareGatherer(StubShareMaker(), 2_000), flows(2)
    gatherer.add([record(offset % 2, offset // 2, b"<p>") for offset in range(3 * MAX_PARSED_PAGES)], running)
    assert [batch.pages for batch in gatherer.take_all()] == [MAX_PARSED_PAGES] * 3


@pytest.mark.parametrize("extract", ["prose", "fast"])
@pytest.mark.parametrize(("compiling", "pages"), [(True, [2, 4]), (False, [6])])
def test_pages_before_the_first_html_do_not_wait_for_its_kernels(
    cache: Path, monkeypatch: pytest.MonkeyPatch, extract: Any, compiling: bool, pages: list[int]
) -> None:
    monkeypatch.setattr(Fingerprinter, "is_compiling", compiling)
    with Fingerprinter(replace(preset("default"), extract=extract), cache, workers=0) as fingerprinter:
        maker = ShareMaker(fingerprinter, "pages", "id", PageLimits(), FrameSettings())
        gatherer = ShareGatherer(maker, 2_000)
        values = [b"text", b"text", b"html", b"html", b"text", b"html"]
        records = [record(0, offset, b'{"%s": "<p>"}' % value) for offset, value in enumerate(values)]
        gatherer.add(records, flows(1))
        assert [batch.pages for batch in gatherer.take_all()] == pages


@pytest.mark.parametrize(("extract", "pages"), [("prose", [MAX_PARSED_PAGES, 8]), ("fast", [MAX_PARSED_PAGES + 8])])
def test_html_of_a_fast_recipe_is_gathered_as_text_is(cache: Path, extract: Any, pages: list[int]) -> None:
    with Fingerprinter(replace(preset("default"), extract=extract), cache, workers=0) as fingerprinter:
        maker = ShareMaker(fingerprinter, "pages", "id", PageLimits(), FrameSettings())
        gatherer = ShareGatherer(maker, 2_000)
        gatherer.add([record(0, offset, b'{"html": "<p>"}') for offset in range(sum(pages))], flows(1))
        batches = gatherer.take_all()
    assert [batch.pages for batch in batches] == pages
    assert {batch.is_quick for batch in batches} == {extract == "fast"}


def test_records_of_a_lost_partition_are_dropped_and_it_begins_again_when_it_returns() -> None:
    gatherer, running = ShareGatherer(StubShareMaker(), 2_000), flows(2)
    gatherer.add([record(0, 0), record(1, 0), record(1, 1)], running)
    running[1].running = False
    running[1] = PartitionFlow(1, 1, False)
    gatherer.add([record(1, 1), record(1, 2)], running)
    spans = [
        (share.flow.partition, share.header.start, share.header.to)
        for batch in gatherer.take_all()
        for share in batch.shares
    ]
    assert spans == [(0, 0, 1), (1, 1, 3)]
