"""`simstream patterns`: learn from verdicts which parts of addresses make no other page."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from math import ceil
from typing import TYPE_CHECKING, Any

import click

from simstream.amounts import nbytes, say_count, say_pages
from simstream.cli.options import ShareType, log_options, open_log, settings_options, settle
from simstream.cli.output import refuse_compressed, refuse_input, written
from simstream.cli.progress import say
from simstream.errors import UsageError
from simstream.terminal import printable

if TYPE_CHECKING:
    from simstream.sources.input_files import InputFile
    from simstream.tools.patterns.pattern import AddressPattern, LearnedPattern
    from simstream.tools.patterns.seen_pages import SeenPages

MAX_SHOWN = 50
"""At most so many patterns are shown; the file has all."""
MAX_MOST_LOST = 0.5
_PIPED_COLUMNS = 120


@click.command("patterns")
@click.argument("verdicts", nargs=-1, metavar="[VERDICTS...]")
@click.option(
    "-o", "--output", metavar="FILE", help="Write the patterns to FILE, for SIMSTREAM_PATTERNS of a crawler."
)
@click.option(
    "--earlier",
    metavar="FILE",
    help="Keep the patterns of FILE, unless a verdict contradicts them. FILE may be that of -o.",
)
@click.option(
    "--most-lost",
    type=ShareType(0.001, MAX_MOST_LOST),
    metavar="SHARE",
    default=0.1,
    show_default=True,
    help="Take a pattern only if, with 95 % confidence, at most this share of its originals have another text.",
)
@click.option(
    "--memory",
    default="512MB",
    show_default=True,
    metavar="SIZE",
    help="Memory for pages, such as 2GB (a bare number is bytes); the first are forgotten.",
)
@log_options
@settings_options
def command(
    verdicts: tuple[str, ...],
    output: str | None,
    earlier: str | None,
    most_lost: float,
    memory: str,
    config: str | None,
    **flags: Any,
) -> None:
    """Show parts of addresses that only ever made near duplicates: `?sid=`, `;jsessionid=`, `/print/`.

    VERDICTS... are files of `dedup`, as JSON lines or Parquet. Each file is a run of its own. Without a file, the
    verdicts of the log are read. A part is shown if all pages with it have the text of another page whose address
    differs only there, and if enough of these texts differ. One exception is enough to leave a part out.
    """
    settings = settle(config, **flags)
    room = nbytes("--memory", memory)
    if verdicts and any(flags[name] is not None for name in ("log", "bootstrap_servers")):
        raise UsageError("files of verdicts and a log are both given", "give one of them")
    if output:
        refuse_compressed(output, "a crawler")
    from simstream.sources.input_files import files_of
    from simstream.tools.patterns import verdicts as reading
    from simstream.tools.patterns.learning import PatternLearner
    from simstream.tools.patterns.pattern import least_originals
    from simstream.tools.patterns.pattern_file import read_patterns, to_json
    from simstream.tools.patterns.seen_pages import SeenPages

    least = least_originals(most_lost)
    learner = PatternLearner(least, read_patterns(earlier) if earlier else ())
    files = files_of(verdicts)
    paths = [file.path for file in files]
    if output:
        refuse_input(output, paths)
    if verdicts:
        runs = _of_files(files, room)
    else:
        runs = [SeenPages(room)]
        with open_log(settings) as log:
            for verdict in reading.of_topic(log):
                runs[0].add(verdict)
    found = learner.learn(runs)
    _show(found, runs, least, learner.nearest)
    if output:
        with written(output, paths) as out:
            out.write(to_json(found))
        say(f"{say_count(len(found), 'pattern')} in {output}")


def _of_files(files: Sequence[InputFile], room: int) -> list[SeenPages]:
    """Return the pages of each file. Together they keep to the room: a file has what the files before it left."""
    from simstream.tools.patterns import verdicts as reading
    from simstream.tools.patterns.seen_pages import SeenPages

    runs: list[SeenPages] = []
    for number, file in enumerate(files):
        left = room - sum(run.used for run in runs)
        run = SeenPages(max(1, left // (len(files) - number)))
        for verdict in reading.of_file(file):
            run.add(verdict)
        runs.append(run)
    return runs


def _nearest(nearest: tuple[int, AddressPattern] | None) -> str:
    """Return how far the best candidate is from being a pattern; "" if there is none."""
    if nearest is None:
        return ""
    from simstream.tools.patterns.pattern import most_lost_of

    originals, pattern = nearest
    share = ceil(1_000 * most_lost_of(originals)) / 1_000
    takes = f": --most-lost {share} takes it" if share <= MAX_MOST_LOST else ""
    return f"; {printable(str(pattern))} of {printable(pattern.site)} has {originals}{takes}"


def _show(
    found: Sequence[LearnedPattern],
    runs: Sequence[SeenPages],
    least: int,
    nearest: tuple[int, AddressPattern] | None,
) -> None:
    """Print a row for each pattern with its sites, and on stderr what was read."""
    pages, forgotten, passed = (
        sum(map(of, runs)) for of in (len, lambda run: run.forgotten, lambda run: run.passed)
    )
    more = f"; {say_count(passed, 'verdict')} without an address that can be cut" if passed else ""
    if forgotten:
        more += f"; {say_pages(forgotten, 'was', 'were')} forgotten: give more --memory to learn from all"
    say(f"{say_pages(pages)}{more}")
    if not found:
        say(f"no pattern: each needs {least} different texts, and no exception{_nearest(nearest)}")
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table

    from simstream.tools.patterns.learning import fetches_saved

    table = Table(box=box.SIMPLE, show_edge=False, pad_edge=False)
    table.add_column("pattern", overflow="fold")
    table.add_column("site", overflow="fold")
    for name in ("pages", "near duplicates", "originals", "most lost"):
        table.add_column(name, justify="right", no_wrap=True)
    rows = _rows(found)
    for row in rows[:MAX_SHOWN]:
        table.add_row(*row)
    console = Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else _PIPED_COLUMNS)
    console.print(table)
    if len(rows) > MAX_SHOWN:
        console.print(f"and {len(rows) - MAX_SHOWN:,} more; -o FILE writes all")
    console.print(f"\nThey would have saved {fetches_saved(found, runs):,} of {pages:,} fetches.")


def _rows(found: Sequence[LearnedPattern]) -> list[tuple[str, ...]]:
    """Return a row for all sites of a pattern; the share that is lost is that of its worst site."""
    by_name: dict[str, list[LearnedPattern]] = {}
    for one in found:
        by_name.setdefault(str(one.pattern), []).append(one)
    rows: list[tuple[str, ...]] = []
    for name, each in sorted(by_name.items(), key=lambda row: -sum(one.copies for one in row[1])):
        site = each[0].site if len(each) == 1 else f"{len(each):,} sites"
        numbers = map(sum, zip(*((one.pages, one.copies, one.originals) for one in each), strict=True))
        most_lost = max(one.most_lost for one in each)
        rows.append((printable(name), printable(site), *map("{:,}".format, numbers), f"{most_lost:.1%}"))
    return rows
