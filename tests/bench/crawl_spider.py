"""A crawl in a process of its own: `python -m tests.bench.crawl_spider START OUT [NAME=VALUE...]`.

It follows every link, writes Scrapy's stats to OUT as JSON, and knows nothing of the site.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from scrapy import Spider
from scrapy.crawler import CrawlerProcess
from scrapy.http import Response


class AllLinksSpider(Spider):
    """Follows every link; an item a page."""

    name = "everything"

    def parse(self, response: Response, **_: Any) -> Iterator[Any]:
        verdict = response.meta.get("simstream")
        self.crawler.stats.inc_value(f"seen/{verdict.verdict if verdict else None}")
        yield {"url": response.url, "text": " ".join(response.css("main p::text").getall())}
        for link in response.css("a::attr(href)").getall():
            yield response.follow(link, self.parse)


SETTINGS: dict[str, Any] = {
    "LOG_LEVEL": "WARNING",
    "ROBOTSTXT_OBEY": False,
    "TELNETCONSOLE_ENABLED": False,
    "CONCURRENT_REQUESTS": 16,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 8,
    "DOWNLOAD_DELAY": 0,
}
WITH = {"ADDONS": {"simstream.crawlers.Addon": 100}}


def main(start: str, out: str, *settings: str) -> None:
    """Crawl from `start` until there is nothing left."""
    given: dict[str, Any] = dict(setting.split("=", 1) for setting in settings)
    if "ITEM_PIPELINES" in given:
        given["ITEM_PIPELINES"] = {given["ITEM_PIPELINES"]: 300}
    used = WITH if "SIMSTREAM_LOG" in given and "ITEM_PIPELINES" not in given else {}
    process = CrawlerProcess(SETTINGS | used | given)
    crawler = process.create_crawler(AllLinksSpider)
    process.crawl(crawler, start_urls=[start])
    process.start()
    Path(out).write_text(json.dumps(crawler.stats.get_stats(), default=str), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
