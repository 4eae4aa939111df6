"""Finds the site of a page: its host, and the domain that the owner of the host registered."""

from __future__ import annotations

from functools import cache, lru_cache
from ipaddress import ip_address
from urllib.parse import urlsplit

from publicsuffixlist import PublicSuffixList


def site_of(page_id: str, url: str | None) -> str:
    """Return the host of a page's URL, or of an id that is a URL; empty without either.

    An address that no browser opens has no host, and neither has one with signs that cannot be seen: a direction
    mark could show another host than the one that is there.
    """
    for text in (url, page_id):
        try:
            parts = urlsplit((text or "").replace("\\", "/"))  # as browsers read it
            host, _ = parts.hostname or "", parts.port  # which raises ValueError if it is none
            if parts.scheme in ("http", "https") and host.strip(".") and host.isprintable():
                return host.removeprefix("www.")
        except ValueError:
            continue
    return ""


@lru_cache(maxsize=1 << 16)
def owner_of(site: str) -> str:
    """Return the domain that a host's owner registered, by the Public Suffix List: `news.co.uk` for `m.news.co.uk`.

    An address, or a host that is itself a public suffix, is returned unchanged.
    """
    try:
        return str(ip_address(site))
    except ValueError:
        return _suffixes().privatesuffix(site.rstrip(".")) or site


@cache
def _suffixes() -> PublicSuffixList:
    return PublicSuffixList()
