"""`simstream source rewind|skip`: mend a gap between the source and the log."""

from __future__ import annotations

from typing import Any

import click

from stream.cli.options import log_options, open_log, settings_options, settle


@click.group("source")
def command() -> None:
    """Mend a gap between `pages` and the log, while no fingerprinter runs."""


@command.command("rewind")
@log_options
@settings_options
def rewind(config: str | None, **flags: Any) -> None:
    """Set the fingerprinters back to where the log ends: missing pages are read again."""
    from stream.tools.gaps import rewind as set_back

    with open_log(settle(config, **flags)) as log:
        for partition, offset in sorted(set_back(log).items()):
            where = "read again from its beginning" if offset is None else f"reading goes on at offset {offset}"
            click.echo(f"partition {partition}: {where}")


@command.command("skip")
@log_options
@settings_options
def skip(config: str | None, **flags: Any) -> None:
    """Give up pages that retention removed before they were read; they get no verdict."""
    from stream.tools.gaps import skip as give_up

    with open_log(settle(config, **flags)) as log:
        lost = give_up(log)
    for partition, (start, to) in sorted(lost.items()):
        click.echo(f"partition {partition}: offsets {start} to {to - 1} are given up")
    if not lost:
        click.echo("nothing is lost: every page that is missing in the log can still be read")
