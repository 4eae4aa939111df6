"""Prints tables of figures whole, however narrow the terminal is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_MOST_COLUMNS: Final = 1_000


def console_for(table: Table) -> Console:
    """Return a console that is as wide as the table at least: in a narrower terminal its lines wrap, and no figure
    is cut."""
    from rich.console import Console
    from rich.measure import Measurement

    console = Console(highlight=False, soft_wrap=True)
    wanted = Measurement.get(console, console.options.update(width=_MOST_COLUMNS), table).maximum
    console.width = max(console.width, wanted)
    return console
