"""A Scrapy spider that does not waste its time on near duplicates (`pip install 'simstream[scrapy]'`).

    scrapy runspider examples/spider.py -a start=https://a.example/ -O items.jsonl

The add-on sends each response to the service at SIMSTREAM_LOG, a variable or a setting of Scrapy. Links of near
duplicates wait, and a few of each kind are tried.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any, ClassVar
from urllib.parse import urlsplit

from scrapy import Request, Spider
from scrapy.http import Response, TextResponse
from scrapy.linkextractors import LinkExtractor


class StorySpider(Spider):
    """Follows all links of a site; an item for each page that is no near duplicate."""

    name = "stories"
    custom_settings: ClassVar[dict[str, Any]] = {
        "ADDONS": {"simstream.crawlers.Addon": 100},
        "SIMSTREAM_DROP_ITEMS": True,
    }

    def __init__(self, start: str, **more: Any) -> None:
        super().__init__(**more)
        self.start_url = start
        self.allowed_domains = [urlsplit(start).hostname or ""]

    async def start(self) -> AsyncIterator[Request]:
        yield Request(self.start_url)

    def parse(self, response: Response, **_: Any) -> Iterator[Any]:
        if not isinstance(response, TextResponse):
            return  # such as a picture
        verdict = response.meta.get("simstream")  # None if no verdict came in time
        yield {
            "url": response.url,
            "title": response.css("title::text").get(),
            "verdict": verdict.verdict if verdict else None,
        }
        yield from response.follow_all(LinkExtractor().extract_links(response), callback=self.parse)
