"""`simstream state inspect|verify|upgrade`: show a state folder, verify it, or upgrade it to the current format."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from simstream.amounts import say_bytes, say_count
from simstream.cli.output import print_json
from simstream.cli.progress import counting, say
from simstream.cli.wide_table import console_for, make_table
from simstream.errors import InputMissing, StateDamaged, StateError
from simstream.terminal import printable

if TYPE_CHECKING:
    from rich.table import Table

    from simstream.tools.state.inspect import FolderInspection, SnapshotDescription, StatePart

_FOLDER = click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))


@click.group("state")
def command() -> None:
    """Look into the folder of `serve --state DIR`, or upgrade the state of an earlier version."""


@command.command("inspect", short_help="Show what the snapshots in DIR hold.")
@_FOLDER
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a state.")
def inspect(folder: Path, as_json: bool) -> None:
    """Show what the snapshots in DIR hold: positions, policy, segments, sizes, age.

    Shows each state in DIR. A matcher keeps a state for each shard in DIR/shards. The role query beside a judge
    keeps its state in DIR/query.
    """
    from simstream.tools.state.inspect import inspect as look

    def show(state: Path) -> None:
        found = look(state)
        if as_json:
            print_json(found)
        else:
            _print(found)

    _for_each_state(folder, show)


@command.command("verify")
@_FOLDER
@click.option("-v", "--verbose", is_flag=True, help="Print a line for each file.")
def verify(folder: Path, verbose: bool) -> None:
    """Check every checksum, order and count in DIR. Names each damaged file, and then ends with 1.

    Checks each state that inspect shows.
    """
    _for_each_state(folder, partial(_verify, verbose=verbose))


@command.command("upgrade", short_help="Upgrade the state OLD of an earlier version into NEW.")
@click.argument("old", metavar="OLD", type=click.Path(path_type=Path))
@click.argument("new", metavar="NEW", type=click.Path(path_type=Path))
def upgrade(old: Path, new: Path) -> None:
    """Upgrade the state of an earlier version in OLD to the current format, in the folder NEW. OLD stays unchanged.

    A log needs no upgrade: this version reads earlier frames. A service without a state judges its log again. So
    upgrade the state of a Deduper, of a log that retention has cut, or of a very long log.
    """
    from simstream.tools.state.upgrade import upgrade as take_over

    done = take_over(old, new)
    for each in done.damage:
        click.echo(f"{printable(each.what)}: the newest whole snapshot is upgraded", err=True)
    click.echo(
        f"{new} has the state of frame {done.frame:,}, ordinal {done.ordinal:,}, upgraded from format "
        f"{done.number}: use it as --state; {old} is unchanged"
    )


def _for_each_state(folder: Path, act: Callable[[Path], None]) -> None:
    """Call `act` with the folder of each state in `folder`. Of several, tells each error, and then raises one."""
    from simstream.tools.state.inspect import states_in

    states = states_in(folder)
    if len(states) == 1:
        act(states[0])
        return
    wrong = 0
    for state in states:
        try:
            act(state)
        except (StateError, InputMissing) as error:
            wrong += 1
            say(str(error))
    if wrong:
        raise StateError(f"{wrong} of {say_count(len(states), 'state')} in {folder} cannot be used", "see above")


def _verify(folder: Path, verbose: bool) -> None:
    from simstream.tools.state.verify import verify as look

    with counting("bytes verified") as progress:
        found = look(folder, progress)
    for each in found.checked:
        if each.error is not None:
            click.echo(f"{click.style('damaged', fg='red')}  {printable(each.error)}")
        elif verbose:
            click.echo(f"{click.style('sound', fg='green')}    {folder / each.name}  {say_bytes(each.size)}")
    if found.wrong:
        names = ", ".join(each.name for each in found.wrong[:3]) + (", …" if len(found.wrong) > 3 else "")
        raise StateDamaged(f"{folder} is damaged ({names})", found.todo)
    total, count = sum(each.size for each in found.checked), len(found.sound)
    what = f"{say_count(count, 'snapshot')}, {say_count(len(found.checked), 'file')}, {say_bytes(total)}"
    click.echo(f"{folder} is whole: {what}; every checksum, order and count agrees")


def _print(inspection: FolderInspection) -> None:
    newest = inspection.snapshots[0]
    made = (_snapshots(inspection.snapshots), _positions(newest.facts), _segments(newest.parts), _disk(inspection))
    tables = [table for table in made if table is not None]
    console = console_for(*tables)
    for name, text in _lines(inspection.folder, newest.facts):
        console.print(f"[bold]{name:<11}[/]", end="")
        console.print(printable(text), markup=False)
    for table in tables:
        console.print()
        console.print(table)


def _lines(folder: str, facts: dict[str, Any]) -> list[tuple[str, str]]:
    lines = [("folder", folder)]
    for name, title in (("policy", "policy"), ("recipe", "recipe"), ("link", "link"), ("log_id", "log")):
        if name in facts:
            lines.append((title, str(facts[name])))
    if "window_ms" in facts:
        window = facts["window_ms"]
        lines.append(("window", "none" if window is None else f"{window / 3_600_000:g} h"))
    return lines


def _snapshots(snapshots: list[SnapshotDescription]) -> Table:
    table = make_table("snapshot", *(each.manifest for each in snapshots), left=("snapshot",))
    facts = [each.facts for each in snapshots]
    table.add_row("age", *(_age(each.age_s) for each in snapshots))
    for name in ("frame", "ordinal"):
        table.add_row(f"next {name}", *(_number(each.get(name)) for each in facts))
    table.add_row("digest", *(printable(str(each.get("digest", "-"))) for each in facts))
    table.add_row("stream time", *(_time(each.get("stream_time")) for each in facts))
    table.add_row("live pages", *(_number(each.get("live_pages")) for each in facts))
    table.add_row("on disk", *(say_bytes(sum(each.disk.values())) for each in snapshots))
    return table


def _positions(facts: dict[str, Any]) -> Table | None:
    positions = facts.get("positions")
    if not positions:
        return None
    table = make_table("topic id", "partition", "next offset", left=("topic id",))
    for each in positions:
        topic, partition, offset = each if isinstance(each, list) else each.values()
        table.add_row(printable(str(topic)), str(partition), _number(offset))
    return table


def _segments(parts: list[StatePart]) -> Table | None:
    """Return a table of the segments by bucket and plan."""
    groups: dict[tuple[int, str], list[StatePart]] = defaultdict(list)
    for part in parts:
        if part.kind == "segment":
            groups[part.facts["bucket"], _plan(part.facts["plan"])].append(part)
    if not groups:
        return None
    table = make_table("bucket", "plan", "segments", "entries", "bytes", left=("bucket",))
    for (bucket, plan), pieces in sorted(groups.items()):
        entries, total = sum(piece.facts["count"] for piece in pieces), sum(piece.bytes for piece in pieces)
        table.add_row(str(bucket), plan, str(len(pieces)), _number(entries), say_bytes(total))
    return table


def _plan(plan: dict[str, Any]) -> str:
    if not plan["tables"]:
        return "scan"
    bits = [str(each) for each in plan["prefix_bits"]]
    widths = f"{len(bits)} x {bits[0]}" if len(set(bits)) == 1 else "+".join(bits)
    return f"{widths} bits, flips {plan['flips']}"


def _disk(inspection: FolderInspection) -> Table:
    """Return a table of the folder's bytes on disk, and the bytes of the newest snapshot's parts."""
    held: dict[str, list[int]] = defaultdict(list)
    for part in inspection.snapshots[0].parts:
        held[part.kind].append(part.bytes)
    table = make_table("kind", "parts", "bytes held", "bytes on disk", left=("kind",))
    for kind in sorted(held.keys() | inspection.disk.keys()):
        pieces, disk = held.get(kind, []), inspection.disk.get(kind)
        on_disk = "in blocks" if disk is None else say_bytes(disk)
        table.add_row(kind, str(len(pieces) or "-"), say_bytes(sum(pieces)) if pieces else "-", on_disk)
    if inspection.rest:
        table.add_row("not named", "-", "-", say_bytes(inspection.rest))
    table.add_section()
    table.add_row("all", "", "", say_bytes(sum(inspection.disk.values()) + inspection.rest))
    return table


def _number(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else "-"


def _age(seconds: float) -> str:
    for unit, name in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * unit:
            return f"{seconds / unit:,.1f} {name}"
    return f"{seconds:.0f} s"


def _time(milliseconds: int | None) -> str:
    if milliseconds is None:
        return "-"
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, ValueError, OSError):
        return str(milliseconds)
