"""Boilerplate spikes: pages without content of their own must neither take real pages in nor tie what differs.

One boilerplate page to 20 news pages, through extraction, in a random order, under both link rules.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from tests.studies import dressing
from tests.studies.chaining import LINKS, final_clusters
from tests.studies.context import NEWS, StudyContext
from tests.studies.measure import StudyTable, cell, share
from tests.studies.shells import SHELLS, page

REAL_TO_ONE = 20
REAL = ""


def run(context: StudyContext) -> dict[str, Any]:
    random = context.random("boilerplate")
    pages: list[tuple[str, dict[str, Any]]] = [(REAL, {"text": doc.text}) for doc in context.docs(NEWS)]
    for number in range(max(len(SHELLS), len(pages) // REAL_TO_ONE)):
        shell = SHELLS[number % len(SHELLS)]
        html = page(shell, dressing.headline(random), random)
        pages.append((shell.name, {"html": html, "status": shell.status}))
    random.shuffle(pages)
    kinds = [kind for kind, _ in pages]
    result: dict[str, Any] = {"real_pages": kinds.count(REAL), "boilerplate_pages": len(kinds) - kinds.count(REAL)}
    for link in LINKS:
        with context.deduper(link) as deduper:
            verdicts = deduper.judge({"id": str(number), **content} for number, (_, content) in enumerate(pages))
        words = [verdict.verdict for verdict in verdicts]
        result[link] = _clusters(kinds, final_clusters(verdicts)) | {"templates": _templates(kinds, words)}
        result[link]["too_short"] = share(
            sum(word == "too_short" for kind, word in zip(kinds, words, strict=True) if kind != REAL),
            result["boilerplate_pages"],
        )
    return result


def _clusters(kinds: list[str], cluster: list[str | None]) -> dict[str, Any]:
    """What clusters hold: of boilerplate, of several templates, of real pages beside boilerplate."""
    content: dict[str, Counter[str]] = {}
    for kind, name in zip(kinds, cluster, strict=True):
        if name is not None:
            content.setdefault(name, Counter())[kind] += 1
    of_shells = [found for found in content.values() if set(found) - {REAL}]
    largest = max(of_shells, key=lambda found: found.total(), default=Counter())
    several = [found for found in of_shells if len(found) > 1]
    in_clusters = sum(found.total() - found[REAL] for found in of_shells)
    return {
        "boilerplate_clusters": len(of_shells),
        "largest": dict(largest.most_common(4)),
        "largest_real": max((found[REAL] for found in content.values()), default=0),
        "real_pages_with_boilerplate": share(sum(found[REAL] for found in of_shells), kinds.count(REAL)),
        "boilerplate_in_clusters_of_several_templates": share(
            sum(found.total() - found[REAL] for found in several), in_clusters
        ),
        "several_templates": [dict(found) for found in several][:10],
    }


def _templates(kinds: list[str], words: list[str]) -> dict[str, Any]:
    """How each template's pages were judged."""
    found: dict[str, Counter[str]] = {}
    for kind, word in zip(kinds, words, strict=True):
        if kind != REAL:
            found.setdefault(kind, Counter())[word] += 1
    return {kind: dict(counts) for kind, counts in sorted(found.items())}


def tables(result: dict[str, Any]) -> list[StudyTable]:
    found = [result[link] for link in LINKS]
    lines = [
        ("too_short, of boilerplate %", *(cell(one["too_short"]) for one in found)),
        ("clusters with boilerplate", *(f"{one['boilerplate_clusters']:,}" for one in found)),
        ("largest of them", *(_content(one["largest"]) for one in found)),
        ("largest cluster of real pages", *(f"{one['largest_real']:,}" for one in found)),
        (
            "real pages in a cluster with boilerplate %",
            *(cell(one["real_pages_with_boilerplate"]) for one in found),
        ),
        (
            "boilerplate in clusters of several templates %",
            *(cell(one["boilerplate_in_clusters_of_several_templates"]) for one in found),
        ),
        ("which", *("; ".join(_content(content) for content in one["several_templates"]) or "-" for one in found)),
    ]
    words = ("too_short", "new", "near_duplicate")
    templates = [
        (kind, *(str(counts.get(word, 0)) for word in words)) for kind, counts in result["any"]["templates"].items()
    ]
    title = f"{result['boilerplate_pages']:,} boilerplate pages among {result['real_pages']:,} news pages"
    return [
        StudyTable(title, ("", *LINKS), lines),
        StudyTable("Each template's pages under `any`", ("", *words), templates),
    ]


def _content(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {kind or 'real'}" for kind, count in counts.items()) or "-"
