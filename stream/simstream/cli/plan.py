"""`simstream plan`: show table designs for a size, a distance and a memory, with the expected cost of each."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Final

import click

from simstream.amounts import count, nbytes, say_bytes, say_pages
from simstream.cli.output import print_json
from simstream.cli.progress import say
from simstream.cli.wide_table import console_for, make_table

if TYPE_CHECKING:
    from rich.table import Table

    from simstream.tools.plan.costs import PageLookups, PlanReport, PlanRow
    from simstream.tools.plan.shards import FleetReport

COLUMNS: Final = ("design", "prefix bits", "flips", "probes", "candidates", "tables", "in all", "a query")
FLEET_COLUMNS: Final = (
    "shards",
    "pages held",
    "a matcher",
    "all matchers",
    "index, a page",
    "pages/s",
    "judge, pages/s",
)


@click.command("plan")
@click.option("--pages", metavar="N", required=True, help="Pages that are live at once, such as 250000, 10M or 8G.")
@click.option(
    "--distance", metavar="K", type=int, help="Greatest Hamming distance (default: that of the recipe `default`)."
)
@click.option(
    "--fingerprints",
    metavar="F",
    type=click.IntRange(1, 3),
    help="Number of fingerprints a page (default: that of the recipe `default`).",
)
@click.option(
    "--sketch-lookups",
    metavar="S",
    type=click.IntRange(0, 3),
    help="Number of 64-bit words of the sketch that a page is also looked up by (default: the recipe `default`'s).",
)
@click.option(
    "--memory",
    metavar="SIZE",
    help="Memory of the machine, such as 64GB (a bare number is bytes): mark the designs that do not fit.",
)
@click.option("--matchers", is_flag=True, help="Show how many machines hold the index in shards (with --memory).")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    pages: str,
    distance: int | None,
    fingerprints: int | None,
    sketch_lookups: int | None,
    memory: str | None,
    matchers: bool,
    as_json: bool,
) -> None:
    """Show what tables over N fingerprints cost at distance K: a scan, the designs of the index and of the paper.

    Measures the costs of a scanned value, a table, a probe and a candidate on one core of this machine, for about a
    second. Computes all else from them, for random fingerprints.
    """
    entries = count("--pages", pages)
    memory_bytes = None if memory is None else nbytes("--memory", memory)
    from simstream.errors import UsageError
    from simstream.text.recipe import MAX_LOOKUPS, preset
    from simstream.tools.plan.costs import PageLookups, weigh_here

    recipe = preset("default")
    distance = recipe.distance if distance is None else distance
    more = recipe.sketch_lookups if sketch_lookups is None else sketch_lookups
    each = PageLookups(fingerprints or recipe.fingerprints, more)
    if each.lookups > MAX_LOOKUPS:
        raise UsageError(
            f"{each.fingerprints} fingerprints and {more} words of the sketch are more than {MAX_LOOKUPS} lookups",
            "lower --fingerprints or --sketch-lookups",
        )
    if matchers:
        _plan_matchers(entries, distance, memory_bytes, each, as_json)
        return
    found = weigh_here(entries, distance, memory_bytes, each)
    if as_json:
        print_json(found)
    else:
        _print(found)


def _plan_matchers(pages: int, distance: int, memory_bytes: int | None, each: PageLookups, as_json: bool) -> None:
    """Print what shards on matchers take, for each number of them."""
    from simstream.index.plan import divided_plan
    from simstream.tools.plan.shards import weigh_fleets
    from simstream.tools.plan.speed import measure

    speed = measure(distance, divided_plan(distance).flips)
    found = weigh_fleets(pages, distance, each, memory_bytes, speed)
    if as_json:
        print_json(found)
    else:
        _print_fleets(found, memory_bytes)


def _print_fleets(report: FleetReport, memory_bytes: int | None) -> None:
    """Print a table of fleets, which marks the smallest fleet that fits, and what the judge takes beside it."""
    from simstream.tools.plan.shards import ANSWER_PAGES, ANSWER_US

    table = make_table("", *FLEET_COLUMNS, left=("",))
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
            f"{row.judge_pages_a_second:,}",
            style=None if row.fits else "dim",
        )
    console = console_for(table)
    cut = f"{report.lookups} lookups of {report.tables} tables a page"
    console.print(f"[bold]{say_pages(report.pages)} on matchers, distance {report.distance}, {cut}[/]")
    console.print(table)
    if report.judges > 1:
        console.print(f"for one of {report.judges} prefixes: {_head_room()}")
    console.print(
        f"the judge beside them: {say_bytes(report.judge_bytes)} with the copy for a snapshot; "
        f"the log: {report.log_bytes_a_page} bytes a page, which each matcher reads"
    )
    console.print("measured on one core here: what the index takes for a page")
    console.print("assumed: one shard and core a matcher, random fingerprints; similar pages bring more candidates")
    console.print(
        f"assumed for the judge: {ANSWER_US:.0f} us an answer of a shard, which covers {ANSWER_PAGES} pages"
    )


def _print(report: PlanReport) -> None:
    table = _table(report)
    console = console_for(table)
    parts = f"{report.fingerprints} by fingerprint, {report.sketch_lookups} by the sketch"
    lookups = report.fingerprints + report.sketch_lookups
    each = f", {lookups} lookups a page ({parts})" if lookups > 1 else ""
    console.print(f"[bold]{say_pages(report.pages)}, distance {report.distance}{each}[/]")
    console.print(table)
    console.print(f"[green]→[/] {_served(report)}")
    speed = report.measured
    if not all(row.fits for row in report.designs):
        console.print(f"✗ takes more than {say_bytes(report.memory_bytes or 0)}")
    sizes = (f"{size.probe_ns:.0f} ns a probe of {say_bytes(size.nbytes)} of tables" for size in speed.sizes)
    console.print(f"measured on one core here: {speed.scanned_ns:.2f} ns a value scanned, {', '.join(sizes)}")
    console.print("computed: all else, for random fingerprints; similar pages bring more candidates")
    if speed.sizes[-1].nbytes < max(row.table_bytes for row in report.designs):
        console.print("larger tables are taken to cost as much as the largest measured table; they cost more")
    for sentence in _warnings(report):
        say(sentence)


def _table(report: PlanReport) -> Table:
    table = make_table("", *COLUMNS, left=("", "design", "flips"))
    for row in report.designs:
        style = None if row.fits else "dim"
        mark = "[green]→[/]" if row.serves else "" if row.fits else "✗"
        table.add_row(
            mark,
            row.name,
            _span(row.prefix_bits),
            _runs(row.flips),
            f"{row.probes:,}",
            _number(row.candidates),
            say_bytes(row.table_bytes),
            say_bytes(row.all_bytes),
            _time(row.microseconds),
            style=style,
        )
    return table


def _served(report: PlanReport) -> str:
    row = report.served
    return (
        f"`simstream serve` builds {row.name} for a segment of this size; the tables take "
        f"{say_bytes(row.table_bytes)}, with sketches, rows and identities {say_bytes(row.all_bytes)}"
    )


def _warnings(report: PlanReport) -> list[str]:
    from simstream.tools.plan.costs import MAX_PAGES

    said = []
    if not report.served.fits:
        best: PlanRow = report.fastest
        said.append(
            f"the design that the service builds does not fit into {say_bytes(report.memory_bytes or 0)};"
            f" the fastest design that fits is {best.name}, with {_time(best.microseconds)} a query"
        )
    if report.pages > MAX_PAGES:
        said.append(f"{_head_room()}: divide the pages among {-(-report.pages // MAX_PAGES)} prefixes")
    return said


def _head_room() -> str:
    from simstream.tools.plan.costs import MAX_PAGES

    return f"plan at most {MAX_PAGES:,} live pages for one judge, which has 2.1 billion numbers for them"


def _runs(numbers: tuple[int, ...]) -> str:
    """Return the numbers with equal neighbours as one: 4 x 16."""
    runs = [(value, len(list(same))) for value, same in groupby(numbers)]
    return ", ".join(f"{value}" if times == 1 else f"{times} x {value}" for value, times in runs) or "-"


def _span(bits: tuple[int, ...]) -> str:
    return "-" if not bits else f"{bits[0]}" if min(bits) == max(bits) else f"{min(bits)}-{max(bits)}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def _time(microseconds: float) -> str:
    for unit, name in ((1e6, "s"), (1e3, "ms")):
        if microseconds >= unit:
            return f"{microseconds / unit:,.1f} {name}"
    return f"{microseconds:.1f} us"
