"""`simstream config`: every setting, its value, and where the value came from."""

from __future__ import annotations

from typing import Any

import click

from stream.cli.options import judging_options, log_options
from stream.kafka_settings import Given, shown
from stream.settings import Resolved, default_cache, names, resolve, unknown_variables

Row = tuple[str, str, str]


@click.command("config")
@log_options
@judging_options
def command(config: str | None, **flags: Any) -> None:
    """Show every setting and where its value came from."""
    rows = [*_rows(resolve(flags, file=config))]
    rows += [("ignored", variable, "no such setting") for variable in unknown_variables()]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    for name, value, source in rows:
        click.echo(f"{name:<{widths[0]}}  {value:<{widths[1]}}  {source}")


def _rows(resolved: Resolved) -> list[Row]:
    settings, origin = resolved
    fallback = _fallbacks(settings.recipe)
    rows = []
    for name in names():
        value: Any = settings
        for part in name.split("."):
            value = getattr(value, part)
        source = origin[name]
        if value in (None, "") and name in fallback:
            value, source = fallback[name]
        rows.append((name, "-" if value is None else str(value), source))
    for name, value in settings.kafka.items():
        given = Given(value, origin[f"kafka.{name}"])
        rows.append((f"kafka.{name}", shown(name, given), given.origin))
    return rows


def _fallbacks(recipe: str) -> dict[str, tuple[Any, str]]:
    """What stands in for settings that were not given, and where that comes from. Raises SettingsError."""
    from stream.text.recipe_file import load_recipe

    chosen = load_recipe(recipe)
    return {
        "distance": (chosen.distance, "recipe default"),
        "similarity": (chosen.similarity, "recipe default"),
        "cache": (default_cache(), "default"),
    }
