"""Finds matches and clusters among the fingerprints of pages: the steps of every Spark job."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

from pyspark import RDD, StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # its name everywhere

from simstream.judge.policy import Policy
from simstream.model import VERSION_KINDS, PageKind
from simstream.spark import pairs
from simstream.spark.fingerprints import FILE_BITS
from simstream.spark.forest import TIES, forest
from simstream.spark.pairs import Entry, FingerprintBlocks, Match
from simstream.spark.versions import ENTRIES, newest

MATCHES: Final = "matches"
CLUSTERS: Final = "clusters"
_ENTRY: Final = ["fingerprint", "sketch", "short"]


class FoundClusters(NamedTuple):
    """What a comparison found. `last`: the compared pages, by the number since which each is unchanged."""

    last: DataFrame
    matches: DataFrame
    clusters: DataFrame


@dataclass(frozen=True, slots=True)
class PageComparison:
    """Compares the last versions of all pages of a DataFrame of `fingerprints.SCHEMA` with one another.

    `keep` gets a made DataFrame and its name, and returns it so that it is not made again. `versions`: see
    FingerprintTask.
    """

    spark: SparkSession
    policy: Policy
    versions: bool
    keep: Callable[[DataFrame, str], DataFrame]

    def run(self, pages: DataFrame) -> FoundClusters:
        last = self._last(pages).persist(StorageLevel.DISK_ONLY)
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
        whole = self._frame(own.coalesce(1).mapPartitions(forest), TIES).persist(StorageLevel.DISK_ONLY)
        roots = whole.select("cluster").distinct().selectExpr("cluster", "cluster as number")
        ids = pages.filter(pages.kind == int(PageKind.READABLE)).select("number", "id")
        names = ids.selectExpr("number as cluster", "id as canonical")
        members = whole.unionByName(roots).join(ids, "number").join(names, "cluster")
        return self.keep(members.select("cluster", "canonical", "number", "id"), CLUSTERS)

    def _frame(self, rows: RDD[Any], schema: str) -> DataFrame:
        return self.spark.createDataFrame(rows, schema, verifySchema=False)


def _newest(row: tuple[Any], policy: Policy) -> Iterator[Entry]:
    return newest(row[0], policy)


def _search(
    group: tuple[tuple[int, int], Iterable[bytes]], blocks: FingerprintBlocks, policy: Policy
) -> Iterator[Match]:
    (block, _), parts = group
    return pairs.matches(block, parts, blocks, policy)
