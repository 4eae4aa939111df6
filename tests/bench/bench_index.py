"""Bench: microseconds a query per plan against a plain scan, and the cost of building, in one run.

    python -m tests.bench.bench_index [--size 1_000_000] [--queries 2000] [--distance 3 --distance 8]

Random fingerprints; each query lies at a distance of 0 to k from one of them. Every plan's answers are
compared with the scan's before a clock starts.
"""

from __future__ import annotations

import argparse
from contextlib import closing
from pathlib import Path
from resource import getpagesize
from time import perf_counter

import numpy as np

from simstream.index import SCAN, Plan, choose
from simstream.index.answers import HitBuffers
from simstream.index.index import Index
from simstream.index.segment import EntryRun, Segment, SegmentBuild
from simstream.model import U64
from tests.bench.measure import title

CHECKED = 50
BATCH = 500
WORDS = 4


def queries(known: U64, count: int, distance: int, seed: int = 7) -> U64:
    """Copies of known fingerprints with 0 to `distance` bits flipped."""
    rng = np.random.default_rng(seed)
    out = known[rng.integers(0, len(known), count)].copy()
    for q in range(count):
        for bit in rng.choice(64, q % (distance + 1), replace=False):
            out[q] ^= np.uint64(1) << np.uint64(bit)
    return out


def designs(distance: int, size: int) -> dict[str, Plan]:
    """The plan that is chosen, and the design's examples where they are complete."""
    found = {"chosen": choose(distance, size)}
    for tables, bits in ((4, 16), (3, 21)):
        found[f"{tables} x {bits}"] = Plan(tables, (bits,) * tables, -(-(distance + 1) // tables) - 1)
    return found


def ask(segment: Segment, wanted: U64) -> set[tuple[int, int]]:
    """(query, place) of all hits."""
    hits, at = HitBuffers(), 0
    found: set[tuple[int, int]] = set()
    while at < len(wanted):
        following, count = segment.tables.find(wanted, at, hits)
        queries = (hits.tags[:count] >> np.uint64(8)).tolist()
        found |= set(zip(queries, hits.places[:count].tolist(), strict=True))
        if following < len(wanted):
            hits.fit(following - at)
        at = following
    return found


def sealed(known: U64, plan: Plan, distance: int) -> Segment:
    """One segment of sorted fingerprints, without sketches."""
    run = EntryRun(known, np.arange(len(known), dtype=np.uint32), np.empty((len(known), 0), np.uint64))
    return Segment.build(0, 0, SegmentBuild(plan, distance), run, lambda: None, unmerged=False)


def segments(known: U64, count: int, distance: int) -> None:
    """One sealed segment of all fingerprints under each plan."""
    column = np.sort(known)
    wanted = queries(known, count, distance)
    plain = sealed(column, SCAN, distance)
    expected = ask(plain, wanted[:CHECKED])
    start = perf_counter()
    ask(plain, wanted[:CHECKED])
    scanned = (perf_counter() - start) / CHECKED * 1e6
    print(f"k={distance} n={len(known):,}: plain scan {scanned:9.1f} us a query")
    for name, plan in designs(distance, len(known)).items():
        start = perf_counter()
        segment = sealed(column, plan, distance)
        built = perf_counter() - start
        assert ask(segment, wanted[:CHECKED]) == expected, name
        start = perf_counter()
        ask(segment, wanted)
        each = (perf_counter() - start) / len(wanted) * 1e6
        print(
            f"  {name:8} {plan.tables} x {plan.prefix_bits[:1]} flips {plan.flips_for(distance)}: {each:8.1f} us"
            f" (expected {plan.cost_ns(len(known), distance) / 1000:7.1f}), {scanned / each:7.1f} x the scan;"
            f" {plan.probes(distance)} probes, {plan.expected_candidates(len(known), distance):,.0f} candidates;"
            f" built in {built:.2f} s, {sum(segment.nbytes().values()) / len(known):.0f} bytes a fingerprint"
        )


def resident() -> int:
    """Bytes of this process that are in memory, as the operating system counts them."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * getpagesize()


def whole(known: U64, count: int, distance: int, background: bool) -> None:
    """The index as the judge uses it: entries added in batches of 500, then queries; sketches of 256 bits."""
    sketches = np.random.default_rng(3).integers(0, 2**64, (len(known), WORDS), dtype=np.uint64)
    before_all = resident()
    with closing(Index(None, WORDS, distance, 0, background=background)) as index:
        numbers = np.arange(len(known), dtype=np.uint32)
        start, longest = perf_counter(), 0.0
        for at in range(0, len(known), BATCH):
            before, end = perf_counter(), at + BATCH
            index.add(numbers[at:end], known[at:end], sketches[at:end], None, None)
            index.settle()
            longest = max(longest, perf_counter() - before)
        added = (perf_counter() - start) / len(known) * 1e6
        index.wait()
        merged = (perf_counter() - start) / len(known) * 1e6
        wanted, none = queries(known, count, distance), np.zeros((count, WORDS), np.uint64)
        found = index.query(wanted, none)
        assert found.done == count
        assert (np.diff(found.starts) > 0).all(), "each query has the fingerprint that it was made from"
        start = perf_counter()
        index.query(wanted, none)
        asked = (perf_counter() - start) / count * 1e6
        one = wanted[:1], none[:1]
        start = perf_counter()
        for _ in range(200):
            index.query(*one)
        single = (perf_counter() - start) / 200 * 1e6
        parts = {name: size / len(known) for name, size in index.nbytes().items()}
        print(
            f"  index k={distance}, merged {'in the background' if background else 'at once'}: add {added:.2f} us"
            f" an entry, with all merges {merged:.2f} (longest pause {longest:.2f} s), {index.segments} segments,"
            f" query {asked:.1f} us, one alone {single:.0f} us\n    bytes an entry: {sum(parts.values()):.1f} ("
            + ", ".join(f"{name} {size:.1f}" for name, size in parts.items())
            + f"); of the process {(resident() - before_all) / len(known):.1f}"
        )


def run(size: int = 1_000_000, count: int = 2_000, distances: tuple[int, ...] = (3, 5, 8)) -> None:
    """Every distance's plans, then the index that the judge has."""
    title("index", f"{size:,} random fingerprints, against a plain scan")
    known = np.random.default_rng(1).integers(0, 2**64, size, dtype=np.uint64)
    for distance in distances:
        segments(known, count, distance)
        for background in (False, True):
            whole(known, count, distance, background)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=1_000_000)
    parser.add_argument("--queries", type=int, default=2000)
    parser.add_argument("--distance", type=int, action="append")
    options = parser.parse_args()
    run(options.size, options.queries, tuple(options.distance or (3, 5, 8)))


if __name__ == "__main__":
    main()
