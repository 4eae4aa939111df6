"""Rows without their near duplicates, by duckdb or by Hugging Face's datasets (`pip install duckdb datasets`).

    python examples/other_tables.py duckdb pages.parquet unique.parquet
    python examples/other_tables.py datasets pages.parquet unique.parquet

Both need `pip install 'simstream[parquet]'`, and a column `text`. Rows that are too short to compare are left out,
too. A dataset is read in batches, and may be larger than memory.
"""

from __future__ import annotations

import sys

from simstream import Deduper


def with_duckdb(source: str, target: str) -> None:
    """Join the rows with their verdicts, place by place, and write the new ones."""
    import duckdb

    database = duckdb.connect()
    pages = database.read_parquet(source).to_arrow_table()
    with Deduper() as deduper:
        verdicts = deduper.judge_table(pages)
    places = verdicts.select(["verdict"]).rename_columns(["simstream_verdict"])
    joined = database.sql("from pages positional join places where simstream_verdict = 'new'")
    joined.select("* exclude (simstream_verdict)").write_parquet(target)
    print(f"{len(joined)} of {pages.num_rows} rows are new: {target}; {places.num_rows} verdicts")


def with_datasets(source: str, target: str) -> None:
    """Judge the dataset batch by batch, and write the new rows."""
    import datasets

    pages = datasets.load_dataset("parquet", data_files=source, split="train")
    kinds: list[str] = []
    with Deduper() as deduper:
        for batch in pages.with_format("arrow").iter(10_000):
            kinds += deduper.judge_table(batch)["verdict"].to_pylist()
    unique = pages.select([place for place, kind in enumerate(kinds) if kind == "new"])
    unique.to_parquet(target)
    print(f"{len(unique)} of {len(pages)} rows are new: {target}; {len(kinds)} verdicts")


WAYS = {"duckdb": with_duckdb, "datasets": with_datasets}

if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[1] not in WAYS:
        sys.exit(__doc__)
    WAYS[sys.argv[1]](*sys.argv[2:])
