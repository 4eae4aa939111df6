"""Tables of studies: on the terminal, as Markdown, and the numbers as JSON."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table as RichTable

from tests.studies.context import StudyContext
from tests.studies.measure import StudyTable


def tables(name: str, result: dict[str, Any]) -> list[StudyTable]:
    """The tables of one study's numbers."""
    found: list[StudyTable] = importlib.import_module(f"tests.studies.{name}").tables(result)
    return found


def show(console: Console, found: list[StudyTable]) -> None:
    """Print tables for a person."""
    for table in found:
        rich = RichTable(title=table.title, title_justify="left", header_style="bold")
        for number, column in enumerate(table.columns):
            rich.add_column(column, justify="right" if number else "left")
        for row in table.rows:
            rich.add_row(*row)
        console.print(rich)


def write(out: Path, context: StudyContext, results: dict[str, Any]) -> None:
    """Write `studies.json` and `studies.md`."""
    recipe, policy = context.recipe.name, context.policy()
    tested = {"recipe": recipe, "recipe_id": policy.recipe_id, "distance": policy.distance}
    tested["similarity"] = context.recipe.similarity
    content = json.dumps({**tested, "studies": results}, ensure_ascii=False, indent=1)
    (out / "studies.json").write_text(content + "\n", encoding="utf-8")
    lines = [f"# Studies of the recipe {recipe}", ""]
    lines += [
        f"Recipe id {policy.recipe_id}, distance {policy.distance}, similarity {context.recipe.similarity}.",
        "",
    ]
    lines += ["Each cell: share (95 % interval; n). J: Jaccard similarity of character 5-shingles.", ""]
    for name, result in results.items():
        lines += [f"## {name}", ""]
        for table in tables(name, result):
            lines += [*markdown(table), ""]
    (out / "studies.md").write_text("\n".join(lines), encoding="utf-8")


def places(shares: Iterable[float]) -> list[str]:
    """Shares with three places."""
    return [f"{share:.3f}" for share in shares]


def markdown(table: StudyTable) -> list[str]:
    """One table as lines of Markdown."""
    head = ["", f"| {' | '.join(table.columns)} |", f"|{'---|' * len(table.columns)}"]
    return [f"**{table.title}**", *head, *(f"| {' | '.join(row)} |" for row in table.rows)]
