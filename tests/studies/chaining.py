"""How large and how loose clusters get under both link rules, and what recall each has.

The news and the revisions are judged in their order. Looseness: the true J of pairs of one cluster's members, drawn
for each cluster; recall: labelled pairs of versions that end in one cluster.
"""

from __future__ import annotations

import json
import lzma
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations
from random import Random
from typing import Any

import numpy as np

from simstream.judge.policy import Link
from simstream.model import Verdict
from tests import corpora
from tests.studies.context import LCTT, MSDOCS, NEWS, CorpusPage, StudyContext
from tests.studies.measure import BIN_NAMES, StudyTable, StudyTally, bin_of, cell, pair_jaccards, share

LINKS: tuple[Link, ...] = ("any", "canonical")
PAIRS = 30
"""Pairs of members that are looked at in each cluster, at most; all of clusters of up to eight."""
SIZES = ((2, 2), (3, 4), (5, 8), (9, 16), (17, 64), (65, 1 << 30))
SIZE_NAMES = ("2", "3-4", "5-8", "9-16", "17-64", "> 64")


def run(context: StudyContext) -> dict[str, Any]:
    return {corpus: _corpus(context, corpus) for corpus in (NEWS, LCTT, MSDOCS)}


def _corpus(context: StudyContext, corpus: str) -> dict[str, Any]:
    docs = context.docs(corpus)
    texts, places = [doc.text for doc in docs], {doc.id: number for number, doc in enumerate(docs)}
    labelled = [(places[a], places[b]) for a, b in _labelled(corpus) if a in places and b in places]
    alike = pair_jaccards(texts, labelled)
    result: dict[str, Any] = {"pages": len(docs)}
    for link in LINKS:
        cluster = final_clusters(_judged(context, docs, link))
        shape = _shape(texts, cluster, context.random(f"chaining {corpus}"))
        recall = StudyTally()
        for (a, b), similarity in zip(labelled, alike.tolist(), strict=True):
            if cluster[a] is not None and cluster[b] is not None:
                recall.add(bin_of(similarity), cluster[a] == cluster[b])
        result[link] = shape | {"recall_by_jaccard": recall.by_bin()} | _groups(docs, cluster)
    return result


def _judged(context: StudyContext, docs: Sequence[CorpusPage], link: Link) -> list[Verdict]:
    with context.deduper(link) as deduper:
        return deduper.judge({"id": doc.id, "text": doc.text} for doc in docs)


def final_clusters(verdicts: Sequence[Verdict]) -> list[str | None]:
    """The cluster that each page is in after all verdicts, merged ones under the survivor's id."""
    into: dict[str, str] = {}
    for verdict in verdicts:
        for merged in verdict.merged_clusters:
            into[merged] = str(verdict.cluster_id)

    def last(cluster: str) -> str:
        while cluster in into:
            cluster = into[cluster]
        return cluster

    return [None if verdict.cluster_id is None else last(verdict.cluster_id) for verdict in verdicts]


def _labelled(corpus: str) -> Iterator[tuple[str, str]]:
    """Pairs of versions of one page; none for the news, which has no labels."""
    path = (corpora.folder() or corpora.Path()) / corpus / "pairs.jsonl.xz"
    if path.exists():
        with lzma.open(path, "rt", encoding="utf-8") as lines:
            for line in lines:
                pair = json.loads(line)
                yield pair["a"], pair["b"]


def _shape(texts: Sequence[str], cluster: Sequence[str | None], random: Random) -> dict[str, Any]:
    """Sizes of clusters of two and more, and the J of pairs within them."""
    members: dict[str, list[int]] = {}
    for number, name in enumerate(cluster):
        if name is not None:
            members.setdefault(name, []).append(number)
    several = [pages for pages in members.values() if len(pages) > 1]
    pairs, owner = [], []
    for number, pages in enumerate(several):
        drawn = _drawn(pages, random)
        pairs += drawn
        owner += [number] * len(drawn)
    alike, of = pair_jaccards(texts, pairs), np.array(owner, np.int64)
    least = np.ones(len(several))
    np.minimum.at(least, of, alike)
    sizes = sorted((len(pages) for pages in several), reverse=True)
    weight = np.array([len(pages) for pages in several], np.float64)
    return {
        "clusters": len(several),
        "clustered_pages": sum(sizes),
        "largest": sizes[:5],
        "sizes": _sizes(sizes),
        "mean_jaccard_of_pairs": float(alike.mean()) if len(alike) else None,
        "pairs_below": {str(limit): share(int((alike < limit).sum()), len(alike)) for limit in (0.5, 0.3)},
        "clusters_with_a_pair_below": {
            str(limit): share(int((least < limit).sum()), len(several)) for limit in (0.5, 0.3)
        },
        "pages_in_clusters_with_a_pair_below_0.3": share(int(weight[least < 0.3].sum()), int(weight.sum())),
        "least_jaccard_of_the_largest": [round(float(least[i]), 3) for i in np.argsort(-weight, kind="stable")[:5]],
    }


def _drawn(pages: list[int], random: Random) -> list[tuple[int, int]]:
    if len(pages) * (len(pages) - 1) // 2 <= PAIRS:
        return list(combinations(pages, 2))
    return [(a, b) for a, b in (random.sample(pages, 2) for _ in range(PAIRS))]


def _sizes(sizes: Sequence[int]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for size in sizes:
        found[next(name for (low, high), name in zip(SIZES, SIZE_NAMES, strict=True) if low <= size <= high)] += 1
    return {name: found[name] for name in SIZE_NAMES}


def _groups(docs: Sequence[CorpusPage], cluster: Sequence[str | None]) -> dict[str, Any]:
    """Return the share of pages whose cluster also has a page of another group (for the news: of another item)."""
    groups: dict[str, set[str]] = {}
    for doc, name in zip(docs, cluster, strict=True):
        if name is not None:
            groups.setdefault(name, set()).add(doc.group)
    mixed = sum(name is not None and len(groups[name]) > 1 for name in cluster)
    return {"pages_with_pages_of_other_groups": share(mixed, sum(name is not None for name in cluster))}


def tables(result: dict[str, Any]) -> list[StudyTable]:
    columns = ("", *(f"{corpus}: {link}" for corpus in result for link in LINKS))
    found = [result[corpus][link] for corpus in result for link in LINKS]
    lines = [
        ("clusters of two and more", *(f"{one['clusters']:,}" for one in found)),
        ("… their pages", *(f"{one['clustered_pages']:,}" for one in found)),
        ("largest", *(", ".join(map(str, one["largest"])) for one in found)),
        ("… their least J", *(", ".join(map(str, one["least_jaccard_of_the_largest"])) for one in found)),
        *((f"clusters of {name}", *(f"{one['sizes'][name]:,}" for one in found)) for name in SIZE_NAMES),
        ("mean J of a cluster's pairs", *(_mean(one["mean_jaccard_of_pairs"]) for one in found)),
        *((f"pairs with J < {limit} %", *(cell(one["pairs_below"][limit]) for one in found)) for limit in LIMITS),
        *(
            (
                f"clusters with a pair of J < {limit} %",
                *(cell(one["clusters_with_a_pair_below"][limit]) for one in found),
            )
            for limit in LIMITS
        ),
        (
            "pages in clusters with J < 0.3 %",
            *(cell(one["pages_in_clusters_with_a_pair_below_0.3"]) for one in found),
        ),
        ("pages with pages of other groups %", *(cell(one["pages_with_pages_of_other_groups"]) for one in found)),
    ]
    recall = [(f"J {name}", *(cell(one["recall_by_jaccard"][name]) for one in found[2:])) for name in BIN_NAMES]
    return [
        StudyTable("Clusters under both link rules", columns, lines),
        StudyTable("Labelled pairs of versions in one cluster %", ("", *columns[3:]), recall),
    ]


LIMITS = ("0.5", "0.3")


def _mean(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
