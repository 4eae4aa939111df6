"""Scrapy asks simstream which pages are worth following: a spider middleware and an item pipeline.

    SPIDER_MIDDLEWARES = {"stream.crawlers.FrontierMiddleware": 100}

`frontier` decides, `channel` talks to the service, `options` reads the settings SIMSTREAM_*.
"""

from stream.errors import Unavailable

try:
    import scrapy as scrapy
except ImportError as error:
    raise Unavailable(
        "the crawler's part needs Scrapy, which is not installed", "pip install 'simstream[scrapy]'"
    ) from error

from stream.crawlers.middleware import FrontierMiddleware
from stream.crawlers.pipeline import VerdictPipeline

__all__ = ["FrontierMiddleware", "VerdictPipeline"]
