"""Finds the site of a page: its host, and the domain that the owner of the host registered."""

from __future__ import annotations

import unicodedata
from functools import cache, lru_cache
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from publicsuffixlist import PublicSuffixList

MAX_HOST: Final = 253
"""No name in DNS has more characters. In a stranger's URL it may have thousands, which cost time at each answer."""
_LIKE_LATIN: Final = frozenset({"CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC", "LISU", "DESERET", "OSAGE"})
"""Alphabets with letters that look like Latin ones."""


def site_of(page_id: str, url: str | None) -> str:
    """Return the host of a page's URL, or of an id that is a URL; empty without either.

    An address that no browser opens has no host, and neither has one with signs that cannot be seen: a direction
    mark could show another host than the one that is there. A host that may look like another is shown in its
    ASCII form, as browsers do.
    """
    for text in (url, page_id):
        try:
            parts = urlsplit((text or "").replace("\\", "/"))  # as browsers read it
            host, _ = parts.hostname or "", parts.port  # which raises ValueError if it is none
            is_web = parts.scheme in ("http", "https") and len(host) <= MAX_HOST
            if is_web and host.strip(".") and host.isprintable():
                return _unmistakable(host.removeprefix("www."))
        except ValueError:
            continue
    return ""


def _unmistakable(host: str) -> str:
    """Return the host, in ASCII if letters that look like Latin ones are mixed with them in one of its labels, or
    stand before a Latin ending. Raises ValueError if it has no form in ASCII that DNS could hold."""
    if host.isascii():
        return host
    labels = [{alphabet for sign in label if (alphabet := _alphabet(sign))} for label in host.split(".")]
    is_latin_at_end = not labels[-1] or "LATIN" in labels[-1]
    mixed = any(label & _LIKE_LATIN and (is_latin_at_end or "LATIN" in label) for label in labels)
    if not mixed:
        return host
    if len(encoded := host.encode("idna").decode()) > MAX_HOST:
        raise ValueError(f"the host has {len(encoded)} characters")
    return encoded


def _alphabet(sign: str) -> str:
    """Return the first word of a letter's name, such as LATIN or CYRILLIC; empty for other signs."""
    return unicodedata.name(sign, "").partition(" ")[0] if sign.isalpha() else ""


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
