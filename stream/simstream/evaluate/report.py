"""Writes the report: an HTML page, its figures and a table."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from simstream.errors import UsageError
from simstream.evaluate.figures import COLOURS, INK, MILLION, bin_name, draw_all, figure_name, plain, title_of
from simstream.evaluate.intervals import MeanInterval, ShareInterval
from simstream.evaluate.results import DistanceCurve, EvaluationResults
from simstream.evaluate.sentences import percent, read
from simstream.evaluate.store import write_atomically
from simstream.terminal import printable

if TYPE_CHECKING:
    from rich.table import Table

PAGE: Final = "index.html"
_TEMPLATE: Final = "page.html.jinja"
_TITLE: Final = (
    "In %: recall by J, and verdicts that name a page with J < .5 and < .3. Per million pairs: false matches, and "
    "candidates (all within the distance)."
)


def check_libraries() -> None:
    """Raise UsageError if a package is missing that `write` needs."""
    for package in ("matplotlib", "jinja2"):
        if find_spec(package) is None:
            raise UsageError(
                f"the report needs {package}, which is not installed", "run pip install 'simstream[evaluate]'"
            )


def write(results: EvaluationResults, folder: Path) -> None:
    """Write `index.html`, and each figure as a file. Raises UsageError."""
    drawings = draw_all(results)
    for drawing in drawings:
        write_atomically(folder / f"{drawing.name}.svg", drawing.svg.encode())
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("simstream.evaluate", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(percent=percent, bounds=_bounds, seeds=_seeds, plain=plain)
    page = environment.get_template(_TEMPLATE).render(
        results=results,
        parts=read(results),
        bin_name=bin_name,
        figures={drawing.name: drawing for drawing in drawings},
        title_of=title_of,
        figure_name=figure_name,
        colours=COLOURS,
        ink=INK,
    )
    write_atomically(folder / PAGE, page.encode())


def table(results: EvaluationResults) -> Table:
    """Return the main numbers of every contender on every corpus, in 80 columns."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    found = Table(title=_TITLE, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    found.add_column("", no_wrap=True, overflow="ellipsis")
    for name in (*results.bins[:4], "J<.5", "J<.3", "false", "cand."):
        found.add_column(name, justify="right", no_wrap=True)
    for number, info in enumerate(results.corpora):
        found.add_row(Text(printable(info.name)), style="bold")
        for contender in results.contenders:
            one = contender.corpora[number]
            said = next((row for row in one.judged if row.link == "any"), None)
            false = (one.rule.wrong.value or 0) + (one.rule.loose.value or 0)
            found.add_row(
                Text(printable(f"  {contender.name}")),
                *(_bare(share.value) for share in one.rule.recall[:4]),
                _bare(said.below_5.value if said else None),
                _bare(said.below_3.value if said else None),
                plain(MILLION * false),
                plain(_candidates(one.curves, contender.distance)),
            )
    if results.contenders[0].apart_rule is not None:
        found.add_row("between corpora", style="bold")
    for contender in results.contenders:
        if (rule := contender.apart_rule) is not None:
            candidates = None if contender.distance is None else (rule.candidates.value or 0) * MILLION
            cells = (plain((rule.matched.value or 0) * MILLION), plain(candidates))
            found.add_row(Text(printable(f"  {contender.name}")), *["–"] * 6, *cells)
    return found


def _bare(value: float | None) -> str:
    return percent(value).removesuffix(" %")


def _candidates(curves: list[DistanceCurve], distance: int | None) -> float | None:
    """Return candidates per million at the recipe's own distance; None if it was not measured."""
    rates = [curve.matched.value for curve in curves if curve.distance == distance and not curve.sketch]
    return None if not rates or rates[0] is None else rates[0] * MILLION


def _bounds(interval: ShareInterval | MeanInterval, scale: float = 1.0) -> str:
    """Return the interval in per cent, such as `97.0–98.7`, or in `scale`; empty without an interval."""
    if interval.value is None or interval.low is None or interval.high is None:
        return ""
    if scale == 1.0 and isinstance(interval, ShareInterval):
        return f"{_bare(interval.low)}–{_bare(interval.high)}"
    return f"{plain(interval.low * scale)}–{plain(interval.high * scale)}"


def _seeds(share: ShareInterval, scale: float = 100.0) -> str:
    """Return the least and the greatest value of the seeds; empty for one seed."""
    if len(share.by_seed) < 2:
        return ""
    return f"{plain(min(share.by_seed) * scale)}–{plain(max(share.by_seed) * scale)}"
