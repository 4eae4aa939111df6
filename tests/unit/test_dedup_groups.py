"""What a run of verdicts comes to, against the pages that the quadratic judge has in the end."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from simstream import Deduper
from simstream.model import PageKind, Record
from simstream.sources import demo
from simstream.tools.dedup.groups import DuplicateGroups
from simstream.wire.page import NO_TIME
from tests.e2e import pages
from tests.e2e.pages import ORCHARD
from tests.naive import NaiveJudge, fingerprinted_pages, match

DEMO = Path(demo.__file__).parent / "demo_pages.jsonl"


def test_without_any_page_there_is_nothing() -> None:
    assert list(DuplicateGroups().groups()) == []


@pytest.mark.parametrize(("seed", "link", "first"), [(1, "any", 0), (2, "canonical", 0), (3, "any", 200)])
def test_they_are_the_live_pages_of_the_quadratic_judge(seed: int, link: Any, first: int, cache: Path) -> None:
    groups = DuplicateGroups()
    with Deduper(cache=cache, workers=0, link=link, distance=12, similarity=0.3) as deduper:
        judge = NaiveJudge(deduper.policy)
        lines = pages.lines(500, seed)
        records = [Record("p", 0, i, f"p:{i}".encode() * (b'"id"' not in line), line, (), NO_TIME)
                   for i, line in enumerate(lines)]  # fmt: skip
        told = [page for batch in deduper.fingerprinted(records, 1) for page in fingerprinted_pages(batch)]
        for page, verdict in zip(told, deduper.stream(records), strict=True):
            judge.judge(page)
            groups.take(verdict, page.kind is PageKind.TOO_SHORT)
    by_cluster = sorted(judge.live, key=lambda page: (page.cluster, page.age))
    expected = [list(members) for _, members in groupby(by_cluster, key=lambda page: page.cluster)]
    large = [m for m in expected if len(m) > 1 and any(page.ordinal >= first for page in m)]
    found = [(group.cluster_id, group.canonical, group.pages) for group in groups.groups(first)]
    assert found == [(str(m[0].cluster), m[0].id, [page.id for page in m]) for m in large] != []


def union_find(count: int, pairs: list[tuple[int, int]]) -> list[int]:
    """The least member of the component of each of `count` numbers."""
    root = list(range(count))

    def find(a: int) -> int:
        return a if root[a] == a else find(root[a])

    for a, b in pairs:
        low, high = sorted((find(a), find(b)))
        root[high] = low
    return [find(a) for a in range(count)]


@pytest.mark.parametrize("first", [0, 150])
@pytest.mark.parametrize("source", ["generated", "real"])
def test_final_clusters_are_the_components_of_all_pairs_that_match(source: str, first: int, cache: Path) -> None:
    lines = DEMO.read_bytes().splitlines() if source == "real" else pages.lines(400, 5)
    records = [Record("p", 0, i, b"%d" % i, line, (), NO_TIME) for i, line in enumerate(lines)]
    groups = DuplicateGroups()
    with Deduper(cache=cache, workers=0, distance=12, similarity=0.3) as deduper:
        told = [page for batch in deduper.fingerprinted(records, 1) for page in fingerprinted_pages(batch)]
        readable = [i for i, page in enumerate(told) if page.kind is PageKind.READABLE]
        alike = [(a, b) for a in readable for b in readable
                 if a < b and match(told[a], told[b], deduper.policy)]  # fmt: skip
        for verdict in deduper.stream(records):
            groups.take(verdict, told[verdict.ordinal].kind is PageKind.TOO_SHORT)
    root = union_find(len(told), alike)
    size = Counter(root[i] for i in readable)
    assert max(size.values()) > 2
    expected = [(str(root[i]), size[root[i]], told[root[i]].id) if i in set(readable) else None
                for i in range(len(told))]  # fmt: skip
    assert list(groups.finals(first)) == expected[first:]


def test_a_row_of_an_earlier_version_has_the_cluster_of_its_page_at_the_end(cache: Path) -> None:
    story = "The night train stops at the mill village again after forty years, and the baker opens before dawn."
    told = [("a", story), ("b", ORCHARD), ("a", ORCHARD), ("c", story), ("c", "gone now"), ("d", story)]
    groups = DuplicateGroups()
    with Deduper(cache=cache, workers=0) as deduper:
        for verdict in deduper.judge([{"id": name, "text": text} for name, text in told]):
            groups.take(verdict, verdict.verdict == "too_short")
    assert [final and tuple(final) for final in groups.finals()] == [
        ("1", 2, "b"),
        ("1", 2, "b"),
        ("1", 2, "b"),
        None,
        None,
        ("5", 1, "d"),
    ]
    assert list(DuplicateGroups().finals()) == []
