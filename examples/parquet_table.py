"""A table in, the table with its verdicts out: Parquet by pyarrow (`pip install 'simstream[parquet]'`).

    python examples/parquet_table.py pages.parquet judged.parquet

With pandas, `df.to_dict("records")` gives the rows and `df.assign(**columns)` takes the new columns; with polars,
`df.to_dicts()` and `df.with_columns(**columns)`.
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
        verdicts = deduper.judge(table.to_pylist())
    for name in ADDED:
        table = table.append_column(name, pa.array([getattr(verdict, name) for verdict in verdicts]))
    return table


def main(source: str, target: str) -> None:
    table = judged(pq.read_table(source))
    pq.write_table(table, target)
    kept = sum(kind != "near_duplicate" for kind in table["verdict"].to_pylist())
    print(f"{table.num_rows} rows, {kept} of them no near duplicates, in {target}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
