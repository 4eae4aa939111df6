"""Finds matches and clusters among the fingerprints of pages: the steps of every Spark job."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, Final, NamedTuple

import numpy as np
from pyspark import RDD, StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # its name everywhere

from simstream.judge.candidates import measure_closeness
from simstream.judge.policy import Policy
from simstream.model import FINGERPRINT_MASK, VERSION_KINDS, PageKind
from simstream.spark import pairs
from simstream.spark.fingerprints import FILE_BITS
from simstream.spark.pairs import Entry, FingerprintBlocks, Match
from simstream.tools.find.clusters import UnionFind
from simstream.tools.find.pairs import FingerprintPairs

MATCHES: Final = "matches"
CLUSTERS: Final = "clusters"
ENTRIES: Final = "number long, fingerprint long, sketch binary, short boolean"
TIES: Final = "cluster long, number long"
_ENTRY: Final = ["fingerprint", "sketch", "short"]
Version = tuple[int, int, int, bytes, bool]
"""Number, kind, fingerprint, sketch, and whether it is short."""
Tie = tuple[int, int]
"""Two pages of one cluster, the older first."""


@contextmanager
def frames_on_disk() -> Iterator[Callable[[DataFrame], DataFrame]]:
    """Yield a function that keeps a DataFrame on the executors' disks, once it is computed, until the block ends.

    If an executor is lost with a part, Spark computes the part again.
    """
    with ExitStack() as kept:

        def store(made: DataFrame) -> DataFrame:
            kept.callback(made.unpersist)
            return made.persist(StorageLevel.DISK_ONLY)

        yield store


class FoundClusters(NamedTuple):
    """What a comparison found. `last`: the compared pages, by the number since which each is unchanged."""

    last: DataFrame
    matches: DataFrame
    clusters: DataFrame


@dataclass(frozen=True, slots=True)
class PageComparison:
    """Compares the last versions of all pages of a DataFrame of `fingerprints.SCHEMA` with one another.

    `store` and `keep` get a made DataFrame, and return it so that it is not made again. `keep` gets what was found,
    with its name. `versions`: see FingerprintTask.
    """

    spark: SparkSession
    policy: Policy
    versions: bool
    store: Callable[[DataFrame], DataFrame]
    keep: Callable[[DataFrame, str], DataFrame]

    def run(self, pages: DataFrame) -> FoundClusters:
        last = self.store(self._last(pages))
        matches = self._matches(last)
        return FoundClusters(last, matches, self._clusters(pages, matches))

    def _last(self, pages: DataFrame) -> DataFrame:
        known = pages.filter(pages.kind.isin([int(kind) for kind in VERSION_KINDS]))
        whose = ["identity"] if self.versions else ["identity", F.shiftright("number", FILE_BITS)]
        versions = F.sort_array(F.collect_list(F.struct("number", "kind", *_ENTRY))).alias("versions")
        rows = known.groupBy(*whose).agg(versions).select("versions").rdd
        return self._frame(rows.flatMap(partial(_newest, policy=self.policy)), ENTRIES)

    def _matches(self, last: DataFrame) -> DataFrame:
        entries = last.groupBy(*_ENTRY).agg(F.min("number").alias("number"))
        copies = last.alias("page").join(entries.alias("entry"), _ENTRY).filter("page.number > entry.number")
        equal = copies.selectExpr(
            "entry.number as left",
            "page.number as right",
            "0 as distance",
            f"{self.policy.sketch_bits} as agreement",
        )
        blocks, policy = FingerprintBlocks.of(self.policy.distance, self.policy.lookups), self.policy
        rows = entries.select("number", *_ENTRY).rdd.map(tuple)
        groups = rows.mapPartitions(partial(pairs.blocked, blocks=blocks, policy=policy)).groupByKey()
        near = groups.flatMap(partial(_search, blocks=blocks, policy=policy))
        return self.keep(self._frame(near, pairs.MATCHES).unionByName(equal), MATCHES)

    def _clusters(self, pages: DataFrame, matches: DataFrame) -> DataFrame:
        own = matches.select("left", "right").rdd.map(tuple).mapPartitions(forest)
        whole = self.store(self._frame(own.coalesce(1).mapPartitions(forest), TIES))
        roots = whole.select("cluster").distinct().selectExpr("cluster", "cluster as number")
        ids = pages.filter(pages.kind == int(PageKind.READABLE)).select("number", "id")
        names = ids.selectExpr("number as cluster", "id as canonical")
        members = whole.unionByName(roots).join(ids, "number").join(names, "cluster")
        return self.keep(members.select("cluster", "canonical", "number", "id"), CLUSTERS)

    def _frame(self, rows: RDD[Any], schema: str) -> DataFrame:
        return self.spark.createDataFrame(rows, schema, verifySchema=False)


def _newest(row: tuple[Any], policy: Policy) -> Iterator[Entry]:
    return newest(row[0], policy)


def newest(versions: Sequence[Version], policy: Policy) -> Iterator[Entry]:
    """Yield the last version, or nothing if it has nothing to compare. `versions` are of VERSION_KINDS, by number.

    Its number is that of the first version since which the page is unchanged.
    """
    last = versions[-1]
    if last[1] != PageKind.READABLE:
        return
    since = last
    for earlier in reversed(versions[:-1]):
        if earlier[1] != PageKind.READABLE or not _match(earlier, since, policy):
            break
        since = earlier
    yield since[0], last[2], last[3], last[4]


def _match(one: Version, other: Version, policy: Policy) -> bool:
    sketches = (int.from_bytes(version[3], "little") for version in (one, other))
    distance, agreement = measure_closeness((one[2] ^ other[2]) & FINGERPRINT_MASK, operator.xor(*sketches), policy)
    if policy.short_words and (one[4] or other[4]):
        return distance <= policy.short_distance and agreement >= policy.short_agreement
    return distance <= policy.distance and agreement >= policy.agreement


def _search(
    group: tuple[tuple[int, int], Iterable[bytes]], blocks: FingerprintBlocks, policy: Policy
) -> Iterator[Match]:
    (block, _), parts = group
    return pairs.matches(block, parts, blocks, policy)


def forest(ties: Iterable[Tie]) -> Iterator[Tie]:
    """Reduce ties to the fewest that tie the same pages: the least page of each tree to each other page.

    Memory: about 60 bytes a tie. The last step has at most one tie for each page in a cluster.
    """
    flat = np.fromiter(chain.from_iterable(ties), np.int64).reshape(-1, 2)
    numbers, places = np.unique(flat, return_inverse=True)
    places = places.reshape(flat.shape)
    trees = UnionFind(len(numbers))
    trees.tie(FingerprintPairs(places[:, 0], places[:, 1]))
    roots = trees.roots()
    below = np.flatnonzero(roots != np.arange(len(roots)))
    return zip(numbers[roots[below]].tolist(), numbers[below].tolist(), strict=True)
