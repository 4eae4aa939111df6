"""Changes: what a batch has done to the live pages; index, directory and page store are told when it ends."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from stream.index.index import Index
from stream.judge.batch import Batch
from stream.judge.directory import Directory
from stream.judge.pages import Pages
from stream.judge.rows import FOUNDER, LIVE, Rows

Buckets = Callable[[NDArray[np.int64]], NDArray[np.int64]]
"""The bucket (n,) of each time (n,)."""


class Changes:
    """Of the batch that is being judged; `settle` tells of them all at once, and there are none then."""

    def __init__(self, index: Index, rows: Rows, pages: Pages, directory: Directory, buckets: Buckets) -> None:
        self._index = index
        self._rows = rows
        self._pages = pages
        self._directory = directory
        self._buckets = buckets
        self._clear()

    def _clear(self) -> None:
        self.batch = Batch.empty(self._index.sketch_words)
        self.promoted: list[int] = []
        """Rows indexed in place of a canonical page that left: a query made before misses them."""
        self._touched: set[int] = set()
        """Entries that a page has left."""
        self._gone: list[tuple[bytes, int]] = []
        """Identities and rows of pages that are live no more."""
        self._replaced: list[int] = []
        """Records of pages whose row has another now."""

    def entry(self, number: int, row: int) -> None:
        """Page `number`, of this row, has founded an entry."""
        self._rows.found(row)
        self.batch.found(number, row)

    def promote(self, heir: int) -> None:
        """Index the page that is canonical now."""
        self._rows.found(heir)
        self.batch.founders[heir] = self.batch.number_of(heir)
        self.promoted.append(heir)

    def replace(self, cold: int) -> None:
        """A row has another record from now on."""
        self._replaced.append(cold)

    def leave(self, row: int, identity: bytes) -> None:
        """A page is live no more: nothing leads to it, and its row is free once the batch is settled."""
        entry = self._rows.leave(row)
        if entry:
            self._touched.add(entry)
        if self.batch.live.get(identity, row) == row:
            self.batch.live[identity] = 0
        self._gone.append((identity, row))

    def settle(self) -> None:
        """Hand to index and directory what has stayed of the batch, and take from them what has left."""
        founders, state = self.batch.founders, self._rows.table.state
        idle = [entry for entry in self._touched if not self._rows.earliest(entry)]
        for entry in idle:
            if entry in founders:
                state[entry] &= ~FOUNDER
        self._add_entries([row for row in founders if state[row] & FOUNDER])
        released = sorted(entry for entry in idle if entry not in founders)
        if released:
            self._index.release(np.array(released, np.uint32))
        self._settle_pages()
        self._clear()

    def _add_entries(self, rows: list[int]) -> None:
        """Hand new entries to the index: of the batch's pages, and of heirs that came before it."""
        batch = self.batch
        own = [row for row in rows if batch.founders[row] >= 0]
        if own:
            numbers = np.array([batch.founders[row] for row in own], np.int64)
            self._index.add(
                np.array(own, np.uint32),
                batch.fingerprints[numbers],
                batch.sketches[numbers],
                batch.short[numbers],
                batch.buckets[numbers],
            )
        heirs = np.array([row for row in rows if batch.founders[row] < 0], np.uint32)
        if len(heirs):
            found = self._pages.records(self._rows.table.column("cold")[heirs])
            self._index.add(
                heirs, found["fingerprint"], found["sketch"], found["short"], self._buckets(found["time"])
            )

    def _settle_pages(self) -> None:
        """Enter the batch's pages that are still live, take out those of before that are not, free their rows."""
        batch, rows, pages = self.batch, self._rows, self._pages
        state = rows.table.column("state")
        live = (state[batch.rows] & LIVE) != 0
        new = ~batch.kept
        mine = set(batch.rows[new].tolist())
        before = [(identity, row) for identity, row in self._gone if row not in mine]
        if before:
            identities = np.frombuffer(b"".join(identity for identity, _ in before), np.uint64).reshape(-1, 2)
            gone = np.array([row for _, row in before], np.uint32)
            self._directory.remove(identities, gone)
            pages.left(rows.table.column("cold")[gone])
        stayed, left = live & new, ~live & new
        if stayed.any():
            self._directory.add(batch.identities[stayed], batch.rows[stayed])
        if left.any():
            pages.left(batch.colds[left])
        if self._replaced:
            pages.left(np.array(self._replaced, np.uint32))
        for row in [*(row for _, row in before), *batch.rows[left].tolist()]:
            if not state[row] & FOUNDER:
                rows.table.free(row)
