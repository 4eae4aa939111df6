"""Prints verdicts as lines of a table while they come."""

from __future__ import annotations

import shutil
import sys

import click
from rich.cells import cell_len, set_cell_size

from simstream.model import Verdict, VerdictKind
from simstream.terminal import printable

COLOURS = {
    VerdictKind.NEW: "green",
    VerdictKind.NEAR_DUPLICATE: "yellow",
    VerdictKind.UNCHANGED: "cyan",
    VerdictKind.TOO_SHORT: "bright_black",
    VerdictKind.UNREADABLE: "red",
    VerdictKind.WITHDRAWN: "magenta",
}
_LIKE = "  =  "
_MIN_NAME_CELLS = 8
_WIDE_NAME_CELLS = 24
"""Names that would be shorter beside the figures get a line of their own."""
_INDENT = " " * 10
HEAD = f"{'ordinal':>8}  {'verdict':<14}  {'similar':>7}  {'bits':>4}  {'cluster':>8}  "


def header() -> str:
    """Return the first line of the table."""
    return click.style(HEAD + "page", bold=True)


def line(verdict: Verdict) -> str:
    """Return one verdict as a line, cut to the width of a terminal; a pipe gets it whole. Names that would lose
    much in a narrow terminal stand on a line of their own."""
    alike = "" if verdict.similarity is None else f"{verdict.similarity:.4f}"
    bits = "" if verdict.distance is None else str(verdict.distance)
    word = click.style(f"{verdict.verdict:<14}", fg=COLOURS[verdict.verdict])
    start = f"{verdict.ordinal:>8}  {word}  {alike:>7}  {bits:>4}  {verdict.cluster_id or '':>8}  "
    names = [printable(name) for name in (verdict.id, verdict.near_duplicate_of) if name is not None]
    more, room = _more(verdict), _room(HEAD)
    if room is not None and room < _wanted(names, more):
        start, room = start.rstrip() + "\n" + _INDENT, _room(_INDENT)
    return start + _fit(_page(names, more, room), room)


def header_line(name: str, value: str) -> str:
    """Return a header of a verdict, for the line below it."""
    return _INDENT + _fit(printable(f"{name}: {value}"), _room(_INDENT))


def _more(verdict: Verdict) -> str:
    """Return the reason and the merged clusters."""
    more = f"  ({verdict.reason})" if verdict.reason else ""
    if verdict.merged_clusters:
        clusters = "cluster" if len(verdict.merged_clusters) == 1 else "clusters"
        more += f"  merges {clusters} {', '.join(verdict.merged_clusters)}"
    return more


def _wanted(names: list[str], more: str) -> int:
    """Return the cells in which no name loses much."""
    cells = sum(min(cell_len(name), _WIDE_NAME_CELLS) for name in names)
    return cells + cell_len(_LIKE) * (len(names) - 1) + cell_len(more)


def _page(names: list[str], more: str, room: int | None) -> str:
    """Return the names of the page and its match, and `more`. Long names lose their beginning if there are too few
    cells of `room`."""
    if room is not None and cell_len(_LIKE.join(names) + more) > room:
        left = room - cell_len(more) - cell_len(_LIKE) * (len(names) - 1)
        shortest = min(map(cell_len, names)) if len(names) > 1 else 0
        cells = max(left // len(names), left - shortest, _MIN_NAME_CELLS)
        names = [_keep_end(name, cells) for name in names]
    return _LIKE.join(names) + more


def _keep_end(name: str, room: int) -> str:
    if cell_len(name) <= room:
        return name
    end = name[-room:]
    while cell_len(end) >= room:
        end = end[1:]
    return "…" + end


def _room(start: str) -> int | None:
    """Return the cells of a terminal's line after `start`; None for a pipe."""
    return shutil.get_terminal_size().columns - len(start) if sys.stdout.isatty() else None


def _fit(text: str, room: int | None) -> str:
    if room is None or cell_len(text) <= room:
        return text
    return set_cell_size(text, max(room - 1, 10)) + "…"
