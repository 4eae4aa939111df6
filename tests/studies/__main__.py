"""Runs the studies: `python -m tests.studies [NAME...] --out FOLDER [--recipe NAME|FILE]`."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from time import perf_counter
from typing import Any

import click
from rich.console import Console

from simstream.errors import SimstreamError
from simstream.settings import default_cache
from simstream.text.recipe_file import load_recipe
from tests import corpora
from tests.studies import report
from tests.studies.context import StudyContext

NAMES = ("transplant", "short", "boilerplate", "chaining", "containment", "english", "scripts", "idf")


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("names", nargs=-1, type=click.Choice(NAMES))
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), required=True, help="Folder of results.")
@click.option("--recipe", default="default", show_default=True, help="A recipe's name or file.")
@click.option("--limit", type=click.IntRange(1), help="Read at most this many pages of a corpus, for a quick look.")
def main(names: tuple[str, ...], out: Path, recipe: str, limit: int | None) -> None:
    """Run all studies, or those named; SIMSTREAM_CORPORA names the folder of the corpora.

    Writes studies.json (every number with its n and 95 % interval) and studies.md (the tables) to FOLDER.
    """
    if corpora.folder() is None:
        raise click.UsageError("SIMSTREAM_CORPORA names no folder: set it to the folder of the corpora")
    try:
        load_recipe(recipe)
    except SimstreamError as error:
        raise click.BadParameter(str(error), param_hint="--recipe") from error
    context, console = StudyContext(recipe, default_cache(), limit), Console()
    out.mkdir(parents=True, exist_ok=True)
    results: dict[str, Any] = {}
    for name in names or NAMES:
        began = perf_counter()
        results[name] = run(name, context)
        report.show(console, report.tables(name, results[name]))
        console.print(f"[dim]{name}: {perf_counter() - began:.0f} s[/dim]")
        report.write(out, context, results)  # after each study: an interrupted run keeps what it has


def run(name: str, context: StudyContext) -> dict[str, Any]:
    """One study's numbers, which are what JSON would give back."""
    study = importlib.import_module(f"tests.studies.{name}")
    found: dict[str, Any] = json.loads(json.dumps(study.run(context)))
    return found


if __name__ == "__main__":
    main()
