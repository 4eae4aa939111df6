"""Writes pages, matches and clusters of a collection of files as Parquet: `simstream spark`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession

from simstream.judge.policy import Policy
from simstream.sources.input_files import Inputs, files_of
from simstream.spark import fingerprints
from simstream.spark.comparison import CLUSTERS, MATCHES, PageComparison, frames_on_disk
from simstream.spark.fingerprints import FingerprintTask
from simstream.spark.places import check_inputs

PAGES: Final = "pages"
FOLDERS: Final = (PAGES, MATCHES, CLUSTERS)
"""The folders that a run replaces below its output."""


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

    def run(self, inputs: Inputs, output: str) -> SparkOutcome:
        """Run the job. Raises InputMissing and UsageError before it begins."""
        files = files_of(inputs)
        check_inputs(files, output, FOLDERS)
        keep = partial(self._kept, output)
        pages = keep(self._pages([file.path for file in files]), PAGES)
        with frames_on_disk() as store:
            found = PageComparison(self.spark, self.policy, self.printing.versions, store, keep).run(pages)
            compared = found.last.count()
        told = pages.filter(pages.kind == fingerprints.TROUBLE).select("id").collect()
        return SparkOutcome(
            pages.filter(pages.kind != fingerprints.TROUBLE).count(),
            compared,
            found.matches.count(),
            found.clusters.select("cluster").distinct().count(),
            sorted(row.id for row in told),
        )

    def _pages(self, paths: Sequence[str]) -> DataFrame:
        named = self.spark.sparkContext.parallelize(list(enumerate(paths)), len(paths))
        made = named.mapPartitions(partial(fingerprints.fingerprinted, how=self.printing))
        return self.spark.createDataFrame(made, fingerprints.SCHEMA, verifySchema=False)

    def _kept(self, output: str, made: DataFrame, name: str) -> DataFrame:
        made.write.mode("overwrite").parquet(f"{output}/{name}")
        return self.spark.read.parquet(f"{output}/{name}")
