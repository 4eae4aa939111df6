"""Bench: a real crawl with and without simstream: `python -m tests.bench.crawl [--articles N] …`.

A site on loopback (see crawl_site), Scrapy, a real broker and `simstream serve`, each in a process of its own.
Every crawl follows all links until none is left; with simstream those of near duplicates are tried, by the kind of
their addresses, or all dropped.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deploy.kafka.broker import KafkaBroker
from simstream.client import Client
from tests.bench.crawl_site import SiteServer, SiteSize
from tests.bench.crawl_text import article
from tests.bench.service import TopicSpace, serving, space

PATIENCE_S = 600.0


@dataclass(frozen=True)
class CrawlResult:
    """What one crawl did."""

    fetched: int
    useless: int
    articles: int
    """Articles found, in any form."""
    seconds: float
    """From the spider's start to its end, by Scrapy."""
    stats: dict[str, Any]

    def count(self, name: str) -> int:
        """One of Scrapy's stats."""
        return int(self.stats.get(name, 0))


def crawl(served: SiteServer, *settings: str) -> CrawlResult:
    """Crawl the site from its front page in a fresh process. `settings` are Scrapy's, NAME=VALUE."""
    served.site.forget()
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "stats.json"
        command = [sys.executable, "-m", "tests.bench.crawl_spider", served.start, str(out), *settings]
        subprocess.run(command, check=True, timeout=PATIENCE_S)
        stats = json.loads(out.read_text())
    site = served.site
    return CrawlResult(
        len(site.fetched), site.useless(), len(site.articles_found()), stats["elapsed_time_seconds"], stats
    )


def saved(without: CrawlResult, with_: CrawlResult) -> float:
    """The share of useless fetches that were not made."""
    return 1 - with_.useless / without.useless


def told(name: str, crawled: CrawlResult) -> str:
    """One line about a crawl."""
    return (
        f"{name:<28}{crawled.fetched:>9,} fetched{crawled.useless:>8,} useless"
        f"{crawled.articles:>7,} articles{crawled.seconds:>9.1f} s"
    )


def run(size: SiteSize, budget: int) -> None:
    """Crawl without and with simstream, and compare. A crawl with a budget ends after so many pages."""
    limits = [f"CLOSESPIDER_PAGECOUNT={budget}"] if budget else []
    with KafkaBroker() as broker, SiteServer(size) as served:
        crawls = {"without simstream": crawl(served, *limits)}
        for links in ("probe", "deprioritize") if budget else ("probe", "drop"):
            _, crawls[f"with it: {links}"] = crawl_with(broker, served, f"SIMSTREAM_LINKS={links}", *limits)
    for name, crawled in crawls.items():
        print(told(name, crawled))
    if budget:
        return
    without, with_, _ = crawls.values()
    if not without.articles == with_.articles == size.total:
        raise AssertionError(f"of {size.total} articles {without.articles} and {with_.articles} were found")
    waited = with_.stats["simstream/waited_seconds"] / with_.count("simstream/pages")
    print(f"{saved(without, with_):.1%} of useless fetches saved; a page waited {waited * 1000:.0f} ms")


def crawl_with(broker: KafkaBroker, served: SiteServer, *settings: str) -> tuple[TopicSpace, CrawlResult]:
    """Crawl the site with a service that knows nothing yet; where its topics are, and what was fetched."""
    where = space(broker.address, 1)
    own = [f"SIMSTREAM_LOG={broker.address}", f"SIMSTREAM_PREFIX={where.prefix}"]
    with serving(where) as service:
        service.wait_ready()
        warm(where)
        return where, crawl(served, *own, *settings)


def add_sizes(parser: argparse.ArgumentParser) -> None:
    """Add an option for each number of the site's size."""
    for name, value in SiteSize().__dict__.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=value)


def warm(where: TopicSpace) -> None:
    """Judge pages that the site has not: what serves and judges has compiled its code then."""
    with Client(f"kafka://{where.servers}", where.prefix, timeout=PATIENCE_S) as client:
        texts = ["".join(f"<p>{text}</p>" for text in article(10_000 + number)[1]) for number in range(50)]
        for future in [client.submit({"id": f"warm {i}", "html": text}) for i, text in enumerate(texts)]:
            future.result()


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.crawl", description=__doc__)
    add_sizes(parser)
    parser.add_argument("--budget", type=int, default=0, help="end each crawl after this many pages")
    asked = vars(parser.parse_args())
    run(budget=asked.pop("budget"), size=SiteSize(**asked))


if __name__ == "__main__":
    main()
