"""`simstream status`: show which role waits for what, and what needs a person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from simstream.amounts import say_count
from simstream.cli.options import log_options, open_log, settings_options, settle
from simstream.cli.output import print_json
from simstream.cli.wide_table import console_for, make_table
from simstream.terminal import printable

if TYPE_CHECKING:
    from rich.table import Table

    from simstream.tools.status.status import ServiceStatus, TopicStatus


@click.command("status")
@click.option(
    "--http",
    "addresses",
    multiple=True,
    metavar="HOST:PORT",
    help="Ask the process at this address, too (repeatable).",
)
@click.option("--state", metavar="DIR", help="Show the snapshots in DIR, too.")
@click.option("--gaps", is_flag=True, help="Look for missing pages in the log, or only in its part after --state.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@log_options
@settings_options
def command(
    addresses: tuple[str, ...], state: str | None, gaps: bool, as_json: bool, config: str | None, **flags: Any
) -> None:
    """Show where pages, log and verdicts stand, which roles run, and what needs a person (then it ends with 1).

    Read-only: joins no consumer group, fences no judge, commits nothing.
    """
    from simstream.errors import BrokerUnreachable
    from simstream.log import options_of
    from simstream.log.command_hints import where
    from simstream.tools.status.processes import ask_processes, snapshots_in
    from simstream.tools.status.status import StatusReader, StatusWithoutLog

    settings = settle(config, state=state, **flags)
    options = options_of(settings, 0.0)
    how = where(settings.log, options, config)
    asked = StatusWithoutLog(settings.log, settings.prefix)
    kept = snapshots_in(settings.state) if settings.state else []  # first: the position of a running judge moves on
    try:
        with open_log(settings) as log:
            asked = looking = StatusReader(log, settings.log, options, how)
            looking.look(settings, gaps)
    except BrokerUnreachable as error:
        if not addresses and not settings.state:
            raise
        asked.unreached(error)
    asked.add(ask_processes(addresses), kept)
    if as_json:
        print_json(asked.status)
    else:
        _print(asked.status)
    if asked.status.wrong:
        click.get_current_context().exit(1)


def _print(status: ServiceStatus) -> None:
    tables = [make(status) for rows, make in ((status.source, _source), (status.shards, _shards)) if rows]
    console = console_for(*tables)
    for name, text in _lines(status):
        console.print(f"[bold]{name:<14}[/]", end="")
        console.print(printable(text), markup=False)
    for table in tables:
        console.print(table)
    for wrong in status.wrong:
        console.print("[bold red]needs you[/]     ", end="")
        console.print(printable(f"{wrong.what}: {wrong.todo}"), markup=False)


def _lines(status: ServiceStatus) -> list[tuple[str, str]]:
    lines = [("log", f"{status.log}, prefix {status.prefix}")]
    if status.reached:
        lines += _of_the_log(status)
    for process in status.processes:
        lines.append(("process", f"{process.address}: {'does not answer' if process.error else process.why}"))
    for snapshot in status.snapshots:
        lines.append(("snapshot", snapshot.error or _snapshot(snapshot.frame, snapshot.ordinal, snapshot.age_s)))
    return lines


def _of_the_log(status: ServiceStatus) -> list[tuple[str, str]]:
    from simstream.log.options import TOPICS

    lines = [("topic", _topic(one, status)) for one in status.topics]
    if len(status.topics) >= len(TOPICS):  # else the log was not looked at
        lines.append(("recipe", status.recipe or "none: the log has no frame"))
    if (published := status.published) is not None:
        where = f"up to frame {published.frame:,}, ordinal {published.ordinal:,}, policy {published.policy}"
        lines.append(("published", f"{where}; {say_count(status.unpublished_frames or 0, 'frame')} to go"))
    elif status.unpublished_frames is not None:
        lines.append(("published", f"nothing yet; {say_count(status.unpublished_frames, 'frame')} to go"))
    lines += [("judge", f"{judge.name}: {'elected' if judge.elected else 'stands by'}") for judge in status.judges]
    if not status.judges:
        last = f" (the last was {status.last_publisher})" if status.last_publisher else ""
        lines.append(("judge", f"none runs{last}"))
    lines += [("fingerprinter", name) for name in status.fingerprinters or ["none runs"]]
    if status.gaps is not None and not status.gaps:
        lines.append(("gaps", "none"))
    return lines


def _topic(one: TopicStatus, status: ServiceStatus) -> str:
    from simstream.log.options import VERDICTS

    partitions = say_count(one.partitions, "partition")
    if one.name.endswith(f".{VERDICTS}") and status.verdicts is not None:
        return f"{one.name}: {partitions}, {say_count(status.verdicts, 'verdict')} published"
    begins = f", the first is {one.first:,}" if one.partitions == 1 and one.first else ""
    return f"{one.name}: {partitions}, {say_count(one.end - one.first, 'offset')}{begins}"


def _snapshot(frame: int | None, ordinal: int | None, age_s: float | None) -> str:
    return f"at frame {frame or 0:,}, ordinal {ordinal or 0:,}, {age_s or 0:,.0f} s old"


def _source(status: ServiceStatus) -> Table:
    counts = ["end", "waiting", *(["uncommitted"] if any(lag.uncommitted for lag in status.source) else [])]
    table = make_table("pages, partition", "first", "read up to", *counts)
    for lag in status.source:
        read = "-" if lag.read is None else f"{lag.read:,}"
        table.add_row(str(lag.partition), f"{lag.first:,}", read, *(f"{getattr(lag, name):,}" for name in counts))
    return table


def _shards(status: ServiceStatus) -> Table:
    from rich.markup import escape

    copies = sorted({copy for one in status.shards for copy in one.owners} | {1})
    matchers = ["matcher" if copies == [1] else f"matcher of copy {copy}" for copy in copies]
    table = make_table("shard", "answered up to", "frames behind", *matchers, left=matchers)
    for one in status.shards:
        answered = "-" if one.answered is None else f"{one.answered:,}"
        names = (printable(one.owners.get(copy, "none")) for copy in copies)
        table.add_row(str(one.shard), answered, f"{one.behind:,}", *map(escape, names))
    return table
