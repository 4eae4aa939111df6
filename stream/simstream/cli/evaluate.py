"""`simstream evaluate`: measure what recipes find and what they confuse, on pages and labelled pairs."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from simstream.cli.options import (
    RECIPE_HELP,
    RECIPE_METAVAR,
    field_options,
    settings_options,
    settle_on_all_cores,
)
from simstream.cli.output import refuse_input
from simstream.cli.progress import say
from simstream.errors import UsageError

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from simstream.evaluate.contenders import RunWatcher
    from simstream.evaluate.results import EvaluationResults
    from simstream.text.recipe import Recipe

PEERS = ("google2007", "fnv1-tf")
RESULTS, SCHEMA = "results.json", "results.schema.json"


@click.command("evaluate")
@click.argument("inputs", nargs=-1, required=True, metavar="INPUT...")
@click.option(
    "--pairs",
    multiple=True,
    metavar="FILE",
    help="JSON lines with `a`, `b`, and optional `label` (1, or 0 for different pages), `jaccard5`.",
)
@click.option("--recipe", "recipes", multiple=True, metavar=RECIPE_METAVAR, help=f"{RECIPE_HELP} Repeatable.")
@click.option(
    "--seeds",
    type=click.IntRange(1, 1024),
    metavar="N",
    help="Measure with the seeds 16 to N + 15 (default: the recipe's seed).",
)
@click.option(
    "--distance",
    default="1-10",
    metavar="FROM-TO",
    help="Measure these distances and the recipe's own (default: 1-10).",
)
@click.option(
    "-o",
    "--output",
    required=True,
    metavar="FOLDER",
    help="Write index.html, results.json and the figures to FOLDER.",
)
@click.option("--peers", is_flag=True, help="Measure Google's rule, term frequencies with FNV, and MinHash, too.")
@click.option(
    "--strip-front-matter", is_flag=True, help="Leave out the YAML front matter at the beginning of each text."
)
@click.option("--threads", metavar="N", help="Compute in N threads (default: one for each core).")
@field_options
@settings_options
def command(
    inputs: tuple[str, ...],
    pairs: tuple[str, ...],
    recipes: tuple[str, ...],
    seeds: int | None,
    distance: str,
    output: str,
    peers: bool,
    strip_front_matter: bool,
    text_field: str | None,
    id_field: str | None,
    config: str | None,
    threads: str | None,
) -> None:
    """Measure recipes on the pages of INPUT...; each INPUT is a corpus of its own.

    --pairs says which pages are the same. Or the pages have a field `group`: successive pages of one group are then
    pairs. Without either, the report has candidates, verdicts, distributions and costs. FOLDER/.cache keeps each
    measurement: an interrupted run goes on where it was.
    """
    from simstream.evaluate import report, run
    from simstream.evaluate.results import schema
    from simstream.evaluate.store import write_atomically
    from simstream.sources.fields import FieldNames

    report.check_libraries()  # before any long work
    settings = settle_on_all_cores(config, threads=threads)
    chosen = _recipes(recipes or ("default",), peers)
    folder = Path(output)
    _refuse_inputs(folder, inputs, pairs)
    request = run.EvaluationRequest(
        inputs=inputs,
        pairs=pairs,
        recipes=chosen,
        seeds=seeds,
        distances=run.distances_of(distance),
        folder=folder,
        minhash=peers,
        strip_front_matter=strip_front_matter,
        settings=settings,
        fields=FieldNames(text_field, id_field),
    )
    try:
        with _watcher() as watcher:
            results = run.evaluate(request, watcher)
            write_atomically(folder / RESULTS, run.encode(results))
            write_atomically(folder / SCHEMA, schema() + b"\n")
            report.write(results, folder)
    except BaseException:
        if any((folder / run.CACHE).glob("*.json")):
            kept = f"{folder / run.CACHE} keeps what was measured, and the next run goes on from there"
            say(f"{folder / report.PAGE} is not of this run; {kept}")
        raise
    _show(results)
    say(f"the whole report is {folder / report.PAGE}")


def _refuse_inputs(folder: Path, inputs: tuple[str, ...], pairs: tuple[str, ...]) -> None:
    """Raise UsageError if the report would replace an input, or if the next run would read it as an input."""
    from simstream.evaluate.report import PAGE
    from simstream.sources.input_files import files_of, local_folders

    files = [file.path for corpus in inputs for file in files_of([corpus])]
    for name in (RESULTS, SCHEMA, PAGE):
        refuse_input(str(folder / name), [*files, *pairs])
    for read in local_folders(inputs):
        if folder.resolve().is_relative_to(Path(read).resolve()):
            raise UsageError(f"the report {folder} would lie in the input {read}", "name another folder with -o")


def _show(results: EvaluationResults) -> None:
    """Print the main numbers to stdout."""
    from simstream.cli.wide_table import console_for
    from simstream.evaluate.report import table

    shown = table(results)
    console_for(shown).print(shown)
    if not any(info.pairs for info in results.corpora):
        say("no labelled pairs, and no pages of one group: what recipes find and confuse was not measured")


def _recipes(names: tuple[str, ...], peers: bool) -> list[Recipe]:
    """Return the recipes that are asked for, then the peers."""
    from simstream.text.recipe import preset
    from simstream.text.recipe_file import load_recipe

    found = [load_recipe(name) for name in names]
    found += [preset(name) for name in (PEERS if peers else ()) if name not in names]
    called = [recipe.name for recipe in found]
    for name in called:
        if called.count(name) > 1:
            raise UsageError(f"two recipes are called {name}", "give one of them another `name`")
    return found


AGAIN_S = 10.0
"""Seconds between two lines about how far a run is, where no terminal shows a bar."""


class _BarWatcher:
    """Shows a bar on a terminal for each task that runs. Elsewhere it says now and then how far a task is."""

    def __init__(self, bars: Progress) -> None:
        self._bars = bars
        self._endless: TaskID | None = None
        """The running task of unknown size: it ends when the next task begins."""
        self._told_at = time.monotonic()

    def task(self, title: str, total: int | None) -> Callable[[int], None]:
        number = self._bars.add_task(title, total=total)
        if self._endless is not None:
            self._bars.update(self._endless, visible=False)
        self._endless = number if total is None else None

        def done(count: int) -> None:
            self._bars.advance(number, count)
            task = self._bars.tasks[number]
            if task.finished:
                self._bars.update(number, visible=False)
            if self._bars.disable and time.monotonic() - self._told_at >= AGAIN_S:
                self._told_at = time.monotonic()
                say(f"{title}, {task.completed:,}" + ("" if total is None else f" of {total:,}"))

        return done

    def say(self, sentence: str) -> None:
        say(sentence)


@contextmanager
def _watcher() -> Iterator[RunWatcher]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    hidden = not sys.stderr.isatty()
    with Progress(*columns, console=Console(stderr=True, quiet=hidden), disable=hidden) as bars:
        yield _BarWatcher(bars)
