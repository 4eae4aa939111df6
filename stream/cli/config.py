"""`simstream config`: every setting, its value, and where the value came from."""

from __future__ import annotations

from typing import Any

import click

from stream.cli.options import judging_options, log_options
from stream.settings import names, resolve

_SECRET = ("password", "secret", "token", "key")


@click.command("config")
@log_options
@judging_options
def command(config: str | None, **flags: Any) -> None:
    """Show every setting and where its value came from."""
    settings, origin = resolve(flags, file=config)
    rows = []
    for name in names():
        value: Any = settings
        for part in name.split("."):
            value = getattr(value, part)
        rows.append((name, "-" if value is None else str(value), origin[name]))
    for name, value in settings.kafka.items():
        hidden = any(word in name for word in _SECRET)
        rows.append((f"kafka.{name}", "(hidden)" if hidden else str(value), origin.get("kafka", "")))
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    for name, shown, source in rows:
        click.echo(f"{name:<{widths[0]}}  {shown:<{widths[1]}}  {source}")
