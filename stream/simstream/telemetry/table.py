"""The README's table of metrics: `python -m simstream.telemetry.table` prints it, `--write README.md` writes it."""

from __future__ import annotations

import sys
from pathlib import Path

from simstream.telemetry.metrics import Metrics
from simstream.telemetry.registry import MetricLabel

BEGINS = "<!-- metrics: made by `python -m simstream.telemetry.table --write README.md` -->\n"
ENDS = "<!-- end of metrics -->\n"


def table() -> str:
    """Return all metrics as a Markdown table, a row each."""
    rows = ["| metric | kind, unit | labels | meaning |", "|---|---|---|---|"]
    for metric in Metrics().described:
        labels = "; ".join(_label(label) for label in metric.labels)
        rows.append(f"| `{metric.name}` | {metric.kind}, {metric.unit} | {labels} | {metric.sentence} |")
    return "\n".join(rows) + "\n"


def put_into(text: str) -> str:
    """Return the document with the table between its two marks. Raises ValueError if a mark is missing."""
    before, _, rest = text.partition(BEGINS)
    _, found, after = rest.partition(ENDS)
    if not found:
        raise ValueError(f"the document lacks the marks {BEGINS.strip()!r} and {ENDS.strip()!r}")
    return f"{before}{BEGINS}{table()}{ENDS}{after}"


def _label(label: MetricLabel) -> str:
    return f"`{label.name}`: " + (", ".join(label.values) or label.bound)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--write"] and len(sys.argv) == 3:
        document = Path(sys.argv[2])
        document.write_text(put_into(document.read_text(encoding="utf-8")), encoding="utf-8")
    else:
        sys.stdout.write(table())
