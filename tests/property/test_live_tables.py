"""Rows, chains and clusters against sets and lists: who is the earliest, the oldest, and with whom."""

from __future__ import annotations

import random

import numpy as np
import pytest

from simstream.errors import StateDamaged, StateError
from simstream.files.snapshot_part import SnapshotPart
from simstream.judge import record_table
from simstream.judge.clusters import Clusters
from simstream.judge.record_table import RecordTable
from simstream.judge.row_table import CHAINED, FOUNDER, INDEXED, LIVE, RowTable


def test_a_table_gives_numbers_again_and_keeps_what_is_in_use() -> None:
    table = RecordTable("t", {"a": np.uint32, "b": np.int64})
    numbers = table.take(5000).tolist()
    assert sorted(numbers) == list(range(1, 5001))
    for number in numbers:
        table.b[number] = -number
    for number in numbers[::2]:
        table.free(number)
    assert len(table) == 2500
    again = {table.new() for _ in range(100)} | set(table.take(2600).tolist())
    assert len(again) == 2700
    assert len(again & set(numbers[::2])) == 2500
    assert [table.b[number] for number in numbers[1::2]] == [-number for number in numbers[1::2]]


def test_a_table_whose_numbers_are_all_in_use_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_table, "MAX_RECORDS", 1500)
    table = RecordTable("rows", {"a": np.uint32})
    assert table.take(1200).max() == 1200
    with pytest.raises(StateError, match="all 1,500 numbers of rows are in use: set a window"):
        table.take(301)
    assert table.take(299).max() == 1499
    assert table.new() == 1500
    with pytest.raises(StateError, match="are in use"):
        table.new()
    table.free(7)
    assert table.new() == 7


def test_a_table_comes_back_as_it_was() -> None:
    table = RecordTable("t", {"a": np.uint32, "b": np.int64})
    numbers = table.take(3000).tolist()
    for number in numbers:
        table.a[number], table.b[number] = number, 7 * number
    for number in numbers[100:200]:
        table.free(number)
    part = table.part()
    other = RecordTable("t", {"a": np.uint32, "b": np.int64})
    other.restore(part)
    assert len(other) == 2900
    assert sorted(other.free_numbers().tolist()) == numbers[100:200]
    assert {other.new() for _ in range(100)} == set(numbers[100:200])
    assert [other.b[number] for number in numbers[:100]] == [7 * number for number in numbers[:100]]


@pytest.mark.parametrize("seed", range(6))
def test_chains_know_the_earliest_page_of_every_entry(seed: int) -> None:
    rng, rows = random.Random(seed), RowTable()
    entries: dict[int, list[int]] = {}  # founder -> live rows in order
    entry_of: dict[int, int] = {}
    node: dict[int, int] = {}  # of each live row
    for _ in range(4000):
        choice = rng.random()
        if choice < 0.55 or not entry_of:
            [row] = rows.take(1).tolist()
            rows.table.state[row] = LIVE
            node[row] = rng.choice([0, rng.randrange(1, 1 << 31)])
            rows.set_node(row, node[row])
            if entries and rng.random() < 0.8:
                founder = rng.choice(list(entries))
                rows.join(founder, row)
                entries[founder].append(row)
                entry_of[row] = founder
            else:
                rows.found(row)
                entries[row] = [row]
                entry_of[row] = row
        else:
            row = rng.choice(list(entry_of))
            founder = entry_of.pop(row)
            assert rows.node(row) == node.pop(row)
            rows.set_node(row, 0)
            assert rows.leave(row) == founder
            assert rows.node(row) == 0
            entries[founder].remove(row)
            if row != founder:
                rows.table.free(row)
            if not entries[founder] and rng.random() < 0.5:
                del entries[founder]
                rows.give_back(np.array([founder], np.uint32))
        founder = rng.choice(list(entries)) if entries else 0
        if founder:
            assert rows.earliest(founder) == next(iter(entries[founder]), 0)
            assert list(rows.pages(founder)) == entries[founder]
        if node:
            row = rng.choice(list(node))
            assert rows.node(row) == node[row]
            node[row] = rng.choice([0, rng.randrange(1, 1 << 31)])
            rows.set_node(row, node[row])
    for named in ({part.name: part for part in rows.parts()}, with_a_column_of_nodes(rows)):
        other = RowTable()
        other.restore(named)
        assert all(list(other.pages(founder)) == pages for founder, pages in entries.items())
        assert all(other.table.state[row] & (LIVE | INDEXED) for row in entry_of)
        assert all(other.table.state[founder] & FOUNDER for founder in entries)
        assert all(other.node(row) == number for row, number in node.items())
        assert not any(other.node(founder) for founder in entries if founder not in node)


def with_a_column_of_nodes(rows: RowTable) -> dict[str, SnapshotPart]:
    """The parts of a snapshot as earlier versions wrote it: with a column of nodes beside that of chains."""
    named = {part.name: part for part in rows.parts()}
    table, places = named["rows"].arrays, named["places"].arrays
    chained = (table["state"] & CHAINED) != 0
    nodes = np.array([rows.node(row) for row in range(rows.table.used)], np.uint32)
    own = {**table, "link": np.where(chained, table["link"], 7), "node": nodes}  # an unused link had any value
    named["rows"] = named["rows"]._replace(arrays=own)
    named["places"] = named["places"]._replace(arrays={n: a for n, a in places.items() if n != "node"})
    return named


def test_an_earlier_snapshot_whose_chains_lead_nowhere_is_refused() -> None:
    rows = RowTable()
    founder, other = rows.take(2).tolist()
    for row in (founder, other):
        rows.table.state[row] = LIVE
    rows.found(founder)
    rows.join(founder, other)
    named = with_a_column_of_nodes(rows)
    named["rows"].arrays["link"][other] = 99
    with pytest.raises(StateDamaged, match="do not fit together"):
        RowTable().restore(named)


@pytest.mark.parametrize(
    ("table", "column", "numbers", "said"),
    [
        ("clusters", "into", {1: 2**32 - 16}, "record leads to cluster 4294967280"),
        ("clusters", "into", {1: 2, 2: 1}, "lead to each other in a ring"),
        ("clusters", "into", {1: 2, 2: 3, 3: 1}, "lead to each other in a ring"),
        ("nodes", "cluster", {3: 4}, "member leads to cluster 4"),
    ],
)
def test_clusters_that_lead_nowhere_are_refused(
    table: str, column: str, numbers: dict[int, int], said: str
) -> None:
    rows = RowTable()
    ages: dict[int, int] = {}
    clusters = Clusters(rows, lambda row: ages[row])
    for row in rows.take(6).tolist():
        rows.table.state[row], ages[row] = LIVE, row
        if row % 2 == 0:
            clusters.join(clusters.of(row - 1), row, row)
    parts = {part.name: part for part in clusters.parts()}
    Clusters(rows, lambda row: ages[row]).restore(parts)
    for at, number in numbers.items():
        parts[table].arrays[column][at] = number
    with pytest.raises(StateDamaged, match=said):
        Clusters(rows, lambda row: ages[row]).restore(parts)


@pytest.mark.parametrize("seed", range(6))
def test_clusters_keep_their_ids_and_know_their_oldest(seed: int) -> None:
    rng, rows = random.Random(seed), RowTable()
    ages: dict[int, int] = {}
    clusters = Clusters(rows, lambda row: ages[row])
    naive: dict[int, set[int]] = {}  # id -> rows

    def id_of(row: int) -> int:
        return next(number for number, members in naive.items() if row in members)

    for now in range(3000):
        grow = 0.62 if now % 1000 < 500 else 0.4
        if rng.random() < grow or not ages:
            [row] = rows.take(1).tolist()
            rows.table.state[row] = LIVE
            count = min(len(ages), rng.choice([0, 1, 1, 1, 2, 3]))
            tied = {id_of(other) for other in rng.sample(sorted(ages), count)}
            if tied:
                handles = {clusters.of(next(iter(naive[number]))) for number in tied}
                assert len(handles) == len(tied)
                survivor, merged = clusters.tie(handles)
                assert merged == sorted(tied)[1:]
                ages[row] = now
                joined = clusters.join(survivor, row, now)
                first = min(tied)
                naive[first] = set.union(*(naive.pop(number) for number in tied)) | {row}
                assert clusters.id(joined) == first
                assert now % 2 or clusters.oldest(joined) == min(naive[first], key=ages.__getitem__)
            else:
                ages[row] = now
                naive[now] = {row}
        elif rng.random() < 0.3:
            old = rng.choice(sorted(ages))
            [row] = rows.take(1).tolist()
            rows.table.state[row] = LIVE
            clusters.replace(old, row)
            ages[row] = ages.pop(old)
            members = naive[id_of(old)]
            members.remove(old)
            members.add(row)
            rows.table.free(old)
        else:
            leaving = [rng.choice(sorted(ages))]
            if rng.random() < 0.1:
                leaving = rng.sample(sorted(ages), min(len(ages), rng.choice([2, 10])))
                clusters.leave_many(np.array(leaving, np.uint32))
            else:
                clusters.leave(*leaving)
            for row in leaving:
                number = id_of(row)
                del ages[row]
                naive[number].remove(row)
                if not naive[number]:
                    del naive[number]
                rows.table.free(row)
        if now % rng.choice([10, 100]) == 0:
            check(clusters, naive, ages)
        elif now % 7 == 0:
            clusters.settle()
    named = {part.name: part for part in [*rows.parts(), *clusters.parts()]}
    rows.restore(named)
    clusters.restore(named)
    check(clusters, naive, ages)
    for row in list(ages):
        clusters.leave(row)
    assert clusters.sizes().size == 0
    assert len(clusters) == 0


def a_cluster(rows: RowTable, clusters: Clusters, ages: dict[int, int], *members: int) -> list[int]:
    """The rows of pages of these ages, the oldest first, in one new cluster."""
    made: list[int] = rows.take(len(members)).tolist()
    ages.update(zip(made, members, strict=True))
    rows.table.column("state")[made] = LIVE
    founder, *others = made
    for row in others:
        clusters.join(clusters.of(founder), row, ages[row])
    return made


def test_a_cluster_that_takes_in_one_whose_oldest_has_left_knows_its_oldest() -> None:
    rows, ages = RowTable(), dict[int, int]()
    clusters = Clusters(rows, lambda row: ages[row])
    one, other = a_cluster(rows, clusters, ages, 0, 50), a_cluster(rows, clusters, ages, 20, 60)
    clusters.leave(one[0])
    clusters.settle()
    clusters.leave(other[0])
    survivor, merged = clusters.tie({clusters.of(one[1]), clusters.of(other[1])})
    assert (clusters.id(survivor), merged) == (0, [20])
    assert clusters.oldest(survivor) == one[1]


def test_a_heap_is_built_again_when_most_of_its_pages_have_left() -> None:
    rows, ages = RowTable(), dict[int, int]()
    clusters = Clusters(rows, lambda row: ages[row])
    members = a_cluster(rows, clusters, ages, *range(200))
    for row in members[2:]:
        clusters.leave(row)
    clusters.settle()
    assert clusters.oldest(clusters.of(members[0])) == members[0]
    assert len(clusters) < 100


def test_the_heir_of_a_cluster_is_live_although_others_have_left_since() -> None:
    rows, ages = RowTable(), dict[int, int]()
    clusters = Clusters(rows, lambda row: ages[row])
    members = a_cluster(rows, clusters, ages, 1, 2, 3, 4)
    shrunk = clusters.leave_many(np.array(members[:1], np.uint32))
    clusters.leave(members[1])
    assert clusters.heirs(shrunk.heads).tolist() == [members[2]]


def check(clusters: Clusters, naive: dict[int, set[int]], ages: dict[int, int]) -> None:
    for number, members in naive.items():
        handles = {clusters.of(row) for row in members}
        assert len(handles) == 1
        [handle] = handles
        assert clusters.id(handle) == number
        assert clusters.size(handle) == len(members)
        assert set(clusters.members(handle)) == members
        eldest = sorted(members, key=ages.__getitem__)
        assert clusters.oldest(handle) == eldest[0]
        assert clusters.eldest(handle, 3) == eldest[:3]
    recorded = sorted(clusters.sizes().tolist())
    alone = len(naive) - len(recorded)
    assert sorted(recorded + [1] * alone) == sorted(len(members) for members in naive.values())
