"""Crowds of an index: they have all entries about a fingerprint, whatever is added, released and given back."""

from __future__ import annotations

import numpy as np
import pytest

from simstream.index import crowds, entry_numbers
from simstream.index.index import Index
from simstream.index.keys import NO_FLAGS, KeyColumns
from simstream.index.shard import WHOLE, Shard
from simstream.judge.state import JudgeState
from simstream.kernels.index.entry_numbers import NUMBER_MASK
from tests.bench.made_pages import columns_of, policy
from tests.bench.state import judge

BASE = 0x0123_4567_89AB_CDEF


def alike(rng: np.random.Generator, count: int) -> np.ndarray:
    """Up to four bits from one fingerprint."""
    found = np.full(count, BASE, np.uint64)
    for _ in range(4):
        found ^= np.uint64(1) << rng.integers(0, 64, count, np.uint64)
    return found


@pytest.mark.parametrize(("further", "further_fingerprints"), [(0, 0), (2, 2), (2, 0)])
@pytest.mark.parametrize("limit", [64, 1024])
def test_a_crowd_has_all_live_entries_about_its_middle(
    limit: int, further: int, further_fingerprints: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crowds, "MAX_UNCROWDED_CANDIDATES", 32)
    monkeypatch.setattr(crowds, "MAX_UNCROWDED_MATCHES", 32)
    rng = np.random.default_rng(limit)
    index = Index(
        None, 2 + further, 8, 100, limit, further_draws=further, further_fingerprints=further_fingerprints
    )
    live: dict[int, tuple[int, ...]] = {}
    free: list[int] = list(range(1, 20_000))
    made = 0
    for _ in range(60):
        count = int(rng.integers(50, 400))
        numbers = np.array([free.pop(0) for _ in range(count)], np.uint32)
        keys = rng.integers(0, 2**64, (count, 3 + further), np.uint64)
        for draw in range(1 + further):
            keys[:, draw] = np.where(rng.random(count) < 0.5, alike(rng, count), keys[:, draw])
        index.add(numbers, keys[:, 0], keys[:, 1:], None, None)
        live.update(zip(numbers.tolist(), map(tuple, keys[:, : 1 + further].tolist()), strict=True))
        gone = rng.permutation(sorted(live))[: count // 2].tolist()
        index.release(np.array(gone, np.uint32))
        for number in gone:
            del live[number]
        index.settle()
        free += index.dropped().tolist()
        draw = int(rng.integers(1 + further))
        crowd = index.crowd(draw, int(alike(rng, 1)[0]))
        if crowd is None:
            continue
        made += 1
        rows = crowd.columns.rows[: crowd.count] & np.uint32(NUMBER_MASK)
        columns = crowd.columns.fingerprints, *crowd.columns.sketches[:further]
        found = dict(
            zip(rows.tolist(), zip(*(c[: crowd.count].tolist() for c in columns), strict=True), strict=True)
        )
        assert len(found) == crowd.count
        near = {number for number, values in live.items() if (values[draw] ^ crowd.middle).bit_count() <= 16}
        assert near <= found.keys()
        assert all(found[number] == live[number] for number in near)
        assert found.keys() - near <= set(range(20_000)) - set(free) - (live.keys() - near)
    assert made > 30


def test_crowds_are_bounded_and_those_asked_for_last_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crowds, "MAX_CROWDS", 3)
    monkeypatch.setattr(crowds, "WORTH", 10**9)
    rng = np.random.default_rng(1)
    middles = rng.integers(0, 2**64, 8, np.uint64)
    index = Index(None, 1, 4, 0)
    index.add(np.arange(1, 81, dtype=np.uint32), np.repeat(middles, 10), np.zeros((80, 1), np.uint64), None, None)
    for middle in middles.tolist():
        crowd = index.crowd(0, middle)
        assert crowd is not None
        assert crowd.count == 10
        assert index.crowd(0, int(middles[0])) is not None
    covered = index._crowds[0].covering(KeyColumns(middles, np.zeros((8, 1), np.uint64), NO_FLAGS))
    assert covered.sum() == 3
    assert covered[[0, 7]].all()


def test_a_larger_index_may_have_larger_crowds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crowds, "WORTH", 10**9)
    monkeypatch.setattr(crowds, "MAX_ENTRIES", 14)
    index = Index(None, 1, 4, 0)
    stored = np.concatenate([np.full(15, BASE, np.uint64), np.arange(945, dtype=np.uint64) << np.uint64(40)])
    for numbers in np.array_split(np.arange(1, 961, dtype=np.uint32), [900]):
        index.add(numbers, stored[numbers - 1], np.zeros((len(numbers), 1), np.uint64), None, None)
        crowd = index.crowd(0, BASE)
        assert (crowd is not None) == (len(index) >= 15 * crowds.ENTRIES_A_PLACE)


def test_a_template_of_one_page_in_thirty_has_a_crowd_by_each_of_two_lookups(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(crowds, "WORTH", 10**9)
    monkeypatch.setattr(crowds, "MAX_ENTRIES", 14)
    index = Index(None, 1, 4, 0, further_draws=1)
    stored = np.concatenate([np.full(32, BASE, np.uint64), np.arange(928, dtype=np.uint64) << np.uint64(40)])
    index.add(np.arange(1, 961, dtype=np.uint32), stored, stored[:, None], None, None)
    found = [index.crowd(draw, BASE) for draw in (0, 1)]
    assert [crowd and crowd.count for crowd in found] == [32, 32]
    entry = sum(column.nbytes // len(column.T) for column in crowds._columns(10, 4))
    assert entry <= 4 * crowds.ENTRIES_A_PLACE, "crowds take at most 4 bytes for each entry of a large index"


def test_crowded_queries_say_nothing_and_all_others_what_they_always_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crowds, "MAX_UNCROWDED_CANDIDATES", 32)
    monkeypatch.setattr(crowds, "MAX_UNCROWDED_MATCHES", 32)
    rng = np.random.default_rng(2)
    index = Index(None, 1, 8, 0, 512)
    stored = np.concatenate([alike(rng, 700), rng.integers(0, 2**64, 700, np.uint64)])
    index.add(np.arange(1, 1401, dtype=np.uint32), stored, np.zeros((1400, 1), np.uint64), None, None)
    queries = stored[rng.permutation(1400)[:900]]
    sketches = np.zeros((900, 1), np.uint64)
    whole = index.query(queries, sketches)
    for round_ in range(2):  # before there is a crowd, and with one
        apart = index.query_apart(queries, sketches)
        assert apart.done == whole.done == 900
        assert apart.crowded.any()
        assert not apart.crowded.all()
        for i in range(900):
            here = apart.entry[apart.starts[i] : apart.starts[i + 1]]
            expected = [] if apart.crowded[i] else whole.entry[whole.starts[i] : whole.starts[i + 1]].tolist()
            assert sorted(here.tolist()) == expected
        if round_ == 0:
            monkeypatch.setattr(crowds, "WORTH", 10**9)
            assert index.crowd(0, BASE) is not None


@pytest.mark.parametrize("shard", [WHOLE, Shard(5, 8)])
def test_equal_fingerprints_are_found_in_every_part_of_an_index(shard: Shard) -> None:
    rng = np.random.default_rng(3)
    index = Index(None, 1, 8, 40, 512, shard=shard)
    some = rng.integers(0, 2**64, 1_000, np.uint64)
    stored, sketches = rng.choice(some, 3_000), rng.integers(0, 16, (3_000, 1), np.uint64)
    for numbers in np.array_split(np.arange(1, 3_001, dtype=np.uint32), 7):
        index.add(numbers, stored[numbers - 1], sketches[numbers - 1], None, None)
        index.settle()
    released = np.arange(1, 3_001, 3, dtype=np.uint32)
    index.release(released)
    queries = np.concatenate([some, some ^ np.uint64(1), rng.integers(0, 2**64, 1_000, np.uint64)])
    found = index.query_equal(queries, np.zeros((3_000, 1), np.uint64))
    assert found.done == 3_000
    assert not found.crowded.any()
    live = np.setdiff1d(np.arange(3_000), released.astype(np.int64) - 1)
    for i, query in enumerate(queries):
        at = slice(found.starts[i], found.starts[i + 1])
        assert sorted(found.entry[at].tolist()) == (live[stored[live] == query] + 1).tolist()
        assert ((found.same[at] != 0) == (sketches[found.entry[at] - 1, 0] == 0)).all()


def test_a_bucket_that_leaves_moves_a_crowd_once_however_its_numbers_come_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(entry_numbers, "MAX_NUMBERS_AT_ONCE", 10)
    monkeypatch.setattr(entry_numbers, "MAX_GIVEN_BACK", 20)
    monkeypatch.setattr(crowds, "WORTH", 10**9)
    moves: list[int] = []
    keep = crowds.EntryCrowd.keep
    monkeypatch.setattr(crowds.EntryCrowd, "keep", lambda crowd, there: (moves.append(1), keep(crowd, there)))
    index = Index(None, 1, 8, 0)
    stored, sketches = alike(np.random.default_rng(6), 200), np.zeros((200, 1), np.uint64)
    buckets = np.arange(200, dtype=np.int64) // 100
    index.add(np.arange(1, 201, dtype=np.uint32), stored, sketches, None, buckets)
    crowd = index.crowd(0, BASE)
    assert crowd is not None
    index.release(np.arange(1, 101, dtype=np.uint32), sweep=False)
    index.drop_buckets(1)
    given: list[int] = []
    for number in range(1000, 1010):
        given += (free := index.dropped().tolist())
        assert len(free) <= 20
        index.add(np.array([number], np.uint32), stored[:1], sketches[:1], None, np.array([1]))
        index.query(stored[:3], sketches[:3])
    assert sorted(given) == list(range(1, 101))
    assert len(moves) == 1
    assert sorted((crowd.columns.rows[: crowd.count] & np.uint32(NUMBER_MASK)).tolist()) == [
        *range(101, 201),
        *range(1000, 1010),
    ]


def test_a_wide_distance_alone_makes_no_query_crowded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hundreds of places pass the first 32 bits of a value at distance 12, and hardly one passes all 64."""
    monkeypatch.setattr(crowds, "MAX_UNCROWDED_CANDIDATES", 64)
    monkeypatch.setattr(crowds, "MAX_UNCROWDED_MATCHES", 64)
    rng = np.random.default_rng(4)
    index = Index(None, 1, 12, 0, 1 << 14)
    stored = rng.integers(0, 2**64, 1 << 17, np.uint64)
    for begin in range(0, len(stored), 1 << 13):
        numbers = np.arange(begin + 1, begin + (1 << 13) + 1, dtype=np.uint32)
        index.add(numbers, stored[numbers - 1], np.zeros((len(numbers), 1), np.uint64), None, None)
        index.settle()
    queries = stored[:64] ^ np.uint64(0xFFF)
    apart = index.query_apart(queries, np.zeros((64, 1), np.uint64))
    assert apart.done == 64
    assert not apart.crowded.any()
    for i, query in enumerate(queries):
        near = np.flatnonzero(np.bitwise_count(stored ^ query) <= 12) + 1
        assert sorted(apart.entry[apart.starts[i] : apart.starts[i + 1]].tolist()) == near.tolist()


@pytest.mark.parametrize(("agreement", "matched"), [(100, False), (0, True)])
def test_candidates_without_a_match_make_no_query_crowded(agreement: int, matched: bool) -> None:
    """Pages of few words have thousands of others within the distance; their sketches tell nearly all apart."""
    rng = np.random.default_rng(5)
    index = Index(None, 2, 8, agreement, 1 << 14)
    stored, sketches = alike(rng, 4_000), rng.integers(0, 2**64, (4_000, 2), np.uint64)
    index.add(np.arange(1, 4_001, dtype=np.uint32), stored, sketches, None, None)
    index.settle()
    apart = index.query_apart(stored[:64], sketches[:64])
    assert apart.crowded.all() if matched else not apart.crowded.any()
    whole = index.query(stored[:64], sketches[:64])
    for i in range(64):
        here = sorted(apart.entry[apart.starts[i] : apart.starts[i + 1]].tolist())
        assert here == ([] if matched else whole.entry[whole.starts[i] : whole.starts[i + 1]].tolist())


def test_copies_within_a_crowd_share_an_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crowds, "MAX_UNCROWDED_CANDIDATES", 16)
    monkeypatch.setattr(crowds, "MAX_UNCROWDED_MATCHES", 16)
    rng, state = np.random.default_rng(3), JudgeState(policy(), memtable_limit=64)
    fingerprints = np.unique(alike(rng, 400))
    sketches = np.zeros((len(fingerprints), 4), np.uint64)
    for turn in range(4):  # the same pages under ids of their own
        judge(state, columns_of(turn * 1000, fingerprints, sketches))
    assert state.resolver.live_pages == 4 * len(fingerprints)
    assert len(state.index) == len(fingerprints)
    state.check()


@pytest.mark.parametrize(("fingerprints", "sketch_lookups"), [(1, 0), (2, 0), (3, 0), (1, 1), (2, 2)])
def test_candidates_are_counted_alike_whether_pages_are_crowded_or_not(
    fingerprints: int, sketch_lookups: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(4)
    keys = rng.integers(0, 2**64, (3_000, 4 + fingerprints), np.uint64)
    for draw in range(fingerprints):
        keys[1_000:, draw] = alike(rng, 2_000)
    keys[1_000:, fingerprints:] = 0
    counted = []
    for crowded, worth in ((10**6, 32), (64, 10**9), (64, 0)):  # never; always beside a crowd; never beside one
        monkeypatch.setattr(crowds, "MAX_UNCROWDED_CANDIDATES", crowded)
        monkeypatch.setattr(crowds, "MAX_UNCROWDED_MATCHES", crowded)
        monkeypatch.setattr(crowds, "WORTH", worth)
        chosen = policy(fingerprints=fingerprints, sketch_lookups=sketch_lookups)
        state, before = JudgeState(chosen, memtable_limit=512), (0, 0)
        for first in range(0, 3_000, 250):
            judge(state, columns_of(first, keys[first : first + 250, 0], keys[first : first + 250, 1:]))
            now = state.index.candidates, state.index.rejected
            assert all(new >= old for new, old in zip(now, before, strict=True)), "metrics only grow"
            before = now
        counted.append(before)
    assert counted[1:] == counted[:1] * 2
