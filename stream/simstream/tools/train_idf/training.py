"""Counts the words of all pages, batch by batch in several threads, and saves now and then."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from hashlib import blake2b
from time import monotonic
from typing import Final, NamedTuple

import msgspec

from simstream.errors import InputError, StateError, StoreError
from simstream.kernels.text.frequencies import PAGES, WORDS, WordCounts
from simstream.model import Page, Record
from simstream.sources.batches import record_batches
from simstream.sources.unread import UnreadPages
from simstream.text.fingerprinter import Fingerprinter
from simstream.tools.train_idf.runs import CountRun, Row, merged, write_run
from simstream.tools.train_idf.state import TrainingFolder
from simstream.tools.train_idf.table import WordTable
from simstream.wire.page import PageLimits, decode

MAX_RUNS: Final = 16
"""More runs than this are merged into one."""
_SHARE: Final = 20
"""Saving the state takes at most a 20th of the time."""


class TrainingOptions(NamedTuple):
    """The options of a training; none changes the result."""

    memory_bytes: int = 512 << 20
    """Bytes for counted words; batches and the dictionary take more."""
    threads: int = 1
    save_every_s: float = 20.0


class _BatchCounts(NamedTuple):
    """The words of a batch, and its pages after their extraction."""

    words: WordCounts
    pages: list[Page]


class _CountBatch(NamedTuple):
    """Records that are being counted, and the digest of the input up to their end."""

    records: list[Record]
    digest: str
    counts: Future[_BatchCounts]


class TrainingRun:
    """Counts words, and goes on from the folder's saved state.

    After an interrupt, damage of the input or a kill it can go on; a kill costs some seconds' work. Counts are
    sums, so the result does not depend on batches, threads, memory or interruptions.
    """

    def __init__(
        self,
        fingerprinter: Fingerprinter,
        folder: TrainingFolder,
        limits: PageLimits,
        options: TrainingOptions,
    ) -> None:
        self._fingerprinter = fingerprinter
        self._folder = folder
        self._limits = limits
        self._options = options
        self._table = WordTable(self._options.memory_bytes)
        self._state = folder.load(fingerprinter.recipe_id)
        self._runs: list[CountRun] = list(self._state.runs)
        self._whole = True
        self._next_save = 0.0
        self.unread = UnreadPages()
        """The pages that this run could not read; not those of the runs that it goes on from."""

    @property
    def pages(self) -> int:
        """The number of counted pages."""
        return self._state.pages

    @property
    def records(self) -> int:
        """The number of records that were read."""
        return self._state.records

    def run(self, records: Iterable[Record]) -> None:
        """Count the words of all records. Records that the state already has are only compared with it.

        Raises StateError if these differ, InputError if the input is damaged, DiskFull and LogError if a run cannot
        be written.
        """
        self._next_save = monotonic() + self._options.save_every_s
        try:
            for batch in self._batches(records):
                self._take(batch)
                if monotonic() >= self._next_save:
                    self._save()
        except (KeyboardInterrupt, InputError, StoreError):
            if self._whole:  # else the last saved state holds
                self._save()
            raise
        self._save()

    def rows(self) -> Iterator[Row]:
        """Yield all words in the order of their bytes, each with its pages. Call it after `run`."""
        return merged([self._folder.path / run.name for run in self._state.runs])

    def _batches(self, records: Iterable[Record]) -> Iterator[_CountBatch]:
        """Yield batches in order; a few are counted at a time."""
        digest, waiting = blake2b(digest_size=16), deque[_CountBatch]()
        iterator = iter(records)
        self._pass_over(iterator, digest)
        with ThreadPoolExecutor(self._options.threads, thread_name_prefix="count") as pool:
            try:
                for batch in record_batches(iterator):
                    for record in batch:
                        _update(digest, record)
                    counts = pool.submit(self._count, batch)
                    waiting.append(_CountBatch(batch, digest.hexdigest(), counts))
                    if len(waiting) > self._options.threads:
                        yield waiting.popleft()
            except InputError:
                yield from waiting  # records before the damage count
                raise
            yield from waiting

    def _pass_over(self, records: Iterator[Record], digest: blake2b) -> None:
        for number in range(self._state.records):
            record = next(records, None)
            if record is None:
                what = f"the input ends after {number:,} pages, and {self._state.records:,} were counted before"
                raise StateError(what, f"give the same input, or delete {self._folder.path}")
            _update(digest, record)
        if self._state.records and digest.hexdigest() != self._state.digest:
            what = f"the input's first {self._state.records:,} pages differ from the counted ones"
            raise StateError(what, f"give the same input, or delete {self._folder.path}")

    def _count(self, records: list[Record]) -> _BatchCounts:
        pages = [decode(record, self._limits) for record in records]
        return _BatchCounts(self._fingerprinter.count(pages), pages)

    def _take(self, batch: _CountBatch) -> None:
        """Add a batch. If an interrupt comes in between, its half is never saved."""
        (counts, pages), first = batch.counts.result(), 0
        for record, page in zip(batch.records, pages, strict=True):
            self.unread.take_page(page, record.topic)
        self._whole = False
        while (first := self._table.add(counts, first)) < int(counts.filled[WORDS]):
            self._runs.append(self._write(self._table.rows()))
            self._table.clear()
            self._compact()
        self._state = msgspec.structs.replace(
            self._state,
            records=self._state.records + len(batch.records),
            digest=batch.digest,
            pages=self._state.pages + int(counts.filled[PAGES]),
        )
        self._whole = True

    def _save(self) -> None:
        """Write the table as one more run, and the state that names all runs. The next save replaces this run."""
        began = monotonic()
        runs = [*self._runs, self._write(self._table.rows())] if len(self._table) else self._runs
        self._state = msgspec.structs.replace(self._state, runs=tuple(runs))
        self._folder.save(self._state)
        now = monotonic()
        self._next_save = now + max(self._options.save_every_s, _SHARE * (now - began))

    def _compact(self) -> None:
        if len(self._runs) > MAX_RUNS:
            self._runs = [self._write(merged([self._folder.path / run.name for run in self._runs]))]

    def _write(self, rows: Iterable[Row]) -> CountRun:
        return write_run(self._folder.next_run(), rows)


def _update(digest: blake2b, record: Record) -> None:
    value = record.value or b""
    digest.update(len(value).to_bytes(8, "little"))
    digest.update(value)
