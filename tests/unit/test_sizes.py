"""Sizes: the largest live cluster, and the clusters that are noticed as they grow out of proportion."""

from __future__ import annotations

import numpy as np
import pytest

from simstream.judge.cluster_sizes import GrownCluster, SizeAlert
from simstream.judge.policy import Policy
from simstream.judge.resolver import Resolver
from simstream.judge.state import make_index
from simstream.model import PageSource
from tests.unit.test_candidates import columns

ERROR_PAGE = 0x0F0F
OTHER_ERROR_PAGE = 0x0F0F ^ 0b11111100_0000_0000_0000
BETWEEN = 0x0F0F ^ 0b111_0000_0000_0000_0000
ORDINARY = np.random.default_rng(5).integers(0, 2**64, 5000, dtype=np.uint64).tolist()


class NoticedStream:
    """Pages judged one after another, with what is noticed after each."""

    def __init__(self, alert: SizeAlert, link: str = "any", window_ms: int | None = None) -> None:
        policy = Policy("00000000", 64, 3, 50, window_ms, link)  # type: ignore[arg-type]
        self.resolver = Resolver(policy, make_index(policy), alert)
        self.count = 0
        self.noticed: list[GrownCluster] = []

    def page(self, fingerprint: int, name: str | None = None, time: int = 0, read: bool = True) -> None:
        batch = columns([(name or f"p{self.count}", fingerprint, 0, 300)], time)
        self.resolver.judge(batch, batch.time, self.count, [PageSource("pages", 0, self.count)])
        self.count += 1
        if read:
            self.noticed += self.resolver.outgrown()


@pytest.mark.parametrize("link", ["any", "canonical"])
def test_a_spike_of_identical_pages_is_noticed_once_and_at_each_doubling(link: str) -> None:
    stream = NoticedStream(SizeAlert(10, 0.01), link)
    for number in range(100):
        stream.page(ORDINARY[number])
        stream.page(ERROR_PAGE)
    assert stream.noticed == [GrownCluster(1, size, "p1") for size in (10, 20, 40, 80)]
    assert stream.resolver.largest_cluster == 100


def test_ordinary_pages_are_not_noticed() -> None:
    stream = NoticedStream(SizeAlert(10, 0.01))
    for number in range(500):
        stream.page(ORDINARY[number // 4])
    assert stream.noticed == []
    assert stream.resolver.largest_cluster == 4


def test_a_large_cluster_is_noticed_once_its_share_is_large() -> None:
    stream = NoticedStream(SizeAlert(10, 0.5))
    for number in range(40):
        stream.page(ORDINARY[number])
    for _ in range(39):
        stream.page(ERROR_PAGE)
    assert stream.noticed == []
    stream.page(ERROR_PAGE)
    assert stream.noticed == [GrownCluster(40, 40, "p40")]


def test_a_page_that_is_fetched_again_and_again_makes_no_cluster_grow() -> None:
    stream = NoticedStream(SizeAlert(2, 0))
    for _ in range(50):
        stream.page(ERROR_PAGE, "same")
    assert stream.noticed == []
    assert stream.resolver.largest_cluster == 1


def test_clusters_that_are_tied_together_count_as_one_and_are_not_told_twice() -> None:
    stream = NoticedStream(SizeAlert(10, 0))
    for _ in range(5):
        stream.page(ERROR_PAGE)
    for _ in range(12):
        stream.page(OTHER_ERROR_PAGE)
    assert stream.noticed == [GrownCluster(5, 10, "p5")]
    stream.page(BETWEEN)
    assert stream.resolver.largest_cluster == 18
    for _ in range(2):
        stream.page(BETWEEN)
    assert stream.noticed[1:] == [GrownCluster(0, 20, "p0")]


def test_a_cluster_that_merges_while_it_is_noticed_is_logged_under_its_new_id() -> None:
    stream = NoticedStream(SizeAlert(10, 0))
    stream.page(ERROR_PAGE)
    for _ in range(10):
        stream.page(OTHER_ERROR_PAGE, read=False)
    stream.page(BETWEEN)
    assert stream.noticed == [GrownCluster(0, 12, "p0")]


def test_a_cluster_that_the_window_shrank_is_noticed_again_and_a_gone_one_is_not() -> None:
    stream = NoticedStream(SizeAlert(10, 0), window_ms=100)
    for _ in range(12):
        stream.page(ERROR_PAGE, time=0)
    stream.page(ORDINARY[0], time=200)
    assert stream.resolver.largest_cluster == 1
    for _ in range(10):
        stream.page(ERROR_PAGE, time=200, read=False)
    stream.page(ORDINARY[1], time=400)
    assert stream.noticed == [GrownCluster(0, 10, "p0")]
    for _ in range(10):
        stream.page(ERROR_PAGE, time=400)
    assert [grown.pages for grown in stream.noticed] == [10, 10]


def test_pages_that_leave_make_the_largest_smaller() -> None:
    stream = NoticedStream(SizeAlert(10, 0))
    for number in range(3):
        stream.page(ERROR_PAGE, f"error{number}")
    stream.page(ORDINARY[0], "alone")
    for left, number in ((2, 0), (1, 1), (1, 2)):
        stream.page(ORDINARY[1 + number], f"error{number}")
        assert stream.resolver.largest_cluster == left
