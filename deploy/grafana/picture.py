"""Draws the dashboard's panels from a running Prometheus: what Grafana would show, as a picture for the docs.

    python -m deploy.grafana.picture --prometheus 127.0.0.1:9090 --minutes 10 docs/pictures/dashboard.png

Asks exactly the queries of simstream.json; `tests/bench/dashboard.py` makes a run for it. Needs matplotlib (`pip
install 'simstream[evaluate]'`).
"""

from __future__ import annotations

import argparse
import json
import time
import urllib.parse
import urllib.request
from collections.abc import Collection
from math import ceil, log2
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MultipleLocator
from PIL import Image

DASHBOARD = Path(__file__).with_name("simstream.json")
ACROSS = 3
POINTS = 200
MAX_LINES = 8
"""At most so many lines of a panel are named; more names would hide it."""
MAX_BYTE_TICKS = 6


def ask(address: str, expression: str, begin: float, end: float) -> list[dict[str, Any]]:
    """Return the values of an expression between two times, in POINTS steps."""
    step = max(1.0, (end - begin) / POINTS)
    parameters = {"query": expression, "start": begin, "end": end, "step": step}
    url = f"http://{address}/api/v1/query_range?{urllib.parse.urlencode(parameters)}"
    with urllib.request.urlopen(url, timeout=60) as answer:
        found: list[dict[str, Any]] = json.load(answer)["data"]["result"]
    return found


def filled(expression: str, job: str = ".*", rate_interval: str = "15s") -> str:
    """Return an expression with the dashboard's variables replaced, as Grafana sends it."""
    return expression.replace("$job", job).replace("$prefix", ".*").replace("$__rate_interval", rate_interval)


def rows(dashboard: dict[str, Any]) -> list[tuple[str, list[dict[str, Any]]]]:
    """Return the panels by row, in the order of the dashboard."""
    out: list[tuple[str, list[dict[str, Any]]]] = []
    for panel in dashboard["panels"]:
        if panel["type"] == "row":
            out.append((panel["title"], []))
        else:
            out[-1][1].append(panel)
    return out


def draw(
    address: str, minutes: float, until: float, file: Path, rate_interval: str, leave_out: Collection[str] = ()
) -> None:
    """Draw all panels into one picture. `leave_out`: the titles of rows that are not drawn."""
    begin = until - 60 * minutes
    dashboard = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    found = [(title, panels) for title, panels in rows(dashboard) if title not in leave_out]
    heights = [height for _, panels in found for height in [0.22] + [2.0] * -(-len(panels) // ACROSS)]
    plt.rcParams.update(
        {"font.size": 7, "svg.fonttype": "path", "axes.spines.top": False, "axes.spines.right": False}
    )
    figure = plt.figure(figsize=(13, sum(heights) * 1.12), layout="constrained")
    grid = figure.add_gridspec(len(heights), ACROSS, height_ratios=heights)
    line = 0
    for title, panels in found:
        head = figure.add_subplot(grid[line, :])
        head.axis("off")
        head.text(0, 0, title, fontsize=11, fontweight="bold", transform=head.transAxes)
        line += 1
        for number, panel in enumerate(panels):
            axes = figure.add_subplot(grid[line + number // ACROSS, number % ACROSS])
            draw_panel(axes, panel, lines(address, panel, begin, until, rate_interval))
            axes.set_xlim(0, minutes)
        line += -(-len(panels) // ACROSS)
    figure.savefig(file, dpi=80)
    if file.suffix == ".png":
        Image.open(file).convert("RGB").quantize(200).save(file, optimize=True)


def lines(
    address: str, panel: dict[str, Any], begin: float, end: float, rate_interval: str
) -> list[tuple[str, list[float], list[float]]]:
    """Return the panel's lines: name, minutes, values."""
    out = []
    for target in panel["targets"]:
        for series in ask(address, filled(target["expr"], rate_interval=rate_interval), begin, end):
            name = target["legendFormat"]
            for label, value in series["metric"].items():
                name = name.replace("{{" + label + "}}", value)
            points = [((when - begin) / 60, float(value)) for when, value in series["values"]]
            points = [point for point in points if abs(point[1]) != float("inf")]
            out.append((name, [point[0] for point in points], [point[1] for point in points]))
    return out


def draw_panel(axes: Axes, panel: dict[str, Any], found: list[tuple[str, list[float], list[float]]]) -> None:
    """Draw one panel: its lines, or stacked areas."""
    defaults = panel["fieldConfig"]["defaults"]
    axes.set_title(panel["title"], loc="left", fontsize=8)
    if defaults["custom"]["stacking"]["mode"] == "normal" and found:
        times = sorted({when for _, whens, _ in found for when in whens})
        values = [[dict(zip(whens, ys, strict=True)).get(when, 0.0) for when in times] for _, whens, ys in found]
        axes.stackplot(times, values, labels=[name for name, _, _ in found], alpha=0.7)
    else:
        for name, whens, ys in found:
            axes.plot(whens, ys, label=name, linewidth=1)
    axes.set_ylim(bottom=0)
    if defaults["unit"] == "bytes":
        axes.yaxis.set_major_locator(MultipleLocator(2.0 ** ceil(log2(axes.get_ylim()[1] / MAX_BYTE_TICKS))))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: told(value, defaults["unit"])))
    axes.grid(alpha=0.25)
    handles, names = axes.get_legend_handles_labels()
    drawn = [(handle, name) for handle, name in zip(handles, names, strict=True) if name][:MAX_LINES]
    if not any(whens for _, whens, _ in found):
        axes.text(0.5, 0.5, "no data", ha="center", va="center", transform=axes.transAxes, color="gray")
    elif drawn:
        axes.legend(*zip(*drawn, strict=True), fontsize=5.5, loc="upper left", ncols=2, framealpha=0.6)


def told(value: float, unit: str) -> str:
    """Return a value with its unit, for an axis."""
    if unit == "percentunit":
        return f"{100 * value:.3g} %"
    if unit == "s":
        if value >= 7200:
            return f"{value / 3600:.3g} h"
        if value >= 600:
            return f"{value / 60:.3g} min"
        return f"{value:.3g} s" if value >= 1 or value == 0 else f"{1000 * value:.3g} ms"
    step, letters, end = (1024, ("GiB", "MiB", "KiB"), " B") if unit == "bytes" else (1000, ("G", "M", "k"), "")
    for power, letter in zip((3, 2, 1), letters, strict=True):
        if abs(value) >= step**power:
            return f"{value / step**power:.3g} {letter}"
    return f"{value:.3g}{' /s' if unit == 'cps' else end}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prometheus", default="127.0.0.1:9090", metavar="HOST:PORT")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--until", type=float, default=time.time(), help="seconds since 1970 (default: now)")
    parser.add_argument("--rate-interval", default="15s", help="Grafana's value of $__rate_interval")
    parser.add_argument("file", type=Path)
    options = parser.parse_args()
    draw(options.prometheus, options.minutes, options.until, options.file, options.rate_interval)
