"""The news feed the slow way: cards rebuilt from the whole list of verdicts, each time from nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stream.model import Verdict

Sheets = Mapping[tuple[int, int], tuple[str, bool]]
"""By partition and offset: the title, and whether the page is gone."""


def stories(verdicts: Sequence[Verdict], sheets: Sheets, window_ms: int) -> dict[int, list[tuple[Any, ...]]]:
    """Each cluster's live pages in the order of joining: id, joined, first time, time, similarity, title."""
    ordered = sorted(
        {verdict.ordinal: verdict for verdict in verdicts}.values(), key=lambda verdict: verdict.ordinal
    )
    into: dict[int, int] = {}
    pages: dict[str, dict[str, Any]] = {}
    now = 0
    for verdict in ordered:
        for merged in verdict.merged_clusters:
            into[int(merged)] = int(verdict.cluster_id or 0)
        title, gone = sheets[verdict.source.partition, verdict.source.offset]
        if verdict.verdict in ("new", "near_duplicate", "unchanged"):
            now = max(now, verdict.time)
            before = pages.get(verdict.id)
            page = {
                "joined": verdict.ordinal,
                "first": verdict.time,
                "time": verdict.time,
                "cluster": int(verdict.cluster_id or 0),
                "similarity": None if verdict.verdict == "unchanged" else verdict.similarity,
                "title": title,
            }
            if verdict.verdict == "unchanged" and before is not None and before["time"] > now - window_ms:
                page |= {name: before[name] for name in ("joined", "first", "similarity")}
            pages[verdict.id] = page
        elif verdict.verdict == "withdrawn" or (
            verdict.verdict == "too_short" and (verdict.reason != "http_status" or gone)
        ):
            pages.pop(verdict.id, None)
    found: dict[int, list[tuple[Any, ...]]] = {}
    for page_id, page in sorted(pages.items(), key=lambda item: item[1]["joined"]):
        cluster = page["cluster"]
        while cluster in into:
            cluster = into[cluster]
        if page["time"] > now - window_ms:
            shown = [page[name] for name in ("joined", "first", "time", "similarity", "title")]
            found.setdefault(cluster, []).append((page_id, *shown))
    return found


def cards(found: Mapping[int, list[tuple[Any, ...]]], now: int, growth_ms: int) -> dict[int, dict[str, Any]]:
    """What a card says of each of these stories, whose pages lie at `https://ID.example/`."""
    made = {}
    for cluster, pages in found.items():
        titles = [page[5] for page in pages if page[5]]
        made[cluster] = {
            "title": titles[0] if titles else "",
            "newest_title": titles[-1] if titles else "",
            "url": f"https://{pages[0][0]}.example/",
            "site": f"{pages[0][0]}.example",
            "sites": len({page[0] for page in pages}),
            "pages": len(pages),
            "growth": sum(page[2] > now - growth_ms for page in pages),
            "first": min(page[2] for page in pages),
            "last": max(page[3] for page in pages),
            "words": " ".join([*titles, *(f"{page[0]}.example" for page in pages)]).casefold(),
        }
    return made


def asked(
    made: Mapping[int, Mapping[str, Any]],
    order: str,
    since: int | None,
    until: int | None,
    at_least: int,
    words: str,
) -> list[int]:
    """The clusters of the cards that a reader asks for, in order."""
    keys: dict[str, Any] = {
        "newest": lambda cluster: (made[cluster]["first"], cluster),
        "largest": lambda cluster: (made[cluster]["pages"], made[cluster]["last"], cluster),
        "growing": lambda cluster: (made[cluster]["growth"], made[cluster]["last"], cluster),
    }
    return [
        cluster
        for cluster in sorted(made, key=keys[order], reverse=True)
        if made[cluster]["pages"] >= at_least
        and (since is None or made[cluster]["last"] >= since)
        and (until is None or made[cluster]["first"] <= until)
        and all(word in made[cluster]["words"] for word in words.casefold().split())
    ]
