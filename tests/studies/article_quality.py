"""Which extraction finds the articles of pages best, on the half that nothing was learnt from.

    python -m tests.studies.article_quality --scrapinghub PATH --trafilatura PATH [--outputs FILE.jsonl]...

measures what `extract` in a recipe may be, and what the first benchmark stores of other programs. Each FILE has
what one more program finds, in rows {"name", "text"}. `article_pages` says how they are made, and what the pages
are.
"""

from __future__ import annotations

import json
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


def measure(pages: list[ArticlePage], outputs: dict[str, dict[str, str]]) -> dict[str, ArticleScore]:
    """Return the score of each extraction, best first; outputs that lack a page are left out."""
    found = {name: score(pages, [extract(page.html) for page in pages]) for name, extract in EXTRACTIONS.items()}
    for name, texts in outputs.items():
        if all(page.name in texts for page in pages):
            found[name] = score(pages, [texts[page.name] for page in pages])
    return dict(sorted(found.items(), key=lambda item: -item[1].f1))


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@article_pages.options
@click.option(
    "--outputs", type=click.Path(path_type=Path, exists=True), multiple=True, help="What one more program finds."
)
def main(scrapinghub: Path, trafilatura: Path, outputs: tuple[Path, ...]) -> None:
    """Print precision, recall and F1 of extractions on the held half of the pages."""
    sets = article_pages.read_pages(scrapinghub, trafilatura)
    others = stored_outputs(scrapinghub / "output")
    others.update({path.name: article_pages.read_texts(path) for path in outputs})
    for name, pages in sets.items():
        held = [page for page in pages if page.is_held]
        lines = [(each, *report.places(one)) for each, one in measure(held, others).items()]
        columns = ("extraction", "precision", "recall", "F1", "±")
        report.show(Console(), [StudyTable(f"{name}: {len(held)} held pages", columns, lines)])


if __name__ == "__main__":
    main()
