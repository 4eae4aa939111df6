"""A page contained in another is no near duplicate: quotes, summaries, and pages that embed a whole other one.

From lctt and news: a part of a page (10-90 %, a stretch of whole sentences) against the page; and the page against
one that holds all of it with as much, twice and four times as much of other pages.
"""

from __future__ import annotations

from random import Random
from typing import Any

from tests.studies.context import LCTT, NEWS, StudyContext
from tests.studies.edits import sentences
from tests.studies.measure import BIN_NAMES, StudyTable, StudyTally, bin_of, cell, common, jaccard, shingles

PARTS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
ADDED = (0.25, 0.5, 1.0, 2.0, 4.0)
PAGES = 400
"""Pages of each corpus."""


def run(context: StudyContext) -> dict[str, Any]:
    """Share of pairs that match, by how the pair was made and by J; containment is measured, not assumed."""
    random = context.random("containment")
    result: dict[str, Any] = {}
    for corpus in (NEWS, LCTT):
        texts = [doc.text for doc in context.docs(corpus) if len(doc.text) >= 300]
        chosen = random.sample(texts, min(len(texts), context.some(PAGES)))
        result[corpus] = _measure(context, _pairs(chosen, random))
    return result


def _pairs(texts: list[str], random: Random) -> list[tuple[str, str, str]]:
    """(how it was made, page, the other page)"""
    pairs = []
    for number, text in enumerate(texts):
        others = texts[number + 1 :] + texts[:number]
        pairs += [(f"part {part:.0%}", text, _part(text, part, random)) for part in PARTS]
        pairs += [(f"embedded + {added:g}", text, _embed(text, added, others, random)) for added in ADDED]
    return pairs


def _part(text: str, part: float, random: Random) -> str:
    """A stretch of sentences with about this part of the text; the last one is cut where it is too long."""
    units = sentences(text)
    goal, start, taken = round(part * len(text)), 0, ""
    most = sum(len(unit) for unit in units) - goal
    offset = random.randint(0, max(0, most))
    while start < len(units) - 1 and offset >= len(units[start]):
        offset -= len(units[start])
        start += 1
    for unit in units[start:]:
        taken += unit
        if len(taken) >= goal:
            break
    return taken[:goal]


def _embed(text: str, added: float, others: list[str], random: Random) -> str:
    """The whole text with `added` times as much from other pages, before and after."""
    goal, filling, number = round(added * len(text)), "", random.randrange(max(1, len(others)))
    while len(filling) < goal and others:
        filling += others[number % len(others)] + "\n"
        number += 1
    cut = random.randint(0, goal)
    return f"{filling[:cut]}\n{text}\n{filling[cut:goal]}"


def _measure(context: StudyContext, pairs: list[tuple[str, str, str]]) -> dict[str, Any]:
    a, b = (context.prints([pair[side] for pair in pairs]) for side in (1, 2))
    matched = context.matched(a, b)
    made, bins, sums = StudyTally(), StudyTally(), {}
    for (kind, page, other), hit in zip(pairs, matched.tolist(), strict=True):
        ours, theirs = shingles(page), shingles(other)
        similarity = jaccard(ours, theirs)
        contained = common(ours, theirs) / max(1, min(len(ours), len(theirs)))
        made.add(kind, hit)
        bins.add(bin_of(similarity), hit)
        total = sums.setdefault(kind, [0.0, 0.0])
        total[0] += similarity
        total[1] += contained
    kinds = {
        kind: {
            "matched": made.share(kind),
            "mean_jaccard": total[0] / made.share(kind)["n"],
            "mean_containment": total[1] / made.share(kind)["n"],
        }
        for kind, total in sums.items()
    }
    return {"kinds": kinds, "by_jaccard": bins.by_bin()}


def tables(result: dict[str, Any]) -> list[StudyTable]:
    columns = ("made by", *(f"{corpus}: J, matched %" for corpus in result))
    first = next(iter(result.values()))
    kinds = [(kind, *(_kind(found["kinds"][kind]) for found in result.values())) for kind in first["kinds"]]
    bins = [(name, *(cell(r["by_jaccard"][name]) for r in result.values())) for name in BIN_NAMES]
    return [
        StudyTable("Share of contained pages that match, by how the pair was made", columns, kinds),
        StudyTable("The same pairs by J", ("J", *(f"{corpus}: matched %" for corpus in result)), bins),
    ]


def _kind(found: dict[str, Any]) -> str:
    return f"{found['mean_jaccard']:.2f}  {cell(found['matched'])}"
