"""The page store against lists, through snapshots into a real folder, restarts, compaction and windows."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from simstream.files.folder import StateFolder
from simstream.files.snapshot_part import SnapshotPart
from simstream.judge.pages.record import PageRecord
from simstream.judge.pages.store import PageStore
from simstream.model import U64
from tests.due_pages import due_pages
from tests.short import examples


class PageStoreTwins(RuleBasedStateMachine):
    """A page store and a dictionary from row to record; rows are given again."""

    @initialize(capacity=st.sampled_from([1, 2, 7, 64]), words=st.sampled_from([0, 2, 3]), spills=st.booleans())
    def begin(self, capacity: int, words: int, spills: bool) -> None:
        self.capacity, self.words = capacity, words
        self.folder = tempfile.TemporaryDirectory()
        self.state = StateFolder(Path(self.folder.name))
        self.pages = PageStore(words, capacity)
        self.spills = spills
        if spills:
            self.pages.spill(Path(self.folder.name))
        self.live: dict[int, PageRecord] = {}
        self.colds: dict[int, int] = {}
        self.dead: list[tuple[int, int, int]] = []
        """Time, ordinal and row of records that left: they may or may not come due."""
        self.last: list[int] = []
        self.free = list(range(1, 10_000))
        self.ordinal = 0
        self.until: int | None = None

    def teardown(self) -> None:
        if hasattr(self, "pages"):
            self.pages.check()
            self.pages.close()
            self.state.close()
            self.folder.cleanup()

    @rule(
        count=st.integers(1, 40),
        gap=st.integers(0, 3),
        times=st.sampled_from(["up", "same", "random"]),
        seed=st.integers(0, 2**32),
    )
    def append(self, count: int, gap: int, times: str, seed: int) -> None:
        rng = np.random.default_rng(seed)
        ordinals = self.ordinal + np.cumsum(rng.integers(1, 2 + gap, count))
        spread = {"up": ordinals * 3, "same": np.full(count, 50), "random": rng.integers(-500, 500, count)}
        rows = [self.free.pop() for _ in range(count)]
        ids = ["".join(rng.choice(list("ab页é"), rng.integers(0, 9))) for _ in range(count)]
        raw = [one.encode() for one in ids]
        identities, sketches = self._words(rng, count, 2), self._words(rng, count, self.words)
        fingerprints, short = self._words(rng, count, 1)[:, 0], rng.integers(0, 2, count).astype(bool)
        colds = self.pages.append(
            ordinals=ordinals,
            times=spread[times],
            identities=identities,
            fingerprints=fingerprints,
            sketches=sketches,
            short=short,
            rows=np.array(rows, np.uint32),
            ids=b"".join(raw),
            id_ends=np.cumsum([len(one) for one in raw], dtype=np.uint32),
        )
        self.ordinal = int(ordinals[-1])
        self.last = rows
        for i, row in enumerate(rows):
            self.colds[row] = int(colds[i])
            self.live[row] = PageRecord(
                int(ordinals[i]),
                int(ordinals[i]),
                int(spread[times][i]),
                identities[i].tobytes(),
                int(fingerprints[i]),
                int.from_bytes(sketches[i].tobytes(), "little"),
                bool(short[i]),
                row,
                ids[i],
            )

    def _words(self, rng: np.random.Generator, count: int, width: int) -> U64:
        return rng.integers(0, 2**64, (count, width), dtype=np.uint64)

    @precondition(lambda self: self.last)
    @rule(age=st.integers(0, 5), place=st.integers(0, 39), move=st.booleans())
    def amend(self, age: int, place: int, move: bool) -> None:
        row = self.last[place % len(self.last)]
        if row not in self.live:
            return
        cold, record = self.colds[row], self.live[row]
        if not move:
            self.pages.amend(cold, age=age)
            self.live[row] = record._replace(age=age)
            return
        other = self.free.pop()
        self.pages.amend(cold, age=age, row=other)
        del self.live[row], self.colds[row]
        self.last[place % len(self.last)] = other
        self.live[other], self.colds[other] = record._replace(age=age, row=other), cold
        self.free.insert(0, row)

    @precondition(lambda self: self.live)
    @rule(share=st.sampled_from([0.02, 0.3, 0.6, 1.0]), seed=st.integers(0, 2**32), oldest=st.booleans())
    def leave(self, share: float, seed: int, oldest: bool) -> None:
        rows = sorted(self.live) if oldest else np.random.default_rng(seed).permutation(list(self.live)).tolist()
        rows = rows[: max(1, int(len(rows) * share))]
        self.pages.note_left(np.array([self.colds[row] for row in rows], np.uint32))
        for row in rows:
            record = self.live.pop(row)
            self.dead.append((record.time, record.ordinal, row))
            del self.colds[row]
            self.free.insert(0, row)

    @rule()
    def compact(self) -> None:
        moves = self.pages.compact(self.is_live)
        if moves is not None:
            self.colds.update(zip(moves.rows.tolist(), moves.colds.tolist(), strict=True))

    def is_live(self, rows: np.ndarray, colds: np.ndarray) -> np.ndarray:
        return np.array([self.colds.get(r) == c for r, c in zip(rows.tolist(), colds.tolist(), strict=True)], bool)

    @rule(ahead=st.integers(0, 300), restart=st.booleans())
    def due(self, ahead: int, restart: bool) -> None:
        after = None if restart else self.until
        until = (self.until if self.until is not None else -200) + ahead
        times, colds, rows, ordinals = due_pages(self.pages, after, until)
        found = list(zip(times.tolist(), ordinals.tolist(), rows.tolist(), strict=True))
        assert found == sorted(found)
        live = [self.colds.get(row) == cold for row, cold in zip(rows.tolist(), colds.tolist(), strict=True)]
        current = [one for one, alive in zip(found, live, strict=True) if alive]
        expected = [(r.time, r.ordinal, row) for row, r in self.live.items()]
        expected = sorted(one for one in expected if (after is None or one[0] > after) and one[0] <= until)
        assert current == expected
        assert {one[:2] for one in found} <= {one[:2] for one in [*expected, *self.dead]}
        self.until = until

    @precondition(lambda self: not self.spills)
    @rule(commit=st.sampled_from(["written", "committed", "no"]))
    def snapshot(self, commit: str) -> None:
        self.last = []
        prepared = self.state.prepare(self.pages.parts(), {})
        if commit == "no":
            return
        prepared.write()
        for file in prepared.sealed:
            self.pages.read_from_disk([file])
        if commit == "committed":
            prepared.commit()

    @precondition(lambda self: not self.spills)
    @rule(on_disk=st.booleans())
    def restart(self, on_disk: bool) -> None:
        """From a snapshot of now: the folder is opened again, as by another process."""
        self.snapshot("committed")
        self.pages.close()
        self.state.close()
        self.state = StateFolder(Path(self.folder.name))
        loaded = self.state.load(trusted={"pages"})
        assert loaded is not None
        self.pages = PageStore(self.words, self.capacity)
        self.pages.restore(loaded.parts)
        for file in loaded.sealed.values() if on_disk else ():
            self.pages.read_from_disk([file])

    @precondition(lambda self: not self.spills)
    @rule()
    def copy_in_memory(self) -> None:
        """Parts taken over without any file, where all of them are in memory."""
        self.last = []
        parts = [copied(part) for part in self.pages.parts()]
        if any(not part.arrays for part in parts):
            return
        self.pages.close()
        self.pages = PageStore(self.words, self.capacity)
        self.pages.restore(parts)

    @invariant()
    def reads_the_same(self) -> None:
        if not hasattr(self, "pages"):
            return
        rows = list(self.live)
        for row in rows[:: max(1, len(rows) // 20)]:
            cold, record = self.colds[row], self.live[row]
            assert self.pages.read(cold) == record
        self.many_at_once(rows)

    def many_at_once(self, rows: list[int]) -> None:
        found = self.pages.records(np.array([self.colds[row] for row in rows], np.uint32))
        assert [r["identity"].tobytes() for r in found] == [self.live[row].identity for row in rows]
        for name in ("ordinal", "age", "time", "fingerprint", "short", "row"):
            assert found[name].tolist() == [getattr(self.live[row], name) for row in rows]

    @invariant()
    def order_is_that_of_ordinals(self) -> None:
        if hasattr(self, "pages"):
            by_ordinal = sorted(self.live, key=lambda row: self.live[row].ordinal)
            assert by_ordinal == sorted(self.live, key=lambda row: self.pages.order(self.colds[row]))

    @rule()
    def all_chunks(self) -> None:
        found = {}
        for colds, records in self.pages.chunks():
            live = self.is_live(records["row"], colds)
            for record in records[live]:
                found[int(record["row"])] = (int(record["ordinal"]), int(record["age"]), int(record["fingerprint"]))
        assert found == {row: (r.ordinal, r.age, r.fingerprint) for row, r in self.live.items()}


def copied(part: SnapshotPart) -> SnapshotPart:
    return part._replace(arrays={name: array.copy() for name, array in part.arrays.items()})


TestTwins = PageStoreTwins.TestCase
TestTwins.settings = settings(max_examples=examples(30), stateful_step_count=40, deadline=None)
