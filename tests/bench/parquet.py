"""`python -m tests.bench.parquet`: reading a Parquet file beside reading the same pages as JSONL."""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import deque
from pathlib import Path

import pyarrow
import pyarrow.parquet

from simstream.model import Page
from simstream.sources.read import read_pages
from simstream.wire.page import PageLimits, decode
from tests.bench import measure


def run(count: int, rounds: int, folder: Path) -> float:
    """Return the time of Parquet divided by that of JSONL, for `count` pages with id, URL, time and text."""
    pages = [
        {"id": page["id"], "url": f"http://pages.example/{number}", "text": page["text"], "time": number}
        for number, page in enumerate(measure.generate(count))
    ]
    lines, table = folder / "pages.jsonl", folder / "pages.parquet"
    lines.write_text("\n".join(json.dumps(page, ensure_ascii=False) for page in pages), "utf-8")
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(pages), table)
    assert _pages(table) == _pages(lines), "Parquet and JSONL give different pages"
    measure.title("parquet", f"{count:,} pages; checked: both files give the same pages")
    seconds = measure.rounds({file.name: lambda file=file: _read(file) for file in (lines, table)}, rounds)
    for name, taken in seconds.items():
        measure.line(f"{name}: {1e6 * taken / count:.1f} us a page")
    ratio = seconds[table.name] / seconds[lines.name]
    measure.against("Parquet, to JSONL", ratio, "below 2.5")
    return ratio


def _pages(file: Path) -> list[Page]:
    return [decode(record, PageLimits()) for record in read_pages([str(file)])]


def _read(file: Path) -> None:
    deque(read_pages([str(file)]), 0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.bench.parquet", description=__doc__)
    parser.add_argument("--pages", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=9)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        run(asked.pages, asked.rounds, Path(temporary))
