"""Run by test_spark: `simstream.spark.near_duplicates` over a DataFrame, what it refuses, and the example.

python tests/e2e/spark_frames.py PAGES.jsonl RESULT.parquet 'CODE OF THE DOCUMENT' EXAMPLE UNIQUE.parquet
"""

from __future__ import annotations

import gc
import runpy
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # its name everywhere

from simstream.errors import UsageError
from simstream.spark import frames, near_duplicates

SCHEMA = "id string, address string, body string, html string, time long, status int, `odd.one` string"


def refusal(pages: DataFrame, **names: str) -> str:
    try:
        near_duplicates(pages, **names)  # type: ignore[arg-type]  # names only
    except UsageError as error:
        return str(error)
    return "none"


def kept_frames(spark: SparkSession, expected: int) -> int:
    """Return how many data sets Spark keeps, once it had the time to free those that the program has let go."""
    context: Any = spark.sparkContext
    for _ in range(100):
        gc.collect()
        context._jvm.System.gc()
        if (kept := context._jsc.getPersistentRDDs().size()) == expected:
            break
        time.sleep(0.1)
    return kept


class DailyCrawl:
    """A folder that another program than Spark adds files to. A result tells its number of rows as well."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._days = 0
        Path("daily").mkdir()

    def add_file(self) -> None:
        """Add a file with one page, whose words no other day has."""
        self._days += 1
        text = " ".join(f"day{self._days}word{word}" for word in range(12))
        pq.write_table(pa.table({"id": [str(self._days)], "text": [text]}), f"daily/{self._days}.parquet")

    def find(self) -> DataFrame:
        return near_duplicates(self._spark.read.parquet("daily"))

    def find_in_midst(self) -> tuple[int, int]:
        """Return the rows of a call, and of one that begins after a file was added in the midst of the first."""
        within = list[DataFrame]()
        refuse = frames._refuse_versions

        def refuse_later(printed: DataFrame) -> None:
            refuse(printed)  # fingerprints the pages
            frames._refuse_versions = refuse
            self.add_file()
            within.append(self.find())

        frames._refuse_versions = refuse_later
        return self.find().count(), within[0].count()


def main(source: str, target: str, document: str, example: str, unique: str) -> None:
    spark = SparkSession.builder.getOrCreate()
    pages = spark.read.schema(SCHEMA).json(source).repartition(3)
    texts = pages.withColumnRenamed("body", "text")
    timed = texts.withColumn("time", texts.time.cast("double").cast("timestamp"))  # seconds, as Spark has them
    near_duplicates(timed).write.parquet(target)
    print("no id:", refusal(pages.drop("id"), text_field="body"))
    print("no text:", refusal(pages.drop("html")))
    print("two names:", refusal(texts.withColumnRenamed("address", "ID")))
    print("a day:", refusal(texts.withColumn("time", F.expr("interval 1 day"))))
    print("a month:", refusal(texts.withColumn("time", F.expr("interval 1 month"))))
    print("no time:", refusal(texts.drop("time").union(texts.drop("time"))))
    pages.drop("id").limit(40).dropDuplicates(["address"]).drop("time").write.parquet("crawl.parquet")
    daily = DailyCrawl(spark)
    daily.add_file()
    print("rows of two calls at once:", *daily.find_in_midst())
    daily.add_file()
    found = daily.find()
    shutil.rmtree("daily")
    print("rows of a later call:", found.count())
    print("kept besides its result:", kept_frames(spark, 1) - 1)
    space: dict[str, Any] = {"spark": spark}
    exec(document, space)
    print("by other names:", space["found"].count() == space["pages"].count() > space["unique"].count() > 0)
    sys.argv = [example, source, unique]
    runpy.run_path(example, run_name="__main__")


if __name__ == "__main__":
    main(*sys.argv[1:])
