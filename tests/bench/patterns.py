"""Bench: what learned patterns of addresses save in a crawl: `python -m tests.bench.patterns [--articles N] …`.

The site of crawl_site, Scrapy, a real broker and `simstream serve`. A first crawl follows every link, and
`simstream patterns` learns from its verdicts. Then the site is crawled again, each time with a service that knows
nothing: with these patterns, and with and without them where links are probed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from deploy.kafka.broker import KafkaBroker
from tests.bench.crawl import PATIENCE_S, CrawlResult, add_sizes, crawl_with, saved, told
from tests.bench.crawl_site import SiteServer, SiteSize
from tests.bench.service import TopicSpace

WAYS = ("follow", "probe")


def learned(where: TopicSpace, out: Path, *flags: str) -> str:
    """Learn from the verdicts of a service, with the command. Returns what it printed."""
    command = ["patterns", "--log", f"kafka://{where.servers}", "--prefix", where.prefix, "-o", str(out), *flags]
    done = subprocess.run(
        [sys.executable, "-m", "simstream", *command],
        check=True,
        timeout=PATIENCE_S,
        capture_output=True,
        text=True,
    )
    return done.stdout


def run(size: SiteSize, most_lost: float, ways: Sequence[str]) -> None:
    """Crawl, learn, crawl again without and with the patterns in each of these ways, and compare."""
    crawls: dict[str, CrawlResult] = {}
    with KafkaBroker() as broker, SiteServer(size) as served, tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "patterns.json"

        def crawled(name: str, *settings: str) -> TopicSpace:
            where, crawls[name] = crawl_with(broker, served, "SIMSTREAM_WAIT=60", *settings)
            return where

        where = crawled("follow", "SIMSTREAM_LINKS=follow")
        print(learned(where, file, "--most-lost", str(most_lost)))
        for links in ways:
            if links not in crawls:
                crawled(links, f"SIMSTREAM_LINKS={links}")
            crawled(f"{links}, with patterns", f"SIMSTREAM_LINKS={links}", f"SIMSTREAM_PATTERNS={file}")
    for name, one in crawls.items():
        skipped, sampled = (one.count(f"simstream/patterns/{what}") for what in ("skipped", "sampled"))
        print(f"{told(name, one)}{skipped:>9,} skipped{sampled:>6,} sampled")
    for links in ways:
        without, with_ = crawls[links], crawls[f"{links}, with patterns"]
        lost = size.total - with_.articles
        print(f"{links}: {saved(without, with_):.1%} of useless fetches saved by patterns, {lost} articles lost")
        if lost or without.articles != size.total:
            raise AssertionError(f"of {size.total} articles {without.articles} and {with_.articles} were found")


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.patterns", description=__doc__)
    add_sizes(parser)
    parser.add_argument("--most-lost", type=float, default=0.1, help="as of `simstream patterns`")
    parser.add_argument("--links", choices=WAYS, action="append", help="both if not given")
    asked = vars(parser.parse_args())
    run(most_lost=asked.pop("most_lost"), ways=asked.pop("links") or WAYS, size=SiteSize(**asked))


if __name__ == "__main__":
    main()
