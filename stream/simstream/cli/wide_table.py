"""Prints tables of figures whole, however narrow the terminal is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Container

    from rich.console import Console
    from rich.table import Table

_MOST_COLUMNS: Final = 1_000


def make_table(*columns: str, left: Container[str] = ()) -> Table:
    """Return a table without a frame, for `console_for`. Columns are aligned to the right, but those in `left`."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE, show_edge=False, pad_edge=False)
    for name in columns:
        table.add_column(name, justify="left" if name in left else "right", no_wrap=True)
    return table


def console_for(*tables: Table) -> Console:
    """Return a console that is as wide as the tables at least: in a narrower terminal their lines wrap, and nothing
    is cut."""
    from rich.console import Console
    from rich.measure import Measurement

    console = Console(highlight=False, soft_wrap=True)
    wide = console.options.update(width=_MOST_COLUMNS)
    console.width = max([console.width, *(Measurement.get(console, wide, table).maximum for table in tables)])
    return console
