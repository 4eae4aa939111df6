"""Prints how many machines hold the index of a number of pages in shards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from simstream.cli.amounts import say_bytes
from simstream.cli.wide_table import console_for, make_table

if TYPE_CHECKING:
    from simstream.tools.plan.shards import FleetReport

COLUMNS: Final = ("shards", "pages held", "a matcher", "all matchers", "index, a page", "pages/s")


def print_fleets(report: FleetReport, memory_bytes: int | None) -> None:
    """Print a table of fleets, which marks the smallest fleet that fits, and what the judge takes beside it."""
    table = make_table("", *COLUMNS, left=("",))
    for row in report.rows:
        chosen = memory_bytes is not None and row is report.chosen
        table.add_row(
            "[green]→[/]" if chosen else "" if row.fits else "✗",
            str(row.shards),
            f"{row.held:.1%}",
            say_bytes(row.shard_bytes),
            say_bytes(row.all_bytes),
            f"{row.index_us:.1f} us",
            f"{row.pages_a_second:,}",
            style=None if row.fits else "dim",
        )
    console = console_for(table)
    cut = f"{report.lookups} lookups of {report.tables} tables a page"
    console.print(f"[bold]{report.pages:,} pages on matchers, distance {report.distance}, {cut}[/]")
    console.print(table)
    if report.judges > 1:
        console.print(f"for one of {report.judges} prefixes: one judge numbers at most 2.1 billion live pages")
    console.print(
        f"the judge beside them: {say_bytes(report.judge_bytes)}, about {report.judge_pages_a_second:,} pages/s; "
        f"the log: {report.log_bytes_a_page} bytes a page, which each matcher reads"
    )
    console.print("assumed: one shard and core a matcher, random fingerprints; similar pages bring more candidates")
