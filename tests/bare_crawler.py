"""A crawler of Scrapy that does not run."""

from __future__ import annotations

from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.statscollectors import MemoryStatsCollector
from scrapy.utils.request import RequestFingerprinter


def bare_crawler() -> Crawler:
    """Return a crawler that counts and names requests, and does nothing else."""
    crawler = Crawler(Spider)
    crawler.stats = MemoryStatsCollector(crawler)
    crawler.request_fingerprinter = RequestFingerprinter(crawler)
    return crawler
