"""Finds links to other forms of the same page, such as its print page. Knows nothing of Scrapy.

A kind of address is given up for new pages, too, if its pages have nothing of their own: their text is a near
duplicate of the page that leads to them, or of others of their kind, and that page has all their links. The second
half matters. The next page of an archive may repeat the introduction of the page before it, but it has links of its
own.
"""

from __future__ import annotations

import re
from array import array
from collections import OrderedDict
from urllib.parse import parse_qsl, unquote, urlsplit

from simstream.crawlers.address_kinds import kind_of
from simstream.model import Verdict

MAX_PAGES = 2_000
"""The links of so many last new pages are remembered."""
MAX_LINKS = 300
"""At most so many links of a page are remembered. A page with more counts as a page with links of its own."""
_NUMBER = re.compile(r"\d+")


def is_named_after(link: str, page: str) -> bool:
    """Return whether a link's address has the number or name of a page: `/print/17` has that of `/article/17`.

    False for a page whose address ends without a name, such as a front page.
    """
    try:
        own = _own_names(page)
        others = _names(link)
    except ValueError:
        return False
    if not own:
        return False
    numbers = {number for name in others for number in _NUMBER.findall(name)}
    return unquote(link).endswith(page) or all(
        name in others or set(_NUMBER.findall(name) or [name]) <= numbers for name in own
    )


def _own_names(url: str) -> list[str]:
    """Return what tells a page from its siblings: the values in its address's query, or its path's last part."""
    values = [value for _, value in parse_qsl(urlsplit(url).query)]
    return values or _names(url)[-1:]


def _names(url: str) -> list[str]:
    """Return the segments of an address's path, without a file's ending, and the values of its query."""
    parts = urlsplit(url)
    path = [segment for segment in parts.path.split("/") if segment]
    if path:
        path[-1] = path[-1].rpartition(".")[0] or path[-1]
    return path + [value for _, value in parse_qsl(parts.query)]


def address_of(url: str) -> int:
    """Return a number for an address without its fragment."""
    return hash(url.partition("#")[0])


class PageLinks:
    """Remembers the links of the last new pages. Memory: at most MAX_PAGES times MAX_LINKS numbers, 5 MB."""

    def __init__(self) -> None:
        self._pages: OrderedDict[int, tuple[Verdict, array[int]]] = OrderedDict()

    def add(self, page: int, verdict: Verdict, links: set[int]) -> None:
        """Remember the addresses of all links on the page with this number, and the page's own."""
        self._pages[page] = verdict, array("q", list(links)[:MAX_LINKS])
        if len(self._pages) > MAX_PAGES:
            self._pages.popitem(last=False)

    def has_all(self, page: int, copy: Verdict, kind: str, links: set[int]) -> bool | None:
        """Return whether the page with this number has all these links of a near duplicate of this kind.

        None if the page is not known. None if the near duplicate is a copy neither of the page nor of a page of its
        own kind. A story below the archive of its day may be a copy of a story elsewhere.
        """
        verdict, known = self._pages.get(page, (None, ()))
        if verdict is None:
            return None
        is_copy = verdict.cluster_id == copy.cluster_id or verdict.id == copy.near_duplicate_of
        if not is_copy and kind_of(copy.near_duplicate_of or copy.canonical or "") != kind:
            return None
        return links <= set(known)
