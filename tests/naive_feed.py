"""The news page the slow way: cards rebuilt from the whole list of verdicts, each time from nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jieba

from simstream.model import Verdict
from tests.naive_text import fold

Sheets = Mapping[tuple[int, int], tuple[str, bool, bool]]
"""By partition and offset: the title, whether the page is gone, and whether it is a list of links."""


def host(page_id: str) -> str:
    """Where a page lies: three sites have many hosts each."""
    return f"{page_id}.{'xyz'[ord(page_id[0]) % 3]}.example"


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
        title, gone, is_list = sheets[verdict.source.partition, verdict.source.offset]
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
                "is_list": is_list,
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
        if page["time"] > now - window_ms and not page["is_list"]:
            shown = [page[name] for name in ("joined", "first", "time", "similarity", "title")]
            found.setdefault(cluster, []).append((page_id, *shown))
    return found


def cards(found: Mapping[int, list[tuple[Any, ...]]], now: int, growth_ms: int) -> dict[int, dict[str, Any]]:
    """What a card says of each of these stories, whose pages lie at `https://HOST/`.

    The verdict with ordinal n was written at the time n + 1.
    """
    made = {}
    for cluster, pages in found.items():
        titles = [page[5] for page in pages if page[5]]
        made[cluster] = {
            "title": titles[0] if titles else "",
            "newest_title": titles[-1] if titles else "",
            "url": f"https://{host(pages[0][0])}/",
            "site": host(pages[0][0]),
            "sites": len(owners(pages)),
            "owners": owners(pages),
            "pages": len(pages),
            "growth": len(owners([page for page in pages if page[2] > now - growth_ms])),
            "first": min(page[2] for page in pages),
            "last": max(page[3] for page in pages),
            "updated": pages[-1][1] + 1,
            "words": [words_of(f"{page[5]} {host(page[0])}", jieba.lcut_for_search) for page in pages],
        }
    return made


def words_of(text: str, cut: Callable[[str], list[str]]) -> set[str]:
    """The words of a text in Latin letters and common Chinese characters, as jieba cuts it."""
    found: set[str] = set()
    for run in re.findall("[\u4e00-\u9fd5]+|[^\\W\u4e00-\u9fd5]+", fold(text, "simplified").casefold()):
        found.update(cut(run) if "\u4e00" <= run[0] <= "\u9fd5" else [run])
    return found


def owners(pages: Sequence[tuple[Any, ...]]) -> set[str]:
    """The sites of these pages."""
    return {host(page[0]).partition(".")[2] for page in pages}


def asked(
    made: Mapping[int, Mapping[str, Any]],
    order: str,
    since: int | None,
    until: int | None,
    at_least: int,
    sites: int,
    words: str,
    site: str = "",
) -> list[int]:
    """The clusters of the cards that a reader asks for, in order."""
    keys: dict[str, Any] = {
        "newest": lambda cluster: (made[cluster]["first"], cluster),
        "largest": lambda cluster: (*(made[cluster][name] for name in ("sites", "pages", "last")), cluster),
        "updated": lambda cluster: (made[cluster]["updated"], cluster),
        "growing": lambda cluster: (made[cluster]["growth"], made[cluster]["last"], cluster),
    }
    return [
        cluster
        for cluster in sorted(made, key=keys[order], reverse=True)
        if made[cluster]["pages"] >= at_least
        and made[cluster]["sites"] >= sites
        and (not site or site in made[cluster]["owners"])
        and (since is None or made[cluster]["last"] >= since)
        and (until is None or made[cluster]["first"] <= until)
        and all(
            any(words_of(part, jieba.lcut) <= page for page in made[cluster]["words"]) for part in words.split()
        )
    ]
