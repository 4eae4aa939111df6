"""Adds verdicts to items, for spiders that put the page's text into their items: the item pipeline."""

from __future__ import annotations

from typing import Any, Self

from itemadapter import ItemAdapter
from scrapy.exceptions import DropItem

from simstream.crawlers.channel import VerdictChannel, channel_of
from simstream.crawlers.page_decision import is_duplicate

FIELDS = ("id", "url", "title", "text", "html", "time", "status")


class VerdictPipeline:
    """Sends items that have `text` or `html`, and `id` or `url`, to the service.

    An item that is a dict, or has a field `verdict`, gets the verdict's kind there. SIMSTREAM_DROP_ITEMS drops near
    duplicates. An item without a verdict in time is kept unchanged. Do not use it if the middleware sends the same
    pages: it would ask about each page again.
    """

    def __init__(self, channel: VerdictChannel) -> None:
        self._channel = channel

    @classmethod
    def from_crawler(cls, crawler: Any) -> Self:
        """What Scrapy calls. Raises SettingsError."""
        return cls(channel_of(crawler))

    async def process_item(self, item: Any, spider: Any = None) -> Any:
        """Return the item. Raises DropItem for a near duplicate if that is set."""
        fields = ItemAdapter(item)
        page = {name: fields[name] for name in FIELDS if fields.get(name) is not None}
        if not ({"text", "html"} & page.keys() and {"id", "url"} & page.keys()):
            self._channel.count("not_sent")
            return item
        verdict = await self._channel.judge(page)
        if verdict is None:
            return item
        if is_duplicate(verdict) and self._channel.options.drop_items:
            self._channel.count("items/dropped")
            raise DropItem(f"{verdict.id} is like {verdict.near_duplicate_of or verdict.canonical}")
        if isinstance(item, dict) or "verdict" in fields.field_names():
            fields["verdict"] = verdict.verdict
        return item
