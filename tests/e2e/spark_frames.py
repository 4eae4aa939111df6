"""Run by test_spark: `simstream.spark.near_duplicates` over a DataFrame, what it refuses, and the example.

python tests/e2e/spark_frames.py PAGES.jsonl RESULT.parquet 'CODE OF THE DOCUMENT' EXAMPLE UNIQUE.parquet
"""

from __future__ import annotations

import runpy
import sys
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from simstream.errors import UsageError
from simstream.spark import near_duplicates

SCHEMA = "id string, address string, body string, html string, time long, status int, `odd.one` string"


def refusal(pages: DataFrame, **names: str) -> str:
    try:
        near_duplicates(pages, **names)  # type: ignore[arg-type]  # names only
    except UsageError as error:
        return str(error)
    return "none"


def main(source: str, target: str, document: str, example: str, unique: str) -> None:
    spark = SparkSession.builder.getOrCreate()
    pages = spark.read.schema(SCHEMA).json(source).repartition(3)
    texts = pages.withColumnRenamed("body", "text")
    timed = texts.withColumn("time", texts.time.cast("double").cast("timestamp"))  # seconds, as Spark has them
    near_duplicates(timed).write.parquet(target)
    print("no id:", refusal(pages.drop("id"), text_field="body"))
    print("no text:", refusal(pages.drop("html")))
    print("no time:", refusal(texts.drop("time").union(texts.drop("time"))))
    pages.drop("id").limit(40).dropDuplicates(["address"]).drop("time").write.parquet("crawl.parquet")
    space: dict[str, Any] = {"spark": spark}
    exec(document, space)
    print("by other names:", space["found"].count() == space["pages"].count() > space["unique"].count() > 0)
    sys.argv = [example, source, unique]
    runpy.run_path(example, run_name="__main__")


if __name__ == "__main__":
    main(*sys.argv[1:])
