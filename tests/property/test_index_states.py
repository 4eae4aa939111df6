"""Any life of an index against `naive_index.py`: whatever is merged, dropped, restored or mapped, and when."""

from __future__ import annotations

import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from numpy.typing import NDArray

from simstream.files.snapshot_part import SnapshotPart
from simstream.index import SCAN, Plan
from simstream.index.index import Index
from simstream.index.matches import Matches
from simstream.model import U64, MatchLimits
from tests.naive_index import Answer, NaiveIndex
from tests.short import examples

PLANS = [None, SCAN, Plan(2, (9, 14), 4), Plan(4, (16,) * 4, 2), Plan(5, (8, 9, 10, 11, 12), 1)]
DISTANCE = 8
SEEDS = st.integers(0, 2**32)


def answers(found: Matches) -> list[Answer]:
    """The matches of each query, as the naive index says them."""
    columns = found.entry.tolist(), found.distance.tolist(), found.agreement.tolist()
    rows = list(zip(*columns, strict=True))
    return [rows[a:b] for a, b in pairwise(found.starts.tolist())]


def on_disk(folder: Path, part: SnapshotPart) -> SnapshotPart:
    """A part with arrays that are mapped from files."""
    arrays: dict[str, NDArray[Any]] = {}
    for name, array in part.arrays.items():
        path = folder / f"{part.name}-{name}.npy"
        np.save(path, array)
        arrays[name] = np.load(path, mmap_mode="r" if array.size else None)
    return part._replace(arrays=arrays)


class IndexLife(RuleBasedStateMachine):
    """One index and its twin; numbers are used again as soon as the index has given them back."""

    @initialize(
        seed=SEEDS, words=st.sampled_from([0, 2, 3]), short=st.booleans(), further_fingerprints=st.integers(0, 2)
    )
    def begin(self, seed: int, words: int, short: bool, further_fingerprints: int) -> None:
        rng = np.random.default_rng(seed)
        further = min(further_fingerprints + int(rng.integers(0, words + 1)), 3)
        self.words, self.draws, self.folder = (
            words + further_fingerprints,
            (further, further_fingerprints),
            tempfile.TemporaryDirectory(),
        )
        self.least = 62 * words
        self.short = MatchLimits(int(rng.integers(0, 6)), 63 * words) if short else None
        self.naive = NaiveIndex(DISTANCE, self.least, self.short, *self.draws)
        self.centres = rng.integers(0, 2**64, 3, dtype=np.uint64)
        self.index = self.make(rng)
        self.bucket_of: dict[int, int] = {}
        self.free: list[int] = []
        self.gone: set[int] = set()
        self.unused, self.floor, self.snapshots = 0, 0, 0

    def make(self, rng: np.random.Generator) -> Index:
        plan, limit = PLANS[rng.integers(len(PLANS))], int(rng.integers(1, 40))
        background = bool(rng.integers(2))
        limits = DISTANCE, self.least
        further, further_fingerprints = self.draws
        options = {"further_draws": further, "further_fingerprints": further_fingerprints, "background": background}
        return Index(plan, self.words, *limits, limit, self.short, **options)

    def keys(self, rng: np.random.Generator, count: int) -> tuple[U64, U64, NDArray[np.bool_]]:
        fingerprints = self.centres[rng.integers(0, 3, count)]
        for bit in rng.integers(0, 64, (int(rng.integers(0, 7)), count)):
            fingerprints ^= np.uint64(1) << bit.astype(np.uint64)
        few = np.array([0, 1, 0x1F, 0x3F], np.uint64)
        sketches = few[rng.integers(0, 4, (count, self.words))]
        further = self.draws[0]
        sketches[:, :further] ^= self.centres[rng.integers(0, 3, (count, further))]
        return fingerprints, sketches, rng.random(count) < 0.3

    @rule(seed=SEEDS, count=st.integers(1, 60), spread=st.integers(0, 3))
    def add(self, seed: int, count: int, spread: int) -> None:
        rng = np.random.default_rng(seed)
        fingerprints, sketches, short = self.keys(rng, count)
        again = rng.permutation(self.free).tolist()[:count]
        fresh = list(range(self.unused, self.unused + count - len(again)))
        self.free = sorted(set(self.free).difference(again))
        self.unused += len(fresh)
        numbers = rng.permutation(again + fresh).astype(np.uint32)
        buckets = self.floor + rng.integers(0, spread + 1, count)
        self.index.add(numbers, fingerprints, sketches, short, buckets if self.floor + spread else None)
        self.naive.add(numbers.tolist(), fingerprints, sketches, short)
        self.bucket_of.update(zip(numbers.tolist(), buckets.tolist(), strict=True))

    @rule(seed=SEEDS, limit=st.sampled_from([0, 7, 1_000_000]))
    def ask(self, seed: int, limit: int) -> None:
        fingerprints, sketches, short = self.keys(np.random.default_rng(seed), 12)
        at, found = 0, []
        told_apart = self.short is not None
        while at < 12:
            piece = self.index.query(fingerprints[at:], sketches[at:], short[at:], limit=limit)
            assert piece.done == 1 or len(piece.entry) <= limit
            found += answers(piece)
            entries = piece.entry.tolist()
            assert piece.bucket.tolist() == [self.bucket_of[e] for e in entries]
            assert piece.short.tolist() == [self.naive.live[e][2] and told_apart for e in entries]
            at += piece.done
        assert found == self.naive.query(fingerprints, sketches, short)

    @rule(seed=SEEDS, share=st.floats(0, 1))
    def release(self, seed: int, share: float) -> None:
        rng = np.random.default_rng(seed)
        self.let_go([e for e in sorted(self.naive.live) if rng.random() < share])

    def let_go(self, entries: list[int]) -> None:
        self.index.release(np.array(entries, np.uint32))
        self.naive.release(entries)
        self.gone.update(entries)

    @rule(later=st.integers(0, 3))
    def drop_buckets(self, later: int) -> None:
        self.floor += later
        self.let_go([e for e in sorted(self.naive.live) if self.bucket_of[e] < self.floor])
        self.index.drop_buckets(self.floor)
        assert min(self.index.buckets, default=self.floor) >= self.floor

    @rule()
    def take_back(self) -> None:
        numbers = self.index.dropped().tolist()
        assert len(set(numbers)) == len(numbers)
        assert self.gone.issuperset(numbers), "only released numbers come back, and each once"
        self.gone.difference_update(numbers)
        self.free += numbers

    @rule()
    def settle(self) -> None:
        self.index.settle()

    @rule()
    def wait(self) -> None:
        self.index.wait()

    @rule()
    def check(self) -> None:
        self.index.check()

    @rule(seed=SEEDS, from_files=st.booleans())
    def restart(self, seed: int, from_files: bool) -> None:
        parts = [part._replace(arrays={n: a.copy() for n, a in part.arrays.items()}) for part in self.index.parts()]
        folder = self.new_folder()
        self.index.close()
        self.index = self.make(np.random.default_rng(seed))
        self.index.restore([on_disk(folder, part) for part in parts] if from_files else parts)

    @precondition(lambda self: self.index.segments)
    @rule(seed=SEEDS, late=st.booleans())
    def map_files(self, seed: int, late: bool) -> None:
        segments = [part for part in self.index.parts() if part.kind == "segment"]
        part = on_disk(self.new_folder(), segments[seed % len(segments)])
        if late:
            self.index.wait()
        self.index.use_mapped(part.name, part.arrays)

    def new_folder(self) -> Path:
        self.snapshots += 1
        folder = Path(self.folder.name) / str(self.snapshots)
        folder.mkdir()
        return folder

    @invariant()
    def as_many_are_live(self) -> None:
        if hasattr(self, "index"):
            assert len(self.index) == len(self.naive.live)

    def teardown(self) -> None:
        if not hasattr(self, "index"):
            return
        self.index.wait()
        self.index.check()
        self.let_go(sorted(self.naive.live))
        self.index.drop_buckets(self.floor + 10)
        self.index.wait()
        self.take_back()
        assert not self.gone, "every released number comes back in the end"
        assert self.index.segments == 0
        self.index.close()
        self.folder.cleanup()


TestLife = IndexLife.TestCase
TestLife.settings = settings(
    deadline=None,
    max_examples=examples(60),
    stateful_step_count=25,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
