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
