"""Makes simstream.json, the dashboard, from `panels.py`: `python -m deploy.grafana.dashboard` writes it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from deploy.grafana.panels import OF_JOB, ROWS, Panel

FILE = Path(__file__).with_name("simstream.json")
ACROSS = 3
"""The width of a panel, of Grafana's 24 columns."""
WIDTH, HEIGHT = 24 // ACROSS, 7
SOURCE = {"type": "prometheus", "uid": "${datasource}"}


def dashboard() -> str:
    """Return the text of the file."""
    made: dict[str, Any] = {
        "uid": "simstream",
        "title": "simstream",
        "description": "Pages in, verdicts out: flow, latency, index, shards, quality and faults of a job.",
        "tags": ["simstream"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [_source(), _label("job", "Job"), _label("prefix", "Prefix", f"{{{OF_JOB}}}")]},
        "panels": _panels(),
    }
    return json.dumps(made, indent=1) + "\n"


def _source() -> dict[str, Any]:
    """Return the choice of the data source: each Grafana has names of its own."""
    return {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"}


def _label(name: str, shown: str, of: str = "") -> dict[str, Any]:
    """Return the choice of a label's values."""
    return {
        "name": name,
        "label": shown,
        "type": "query",
        "datasource": SOURCE,
        "query": {"query": f"label_values(simstream_ready{of}, {name})", "refId": name},
        "refresh": 2,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }


def _panels() -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = []
    y = 0
    for row, panels in ROWS.items():
        place = {"x": 0, "y": y, "w": 24, "h": 1}
        out.append(
            {"id": len(out) + 1, "type": "row", "title": row, "collapsed": False, "gridPos": place, "panels": []}
        )
        y += 1
        for number, panel in enumerate(panels):
            across, down = number % ACROSS, number // ACROSS
            place = {"x": across * WIDTH, "y": y + down * HEIGHT, "w": WIDTH, "h": HEIGHT}
            out.append(_panel(len(out) + 1, panel, place))
        y += -(-len(panels) // ACROSS) * HEIGHT
    return out


def _panel(number: int, panel: Panel, place: dict[str, int]) -> dict[str, Any]:
    custom = {
        "drawStyle": "line",
        "fillOpacity": 30 if panel.stack else 0,
        "showPoints": "never",
        "stacking": {"mode": "normal" if panel.stack else "none", "group": "A"},
    }
    return {
        "id": number,
        "type": "timeseries",
        "title": panel.title,
        "datasource": SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0, "custom": custom}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
        "targets": [
            {"refId": chr(ord("A") + i), "datasource": SOURCE, "expr": query.expr, "legendFormat": query.legend}
            for i, query in enumerate(panel.queries)
        ],
    }


if __name__ == "__main__":
    FILE.write_text(dashboard(), encoding="utf-8")
