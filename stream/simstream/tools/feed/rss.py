"""Makes records of pages from the entries of RSS and Atom feeds: each entry once, and again if it has changed."""

from __future__ import annotations

import time
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from typing import Any, Final

import msgspec

from simstream.errors import InputError
from simstream.model import Record
from simstream.sources.addresses import public_address
from simstream.terminal import printable
from simstream.tools.feed.entries import RssEntry, read_entries
from simstream.tools.feed.fetch import RssSource, fetch
from simstream.wire.page import NO_TIME

AT_ONCE: Final = 8
"""So many feeds are fetched at once, and held in memory."""
MAX_REMEMBERED: Final = 200_000
"""So many pages are remembered, those seen last, so as not to send their entries again: some 600 bytes each."""


class RssReader:
    """The feeds of one run. `say` hears a sentence about each feed that cannot be read."""

    def __init__(self, inputs: Sequence[str], say: Callable[[str], None]) -> None:
        self._sources = [RssSource(name) for name in inputs]
        self._say = say
        self._sent: OrderedDict[bytes, dict[str, frozenset[bytes]]] = OrderedDict()
        """For each digest of an id, by feed, the digests of its entries at the last reading: several may have one
        link."""
        self.failed = 0
        """The number of feeds that could not be read in the last round."""

    def records(self) -> Iterator[Record]:
        """Ask each feed once, and yield its entries that are new or have changed. Raises Unavailable."""
        self.failed = 0
        for start in range(0, len(self._sources), AT_ONCE):
            some = self._sources[start : start + AT_ONCE]
            fetched = fetch(some)
            for number, source in enumerate(some):
                found, fetched[number] = fetched[number], None
                try:
                    if isinstance(found, InputError):
                        raise found
                    entries = [] if found is None else read_entries(found)
                except InputError as error:
                    source.tag = source.changed = ""  # a feed that could not be read is asked for again
                    self.failed += 1
                    self._say(f"{printable(public_address(source.name))}: {error.what}: {error.todo}")
                    continue
                yield from self._new(source, entries)

    def _new(self, source: RssSource, entries: list[RssEntry]) -> Iterator[Record]:
        unnamed, name = 0, public_address(source.name)
        read: defaultdict[bytes, set[bytes]] = defaultdict(set)
        for offset, entry in enumerate(reversed(entries)):  # a feed begins with its newest entry
            page = _page(_feed_id(source.name), entry)
            if page is None:
                unnamed += 1
                continue
            key = page["id"].encode()
            page_id = blake2b(key, digest_size=16).digest()
            # not the page, whose time may be cut to the present
            said = msgspec.json.encode((entry.title, entry.text, entry.time))
            digest = blake2b(said, digest_size=8).digest()
            is_known = digest in read[page_id] or any(digest in one for one in self._sent.get(page_id, {}).values())
            read[page_id].add(digest)
            if not is_known:
                yield Record(name, 0, offset, key, msgspec.json.encode(page), (), NO_TIME)
        for page_id, digests in read.items():
            self._sent[page_id] = {**self._sent.get(page_id, {}), source.name: frozenset(digests)}
            self._sent.move_to_end(page_id)
        while len(self._sent) > MAX_REMEMBERED:
            self._sent.popitem(last=False)
        if unnamed:
            why = "have neither link nor id, or too long ones"
            self._say(f"{printable(name)}: {unnamed:,} entries {why}, and are left out")


def _feed_id(name: str) -> str:
    """Return the name of a feed without its secrets. A hash in their place keeps two such feeds apart."""
    shown = public_address(name)
    if shown == name:
        return shown
    return f"{shown}#{blake2b(name.encode(errors='surrogateescape'), digest_size=8).hexdigest()}"


def _page(feed: str, entry: RssEntry) -> dict[str, Any] | None:
    """Return an entry as a page: its id is its link, else its id within the feed."""
    is_linked = entry.link.lower().startswith(("http://", "https://"))
    if not is_linked and not entry.guid:
        return None
    page: dict[str, Any] = {"id": entry.link if is_linked else f"{feed}#{entry.guid}"}
    if is_linked:
        page["url"] = entry.link
    page |= {"title": entry.title, "text": entry.text}
    if entry.time is not None:
        page["time"] = max(0, min(entry.time, int(time.time() * 1000)))
    return page
