"""A crawl4ai crawl that asks a running service for each page, and follows links of copies last.

python examples/crawl4ai_crawler.py kafka://127.0.0.1:9092 https://a.example/
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter, deque

from crawl4ai import AsyncWebCrawler, CacheMode, CrawlerRunConfig, CrawlResult
from crawl4ai.async_crawler_strategy import AsyncHTTPCrawlerStrategy

from simstream import AsyncClient, RawPage, Verdict
from simstream.errors import SimstreamError

MAX_PAGES = 200


async def judged(client: AsyncClient, result: CrawlResult) -> Verdict | None:
    """Return the verdict on a fetched page; None if there is none in time: then keep the page."""
    html = result.html.encode(errors="replace")
    page = RawPage(result.redirected_url or result.url, html, "text/html; charset=utf-8", status=result.status_code)
    try:
        return await client.judge(page)
    except SimstreamError as error:
        print(f"{result.url} is kept: {error}", file=sys.stderr)
        return None


async def crawl(log: str, start: str) -> Counter[str]:
    """Crawl from one address within its host; return how many pages got which verdict."""
    kinds, followed, seen = Counter[str](), dict[str, str](), {start}  # `followed`: the first page of each cluster
    soon, last = deque([start]), deque[str]()  # `last`: links of copies
    config = CrawlerRunConfig(cache_mode=CacheMode.BYPASS, verbose=False)
    strategy = AsyncHTTPCrawlerStrategy()  # without a browser; leave it out for one
    async with AsyncWebCrawler(strategy, verbose=False) as crawler, AsyncClient(log, timeout=30) as client:
        while (soon or last) and kinds.total() < MAX_PAGES:
            result = await crawler.arun(soon.popleft() if soon else last.popleft(), config)
            if not result.success:
                kinds["not fetched"] += 1
                continue
            verdict = await judged(client, result)
            kinds[verdict.verdict if verdict else "without a verdict"] += 1
            is_copy = (
                verdict and verdict.cluster_id and followed.setdefault(verdict.cluster_id, verdict.id) != verdict.id
            )
            links = {link["href"].partition("#")[0] for link in result.links["internal"]} - seen
            (last if is_copy else soon).extend(sorted(links))
            seen |= links
    return kinds


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    found = asyncio.run(crawl(*sys.argv[1:]))
    print(*(f"{number} {kind}" for kind, number in sorted(found.items())), sep=", ")
