"""Sites: where a page comes from, and who owns that place, so that mirrors of one site count once."""

from __future__ import annotations

from functools import cache, lru_cache
from ipaddress import ip_address
from urllib.parse import urlsplit

from publicsuffixlist import PublicSuffixList


def site_of(page_id: str, url: str | None) -> str:
    """The host of a page's URL, or of an id that is one; empty where there is none."""
    for text in (url, page_id):
        try:
            parts = urlsplit(text or "")
            if parts.scheme in ("http", "https") and parts.hostname:
                return parts.hostname.removeprefix("www.")
        except ValueError:
            continue
    return ""


@lru_cache(maxsize=1 << 16)
def owner_of(site: str) -> str:
    """The domain that a host's owner registered, by the Public Suffix List: `m.news.co.uk` is of `news.co.uk`.

    An address, or a host that is itself a public suffix, stands for itself.
    """
    try:
        return str(ip_address(site))
    except ValueError:
        return _suffixes().privatesuffix(site.rstrip(".")) or site


@cache
def _suffixes() -> PublicSuffixList:
    return PublicSuffixList()
