"""Shards against the quadratic judge: a log that is judged by any number of shards gives the same verdicts."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import rule

from simstream.files.folder import StateFolder
from simstream.index import crowds, segment
from simstream.index.index import Index
from simstream.index.plan import MAX_DISTANCE, Plan, divided_plan
from simstream.index.shard import Shard
from simstream.judge import best_match, shard_matcher
from simstream.judge.acceptor import AcceptedPages
from simstream.judge.pages.store import PageStore
from simstream.judge.policy import Policy
from simstream.judge.state import JudgeState, LogState, ShardState
from simstream.model import U64, Record
from simstream.wire import frame as frames
from tests.property.test_index import LANES, near_copies, numbers
from tests.property.test_index_states import answers
from tests.property.test_judge import RECIPE, JudgeMachine, columns_of, machine, naive_verdicts, random_pages
from tests.shards import ShardedJudge
from tests.short import examples


def short_tables(distance: int, entries: int, shards: int) -> Plan:
    """Tables instead of a scan at every size, so that few entries are looked up by their leading bytes, too."""
    whole = divided_plan(distance)
    return msgspec.structs.replace(whole, prefix_bits=(min(9, whole.step),) * whole.tables)


class ShardedMachine(JudgeMachine):
    """The machine of the judge, beside shards that are written and taken up again one by one."""

    count = 4

    def __init__(self) -> None:
        super().__init__()
        self.patch.setattr(segment, "choose_divided", short_tables)
        self.sharded = ShardedJudge(self.policy, self.count)
        self.parts = TemporaryDirectory()

    def judge(self, payload: bytes, partition: int, damage: str) -> None:
        before = len(self.verdicts)
        super().judge(payload, partition, damage)
        assert self.sharded.take(self.records[-1:]) == self.verdicts[before:]

    @rule(which=st.integers(0, 7))
    def restart_a_part(self, which: int) -> None:
        """Another process goes on with the state of a shard, or of the judge."""
        sharded = self.sharded
        which = min(which, self.count)
        old: LogState = sharded.judge if which == self.count else sharded.shards[which]
        new: LogState
        if which == self.count:
            new = sharded.judge = JudgeState(self.policy, book=sharded.book, memtable_limit=8)
        else:
            new = sharded.shards[which] = ShardState(self.policy, Shard(which, self.count), memtable_limit=8)
        folder = Path(self.parts.name) / f"part-{which}"
        with StateFolder(folder) as files:
            prepared = files.prepare(old.parts(), old.facts("L"))
            prepared.write()
            prepared.commit()
        old.close()
        with StateFolder(folder) as files:
            loaded = files.load(trusted=PageStore.KINDS)
            new.restore(loaded.parts, loaded.facts, "L")
            new.read_from_disk(files.files, loaded.sealed.values())
        new.check()

    @rule(which=st.integers(0, 7), together=st.integers(1, 30), kept=st.integers(0, 30))
    def lose_a_part(self, which: int, together: int, kept: int) -> None:
        """A shard loses its state, or all but its first frames, and takes in the rest of the log."""
        known, lost = self.records[:kept], self.records[kept:]
        if lost:
            self.sharded.rebuild(min(which, self.count - 1), lost, together, len(self.verdicts), known)

    def teardown(self) -> None:
        self.sharded.close()
        self.parts.cleanup()
        super().teardown()


def sharded(name: str, policy: Policy, count: int, **ways: int) -> type:
    """A machine of the judge over so many shards."""
    return machine(name, policy, base=ShardedMachine, **ways, count=count)


TestAny = sharded("ShardedAnyMachine", Policy(RECIPE, 128, 3, 100, None, "any"), 4)
TestWindow = sharded("ShardedWindowMachine", Policy(RECIPE, 128, 3, 100, 8, "any", 20, 1, 118), 2, leaving=2)
TestWide = sharded("ShardedWideMachine", Policy(RECIPE, 0, 5, 0, 8, "any"), 8, few=2, step=256)
TestSketch = sharded("ShardedSketchMachine", Policy(RECIPE, 128, 3, 100, 8, "any", sketch_lookups=1), 4)
TestTwo = sharded("ShardedTwoMachine", Policy(RECIPE, 64, 3, 50, None, "any", fingerprints=2), 2, crowded=1)
TestCrowded = sharded("ShardedCrowdedMachine", Policy(RECIPE, 128, 3, 100, 8, "any"), 2, crowded=0)
TestOne = sharded("OneShardMachine", Policy(RECIPE, 128, 3, 100, 8, "any"), 1)


def set_limits(monkeypatch: pytest.MonkeyPatch, few: int, crowded: int) -> None:
    """Let short logs reach what only long ones would: kernels for many matches, crowds, and tables."""
    monkeypatch.setattr(best_match, "MAX_SINGLE_MATCHES", few)
    monkeypatch.setattr(crowds, "MAX_UNCROWDED_CANDIDATES", crowded)
    monkeypatch.setattr(crowds, "MAX_UNCROWDED_MATCHES", crowded)
    monkeypatch.setattr(segment, "choose_divided", short_tables)


def policy_of(window: int | None, fingerprints: int, sketch_lookups: int) -> Policy:
    """A policy for the pages of `records`, with stricter limits for short ones."""
    limits = (128, 4, 100) if fingerprints == 1 else (64, 4, 50)
    return Policy(RECIPE, *limits, window, "any", 20, 2, limits[2] + 7, fingerprints, sketch_lookups)


WAYS = ((1, 8, 512, 1, 0), (5, 0, 512, 1, 1), (30, 10**6, 3, 2, 0), (7, 8, 0, 1, 0))


@pytest.mark.parametrize("window", [None, 60])
@pytest.mark.parametrize(
    ("shards", "together", "few", "crowded", "fingerprints", "sketch_lookups"),
    [*((shards, *way) for shards in (1, 2, 8) for way in WAYS), (256, *WAYS[2])],  # 256 shards take long
)
def test_a_long_log_is_judged_as_the_quadratic_judge_does_by_any_number_of_shards(
    shards, window, together, few, crowded, fingerprints, sketch_lookups, monkeypatch
) -> None:
    set_limits(monkeypatch, few, crowded)
    policy = policy_of(window, fingerprints, sketch_lookups)
    judge, verdicts = ShardedJudge(policy, shards, memtable_limit=64), []
    log = records(50)
    for at in range(0, len(log), together):
        verdicts += judge.take(log[at : at + together])
    judge.close()
    assert verdicts == naive_verdicts(policy)


@pytest.mark.parametrize("window", [None, 60])
@pytest.mark.parametrize(
    ("every", "few", "crowded", "fingerprints", "sketch_lookups", "compared"),
    [(1, 8, 512, 1, 0, 16), (3, 0, 3, 1, 1, 16), (11, 8, 0, 2, 0, 2), (29, 0, 512, 1, 0, 1)],
)
def test_verdicts_stay_those_of_the_quadratic_judge_after_shards_lost_their_states(
    window, every, few, crowded, fingerprints, sketch_lookups, compared, monkeypatch
) -> None:
    set_limits(monkeypatch, few, crowded)
    monkeypatch.setattr(shard_matcher, "MAX_FEW_TIES", few)
    monkeypatch.setattr(shard_matcher, "MAX_COMPARED_TIES", compared)
    policy = policy_of(window, fingerprints, sketch_lookups)
    judge, verdicts = ShardedJudge(policy, 2, memtable_limit=64), []
    log = records(25)
    for at, record in enumerate(log):
        if at and at % every == 0:
            kept = at // 2 if at % 3 else 0
            judge.rebuild(at // every % 2, log[kept:at], 1 + at % 7, 25 * (at - kept), log[:kept])
        verdicts += judge.take([record])
    judge.close()
    assert verdicts == naive_verdicts(policy)


def records(each: int) -> list[Record]:
    """The random pages of the judge's tests as a log, in frames of so many pages."""
    rows, out = random_pages(1500, seed=7), []
    for number, at in enumerate(range(0, len(rows), each)):
        to = min(at + each, len(rows))
        header = frames.FrameHeader(RECIPE, "t.pages", "T", 0, at, to, 2, first=at == 0)
        payload = frames.encode(header, columns_of(rows[at:to], 2))
        out.append(Record("t.fingerprints", 0, number, None, payload, (), 1 << 40))
    return out


def found_by_shards(values: U64, distance: int, shards: int, limit: int) -> list[set[tuple[int, int]]]:
    """Per query the (entry, distance) that any shard reports, each with the entries that it owns."""
    none, own = np.empty((len(values), 0), np.uint64), numbers(len(values))
    found: list[set[tuple[int, int]]] = [set() for _ in values]
    for number in range(shards):
        shard = Shard(number, shards)
        index = Index(None, 0, distance, 0, memtable_limit=limit, shard=shard)
        owned = shard.owns(values, divided_plan(distance).rotations)
        if owned.any():
            index.add(own[owned], values[owned], none[owned], None, None)
        index.check()
        for mine, answer in zip(found, answers(index.query(values, none)), strict=True):
            mine.update((entry, apart) for entry, apart, _ in answer)
    return found


@pytest.mark.parametrize("distance", range(MAX_DISTANCE + 1))
def test_shards_together_find_everything_within_the_distance_and_nothing_beyond(distance, monkeypatch) -> None:
    monkeypatch.setattr(segment, "choose_divided", short_tables)
    values = near_copies(distance, distance, LANES)
    own = numbers(len(values)).tolist()
    pairs = np.bitwise_count(values[:, None] ^ values[None, :])
    expected = [{(own[i], int(row[i])) for i in np.flatnonzero(row <= distance)} for row in pairs]
    for shards in (2, 8, 256):
        assert found_by_shards(values, distance, shards, limit=1) == expected


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=40), st.integers(0, 8), st.integers(0, 8))
@settings(deadline=None, max_examples=examples(40))
def test_each_leading_byte_of_each_table_has_one_owner(values: list[int], bits: int, distance: int) -> None:
    count, column = 1 << bits, np.array(values, np.uint64)
    for rotation in divided_plan(distance).rotations:
        owners = np.array([Shard(number, count).owns(column, [rotation]) for number in range(count)])
        assert (owners.sum(axis=0) == 1).all()
        leading = ((column << np.uint64(rotation)) | (column >> np.uint64((64 - rotation) % 64))) >> np.uint64(56)
        if rotation == 0:
            leading = column >> np.uint64(56)
        assert (owners.argmax(axis=0) == leading.astype(np.int64) * count // 256).all()


@pytest.mark.parametrize("distance", range(MAX_DISTANCE + 1))
def test_tables_of_a_divided_index_are_complete_at_every_size(distance: int) -> None:
    whole = divided_plan(distance)
    for entries in (1, 10**4, 10**6, 10**9):
        plan = segment.choose_divided(distance, entries, 8)
        assert plan.complete_for >= distance
        assert plan == Plan(0, (), 0) or (plan.tables, plan.flips, plan.rotations) == (
            whole.tables, whole.flips, whole.rotations
        )  # fmt: skip


def test_the_log_of_these_tests_has_pages_that_count() -> None:
    acceptor_records = records(50)
    state = JudgeState(Policy(RECIPE, 128, 4, 100, None, "any"))
    taken = [state.accept(record) for record in acceptor_records]
    assert all(isinstance(each, AcceptedPages) for each in taken)
    state.close()
