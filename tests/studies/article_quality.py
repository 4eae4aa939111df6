"""Which extraction finds the main text of pages best, on the part that nothing was learnt from.

    python -m tests.studies.article_quality --scrapinghub PATH --trafilatura PATH --wcxb PATH [--outputs FILE]...

measures what `extract` in a recipe may be, and what `scrapinghub` stores of other programs. Each FILE has
what one more program finds, in rows {"name", "text"}. `article_pages` says how they are made, and what the pages
are.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

import click
from rich.console import Console

from simstream.text.extraction.extract import extract_one
from simstream.text.extraction.fast import extract_fast
from simstream.text.extraction.prose import prose
from tests.studies import article_pages, report
from tests.studies.article_pages import ArticlePage
from tests.studies.article_scores import ArticleScore, score
from tests.studies.measure import StudyTable

_HTML: Final = "text/html"
EXTRACTIONS: Final[dict[str, Callable[[str], str]]] = {
    'simstream, "fast"': lambda html: extract_fast(html, _HTML).text or "",
    'simstream, "main"': lambda html: extract_one(html, _HTML).text or "",
    'simstream, "prose"': lambda html: prose(extract_one(html, _HTML).text or ""),
}


def stored_outputs(folder: Path) -> dict[str, dict[str, str]]:
    """Return what other programs found on the pages of the first benchmark, as it stores it."""
    found = {}
    for path in sorted(folder.glob("*.json")):
        content = json.loads(path.read_text(encoding="utf-8"))
        rows = content.get("output", content)
        found[path.stem] = {name: row.get("articleBody") or "" for name, row in rows.items()}
    return found


def find_texts(pages: list[ArticlePage], outputs: dict[str, dict[str, str]]) -> dict[str, list[str]]:
    """Return what each extraction finds on the pages; outputs that lack a page are left out."""
    found = {name: [extract(page.html) for page in pages] for name, extract in EXTRACTIONS.items()}
    for name, texts in outputs.items():
        if all(page.name in texts for page in pages):
            found[name] = [texts[page.name] for page in pages]
    return found


def measure(pages: list[ArticlePage], found: dict[str, list[str]]) -> dict[str, ArticleScore]:
    """Return the score of each extraction, best first."""
    scores = {name: score(pages, texts) for name, texts in found.items()}
    return dict(sorted(scores.items(), key=lambda item: -item[1].f1))


def measure_kinds(pages: list[ArticlePage], found: dict[str, list[str]]) -> StudyTable:
    """Return the F1 of each extraction by kinds of pages, the most frequent kind first."""
    kinds = [kind for kind, _ in Counter(page.kind for page in pages).most_common()]
    rows = {kind: [row for row, page in enumerate(pages) if page.kind == kind] for kind in kinds}
    lines = [
        (
            name,
            *report.places(
                score([pages[i] for i in rows[kind]], [texts[i] for i in rows[kind]]).f1 for kind in kinds
            ),
        )
        for name, texts in found.items()
    ]
    columns = ("F1", *(f"{kind} ({len(rows[kind])})" for kind in kinds))
    return StudyTable("By kind of page", columns, lines)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@article_pages.options
@click.option(
    "--outputs", type=click.Path(path_type=Path, exists=True), multiple=True, help="What one more program finds."
)
def main(outputs: tuple[Path, ...], **folders: Path) -> None:
    """Print precision, recall and F1 of extractions on the held part of the pages."""
    sets = article_pages.read_pages(**folders)
    others = stored_outputs(folders["scrapinghub"] / "output")
    others.update({path.name: article_pages.read_texts(path) for path in outputs})
    for name, pages in sets.items():
        held = [page for page in pages if page.is_held]
        found = find_texts(held, others)
        lines = [(each, *report.places(one)) for each, one in measure(held, found).items()]
        columns = ("extraction", "precision", "recall", "F1", "±")
        shown = [StudyTable(f"{name}: {len(held)} held pages", columns, lines)]
        report.show(Console(), [*shown, measure_kinds(held, found)] if held[0].kind else shown)


if __name__ == "__main__":
    main()
