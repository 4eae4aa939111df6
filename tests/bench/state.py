"""`python -m tests.bench.state`: what a live page costs in memory, what copies cost, and how long a restart takes.

With `--shards 8` it is the state of a matcher with one of eight shards.

Pages are made up: fingerprints and sketches as the default recipe has them, in columns, as frames bring them. A
part of them are near duplicates of an earlier page, and a part exact copies under ids of their own. What the
service reads, segments and publishes is not in it: `bench_service` has that.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from simstream.errors import SimstreamError
from simstream.files.folder import StateFolder
from simstream.index.shard import Shard
from simstream.judge.live_state import LiveState
from simstream.judge.pages.store import PageStore
from simstream.judge.state import JudgeState, LogState, ShardState
from simstream.model import FingerprintColumns, PageSource
from tests.bench.made_pages import BATCH, PageMaker, again, copies, distinct, policy, template

LOG = "bench"
TEMPLATE = 100_000
"""Most pages of one template: each is like all before, so the cost is quadratic."""
MAX_PAGE_BYTES = 80
"""Bytes a page that the state may take."""


def judge(state: JudgeState, columns: FingerprintColumns) -> int:
    """Judge a batch; how many verdicts are near_duplicate or unchanged."""
    ordinal = state.acceptor.ordinal
    state.acceptor.ordinal += len(columns)
    sources = [PageSource("p", 0, offset) for offset in columns.offset.tolist()]
    verdicts = state.resolver.judge(columns, columns.time, ordinal, sources)
    return sum(verdict.verdict != "new" for verdict in verdicts)


def answer(state: ShardState, columns: FingerprintColumns) -> int:
    """The same for a shard; how many pages it answers."""
    ordinal = state.acceptor.ordinal
    state.acceptor.ordinal += len(columns)
    return len(state.matcher.answer(columns, columns.time, ordinal).place)


class FilledState(NamedTuple):
    """A state, its live pages, and what takes a batch: how many of the pages are like others."""

    state: JudgeState | ShardState
    live: LiveState
    take: Callable[[FingerprintColumns], int]


def empty(shards: int) -> FilledState:
    """A judge's state, or that of the first of so many shards."""
    if not shards:
        judge_state = JudgeState(policy(), background=True)
        return FilledState(judge_state, judge_state.resolver, partial(judge, judge_state))
    shard_state = ShardState(policy(), Shard(0, shards), background=True)
    return FilledState(shard_state, shard_state.matcher, partial(answer, shard_state))


def memory() -> dict[str, float]:
    """Return the resident memory of this process in MB: all, its own, and mapped from files."""
    found = {}
    for line in Path("/proc/self/status").read_text().splitlines():
        name, _, rest = line.partition(":")
        if name in ("VmRSS", "RssAnon", "RssFile", "VmHWM"):
            found[name] = int(rest.split()[0]) / 1024
    return found


def _restart(folder: Path, shards: int) -> None:
    """A new process takes the state up; prints how long it took until it could judge."""
    began = time.perf_counter()
    state, live, take = empty(shards)
    with StateFolder(folder) as kept:
        loaded = kept.load(trusted=PageStore.KINDS)
        if loaded is None:
            raise SystemExit("no snapshot")
        state.restore(loaded.parts, loaded.facts, LOG)
        state.read_from_disk(kept.files, loaded.sealed.values())
        ready = time.perf_counter() - began
        state.acceptor.ordinal = int(loaded.facts["ordinal"])
        first = time.perf_counter()
        other = PageMaker(0, 0, seed=99)
        other.count = 1 << 40
        take(other.batch(1))
        print(f"{ready:.2f} {time.perf_counter() - first:.2f} {live.live_pages}")
        sys.stdout.flush()
        os._exit(0)


def sizes(pages: int, near: float, copies: float, shards: int, threads: int, folder: Path) -> None:
    """Fill a state, save it, print its cost, and load it again."""
    (state, live_pages, take), made = empty(shards), PageMaker(near, copies)
    state.index.look_up_by(threads)
    for _ in range(3):
        empty(shards).take(PageMaker(near, copies, seed=2).batch())  # compiled
    before = memory()
    began, alike, said = time.perf_counter(), 0, 0
    with StateFolder(folder) as kept:
        while made.count < pages:
            alike += take(made.batch(min(BATCH, pages - made.count)))
            if made.count - said >= max(1_000_000, pages // 10):
                said = made.count
                save(state, kept)
                print(f"  {made.count:>12,} pages, {made.count / (time.perf_counter() - began):,.0f} a second")
        state.index.wait()
        save(state, kept)
        took = time.perf_counter() - began
        after = memory()
        parts = live_pages.nbytes()
        live = live_pages.live_pages
        print(f"{live:,} live pages, {100 * alike / pages:.1f} % of all alike; {pages / took:,.0f} a second")
        for name, size in parts.items():
            print(f"  {name:<22}{size / live:>8.2f} bytes a page")
        total = sum(parts.values()) / live
        grown = (after["VmRSS"] - before["VmRSS"]) * (1 << 20) / live
        print(f"  {'all':<22}{total:>8.2f} bytes a page (at most {MAX_PAGE_BYTES})")
        print(
            f"  the operating system says {grown:.2f}, "
            f"of which mapped files {after['RssFile'] - before['RssFile']:,.0f} MB"
        )
        print(
            f"  at its highest {(after['VmHWM'] - before['VmRSS']) * (1 << 20) / live:.2f}, "
            "while segments are merged"
        )
        save(state, kept)
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.state", "--shards", str(shards), "--restart", str(folder)],
        check=True,
        capture_output=True,
        text=True,
    )
    ready, first, found_live = done.stdout.split()
    if int(found_live) != live + 1 and not shards:  # a shard may not own the further page
        raise SimstreamError(f"{found_live} pages after the restart instead of {live + 1}")
    print(f"restart: {ready} s until the state is taken up, {first} s for the first page (kernels from the cache)")


def save(state: LogState, kept: StateFolder) -> None:
    """Write a snapshot of a state, and read from it from now on."""
    prepared = kept.prepare(state.parts(), state.facts(LOG))
    prepared.write()
    prepared.commit()
    state.read_from_disk(kept.files, prepared.sealed)


def alike(pages: int) -> None:
    """Copies of one page, re-crawls and templates beside as many distinct pages: time and bytes a page."""
    rng = np.random.default_rng(3)
    for link in ("any", "canonical"):  # kernels are compiled before anything is measured
        warm = JudgeState(policy(link))
        for columns in (
            *distinct(min(pages, 3 * BATCH)),
            *again(min(pages, BATCH), 2, 3),
            *template(min(pages, 12 * BATCH if link == "any" else BATCH)),
        ):
            judge(warm, columns)
    print(f"{'':<44}{'us a page':>10}{'bytes':>8}{'ratio':>14}")
    one = rng.integers(0, 2**64, 1, np.uint64), rng.integers(0, 2**64, (1, 4), np.uint64)
    base = _run("distinct pages", distinct(pages), None)
    _run(f"copies of one page under {pages:,} ids", copies(pages, *one), base)
    small = max(1, pages // 10)
    _run(f"{small * 10:,} fetches of {small:,} pages, unchanged", again(small, 10, 0), base)
    _run(f"{small * 10:,} fetches of {small:,} pages, edited", again(small, 10, 3), base)
    alike = min(pages, TEMPLATE)
    for link in ("any", "canonical"):
        _run(f"{alike:,} pages of one template, {link}", template(alike), base, link)


def _run(
    name: str, batches: Iterator[FingerprintColumns], base: tuple[float, float] | None, link: str = "any"
) -> tuple[float, float]:
    state, count = JudgeState(policy(link)), 0
    began = time.process_time()
    for columns in batches:
        judge(state, columns)
        count += len(columns)
    spent = (time.process_time() - began) * 1e6 / count
    size = sum(state.resolver.nbytes().values()) / count
    ratio = f"{spent / base[0]:.2f} / {size / base[1]:.2f}" if base else ""
    candidates = f"  {state.index.candidates / count:,.1f} candidates" if state.index.candidates > count else ""
    print(f"{name:<44}{spent:>10.1f}{size:>8.1f}{ratio:>14}{candidates}")
    return spent, size


def main() -> None:
    """Run it; `--pages 10000000` is the figure that counts."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.state", description=__doc__)
    parser.add_argument("--pages", type=int, default=1_000_000)
    parser.add_argument("--near", type=float, default=0.13, help="share of near duplicates")
    parser.add_argument("--copies", type=float, default=0.07, help="share of exact copies under other ids")
    parser.add_argument("--shards", type=int, default=0, help="one of so many shards, in place of a judge")
    parser.add_argument("--threads", type=int, default=1, help="threads that look up pages in a large index")
    parser.add_argument("--alike", action="store_true", help="copies, re-crawls and templates instead")
    parser.add_argument("--restart", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.restart:
        _restart(asked.restart, asked.shards)
    elif asked.alike:
        alike(asked.pages)
    else:
        with tempfile.TemporaryDirectory() as folder:
            sizes(asked.pages, asked.near, asked.copies, asked.shards, asked.threads, Path(folder) / "state")


if __name__ == "__main__":
    main()
