"""Scrapy support: two middlewares and an item pipeline that ask simstream which pages are worth following.

    ADDONS = {"simstream.crawlers.Addon": 100}

`frontier` decides about pages and `router` about links. `kinds` counts what addresses have brought. `copies`
recognises other forms of a page. `origin` says what led to a page. `held` keeps the links that wait, `jobdir`
those of a stopped crawl. `dropped` counts links that were never fetched. `channel` talks to the service.
`options` reads the settings SIMSTREAM_*.
"""

from simstream.errors import Unavailable

try:
    import scrapy as scrapy
except ImportError as error:
    raise Unavailable(
        "simstream.crawlers needs Scrapy, which is not installed", "run pip install 'simstream[scrapy]'"
    ) from error

from simstream.crawlers.middleware import FrontierAddon as Addon
from simstream.crawlers.middleware import FrontierMiddleware, LateVerdictMiddleware
from simstream.crawlers.pipeline import VerdictPipeline

__all__ = ["Addon", "FrontierMiddleware", "LateVerdictMiddleware", "VerdictPipeline"]
