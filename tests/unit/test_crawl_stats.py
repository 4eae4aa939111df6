"""The tutorial of crawlers lists every number that Scrapy's stats get."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
COUNTED = re.compile(r"""(?:count\(f?|_value\()"(?:simstream/)?([a-z_/]+)""")


def test_the_tutorial_lists_every_number_of_the_stats() -> None:
    tutorial = (ROOT / "docs/tutorials/crawler.md").read_text(encoding="utf-8")
    [section] = re.findall(r"^## Stats\n(.*?)^## ", tutorial, re.MULTILINE | re.DOTALL)
    listed = {re.sub(r"[A-Z]+$", "", name) for name in re.findall(r"`([a-z_]+(?:/[A-Za-z]+)?)`", section)}
    found = {
        name
        for path in (ROOT / "stream/simstream/crawlers").glob("*.py")
        for name in COUNTED.findall(path.read_text(encoding="utf-8"))
    }
    assert len(found) > 15
    found |= {"no_verdict"}  # the other half of one call
    assert {name for name in found if not name.startswith("patterns/")} <= listed
