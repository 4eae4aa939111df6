"""Measure how fast a shard without a state is rebuilt: `python -m tests.bench.rebuild --pages 20000000`.

The shard takes in a log, as a matcher without a snapshot does up to the published position. Beside it, the same
log is answered in the same batches, as matchers answer what is new. Pages are made up
(`made_pages`). The time is that of the shard, from the bytes of frames on; making pages, and Kafka, are not in it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial

import click

from simstream.index.shard import Shard
from simstream.judge.seen_keys import SeenKeys
from simstream.judge.state import ShardState
from simstream.model import Record
from simstream.roles.judge.log_judge import in_batches
from simstream.wire import frame as frames
from tests.bench.made_pages import PageMaker, policy
from tests.bench.measure import line, title

LOG_ID = "bench"
AT_ONCE = 60_000
"""Pages that are made between two runs of the clock."""
WARM_PAGES = 20_000
NEAR, COPIES = 0.13, 0.07
"""Shares of near duplicates, and of exact copies under other ids."""


def log(pages: int, frame_pages: int) -> Iterator[list[Record]]:
    """Yield a log of so many pages, some frames at a time."""
    made, number = PageMaker(NEAR, COPIES), 0
    while made.count < pages:
        records: list[Record] = []
        for _ in range(max(1, min(AT_ONCE, pages - made.count) // frame_pages)):
            start = made.count
            columns = made.batch(min(frame_pages, pages - start))
            header = frames.FrameHeader(
                policy().recipe_id, "t", "T", 0, start, made.count, policy().sketch_words, first=not start
            )
            records.append(Record("f", 0, number, None, frames.encode(header, columns), (), 1 << 45))
            number += 1
        yield records


def run(
    state: ShardState, pages: int, frame_pages: int, take: Callable[[Sequence[Record]], object]
) -> tuple[float, int]:
    """Return the seconds until the state has all pages of the log, merges included, and how many are live."""
    spent = 0.0
    for records in log(pages, frame_pages):
        began = time.perf_counter()
        for batch in in_batches(records):
            take(batch)
        spent += time.perf_counter() - began
    began = time.perf_counter()
    state.index.wait()
    return spent + time.perf_counter() - began, state.matcher.live_pages


def took(pages: int, frame_pages: int, shards: int, answers: bool) -> tuple[float, int]:
    """Return what `run` does for a shard that answers, or takes in."""
    with closing(ShardState(policy(), Shard(0, shards), background=True)) as state:
        if answers:
            return run(state, pages, frame_pages, partial(state.encode_answers, log_id=LOG_ID))
        return run(state, pages, frame_pages, partial(state.take_in, seen=SeenKeys(pages)))


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--pages", default=1_000_000, show_default=True, help="Pages of the log.")
@click.option("--shards", default=8, show_default=True, help="Number of shards; the first is measured.")
@click.option("--frame", "frame_pages", default=100, show_default=True, help="Pages of a frame.")
@click.option("--alone", is_flag=True, help="Only take the log in.")
def main(pages: int, shards: int, frame_pages: int, alone: bool) -> None:
    """Compare taking in a log with answering it."""
    title("rebuild", f"{pages:,} pages in frames of {frame_pages}, the first of {shards} shards")
    for answers in (False, True):  # compile before the clock starts
        took(WARM_PAGES, frame_pages, shards, answers)
    seconds, live = took(pages, frame_pages, shards, answers=False)
    line(f"taken in: {pages / seconds:,.0f} pages a second, {live:,} of them live in the shard")
    if alone:
        return
    answered, others = took(pages, frame_pages, shards, answers=True)
    if others != live:
        raise SystemExit(f"live pages differ: {live:,} after taking in, {others:,} after answering")
    line(f"answered: {pages / answered:,.0f} pages a second; taking in is {answered / seconds:.1f} times as fast")


if __name__ == "__main__":
    main()
