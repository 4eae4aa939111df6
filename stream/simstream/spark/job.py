"""Writes pages, matches and clusters of a collection as Parquet: the Spark job."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

from pyspark import RDD, StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # its name everywhere

from simstream.judge.policy import Policy
from simstream.model import VERSION_KINDS, PageKind
from simstream.sources.input_files import files_of
from simstream.spark import fingerprints, pairs
from simstream.spark.fingerprints import FILE_BITS, FingerprintTask
from simstream.spark.forest import TIES, forest
from simstream.spark.pairs import Entry, FingerprintBlocks, Match
from simstream.spark.versions import ENTRIES, newest

PAGES: Final = "pages"
MATCHES: Final = "matches"
CLUSTERS: Final = "clusters"
_ENTRY: Final = ["fingerprint", "sketch", "short"]


class SparkOutcome(NamedTuple):
    """The counts of a run. `troubles`: what was wrong with files."""

    pages: int
    compared: int
    matches: int
    clusters: int
    troubles: list[str]


@dataclass(frozen=True, slots=True)
class SparkComparison:
    """Compares the last versions of all pages of `inputs` with one another, without a window.

    Replaces `pages`, `matches` and `clusters` below `output`. Inputs are files and folders that all workers can
    open by the same paths. Each file is one task.
    """

    spark: SparkSession
    printing: FingerprintTask
    policy: Policy

    def run(self, inputs: Sequence[str], output: str) -> SparkOutcome:
        """Run the job. Raises InputMissing and UsageError before it begins."""
        pages = self._pages(inputs, f"{output}/{PAGES}")
        last = self._last(pages).persist(StorageLevel.DISK_ONLY)
        ties = self._matches(last, f"{output}/{MATCHES}")
        clusters = self._clusters(pages, ties, f"{output}/{CLUSTERS}")
        told = pages.filter(pages.kind == fingerprints.TROUBLE).select("id").collect()
        return SparkOutcome(
            pages.filter(pages.kind != fingerprints.TROUBLE).count(),
            last.count(),
            ties.count(),
            clusters.select("cluster").distinct().count(),
            sorted(row.id for row in told),
        )

    def _pages(self, inputs: Sequence[str], place: str) -> DataFrame:
        files = [(number, file.path) for number, file in enumerate(files_of(inputs))]
        named = self.spark.sparkContext.parallelize(files, len(files))
        made = named.mapPartitions(partial(fingerprints.fingerprinted, how=self.printing))
        return self._kept(self._frame(made, fingerprints.SCHEMA), place)

    def _matches(self, last: DataFrame, place: str) -> DataFrame:
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
        return self._kept(self._frame(near, pairs.MATCHES).unionByName(equal), place)

    def _clusters(self, pages: DataFrame, ties: DataFrame, place: str) -> DataFrame:
        own = ties.select("left", "right").rdd.map(tuple).mapPartitions(forest)
        whole = self._frame(own.coalesce(1).mapPartitions(forest), TIES).persist(StorageLevel.DISK_ONLY)
        roots = whole.select("cluster").distinct().selectExpr("cluster", "cluster as number")
        ids = pages.filter(pages.kind == int(PageKind.READABLE)).select("number", "id")
        names = ids.selectExpr("number as cluster", "id as canonical")
        members = whole.unionByName(roots).join(ids, "number").join(names, "cluster")
        return self._kept(members.select("cluster", "canonical", "number", "id"), place)

    def _last(self, pages: DataFrame) -> DataFrame:
        """Return the compared pages, each once, by the number of the version since which it is unchanged."""
        known = pages.filter(pages.kind.isin([int(kind) for kind in VERSION_KINDS]))
        whose = ["identity"] if self.printing.versions else ["identity", F.shiftright("number", FILE_BITS)]
        versions = F.sort_array(F.collect_list(F.struct("number", "kind", *_ENTRY))).alias("versions")
        rows = known.groupBy(*whose).agg(versions).select("versions").rdd
        return self._frame(rows.flatMap(partial(_newest, policy=self.policy)), ENTRIES)

    def _frame(self, rows: RDD[Any], schema: str) -> DataFrame:
        return self.spark.createDataFrame(rows, schema, verifySchema=False)

    def _kept(self, made: DataFrame, place: str) -> DataFrame:
        made.write.mode("overwrite").parquet(place)
        return self.spark.read.parquet(place)


def _newest(row: tuple[Any], policy: Policy) -> Iterator[Entry]:
    return newest(row[0], policy)


def _search(
    group: tuple[tuple[int, int], Iterable[bytes]], blocks: FingerprintBlocks, policy: Policy
) -> Iterator[Match]:
    (block, _), parts = group
    return pairs.matches(block, parts, blocks, policy)
