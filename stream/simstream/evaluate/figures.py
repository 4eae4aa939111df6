"""Draws the figures of a report as SVG, for light and dark backgrounds."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Sequence
from html import escape
from math import comb
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from simstream.evaluate.results import Contender, ContenderOnCorpus, DistanceCurve, EvaluationResults

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK: Final = "#0b1a2a"
"""Stands for the page's own text colour, which follows light and dark."""
COLOURS: Final = ("#2f7ed8", "#e07b00", "#159a80", "#9a5fd0", "#c8486a", "#7a8794")
BLUES: Final = ("#0f5bb5", "#3a86d8", "#6aa9e9", "#9cc8f2")
MARKS: Final = ("o", "s", "^", "D", "v", "P")
_SHOWN_BINS: Final = 4
_WHITE: Final = '<rect width="100%" height="100%" fill="#ffffff"/>\n <defs>'
MILLION: Final = 1e6


class FigureDrawing(NamedTuple):
    """One figure: its file's name without ending, a caption, and the SVG."""

    name: str
    caption: str
    svg: str

    def inline(self) -> str:
        """Return the SVG for an HTML page: without prologue, background, and ids that other figures have, too, in
        the page's own text colour, named by its caption, and with a greatest width, at which its text is about as
        large as the page's."""
        body = self.svg[self.svg.index("<svg") :].replace(_WHITE, "<defs>", 1)
        named = set(re.findall(r'(?:href="|url\()#([^")]+)', body))
        body = re.sub(r' id="([^"]*)"', lambda found: found[0] if found[1] in named else "", body)
        head, rest = body[: body.index(">")], body[body.index(">") :]
        width = re.search(r'\swidth="([0-9.]+)pt"', head)
        max_width = f' style="max-width: max(40rem, {1.4 * float(width[1]):.0f}px)"' if width else ""
        head = re.sub(r'\s(xmlns(:xlink)?|version|width|height)="[^"]*"', "", head)
        label = escape(self.caption.partition(". ")[0])
        told = f'<svg role="img" aria-label="{label}"{max_width}'
        return (head + rest).replace(INK, "currentColor").replace("<svg", told, 1)


def draw_all(results: EvaluationResults) -> list[FigureDrawing]:
    """Return every figure, the main one first."""
    drawings = [draw_main(results)]
    for number, info in enumerate(results.corpora):
        drawings.append(_precision_and_recall(results, number, info.name))
    drawings.append(_candidates(results))
    drawings += [
        _randomness(number, contender)
        for number, contender in enumerate(results.contenders)
        if contender.corpora[0].distances
    ]
    return drawings


def draw_main(results: EvaluationResults) -> FigureDrawing:
    """Draw recall by J and false matches of all contenders side by side."""
    labelled = [n for n, info in enumerate(results.corpora) if sum(info.pairs_by_bin[:_SHOWN_BINS])]
    found = "Left: share of labelled pairs that are found, by their true similarity J. Right: " if labelled else ""
    caption = (
        f"{found}false matches, that is pairs of different groups with J < .5 and all pairs of different corpora, "
        "per million pairs: the fewer the better."
    )
    caption = caption[0].upper() + caption[1:]

    def paint(figure: Figure) -> None:
        panels = figure.subplots(1, len(labelled) + 1, width_ratios=[1.0] * len(labelled) + [1.25])
        panels = list(panels) if labelled else [panels]
        for axes, number in zip(panels, labelled, strict=False):
            _recall_panel(axes, results, number)
        _false_panel(panels[-1], results)
        handles, names = panels[-1].get_legend_handles_labels()  # bars stand after lines
        _legend(figure, [*handles[1:], handles[0]], [*names[1:], names[0]])

    return FigureDrawing("main", caption, as_svg("main", (max(6.4, 4.2 * (len(labelled) + 1)), 3.9), paint))


def title_of(contender: Contender) -> str:
    """Return a contender's name with its distance."""
    if contender.distance is None:
        return f"{contender.name}, J ≥ {contender.agreement / contender.bits:.2g}"
    sketch = f" + {contender.bits}-bit sketch" if contender.bits else ""
    return f"{contender.name}, k = {contender.distance}{sketch}"


def plain(value: float | None) -> str:
    """Return a number with three digits, or all its digits before the point."""
    if value is None:
        return "–"
    if value == 0:
        return "0"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) >= 0.001 else f"{value:.1g}"


def bin_name(name: str) -> str:
    """Return the printed name of a bin of J."""
    return name.replace(">=", "≥").replace("-", "–")


def _recall_panel(axes: Axes, results: EvaluationResults, number: int) -> None:
    info, names = results.corpora[number], results.bins[:_SHOWN_BINS]
    for at, contender in enumerate(results.contenders):
        recall = contender.corpora[number].rule.recall[:_SHOWN_BINS]
        places = [place for place, share in enumerate(recall) if share.value is not None]
        values = [recall[place].value or 0.0 for place in places]
        low = [value - (recall[place].low or 0.0) for place, value in zip(places, values, strict=True)]
        high = [(recall[place].high or 0.0) - value for place, value in zip(places, values, strict=True)]
        shift = 0.06 * (at - (len(results.contenders) - 1) / 2)
        axes.errorbar(
            [place + shift for place in places],
            values,
            yerr=[[max(0.0, x) for x in low], [max(0.0, x) for x in high]],
            color=COLOURS[at % len(COLOURS)],
            marker=MARKS[at % len(MARKS)],
            linewidth=1.8,
            markersize=5.5,
            elinewidth=1,
        )
    axes.set_xticks(
        range(len(names)), [f"{bin_name(name)}\n{info.pairs_by_bin[n]:,}" for n, name in enumerate(names)]
    )
    axes.set_ylim(0, 1.03)
    axes.set_title(f"{info.name}: recall by J")
    axes.set_xlabel("true J of the pair, number of pairs")


def _false_panel(axes: Axes, results: EvaluationResults) -> None:
    names = [info.name for info in results.corpora]
    if results.contenders[0].apart_rule is not None:
        names.append("between corpora")
    count = len(results.contenders)
    height = 0.8 / count
    for at, contender in enumerate(results.contenders):
        values = [_false_per_million(one) for one in contender.corpora]
        wrong = [(one.rule.wrong.value or float("nan")) * MILLION for one in contender.corpora]
        if contender.apart_rule is not None:
            values.append((contender.apart_rule.matched.value or 0.0) * MILLION)
        places = [number + (at - (count - 1) / 2) * height for number in range(len(values))]
        axes.barh(places, values, height * 0.9, color=COLOURS[at % len(COLOURS)], label=title_of(contender))
        for place, value in zip(places, values, strict=True):
            axes.annotate(
                "none" if value == 0 else plain(value),
                (value, place),
                xytext=(3, 0),
                textcoords="offset points",
                va="center",
                fontsize=7.5,
                color=INK,
            )
        axes.plot(wrong, places[: len(wrong)], linestyle="", marker="D", markersize=4, color=INK)
    axes.plot([], [], linestyle="", marker="D", markersize=4, color=INK, label="of these J < .3")
    axes.set_xscale("symlog", linthresh=0.01)
    axes.xaxis.set_major_formatter(lambda value, _: plain(value))  # matplotlib's own writes TeX
    axes.locator_params("x", numticks=6)
    axes.set_xlim(0, max(1.0, axes.get_xlim()[1]) * 12)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.grid(False, axis="y")
    axes.set_title("false matches per million pairs")


def _false_per_million(one: ContenderOnCorpus) -> float:
    return ((one.rule.wrong.value or 0.0) + (one.rule.loose.value or 0.0)) * MILLION


def _precision_and_recall(results: EvaluationResults, number: int, name: str) -> FigureDrawing:
    contenders = [one for one in results.contenders if one.corpora[number].curves]

    def paint(figure: Figure) -> None:
        panels = figure.subplots(1, len(contenders), squeeze=False, sharey=True)[0]
        for axes, contender in zip(panels, contenders, strict=True):
            _curves_panel(axes, results, contender.corpora[number].curves)
            axes.set_title(title_of(contender))
            axes.axvline(contender.distance or 0, color=INK, alpha=0.25, linewidth=1)
        panels[0].set_ylim(0, 1.03)
        handles, names = panels[0].get_legend_handles_labels()
        _legend(figure, handles, names)

    caption = (
        f"{name}: recall by bin of J and precision (matched pairs with J ≥ .5) by greatest distance k. Thin: all "
        "candidates. Thick: confirmed by the sketch. The upright line is the recipe's own k."
    )
    file = figure_name("precision-recall", number, name)
    return FigureDrawing(file, caption, as_svg(file, (4.6 * len(contenders), 3.9), paint))


def _curves_panel(axes: Axes, results: EvaluationResults, curves: Sequence[DistanceCurve]) -> None:
    sketched = any(curve.sketch for curve in curves)
    for sketch in (False, True):
        rows = [curve for curve in curves if curve.sketch == sketch]
        if not rows:
            continue
        style: dict[str, Any] = {"linewidth": 2.2 if sketch or not sketched else 0.9}
        best = sketch or not sketched
        ks = [curve.distance for curve in rows]
        for at in range(_SHOWN_BINS):
            values = [curve.recall[at].value for curve in rows]
            if values[0] is not None:
                label = f"recall, J {bin_name(results.bins[at])}" if best else None
                axes.plot(ks, [value or 0.0 for value in values], color=BLUES[at], label=label, **style)
        precise = [curve.precision.value for curve in rows]
        label = "precision" if best else None
        gaps = [float("nan") if value is None else value for value in precise]
        axes.plot(ks, gaps, color=COLOURS[1], linestyle=(0, (4, 2)), label=label, **style)
    axes.set_xlabel("greatest distance k")
    axes.set_xticks(ks)


def _candidates(results: EvaluationResults) -> FigureDrawing:
    contenders = [one for one in results.contenders if one.corpora[0].curves]

    def paint(figure: Figure) -> None:
        panels = figure.subplots(1, len(contenders), squeeze=False, sharey=True)[0]
        for axes, contender in zip(panels, contenders, strict=True):
            for at, one in enumerate(contender.corpora):
                rows = [curve for curve in one.curves if not curve.sketch]
                _rate(axes, [row.distance for row in rows], [row.matched.value for row in rows], at, one.corpus)
            if contender.apart:
                values = [row.candidates.value for row in contender.apart]
                ks = [row.distance for row in contender.apart]
                _rate(axes, ks, values, len(contender.corpora), "between corpora")
            axes.set_title(title_of(contender))
            axes.set_xlabel("greatest distance k")
        panels[0].set_yscale("symlog", linthresh=0.001)
        panels[0].yaxis.set_major_formatter(lambda value, _: plain(value))
        panels[0].set_ylim(0, 2 * panels[0].get_ylim()[1])  # the edge would cut the highest mark
        panels[0].set_ylabel("candidates per million pairs")
        handles, names = panels[0].get_legend_handles_labels()
        _legend(figure, handles, names)

    caption = (
        "The index's load: pairs of different groups within k, per million pairs, before any sketch is compared."
    )
    return FigureDrawing("candidates", caption, as_svg("candidates", (4.6 * len(contenders), 3.6), paint))


def _rate(axes: Axes, ks: Sequence[int], values: Sequence[float | None], at: int, label: str) -> None:
    shown = [(value or 0.0) * MILLION for value in values]
    axes.plot(ks, shown, color=COLOURS[at % len(COLOURS)], marker=MARKS[at % len(MARKS)], markersize=4, label=label)


def _randomness(number: int, contender: Contender) -> FigureDrawing:
    def paint(figure: Figure) -> None:
        left, right = figure.subplots(1, 2)
        ideal = [comb(64, d) / 2**64 for d in range(65)]
        left.fill_between(range(65), ideal, color=INK, alpha=0.15, linewidth=0, label="Binomial(64, 1/2)")
        for at, one in enumerate(contender.corpora):
            colour = COLOURS[at % len(COLOURS)]
            left.plot([share.value or 0.0 for share in one.distances], color=colour, label=one.corpus)
            right.plot([share.by_seed[0] for share in one.bits if share.by_seed], color=colour, linewidth=1.2)
        left.set_xlim(0, 64)
        left.set_title("random pairs of different groups, by distance")
        right.axhline(0.5, color=INK, alpha=0.4, linewidth=1)
        right.set_ylim(0, 1)
        right.set_title("share of ones, by bit position")
        handles, names = left.get_legend_handles_labels()
        _legend(figure, handles, names)

    caption = (
        f"{contender.name}: how random the fingerprints are (bits: under seed {contender.seeds[0]}). A curve to "
        "the left of the grey one, or bits far from 1/2, mean that pages share heavy words."
    )
    file = figure_name("randomness", number, contender.name)
    return FigureDrawing(file, caption, as_svg(file, (9.2, 3.4), paint))


def _legend(figure: Figure, handles: Sequence[Any], names: Sequence[str]) -> None:
    """Draw one legend above all panels, in as many columns as fit."""
    for columns in range(len(names), 0, -1):
        legend = figure.legend(handles, names, loc="outside upper center", ncols=columns, frameon=False)
        if columns == 1 or legend.get_window_extent().width <= figure.bbox.width:
            return
        legend.remove()


def as_svg(salt: str, inches: tuple[float, float], paint: Callable[[Figure], None]) -> str:
    """Return what `paint` draws, on white. The same numbers give the same bytes."""
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    style: Any = {
        "svg.fonttype": "none",
        "svg.hashsalt": salt,
        "font.family": "sans-serif",
        "font.size": 9.5,
        "text.color": INK,
        "text.parse_math": False,
        "axes.labelcolor": INK,
        "axes.edgecolor": INK,
        "axes.titlecolor": INK,
        "axes.titlesize": 10.5,
        "axes.grid": True,
        "grid.color": INK,
        "grid.alpha": 0.12,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "xtick.color": INK,
        "ytick.color": INK,
    }
    with mpl.rc_context(style), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")  # the browser's fonts have it
        figure = Figure(figsize=inches, layout="constrained")
        figure.patch.set_alpha(0)
        FigureCanvasSVG(figure)
        paint(figure)
        for axes in figure.axes:
            axes.patch.set_alpha(0)
        out = io.StringIO()
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(out, format="svg", metadata=nothing)
    svg = re.sub(r"\s*<metadata>.*?</metadata>", "", out.getvalue(), flags=re.DOTALL)
    return svg.replace("<defs>", _WHITE, 1)


def figure_name(kind: str, number: int, name: str) -> str:
    """Return the name of the figure of a corpus or contender. `number`: its place, since names may differ only in
    characters that are left out."""
    return "-".join([kind, str(number + 1), *re.findall(r"[A-Za-z0-9_-]+", name)])
