"""Scrapy support: two middlewares and an item pipeline that ask simstream which pages are worth following.

    ADDONS = {"simstream.crawlers.Addon": 100}

`middleware` sends pages and takes up their verdicts. `page_decision` decides about pages and `link_router` about
links. `address_kinds` counts what addresses have brought. `seen_pages` remembers the texts and names of fetched
pages. `copies` recognises other forms of a page. `origin` says what led to a page. `waiting_links` keeps the
links that wait, `jobdir` those of a stopped crawl. `patterned_links` skips links by learned patterns, as
`predicted_copies` says. `dropped_link_counts` counts links that were never fetched. `channel` talks to the
service. `options` reads the settings SIMSTREAM_*. `pipeline` adds verdicts to items.
"""

from simstream.errors import needs

with needs("simstream.crawlers", "scrapy"):
    import scrapy as scrapy

from simstream.crawlers.middleware import FrontierAddon as Addon
from simstream.crawlers.middleware import FrontierMiddleware, LateVerdictMiddleware
from simstream.crawlers.pipeline import VerdictPipeline

__all__ = ["Addon", "FrontierMiddleware", "LateVerdictMiddleware", "VerdictPipeline"]
