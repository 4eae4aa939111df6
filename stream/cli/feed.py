"""`simstream feed`: pages from files into the topic `pages`."""

from __future__ import annotations

from typing import Any

import click

from stream.cli.options import field_options, log_options, open_log, settings_options, settle
from stream.cli.progress import say, with_progress


@click.command("feed")
@click.argument("inputs", nargs=-1, required=True, metavar="INPUT...")
@field_options
@log_options
@settings_options
def command(
    inputs: tuple[str, ...], text_field: str | None, id_field: str | None, config: str | None, **flags: Any
) -> int:
    """Send the pages of INPUT... to the topic `pages`, each under its id as key.

    A record that the topic does not admit is reported, and the others are sent; the exit code is then 1.
    """
    settings = settle(config, **flags)
    from stream.sources.fields import Fields
    from stream.sources.read import size_of
    from stream.tools.feeding import feed

    size_of(inputs)
    with open_log(settings) as log:
        fields = Fields(text_field, id_field)
        records = with_progress(inputs, settings.max_record_bytes, "feeding", fields)
        report = feed(log, records, settings.max_record_bytes, refused=say)
    say(f"{report.sent:,} pages sent to {report.topic}")
    if report.refused:
        say(f"{report.refused:,} pages were not sent: they get no verdict")
    return 1 if report.refused else 0
