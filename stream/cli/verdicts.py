"""`simstream verdicts`: committed verdicts as a table or as JSON lines."""

from __future__ import annotations

import sys
from typing import Any

import click

from stream.cli.options import log_options, open_log, settings_options, settle


@click.command("verdicts")
@click.option("--follow", is_flag=True, help="Wait for more, until interrupted.")
@click.option("--json", "as_json", is_flag=True, help="The records as they are, one JSON object a line.")
@log_options
@settings_options
def command(follow: bool, as_json: bool, config: str | None, **flags: Any) -> None:
    """Show the committed verdicts, each partition in order."""
    from stream.cli import table
    from stream.log.base import VERDICTS
    from stream.wire import verdict as wire

    with open_log(settle(config, **flags)) as log, log.reader(VERDICTS, 0) as reader:
        if not as_json:
            click.echo(table.header())
        while True:
            at_end = reader.caught_up()
            records = reader.poll(1000, 0.5)
            for record in records:
                value = record.value or b""
                if as_json:
                    sys.stdout.buffer.write(value + b"\n")
                else:
                    click.echo(table.line(wire.decode(value)))
            sys.stdout.flush()
            if at_end and not records and not follow:
                return
