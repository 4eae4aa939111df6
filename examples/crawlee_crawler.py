"""A Crawlee crawl that asks a running service for each page, and follows links of copies last.

python examples/crawlee_crawler.py kafka://127.0.0.1:9092 https://a.example/
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter

from crawlee.crawlers import ParselCrawler, ParselCrawlingContext
from crawlee.storage_clients import MemoryStorageClient

from simstream import AsyncClient, RawPage, Verdict
from simstream.errors import SimstreamError

MAX_PAGES = 200


async def judged(client: AsyncClient, context: ParselCrawlingContext) -> Verdict | None:
    """Return the verdict on a fetched page; None if there is none in time: then keep the page."""
    response, request = context.http_response, context.request
    media = response.headers.get("content-type") or "text/html"
    page = RawPage(request.loaded_url or request.url, await response.read(), media, status=response.status_code)
    try:
        return await client.judge(page)
    except SimstreamError as error:
        context.log.warning(f"{request.url} is kept: {error}")
        return None


async def crawl(log: str, start: str) -> Counter[str]:
    """Crawl from one address within its host; return how many pages got which verdict."""
    kinds, followed = Counter[str](), dict[str, str]()  # `followed`: the first page of each cluster
    crawler = ParselCrawler(max_requests_per_crawl=MAX_PAGES, storage_client=MemoryStorageClient())
    async with AsyncClient(log, timeout=30) as client:

        @crawler.router.default_handler
        async def handle(context: ParselCrawlingContext) -> None:
            verdict = await judged(client, context)
            kinds[verdict.verdict if verdict else "without a verdict"] += 1
            links = await context.extract_links()
            if verdict and verdict.cluster_id and followed.setdefault(verdict.cluster_id, verdict.id) != verdict.id:
                await crawler.add_requests(links)
            else:
                await crawler.add_requests(links[::-1], forefront=True)  # the last one comes to the very front

        await crawler.run([start])
    return kinds


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    found = asyncio.run(crawl(*sys.argv[1:]))
    print(*(f"{number} {kind}" for kind, number in sorted(found.items())), sep=", ")
