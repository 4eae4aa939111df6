"""`python -m tests.bench.tables`: what a row costs on its way through `judge_table`, beside lists of dicts."""

from __future__ import annotations

import argparse
from collections import deque

import msgspec
import pyarrow

from simstream import Deduper
from simstream.deduper.pages import page_record
from simstream.deduper.tables import table_records, verdict_table
from simstream.sources.fields import FieldNames
from tests.bench import measure

LIMIT = 1 << 20


def run(count: int, rounds: int) -> float:
    """Return the time of a table to pages and of verdicts to a table, divided by that of lists of dicts."""
    rows = [
        {"id": page["id"], "url": f"http://pages.example/{number}", "text": page["text"], "time": number}
        for number, page in enumerate(measure.generate(count))
    ]
    table = pyarrow.Table.from_pylist(rows)
    with Deduper() as deduper, Deduper() as other:
        verdicts = deduper.judge(rows)
        assert other.judge_table(table).equals(verdict_table(verdicts)), "rows and dicts have different verdicts"
    ways = {
        "rows to pages": lambda: deque(table_records(table, 0, LIMIT, FieldNames()), 0),
        "verdicts to a table": lambda: verdict_table(verdicts),
        "rows to pages, by dicts": lambda: deque(
            (page_record(page, number) for number, page in enumerate(table.to_pylist())), 0
        ),
        "verdicts to a table, by dicts": lambda: pyarrow.Table.from_pylist(msgspec.to_builtins(verdicts)),
    }
    measure.title("tables", f"{count:,} pages; checked: judge and judge_table give the same verdicts")
    seconds = measure.rounds(ways, rounds)
    for name, taken in seconds.items():
        measure.line(f"{name}: {1e6 * taken / count:.1f} us a page")
    there, back, *by_dicts = seconds.values()
    measure.line(f"a row there and back, without judging: {1e6 * (there + back) / count:.1f} us, aim 6")
    ratio = (there + back) / sum(by_dicts)
    measure.against("judge_table's way, to that by lists of dicts", ratio, "below .6")
    return ratio


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.bench.tables", description=__doc__)
    parser.add_argument("--pages", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=9)
    asked = parser.parse_args()
    run(asked.pages, asked.rounds)
