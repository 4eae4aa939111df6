"""News of one's own: stories, the largest first, from verdicts as JSON lines.

    simstream dedup pages.jsonl -o verdicts.jsonl
    python examples/news_feed.py verdicts.jsonl

`simstream verdicts --json > verdicts.jsonl` writes the same lines from a running service, but out of order.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from simstream import Verdict


def stories(verdicts: Iterable[Verdict]) -> dict[str, dict[str, Verdict]]:
    """Return the pages of each cluster by their ids, the latest version of each page. The verdicts are in order."""
    clusters: dict[str, dict[str, Verdict]] = defaultdict(dict)
    place: dict[str, str] = {}
    for verdict in verdicts:
        if verdict.verdict == "unreadable" or verdict.reason == "http_status":
            continue  # the earlier version stays, except after 404 and 410, which a verdict does not tell
        if verdict.id in place:
            clusters[place.pop(verdict.id)].pop(verdict.id, None)
        if verdict.cluster_id is None:
            continue  # too short or withdrawn: the page leaves its story
        for merged in verdict.merged_clusters:
            for page in clusters[merged]:
                place[page] = verdict.cluster_id
            clusters[verdict.cluster_id] |= clusters.pop(merged)
        clusters[verdict.cluster_id][verdict.id] = verdict
        place[verdict.id] = verdict.cluster_id
    return clusters


def main(path: str, most: str = "5") -> None:
    lines = Path(path).read_bytes().splitlines()
    try:
        verdicts = [msgspec.json.decode(line, type=Verdict) for line in lines]
    except msgspec.MsgspecError as error:
        sys.exit(f"{path}: a line is not a verdict ({error}); write verdicts with simstream dedup")
    found = stories(sorted(verdicts, key=lambda verdict: verdict.ordinal))
    largest = sorted(found.values(), key=lambda pages: -len(pages))
    for pages in largest[: int(most)]:
        sites = {urlsplit(page.url or page.id).hostname for page in pages.values()}
        first = min(pages.values(), key=lambda page: page.ordinal)
        print(f"{len(pages)} pages of {len(sites)} sites: {first.id}")


if __name__ == "__main__":
    if not 2 <= len(sys.argv) <= 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
