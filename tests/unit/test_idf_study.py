"""What the study of trained tables counts with: halves that share no group, and candidates at equal recall."""

from __future__ import annotations

from math import sqrt
from pathlib import Path

import numpy as np
import pytest

from tests.studies import idf
from tests.studies.context import CorpusPage, StudyContext
from tests.studies.idf import FARTHEST, IdfResult


def found(near: dict[int, int], candidates: dict[int, int], pairs: int = 100, others: int = 1_000_000) -> IdfResult:
    """Counts by distance; all pairs that are alike are in the first bin."""
    columns = [np.array([rows.get(k, 0) for k in range(FARTHEST + 1)], np.int64) for rows in (near, candidates)]
    bins = np.array([pairs, 0, 0, 0, 0, 0, 0], np.int64)
    return IdfResult(np.zeros_like(bins), bins, columns[0], columns[1], 0, others)


def test_the_load_between_two_distances_is_the_geometric_mean_at_half_way() -> None:
    one = found({0: 50, 8: 40, 9: 10}, {8: 4, 9: 12})
    assert one.load(8) == pytest.approx(4)
    assert one.load(9) == pytest.approx(16)
    assert one.load(8.5) == pytest.approx(sqrt(4 * 16))


def test_the_distance_for_a_recall_lies_where_the_recall_reaches_it() -> None:
    one = found({0: 50, 8: 40, 9: 10}, {})
    assert (one.recall(7), one.recall(8), one.recall(9)) == (0.5, 0.9, 1.0)
    assert one.distance_for(0.95) == pytest.approx(8.5)


def test_a_table_with_half_the_candidates_at_the_same_recall_is_better_by_half() -> None:
    own = [found({8: 80, 9: 10}, {8: 2, 9: 3}), found({8: 80, 9: 10}, {8: 4, 9: 6})]
    other = [found({7: 60, 8: 30}, {8: 10}), found({7: 60, 8: 30}, {8: 20})]
    compared = idf._against(own, other, 8)
    assert compared["recall"]["mean"] == pytest.approx(-0.1)
    assert compared["candidates"]["mean"] == pytest.approx(0.2)
    assert compared["candidates_at_equal_recall"]["mean"] == pytest.approx(0.5)


def test_no_group_is_in_both_halves_and_only_pairs_of_the_half_are_looked_at(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    docs = [
        CorpusPage(f"{group}-{version}", f"{group}", "", f"text {group} {version}")
        for group in range(9)
        for version in (1, 2)
    ]
    monkeypatch.setattr(StudyContext, "docs", lambda self, corpus: docs)
    monkeypatch.setattr(idf, "_alike", lambda corpus: [(f"{group}-1", f"{group}-2") for group in range(9)])
    learn, half = idf._split(StudyContext("default", tmp_path), "lctt", 0)
    assert sorted(learn + half.texts) == sorted(doc.text for doc in docs)
    assert {text.split()[1] for text in learn} & {text.split()[1] for text in half.texts} == set()
    assert len(half.pairs) == len(half.texts) // 2
    assert [half.texts[a][:-2] for a, _ in half.pairs] == [half.texts[b][:-2] for _, b in half.pairs]
