"""Gets RSS and Atom feeds from addresses and files, in bounded time and memory, and only if they have changed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from simstream.errors import InputError, needs
from simstream.sources.addresses import public_address
from simstream.tools.feed.entries import RssBody
from simstream.version import __version__

MAX_FEED_BYTES: Final = 10 << 20
FETCH_S: Final = 30.0
"""Seconds for one feed, with all redirects."""
MAX_REDIRECTS: Final = 5


@dataclass(slots=True)
class RssSource:
    """An address or a path, and what its server said when the feed last came."""

    name: str
    tag: str = ""
    changed: str = ""

    @property
    def is_address(self) -> bool:
        """Whether it is an address of the web."""
        return self.name.lower().startswith(("http://", "https://"))


Fetched = RssBody | InputError | None
"""A feed, why there is none, or None if it has not changed."""


def fetch(sources: Sequence[RssSource]) -> list[Fetched]:
    """Get these feeds at once. Raises Unavailable if an address needs aiohttp, which is not installed."""
    if not any(source.is_address for source in sources):
        return [_read(source) for source in sources]
    with needs("a feed at an address", "rss"):
        import aiohttp
    return asyncio.run(_fetch_all(aiohttp, sources))


async def _fetch_all(aiohttp: Any, sources: Sequence[RssSource]) -> list[Fetched]:
    timeout = aiohttp.ClientTimeout(total=FETCH_S)
    jar = aiohttp.DummyCookieJar()
    # Without compression a body has the size that it takes here: no bomb.
    headers = {"Accept-Encoding": "identity", "User-Agent": f"simstream/{__version__}"}
    async with aiohttp.ClientSession(
        timeout=timeout, cookie_jar=jar, headers=headers, auto_decompress=False
    ) as session:
        return await asyncio.gather(*(_fetch(aiohttp, session, source) for source in sources))


async def _fetch(aiohttp: Any, session: Any, source: RssSource) -> Fetched:
    if not source.is_address:
        return _read(source)
    known = {"If-None-Match": source.tag, "If-Modified-Since": source.changed}
    headers = {name: value for name, value in known.items() if value}
    try:
        async with session.get(source.name, headers=headers, max_redirects=MAX_REDIRECTS) as answer:
            if answer.status == 304:
                return None
            if answer.status != 200:
                return InputError(f"its server answers {answer.status}", "check the address")
            if answer.headers.get("Content-Encoding", "identity") != "identity":
                return InputError("its server compresses, unasked", "save the feed to a file, and give the file")
            body = bytearray()
            async for piece in answer.content.iter_chunked(1 << 16):
                body += piece
                if len(body) > MAX_FEED_BYTES:
                    return _too_long()
            source.tag, source.changed = answer.headers.get("ETag", ""), answer.headers.get("Last-Modified", "")
            base = public_address(str(answer.url))  # of links within the feed
            return RssBody(bytes(body), answer.headers.get("Content-Type"), base)
    except TimeoutError:
        return InputError(f"its server takes more than {FETCH_S:g} s", "try again later")
    except (aiohttp.ClientError, OSError, ValueError) as error:
        return InputError(f"its server cannot be asked ({type(error).__name__})", "check the address")


def _read(source: RssSource) -> Fetched:
    try:
        with open(source.name, "rb") as file:
            body = file.read(MAX_FEED_BYTES + 1)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no path"
        return InputError(f"it cannot be read ({why})", "check the path")
    return RssBody(body) if len(body) <= MAX_FEED_BYTES else _too_long()


def _too_long() -> InputError:
    return InputError(f"it has more than {MAX_FEED_BYTES >> 20} MB", "check that it is a feed")
