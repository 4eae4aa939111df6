"""A table in, the table with its verdicts out: Parquet by pyarrow (`pip install 'simstream[parquet]'`).

    python examples/parquet_table.py pages.parquet judged.parquet

`judge_table` takes tables of pandas and polars, too (`to_pandas()` of its answer is a frame again), and those of
duckdb and of Hugging Face's datasets: examples/other_tables.py.
"""

from __future__ import annotations

import sys

import pyarrow as pa
import pyarrow.parquet as pq

from simstream import Deduper

ADDED = ("verdict", "near_duplicate_of", "similarity", "cluster_id")


def judged(table: pa.Table) -> pa.Table:
    """Return the table with columns for the verdicts; it needs a column `text` or `html`."""
    with Deduper() as deduper:
        verdicts = deduper.judge_table(table)
    for name in ADDED:
        table = table.append_column(name, verdicts[name])
    return table


def main(source: str, target: str) -> None:
    table = judged(pq.read_table(source))
    pq.write_table(table, target)
    new = sum(kind == "new" for kind in table["verdict"].to_pylist())
    print(f"{table.num_rows} rows, {new} of them new, in {target}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
