"""`simstream source rewind|skip`: close a gap between the source and the log."""

from __future__ import annotations

from typing import Any

import click

from simstream.cli.options import log_options, open_log, settings_options, settle


@click.group("source")
def command() -> None:
    """Close a gap between the topic `pages` and the log, while no fingerprinter runs."""


_STATE = click.option("--state", metavar="DIR", help="Folder of the judge's state: read only the log after it.")


@command.command("rewind", short_help="Read missing pages again, from the end of the log on.")
@_STATE
@log_options
@settings_options
def rewind(config: str | None, **flags: Any) -> None:
    """Set the fingerprinters back to the end of the log, to read missing pages again."""
    from simstream.tools.gaps import rewind as set_back

    settings = settle(config, **flags)
    with open_log(settings) as log:
        for partition, offset in sorted(set_back(log, settings.state).items()):
            where = "reading starts at its beginning" if offset is None else f"reading goes on at offset {offset}"
            click.echo(f"partition {partition}: {where}")


@command.command("skip")
@_STATE
@log_options
@settings_options
def skip(config: str | None, **flags: Any) -> None:
    """Give up the pages that retention removed before they were read. They get no verdict."""
    from simstream.tools.gaps import skip as give_up

    settings = settle(config, **flags)
    with open_log(settings) as log:
        lost = give_up(log, settings.state)
    for partition, (start, to) in sorted(lost.items()):
        click.echo(f"partition {partition}: offsets {start} to {to - 1} are given up")
    if not lost:
        click.echo("no page is lost: every page that the log lacks can still be read")
