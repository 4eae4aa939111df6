"""Shows a progress bar on a terminal, and a line about work that takes long."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import TYPE_CHECKING

import click

from simstream.amounts import say_pages
from simstream.terminal import printable

if TYPE_CHECKING:
    from simstream.model import Record
    from simstream.sources.fields import FieldNames
    from simstream.sources.input_files import Inputs
    from simstream.sources.read import PageReader


def say(sentence: str) -> None:
    """Print a sentence on stderr, for the person who waits, above the bar if there is one."""
    lines = "\n".join(map(printable, f"simstream: {sentence}".split("\n")))
    click.echo(lines, sys.stderr, err=True)  # without `sys.stderr` it would write past the bar, into its line


def with_progress(
    inputs: Inputs,
    max_record_bytes: int,
    title: str,
    fields: FieldNames | None = None,
    *,
    transient: bool = False,
    forgiving: bool = False,
) -> Iterator[Record]:
    """Yield the records of all inputs, with a bar if stderr is a terminal. The bar stays, unless `transient`.

    Says on stderr what web archives held, unless `transient`. `forgiving`: see `read_pages`.
    """
    from simstream.sources.read import read_pages, size_of

    reader = read_pages(inputs, max_record_bytes, fields, None if transient else say, forgiving=forgiving)
    return shown(reader, title, size_of(inputs), transient=transient)


def shown(reader: PageReader, title: str, total: int | None, *, transient: bool = False) -> Iterator[Record]:
    """Yield the records of a reader, with a bar if stderr is a terminal. `total`: the bytes of all inputs."""
    if not sys.stderr.isatty():
        yield from reader
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    pages = TextColumn("{task.fields[pages]}, {task.fields[rate]:,.0f}/s")
    columns = (TextColumn("{task.description}"), BarColumn(), pages, TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=transient) as bar:
        task = bar.add_task(title, total=total and total >> 10, pages=say_pages(0), rate=0)
        number, began = 0, perf_counter()
        for number, record in enumerate(reader, 1):
            yield record
            if number % 100 == 0:
                rate = number / max(perf_counter() - began, 1e-9)
                bar.update(task, completed=reader.consumed >> 10, pages=say_pages(number), rate=rate)
        rate = number / max(perf_counter() - began, 1e-9)
        bar.update(task, total=1, completed=1, pages=say_pages(number), rate=rate)


@contextmanager
def counting(title: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """Yield a function that hears how much is done. A terminal shows a bar on stderr, up to `total` if known."""
    if not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed:,}"))
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=total)
        yield lambda done: bar.update(task, completed=done)
