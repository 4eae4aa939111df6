"""Runs the real judge over a corpus in input order, and counts what its verdicts would hide from a reader."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simstream.evaluate.corpus import Corpus
from simstream.evaluate.fingerprints import CorpusPrints, columns
from simstream.judge.policy import Policy
from simstream.judge.resolver import Resolver
from simstream.judge.state import make_index
from simstream.model import COMPARED_VERDICTS, PageSource, Verdict

_BATCH_PAGES: Final = 512


class CorpusVerdicts(NamedTuple):
    """The judge's verdicts about n pages."""

    page: NDArray[np.int64]  # places of the pages that are near duplicates
    named: NDArray[np.int64]  # the page that each of them names
    cluster: NDArray[np.int64]  # (n,) cluster of each page at the end, -1 without a cluster


def judge(corpus: Corpus, prints: CorpusPrints, policy: Policy) -> CorpusVerdicts:
    """Judge a corpus as `dedup` does. About 30 us a page, and the cost of its matches."""
    latest: dict[str, int] = {}
    page, named = [], []
    cluster = np.full(len(corpus.pages), -1, np.int64)
    parent: dict[int, int] = {}
    for number, verdict in enumerate(_verdicts(corpus, prints, policy)):
        if verdict.near_duplicate_of is not None:
            page.append(number)
            named.append(latest[verdict.near_duplicate_of])
        if verdict.verdict in COMPARED_VERDICTS and verdict.cluster_id is not None:
            latest[verdict.id] = number
            cluster[number] = int(verdict.cluster_id)
            parent.update((int(merged), int(verdict.cluster_id)) for merged in verdict.merged_clusters)
    for merged in sorted(parent):  # an older cluster takes in a younger one, so its own end is known already
        parent[merged] = parent.get(parent[merged], parent[merged])
    for number, first in enumerate(cluster.tolist()):
        cluster[number] = parent.get(first, first)
    return CorpusVerdicts(np.array(page, np.int64), np.array(named, np.int64), cluster)


def _verdicts(corpus: Corpus, prints: CorpusPrints, policy: Policy) -> Iterator[Verdict]:
    resolver = Resolver(policy, make_index(policy))
    for start in range(0, len(corpus.pages), _BATCH_PAGES):
        batch = columns(prints, corpus.pages[start : start + _BATCH_PAGES], start)
        sources = [PageSource(corpus.name, 0, start + i) for i in range(len(batch))]
        yield from resolver.judge(batch, batch.time, start, sources)
