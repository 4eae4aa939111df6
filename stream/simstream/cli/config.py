"""`simstream config`: every setting, its value, where the value came from, and whether `serve` would accept it."""

from __future__ import annotations

from typing import Any

import click

from simstream.cli.checks import find_problems
from simstream.cli.options import judging_options, log_options, roles_option
from simstream.errors import SimstreamError
from simstream.kafka_settings import HIDDEN, SettingValue, has_secret, names_a_user, show_value
from simstream.settings import (
    ResolvedSettings,
    default_cache,
    misspelt_variables,
    names,
    resolve,
    unknown_variables,
)

Row = tuple[str, str, str]


@click.command("config")
@roles_option
@log_options
@judging_options
def command(roles: tuple[str, ...], config: str | None, **flags: Any) -> int:
    """Show every setting and where its value came from, and check each one as `serve` does before it starts.

    Prints a line on stderr for each setting that `serve` with these roles would refuse, and then ends with 2.
    Asks no broker.
    """
    wrong: list[SimstreamError] = []
    resolved = resolve(flags, file=config, wrong=wrong)
    wrong += find_problems(resolved.settings, roles)
    rows = [*_rows(resolved)]
    misspelt = misspelt_variables()
    rows += [
        ("refused" if name in misspelt else "ignored", name, "no such setting") for name in unknown_variables()
    ]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    for name, value, source in rows:
        click.echo(f"{name:<{widths[0]}}  {value:<{widths[1]}}  {source}")
    for text in dict.fromkeys(map(str, wrong)):
        click.echo(f"simstream: {text}", err=True)
    return 2 if wrong else 0


def _rows(resolved: ResolvedSettings) -> list[Row]:
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
        shown = "-" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
        is_hidden = (name == "log" and names_a_user(shown)) or (name == "otlp_endpoint" and has_secret(shown))
        rows.append((name, HIDDEN if is_hidden else shown, source))
    for name, value in settings.kafka.items():
        given = SettingValue(value, origin[f"kafka.{name}"])
        rows.append((f"kafka.{name}", show_value(name, given), given.origin))
    return rows


def _fallbacks(recipe: str) -> dict[str, tuple[Any, str]]:
    """Return the default of each setting that was not given, and where the default comes from."""
    from simstream.text.recipe_file import load_recipe

    cache = {"cache": (default_cache(), "default")}
    try:
        chosen = load_recipe(recipe)
    except SimstreamError:  # `find_problems` reports it
        return cache
    return cache | {
        "distance": (chosen.distance, "recipe default"),
        "similarity": (chosen.similarity, "recipe default"),
    }
