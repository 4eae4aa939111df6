"""Small trees by boosting: what can be learnt is learnt, and the kernel adds up what was learnt."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from simstream.kernels.html import article
from simstream.kernels.html.article import SCORES, TREE_COLUMNS, TREE_DEPTH, TREE_NODES
from simstream.kernels.jit import kernel
from simstream.text.extraction.article import TREES
from tests.studies.boosting import BoostingOptions, learn

add_up = kernel(article.add_up.py_func)
FEATURES = 3
OPTIONS = BoostingOptions(rounds=20, feature_share=1)
NUMBERS = st.integers(-5, 5)


def table(count: int) -> NDArray[np.int16]:
    return np.random.default_rng(7).integers(0, 40, size=(count, FEATURES)).astype(np.int16)


def learnt(features: NDArray[np.int16], truth: NDArray[np.bool_], **changed: Any) -> NDArray[np.int16]:
    return learn(features, truth, np.ones(len(truth)), replace(OPTIONS, **changed))


def scores_of(features: NDArray[np.int16], trees: NDArray[np.int16]) -> list[int]:
    """The kernel's sum for each row."""
    scores = np.empty((SCORES, len(features)), np.int16)
    add_up(np.ascontiguousarray(features.T), trees, scores)
    return list(scores[0].tolist())


def sum_plainly(row: NDArray[np.int16], trees: NDArray[np.int16]) -> int:
    """The sum over trees as a reader of the file would add it up."""
    total = 0
    for tree in trees.tolist():
        node = 0
        while node < TREE_NODES:
            feature, limit = tree[2 * node], tree[2 * node + 1]
            node = 2 * node + 2 if row[feature] > limit else 2 * node + 1
        total += tree[2 * TREE_NODES :][node - TREE_NODES]
    return total


def test_a_rule_of_two_features_is_learnt() -> None:
    features = table(400)
    truth = (features[:, 0] > 19) ^ (features[:, 2] > 9)
    trees = learnt(features, truth, min_rows=5)
    assert trees.shape == (OPTIONS.rounds, TREE_COLUMNS)
    assert trees[:, : 2 * TREE_NODES : 2].max() < FEATURES
    assert [score > 0 for score in scores_of(features, trees)] == truth.tolist()


def test_heavier_rows_decide_where_rows_contradict_one_another() -> None:
    features, truth = np.zeros((100, 1), np.int16), np.arange(100) % 2 == 0
    for heavy in (True, False):
        trees = learn(features, truth, np.where(truth == heavy, 3.0, 1.0), OPTIONS)
        assert (scores_of(features[:1], trees)[0] > 0) == heavy


def test_no_node_parts_fewer_rows_than_allowed() -> None:
    features = np.arange(50, dtype=np.int16).reshape(-1, 1)
    trees = learnt(features, features[:, 0] < 3, min_rows=20)
    limits = trees[:, 1 : 2 * TREE_NODES : 2]
    assert all(20 <= limit + 1 <= 30 for limit in limits[limits < 50])


@pytest.mark.parametrize("seed", [1, 2])
def test_the_same_seed_learns_the_same_trees(seed: int) -> None:
    features = table(200)
    truth = features.sum(axis=1) > 60
    one, two = (learnt(features, truth, seed=each, feature_share=0.4) for each in (seed, 1))
    assert np.array_equal(one, two) == (seed == 1)


@given(st.data())
def test_the_kernel_adds_up_all_trees(data: st.DataObject) -> None:
    row = st.lists(NUMBERS, min_size=FEATURES, max_size=FEATURES)
    features = np.array(data.draw(st.lists(row, max_size=40)), np.int16).reshape(-1, FEATURES)
    nodes = st.lists(st.tuples(st.integers(0, FEATURES - 1), NUMBERS), min_size=TREE_NODES, max_size=TREE_NODES)
    leaves = st.lists(st.integers(-1000, 1000), min_size=1 << TREE_DEPTH, max_size=1 << TREE_DEPTH)
    tree = st.builds(lambda splits, ends: [*(number for split in splits for number in split), *ends], nodes, leaves)
    drawn = data.draw(st.lists(tree, max_size=4))
    trees = np.array(drawn, np.int16).reshape(-1, TREE_COLUMNS)
    assert scores_of(features, trees) == [sum_plainly(row, trees) for row in features]


def test_no_sum_of_the_shipped_trees_is_too_large_for_the_kernel() -> None:
    leaves = TREES[:, 2 * TREE_NODES :].astype(np.int64)
    assert np.abs(leaves).max(axis=1).sum() < 1 << 15
