"""What a judge without an index costs: `python -m tests.bench.unindexed --pages 100000000`.

Pages and the answers of all shards are made up, so no matcher runs. A part of the pages is like one of an earlier
hundred, and each such match is answered by about half of the shards, as it is with real pages. The time is the
judge's own: it takes the answers and judges. Making pages and answers is not in it, nor is what publishes.
"""

from __future__ import annotations

import gc
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import click
import numpy as np
from numpy.typing import NDArray

from simstream.files.folder import StateFolder
from simstream.judge.answer_book import AnswerBook
from simstream.judge.state import JudgeState
from simstream.model import U64, FingerprintColumns, PageSource
from simstream.wire import answer as wire
from simstream.wire.answer import MatchLists
from tests.bench.made_pages import BATCH, columns_of, identities_of, policy
from tests.bench.measure import line, title
from tests.bench.state import LOG, memory, save

MAX_PAGE_BYTES = 35
MAX_PAGE_US = 20
EVERY = 100
"""One in so many pages is one that later pages are like."""
BITS = 4
"""The distance of such a match."""


class ShardedBatch(NamedTuple):
    """A batch of pages, the ordinals of those that are like another, and the bytes of each shard's answer."""

    columns: FingerprintColumns
    alike: int
    answers: list[bytes]


def mixed(numbers: U64) -> U64:
    """Return for each number 64 bits that look random (the end of SplitMix64)."""
    mixed = numbers * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


class AnsweredPages:
    """Batches of pages with answers; nothing is kept of them, so that any number can be made."""

    def __init__(self, share: float, shards: int) -> None:
        self._share = share
        self._shards = shards
        self._rng = np.random.default_rng(1)
        self.count = 0
        self._frame = 0

    def batch(self) -> ShardedBatch:
        """The next batch, as one frame."""
        rng, first = self._rng, self.count
        numbers = np.arange(first, first + BATCH, dtype=np.uint64)
        likes = np.flatnonzero((rng.random(BATCH) < self._share) & (numbers % np.uint64(EVERY) != 0))
        if first == 0:
            likes = likes[:0]
        originals = rng.integers(0, max(1, first // EVERY), len(likes), np.uint64) * np.uint64(EVERY)
        looks = numbers.copy()
        looks[likes] = originals
        sketches = np.column_stack([mixed(looks + np.uint64((word + 1) << 40)) for word in range(4)])
        fingerprints = mixed(looks)
        fingerprints[likes] ^= np.uint64((1 << BITS) - 1) << rng.integers(0, 60, len(likes), np.uint64)
        columns = columns_of(first, fingerprints, sketches)
        answers = self._answers(len(columns), likes, identities_of(originals))
        self.count, self._frame = first + BATCH, self._frame + 1
        return ShardedBatch(columns, len(likes), answers)

    def _answers(self, pages: int, likes: NDArray[np.int64], originals: U64) -> list[bytes]:
        lists = [MatchLists() for _ in range(self._shards)]
        asked = self._rng.random((len(likes), self._shards)) < 0.5
        asked[np.arange(len(likes)), self._rng.integers(0, self._shards, len(likes))] = True  # at least one
        for row, place in enumerate(likes.tolist()):
            best = originals[row].tobytes()
            for shard in np.flatnonzero(asked[row]).tolist():
                lists[shard].add(place, best, BITS, 256, ())
        return [
            wire.encode(
                wire.AnswerHeader(
                    log_id=LOG,
                    policy=policy().id,
                    shard=shard,
                    shards=self._shards,
                    tables=1,
                    frame=self._frame,
                    to_frame=self._frame + 1,
                    ordinal=self.count,
                    pages=pages,
                    digests=bytes(8),
                ),
                found.columns(),
            )
            for shard, found in enumerate(lists)
        ]


def judge(state: JudgeState, book: AnswerBook, made: ShardedBatch, offset: int) -> int:
    """Take the answers to a batch and judge it; how many verdicts are near_duplicate."""
    for shard, data in enumerate(made.answers):
        assert book.add(shard, offset, data) is None
    ordinal = state.acceptor.ordinal
    state.acceptor.ordinal += len(made.columns)
    state.acceptor.next_frame += 1
    sources = [PageSource("p", 0, at) for at in made.columns.offset.tolist()]
    verdicts = state.resolver.judge(made.columns, made.columns.time, ordinal, sources)
    book.used(state.acceptor.next_frame)
    return sum(verdict.verdict == "near_duplicate" for verdict in verdicts)


def judge_with(shards: int) -> tuple[JudgeState, AnswerBook]:
    """A judge that waits for so many shards."""
    book = AnswerBook(LOG, policy().id, shards, 1)
    book.begin(0, 0, [0] * shards)
    return JudgeState(policy(), background=True, book=book), book


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--pages", default=1_000_000, show_default=True, help="Live pages.")
@click.option("--shards", default=8, show_default=True, help="Shards that answer.")
@click.option("--share", default=0.2, show_default=True, help="Share of pages that are like another.")
def main(pages: int, shards: int, share: float) -> None:
    """Fill a judge without an index; print its bytes and its time a page."""
    title("a judge without an index", f"{pages:,} pages, {share:.0%} of them alike, {shards} shards")
    warm, book = judge_with(shards)
    made = AnsweredPages(share, shards)
    for offset in range(3):  # kernels are compiled
        judge(warm, book, made.batch(), offset)
    state, book = judge_with(shards)
    made = AnsweredPages(share, shards)
    gc.freeze()  # as `serve` does
    spent, found, alike, said, offset = 0.0, 0, 0, 0, 0
    before = memory()
    with tempfile.TemporaryDirectory() as folder, StateFolder(Path(folder) / "state") as kept:
        while made.count < pages:
            batch = made.batch()
            began = time.thread_time()
            found += judge(state, book, batch, offset)
            spent += time.thread_time() - began
            alike += batch.alike
            offset += 1
            if made.count - said >= max(1_000_000, pages // 20):
                said = made.count
                save(state, kept)
                size = sum(state.resolver.nbytes().values()) / state.resolver.live_pages
                line(f"{said:,} pages, {1e6 * spent / said:.1f} us and {size:.1f} bytes a page")
        save(state, kept)
        assert found == alike, f"{found} near duplicates, {alike} were made"
        live = state.resolver.live_pages
        for name, size in state.resolver.nbytes().items():
            line(f"  {name:<22}{size / live:>8.2f} bytes a page")
        grown = (memory()["RssAnon"] - before["RssAnon"]) * (1 << 20) / live
        line(f"  the operating system says {grown:.1f}, without what is mapped from files")
        line(f"{sum(state.resolver.nbytes().values()) / live:.1f} bytes a live page (aim: {MAX_PAGE_BYTES})")
        line(f"{1e6 * spent / made.count:.1f} us a page, of this thread (aim: {MAX_PAGE_US})")


if __name__ == "__main__":
    main()
