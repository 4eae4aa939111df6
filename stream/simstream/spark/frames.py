"""Finds the near duplicates among the rows of a Spark DataFrame: `near_duplicates`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from pyspark import StorageLevel, TaskContext
from pyspark.errors import PySparkTypeError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # its name everywhere

from simstream.deduper.deduper import MAX_RECORD_BYTES
from simstream.deduper.fingerprinting import recipe_of
from simstream.deduper.tables import batch_records
from simstream.errors import UsageError
from simstream.judge.policy import make_policy
from simstream.model import VERDICT_OF_KIND, VerdictKind
from simstream.settings import default_cache
from simstream.sources.arrow import load_pyarrow
from simstream.sources.batches import record_batches
from simstream.sources.fields import FieldNames, page_columns
from simstream.sources.parquet import page_values
from simstream.spark.comparison import FoundClusters, PageComparison, frames_on_disk
from simstream.spark.fingerprints import FILE_BITS, SCHEMA, FingerprintTask, page_rows
from simstream.text.extraction.pool import MEMORY_BYTES, TIMEOUT_S
from simstream.text.fingerprinter import Fingerprinter
from simstream.text.recipe import Recipe
from simstream.wire.page import decode

_TIMED: Final = f"time long, {SCHEMA}"
_THE_FRAME: Final = "the DataFrame"


def near_duplicates(
    pages: DataFrame,
    *,
    recipe: str | Path | Recipe = "default",
    distance: int | None = None,
    similarity: str | float | None = None,
    text_field: str | None = None,
    id_field: str | None = None,
    cache: Path | None = None,
) -> DataFrame:
    """Return which rows of a DataFrame of pages are near duplicates of which: one row for each id.

    Compares all pages with one another, without a window, with the fingerprints, sketches and limits of `Deduper`.
    Clusters tie all matches, as with `link="any"`. Rows of one id are versions of one page, in the order of their
    `time`; the last one counts. Returns once all is computed: what happens to the pages later changes nothing.

    The result lies on the executors' disks, about 100 bytes a page, as long as the program holds it or a DataFrame
    made of it; `unpersist` does not free it. If an executor is lost with a part, reading the result fails: nothing
    is computed again from pages that may be others. Write the result to files to keep it.

    Cost: fingerprinting as in `dedup`, one process a core; then about 0.1 ms a page (docs/how-to/spark.md). What is
    made on the way lies on the executors' disks, some 100 bytes a page, until the call ends.

    Args:
        pages: Rows with the fields of a page: `id` or `url`, `text` or `html`, and `time` (a timestamp, or ms since
            1970) and `status` if there are any. Other columns are not read. A binary `html` or `text` is raw bytes.
        recipe: A preset's name, a recipe file on this machine, or a Recipe.
        distance: The greatest Hamming distance of a match, in bits from 0 to 16; by default the recipe's.
        similarity: The least similarity of a match, from 0 to 1; by default the recipe's.
        text_field: The column of the text, or a field of a struct such as `body.content`, if it is not `text` or
            `html`.
        id_field: The column of the id, or a field of a struct, if it is not `id` or `url`.
        cache: The folder of each executor for tables that are built once; by default that of the setting `cache`.

    Returns:
        A DataFrame, sorted by nothing:

        - `id`: string, each id once. Rows without id and url are called `python/0/NUMBER`.
        - `verdict`: `new` for the oldest page of each cluster (by time, then by id), `near_duplicate` for the
          others; `too_short`, `unreadable` and `withdrawn` as in verdicts.
        - `canonical`: the id of its cluster's oldest page, its own if it is alone; null if it was not compared.
        - `cluster_size`: long, how many pages the cluster has; null if the page was not compared.

    Raises:
        UsageError: No column has the text or the id, two columns have one name, a column has a type that cannot be
            read, or rows have one id and no column `time` says which is later.
        SettingsError: A recipe, distance or similarity is out of its range.
        InputMissing: The recipe's file, or one that it names, cannot be read.
        Unavailable: pyarrow is missing.
        PySparkException: A Spark job failed, as when an executor has no simstream.

    Examples:
        found = near_duplicates(spark.read.parquet("crawl.parquet"), id_field="address", text_field="body")
        unique = crawl.join(found.filter("verdict = 'new'"), crawl.address == found.id, "left_semi")  # all versions
    """
    fields = FieldNames(text_field, id_field)
    fields.check(pages.columns, _THE_FRAME, "it", in_python=True)
    wanted = page_columns(pages.columns, _THE_FRAME, fields)
    if id_field is None and not {"id", "url"} & set(wanted):
        raise UsageError(f"{_THE_FRAME} has no column id or url", "name the column of the id with id_field")
    _refuse_twins(pages, wanted)
    read = pages.select(*map(_quoted, wanted))
    _check_types(read, fields)
    _use_this_python(pages.sparkSession)
    folder = cache or default_cache()
    with Fingerprinter(recipe_of(recipe), folder, workers=0) as made:
        named = None if similarity is None else str(similarity)
        policy = make_policy(made.recipe, made.recipe_id, distance=distance, similarity=named)
        printing = FingerprintTask(
            made.recipe, policy.short_words, str(folder), MAX_RECORD_BYTES, TIMEOUT_S, MEMORY_BYTES, fields, True
        )
    rows = partial(_fingerprinted, how=printing, call=uuid4().hex)
    with frames_on_disk() as store:
        printed = store(read.mapInArrow(rows, _TIMED))
        if "time" not in wanted:
            _refuse_versions(printed)
        numbered = store(_numbered(printed))
        found = PageComparison(
            pages.sparkSession, policy, printing.versions, store, keep=lambda made, _: store(made)
        ).run(numbered)
        return _verdicts(numbered, found).localCheckpoint(storageLevel=StorageLevel.DISK_ONLY)


def _refuse_twins(pages: DataFrame, wanted: Sequence[str]) -> None:
    """Raise UsageError for a wanted column that Spark does not tell from another one, as `id` beside `ID`."""
    if str(pages.sparkSession.conf.get("spark.sql.caseSensitive")).lower() == "true":
        return
    for name in wanted:
        twins = [other for other in pages.columns if other.lower() == name.lower()]
        if len(twins) > 1:
            raise UsageError(f"Spark does not tell the columns {' and '.join(twins)} apart", "rename one of them")


def _check_types(read: DataFrame, fields: FieldNames) -> None:
    """Raise UsageError for a column of a type that no executor can read, and Unavailable without pyarrow."""
    arrow = load_pyarrow(f"reading {_THE_FRAME}")
    try:
        no_rows = read.limit(0).toArrow()
    except PySparkTypeError as error:
        raise UsageError(
            f"{_THE_FRAME} cannot be read as Arrow ({str(error)[:200]})",
            "leave the column out, or convert it to text or whole numbers",
        ) from error
    list(page_values(arrow, no_rows, MAX_RECORD_BYTES, fields))


def _use_this_python(session: SparkSession) -> None:
    """Let tasks on this machine run in this program's Python, for the whole session: by default Spark takes the
    `python3` of PATH."""
    context = getattr(session, "sparkContext", None)  # Spark Connect has none
    if context is not None and context.master.startswith("local") and "PYSPARK_PYTHON" not in os.environ:
        context.pythonExec = sys.executable


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _fingerprinted(batches: Iterable[Any], how: FingerprintTask, call: str) -> Iterator[Any]:
    """Yield a RecordBatch of _TIMED for each RecordBatch of pages. Runs on the executors.

    `call` makes the plan of each call another one. Spark takes rows that it keeps for any equal plan, and plans
    over one folder are equal whatever files it has.
    """
    arrow, task = load_pyarrow(f"reading {_THE_FRAME}"), TaskContext.get()
    number, schema = (task.partitionId() if task else 0) << FILE_BITS, _timed_schema(arrow)
    for batch in batches:
        for records in record_batches(batch_records(arrow, batch, number, how.max_record_bytes, how.fields)):
            made = [decode(record, how.limits) for record in records]
            columns = [[page.time for page in made], *zip(*page_rows(made, number, how), strict=True)]
            yield arrow.RecordBatch.from_arrays([*map(arrow.array, columns, schema.types)], schema=schema)
            number += len(records)


def _timed_schema(arrow: Any) -> Any:
    """Return Arrow's schema of _TIMED."""
    types = {"long": arrow.int64(), "int": arrow.int32(), "boolean": arrow.bool_()}
    types |= {"string": arrow.string(), "binary": arrow.binary()}
    fields = (field.split() for field in _TIMED.split(", "))
    return arrow.schema([(name, types[kind]) for name, kind in fields])


def _refuse_versions(printed: DataFrame) -> None:
    """Raise UsageError if rows have one id: without times, none of them is the later."""
    for row in printed.groupBy("id").count().filter("count > 1").limit(1).collect():
        raise UsageError(
            f"{row[1]} rows have the id {row.id[:200]!r}, and there is no column time",
            "add their `time`, or use dropDuplicates",
        )


def _numbered(printed: DataFrame) -> DataFrame:
    """Return the rows with numbers in the order of time and id, which is the same in every run."""
    ordered = printed.drop("number").sort("time", "id", "fingerprint", "kind", "sketch")
    rows = ordered.drop("time").rdd.zipWithIndex().map(_with_number)
    return printed.sparkSession.createDataFrame(rows, SCHEMA, verifySchema=False)


def _with_number(row: tuple[tuple[Any, ...], int]) -> tuple[Any, ...]:
    return (row[1], *row[0])


def _verdicts(pages: DataFrame, found: FoundClusters) -> DataFrame:
    """Return the result of `near_duplicates`."""
    latest = pages.groupBy("identity").agg(
        F.max_by("id", "number").alias("id"), F.max_by("kind", "number").alias("kind")
    )
    compared = found.last.select("number").join(pages.select("number", "identity"), "number")
    sizes = found.clusters.groupBy("cluster").agg(F.count("*").alias("cluster_size"))
    members = found.clusters.select("number", "cluster", "canonical").join(sizes, "cluster")
    whole = latest.join(compared, "identity", "left").join(members, "number", "left")
    is_first = F.coalesce(F.col("cluster"), F.col("number")) == F.col("number")
    others = F.create_map(
        *[F.lit(x) for kind, verdict in VERDICT_OF_KIND.items() for x in (int(kind), str(verdict))]
    )
    verdict = (
        F.when(F.col("number").isNull(), others[F.col("kind")])
        .when(is_first, F.lit(str(VerdictKind.NEW)))
        .otherwise(F.lit(str(VerdictKind.NEAR_DUPLICATE)))
    )
    is_compared = F.col("number").isNotNull()
    return whole.select(
        "id",
        verdict.alias("verdict"),
        F.when(is_compared, F.coalesce("canonical", "id")).alias("canonical"),
        F.when(is_compared, F.coalesce("cluster_size", F.lit(1))).alias("cluster_size"),
    )
