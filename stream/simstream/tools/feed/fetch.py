"""Gets RSS and Atom feeds from addresses and files, in bounded time and memory, and only if they have changed."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Any, Final

from simstream.errors import InputError, needs
from simstream.sources.addresses import public_address
from simstream.tools.feed.entries import RssBody, without_surrogates
from simstream.version import __version__

MAX_FEED_BYTES: Final = 10 << 20
FETCH_S: Final = 30.0
"""Seconds for one feed, with all redirects."""
MAX_REDIRECTS: Final = 5
_CARRIERS: Final = tuple(map(IPv6Network, ("::/96", "::ffff:0:0/96", "64:ff9b::/96")))
"""The last 32 bits of these addresses are an address of IPv4: compatible, mapped, or behind a gateway (NAT64)."""
_LOCAL_GATEWAY: Final = IPv6Network("64:ff9b:1::/48")
"""A network's own gateway to IPv4. Python before 3.13 takes it for public."""


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


class _Redirects:
    """Keeps one feed's server from leading to this machine's own networks, and from https to http."""

    def __init__(self) -> None:
        self._is_redirected = False
        self._is_within = True
        """Whether the feed, as it was named, has no address of the public internet: then others need none."""
        self.refused = ""
        """Why a redirect was refused."""

    async def begin(self, _session: Any, _context: Any, params: Any) -> None:
        """Take an answer that redirects. Raises ValueError if it must not be followed."""
        self._is_redirected = True
        headers = params.response.headers
        to = headers.get("Location") or headers.get("URI") or ""
        if params.url.scheme == "https" and params.url.join(type(params.url)(to)).scheme != "https":
            self.refused = "its server redirects from https to http"
            raise ValueError(self.refused)

    def open_socket(self, address_info: Any) -> socket.socket:
        """Return a socket for an address that a name has right now. Raises OSError if it must not be reached."""
        family, kind, protocol, _, (host, *_) = address_info
        is_public = _is_public(host)
        if not self._is_redirected:
            self._is_within &= not is_public
        elif not (is_public or self._is_within):
            self.refused = "its server redirects to an address of a private network"
            raise PermissionError(self.refused)
        self.refused = ""  # a name may have a refused address, and this one
        return socket.socket(family, kind, protocol)


def _is_public(host: str) -> bool:
    address = ip_address(host)
    if isinstance(address, IPv6Address):
        if address in _LOCAL_GATEWAY or address.is_site_local:
            return False
        if any(address in prefix for prefix in _CARRIERS):
            address = IPv4Address(int(address) & 0xFFFFFFFF)
        else:
            address = address.sixtofour or address
    return address.is_global and not address.is_multicast


async def _fetch_all(aiohttp: Any, sources: Sequence[RssSource]) -> list[Fetched]:
    return await asyncio.gather(*(_fetch(aiohttp, source) for source in sources))


def _session(aiohttp: Any, redirects: _Redirects) -> Any:
    """Return the session of one feed. It shares no connection: others may have other rights."""
    trace = aiohttp.TraceConfig()
    trace.on_request_redirect.append(redirects.begin)
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(socket_factory=redirects.open_socket),
        timeout=aiohttp.ClientTimeout(total=FETCH_S),
        cookie_jar=aiohttp.DummyCookieJar(),
        # Without compression a body has the size that it takes here: no bomb.
        headers={"Accept-Encoding": "identity", "User-Agent": f"simstream/{__version__}"},
        auto_decompress=False,
        trace_configs=[trace],
    )


async def _fetch(aiohttp: Any, source: RssSource) -> Fetched:
    if not source.is_address:
        return _read(source)
    redirects = _Redirects()
    known = {"If-None-Match": source.tag, "If-Modified-Since": source.changed}
    headers = {name: value for name, value in known.items() if value}
    try:
        async with (
            _session(aiohttp, redirects) as session,
            session.get(source.name, headers=headers, max_redirects=MAX_REDIRECTS) as answer,
        ):
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
            content_type = without_surrogates(answer.headers.get("Content-Type", ""))
            return RssBody(bytes(body), content_type, base)
    except TimeoutError:
        return InputError(f"its server takes more than {FETCH_S:g} s", "try again later")
    except (aiohttp.ClientError, OSError, ValueError) as error:
        if redirects.refused:
            return InputError(redirects.refused, "give the address of the feed itself, if you trust it")
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
