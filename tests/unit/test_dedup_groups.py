"""What a run of verdicts comes to, against the pages that the quadratic judge has in the end."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from simstream import Deduper
from simstream.model import REASONS, PageKind, Record
from simstream.tools.dedup.groups import DuplicateGroups
from simstream.wire.page import NO_TIME
from tests.e2e import pages
from tests.naive import NaiveJudge, NaivePage


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
        told = [page for batch in deduper.fingerprinted(records, 1) for page in naive_pages(batch)]
        for page, verdict in zip(told, deduper.stream(records), strict=True):
            judge.judge(page)
            groups.take(verdict, page.kind is PageKind.TOO_SHORT)
    by_cluster = sorted(judge.live, key=lambda page: (page.cluster, page.age))
    expected = [list(members) for _, members in groupby(by_cluster, key=lambda page: page.cluster)]
    large = [m for m in expected if len(m) > 1 and any(page.ordinal >= first for page in m)]
    found = [(group.cluster_id, group.canonical, group.pages) for group in groups.groups(first)]
    assert found == [(str(m[0].cluster), m[0].id, [page.id for page in m]) for m in large] != []


def naive_pages(batch: Any) -> list[NaivePage]:
    c = batch.columns
    return [
        NaivePage(
            id=page_id,
            url=None,
            identity=c.identity[i].tobytes(),
            kind=PageKind(int(c.kind[i])),
            reason=REASONS[c.reason[i]],
            time=int(c.time[i]),
            fingerprint=int(c.fingerprint[i]),
            sketch=int.from_bytes(c.sketch[i].tobytes(), "little"),
            words=int(c.words[i]),
            source=batch.sources[i],
            text=batch.pages[i].text or "",
        )
        for i, page_id in enumerate(c.id_list())
    ]
