"""Defines the entries in a request's meta that say from which page the request came."""

from __future__ import annotations

from typing import Any, NamedTuple

from scrapy.http import Request, Response

from simstream.crawlers.page_decision import LinkDecision
from simstream.model import Verdict

CHAIN = "simstream_duplicates"
"""In a request's meta: the number of near duplicates in a row that lead to it."""
THROUGH = "simstream_through"
"""In a request's meta: the kinds of these near duplicates' addresses."""
UNJUDGED = "simstream_unjudged"
"""In a request's meta: the number of the page with this link, if that page had no verdict in time."""
FORM_OF = "simstream_form_of"
"""In a request's meta: the number of the new page with this link, if the link is named after that page."""
FORM = "simstream_form"
"""In a request's meta: its address has a pattern, and the link may be skipped."""
TRIED = "simstream_tried"
"""In a request's meta: the link is followed to try its kind."""
KEEP = "simstream_keep"
"""In a request's meta: the link is followed from any page."""
ASKED = "simstream_asked"
"""In a link's meta: its address when it was routed. Other requests may have it only from a copied meta."""
AGAIN = "simstream_again"
"""In a request's meta: Scrapy has seen its address, and must let it pass all the same."""


class LinkOrigin(NamedTuple):
    """The pages that led to a page."""

    chain: int
    """The number of near duplicates in a row that led to it."""
    kinds: tuple[str, ...]
    """The kind of its own address, then the kinds of these near duplicates, the nearest first."""
    form_of: int | None = None
    """The number of the new page that led to it, if its address is named after that page."""


def asked_address(response: Response) -> str:
    """Return the address of a response before it was redirected.

    A spider may have copied an earlier `redirect_urls` with its page's meta.
    """
    meta = response.meta
    address: str = meta.get(ASKED) or meta.get("redirect_urls", [response.url])[0]
    return address


def seen_again(request: Request) -> Request:
    """Return a request that Scrapy does not filter out for its address."""
    if request.dont_filter:
        return request  # as its spider wants it, also behind a redirect
    return request.replace(dont_filter=True, meta={**request.meta, AGAIN: True})


def origin_of(response: Response, own: str) -> LinkOrigin:
    """Return the origin of a response with this kind of address, as its request says."""
    meta = response.meta
    kinds = tuple(dict.fromkeys((own, *meta.get(THROUGH, ()))))
    return LinkOrigin(meta.get(CHAIN, 0), kinds, meta.get(FORM_OF))


class LinkingPage(NamedTuple):
    """A page whose links are routed."""

    url: str
    number: int
    origin: LinkOrigin
    decision: LinkDecision
    through: tuple[str, ...]
    """The kinds that lead to its links."""
    callback: Any
    """The spider's callback; None for `parse`."""
    is_awaited: bool
    """Whether its verdict may still come."""
    verdict: Verdict | None
    links: set[int]
    """The addresses of its links so far, and its own; at most MAX_LINKS + 1."""
    link_names: set[bytes]
    """What makes its links different (`seen_pages.link_names`), of as many links."""
    plain_links: set[int]
    """The hashes of the plain addresses of its links so far, if there are patterns."""
