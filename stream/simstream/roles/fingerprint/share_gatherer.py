"""Gathers polled records into batches over all partitions.

A full batch is closed at once. Any other batch is closed when a thread is idle, the linger has passed since its
first page, and a gap since the previous close. Each batch has a cost besides its pages, which grows with its
partitions. So a page of a slow stream hardly waits, batches grow with the load, and a backlog makes full batches.
On a slow or busy machine small batches would take all of it. Transactions tell: the longer they take, the longer
the gap before a small batch.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from simstream.model import Page, Record, bytes_of
from simstream.roles.context import PublishPace
from simstream.roles.fingerprint.shares import PartitionFlow, ShareBatch, ShareMaker

LINGER_S = 0.001
"""Seconds to wait for the other parts of a fetch, which come one after another."""
BATCH_GAP_S, SHARE_GAP_S, MAX_GAP_S = 0.004, 0.0005, 0.025
"""The gap from the close of a batch to that of the next, in seconds: a fixed part, a part for each share of the
first batch, and the limit. A full batch ignores it. See docs/design/latency.md."""
TRANSACTIONS_A_GAP = 2
"""The gap before a small batch lasts at least as long as so many transactions."""
SMALL_PAGES = 64
"""A batch of fewer pages is small: most of what it costs is the same for any batch."""
MAX_BYTES = 4 << 20
"""A batch is full at this many bytes of records. Its last record may exceed the limit."""
MAX_PARSED_PAGES = 32
"""Pages of one batch that other processes parse. The limit keeps finished pages from waiting for slow ones."""


@dataclass(slots=True)
class _OpenShare:
    """The records of one partition for the batch that is being gathered."""

    flow: PartitionFlow
    records: list[Record] = field(default_factory=list)
    pages: list[Page] = field(default_factory=list)


class ShareGatherer:
    """Gathers records into batches, each partition in its order. For the role's thread only."""

    def __init__(
        self, maker: ShareMaker, max_pages: int, pace: PublishPace | None = None, linger_s: float = LINGER_S
    ) -> None:
        self._maker = maker
        self._max_pages = max_pages
        self._pace = pace or PublishPace()
        self._linger_s = linger_s
        self._full: deque[ShareBatch] = deque()
        self._gap_end = self._small_gap_end = 0.0
        self._clear()

    @property
    def pages(self) -> int:
        """The number of pages that wait to be taken."""
        return self._pages + sum(batch.pages for batch in self._full)

    @property
    def partitions(self) -> set[int]:
        """The partitions that have waiting records."""
        return set(self._open).union(*(batch.partitions for batch in self._full))

    @property
    def bytes(self) -> int:
        """The bytes of the waiting records."""
        return self._bytes + sum(batch.bytes for batch in self._full)

    def add(self, records: Sequence[Record], flows: Mapping[int, PartitionFlow]) -> None:
        """Decode records of these flows and put them behind the waiting records."""
        for record in records:
            page = self._maker.decode(record)
            flow = flows[record.partition]
            waits = self._maker.waits_for_kernels(page)
            if waits and self._pages and not self._waits:
                self._close()  # the pages before it need not wait
            share = self._open.get(flow.partition)
            if share is not None and share.flow is not flow:
                self._close()  # the partition went and came back: its frames begin again
                share = None
            if share is None:
                if not self._open:
                    self._since = time.monotonic()
                share = self._open[flow.partition] = _OpenShare(flow)
            share.records.append(record)
            share.pages.append(page)
            self._waits |= waits
            self._pages += 1
            self._bytes += bytes_of(record)
            self._parsed += self._maker.is_parsed(page)
            if self._pages >= self._max_pages or self._bytes >= MAX_BYTES or self._parsed >= MAX_PARSED_PAGES:
                self._close()

    def wait_s(self) -> float:
        """Return the seconds until a batch may be taken: 0 if one is ready, the linger if no page waits."""
        if self._full:
            return 0.0
        gap_end = self._small_gap_end if self._pages < SMALL_PAGES else self._gap_end
        end = max(self._since + self._linger_s, gap_end)
        return max(0.0, end - time.monotonic()) if self._open else self._linger_s

    def take(self, idle: bool) -> ShareBatch | None:
        """Return a full batch, or while a thread is `idle` one whose linger and gap have passed; else None."""
        if not self._full and self._open and idle and self.wait_s() <= 0:
            self._close()
        return self._full.popleft() if self._full else None

    def take_all(self) -> list[ShareBatch]:
        """Return all gathered batches."""
        self._close()
        batches = list(self._full)
        self._full.clear()
        return batches

    def forget(self) -> None:
        """Drop all gathered records: they are read again from the commit."""
        self._full.clear()
        self._clear()

    def _close(self) -> None:
        shares = [self._maker.share(s.flow, s.records, s.pages) for s in self._open.values() if s.flow.running]
        if shares:
            pages = sum(len(share.pages) for share in shares)
            self._full.append(ShareBatch(shares, pages, self._bytes, self._parsed))
            gap_s, now = BATCH_GAP_S + SHARE_GAP_S * len(shares), time.monotonic()
            small_gap_s = max(gap_s, TRANSACTIONS_A_GAP * self._pace.seconds)
            self._gap_end, self._small_gap_end = now + min(MAX_GAP_S, gap_s), now + min(MAX_GAP_S, small_gap_s)
        self._clear()

    def _clear(self) -> None:
        self._open: dict[int, _OpenShare] = {}
        self._pages = self._bytes = self._parsed = 0
        self._waits = False
        self._since = 0.0
