"""A Spark DataFrame without its near duplicates (`pip install 'simstream[spark]'`, and Java 17).

    python examples/spark_frames.py examples/pages.jsonl unique.parquet

On a cluster, `spark-submit examples/spark_frames.py INPUT OUTPUT` does the same.
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

from simstream.spark import near_duplicates


def main(source: str, target: str) -> None:
    spark = SparkSession.builder.appName("unique pages").getOrCreate()
    pages = spark.read.json(source)
    found = near_duplicates(pages, id_field="url")
    unique = pages.join(found.filter("verdict = 'new'"), pages.url == found.id, "left_semi")
    unique.write.mode("overwrite").parquet(target)
    print(f"{unique.count()} of {found.count()} pages kept in {target}")
    spark.stop()


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
