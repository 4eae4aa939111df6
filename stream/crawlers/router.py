"""Where a link goes: to the scheduler, to the waiting links, or nowhere. Both middlewares share one router."""

from __future__ import annotations

import itertools
import logging
import secrets
from collections import OrderedDict
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from scrapy import Request
from scrapy.http import Response

from stream.crawlers.channel import Channel, channel_of
from stream.crawlers.frontier import Decision, decide, is_comparable, is_duplicate
from stream.crawlers.held import AT_ONCE, Held
from stream.crawlers.kinds import KindYields, kind_of
from stream.model import Verdict

CHAIN = "simstream_duplicates"
"""In a request's meta: how many near duplicates in a row lead to it."""
THROUGH = "simstream_through"
"""In a request's meta: the kinds of these near duplicates' addresses."""
UNJUDGED = "simstream_unjudged"
"""In a request's meta: the number of the page with this link, if that page had no verdict in time."""
KEEP = "simstream_keep"
"""In a request's meta: the link is followed whatever page it stands on."""
logger = logging.getLogger("simstream.crawlers")
MAX_THROUGH = 8
"""Kinds that are kept of a chain, at most: the nearest ones."""
MAX_LATE = 20_000
"""Pages with a late verdict `near_duplicate` that are remembered until their links come, at most."""
_routers: WeakKeyDictionary[Any, LinkRouter] = WeakKeyDictionary()


def router_of(crawler: Any) -> LinkRouter:
    """Return the one router of a crawler; the first call makes it. Raises SettingsError."""
    router = _routers.get(crawler)
    if router is None:
        router = _routers[crawler] = LinkRouter(crawler, channel_of(crawler))
    return router


class LinkOrigin(NamedTuple):
    """What led to a page."""

    chain: int
    """How many near duplicates in a row led to it."""
    kinds: tuple[str, ...]
    """The kind of its own address, then the kinds of these near duplicates, the nearest first."""


def origin_of(response: Response) -> LinkOrigin:
    """Return what led to a response, as its request says."""
    own = kind_of(response.meta.get("redirect_urls", [response.url])[0])
    return LinkOrigin(response.meta.get(CHAIN, 0), tuple(dict.fromkeys((own, *response.meta.get(THROUGH, ())))))


class LinkRouter:
    """Decides about links, and learns from verdicts which kinds of addresses are worth a fetch. Bounded memory."""

    def __init__(self, crawler: Any, channel: Channel) -> None:
        self.channel = channel
        options = channel.options
        self._probes = options.links == "probe"
        self._yields = KindYields(options.trials)
        trials = self._yields.trials if self._probes else lambda _: AT_ONCE
        waits = options.links in ("probe", "deprioritize")
        self.held = Held(crawler, options.held, trials) if waits else None
        """The waiting links; None where no link ever waits."""
        self._numbers = itertools.count(secrets.randbits(60))
        """Begins at a random number: a resumed crawl may still have requests of the process before."""
        self._told = False
        self._late: OrderedDict[int, tuple[Decision, tuple[str, ...]]] = OrderedDict()

    def judged(self, origin: LinkOrigin, verdict: Verdict | None) -> tuple[Decision, tuple[str, ...]]:
        """Learn from a page's verdict; return what becomes of its links, and the kinds that lead to them."""
        if verdict is not None and is_comparable(verdict):
            if is_duplicate(verdict):
                self._yields.count_duplicate(origin.kinds[0])
            else:
                self._yields.count_new(origin.kinds)
        decision = decide(verdict, origin.chain, self.channel.options)
        return decision, origin.kinds[:MAX_THROUGH] if decision.chain else ()

    def number(self) -> int:
        """Return a number for a page that has no verdict yet."""
        return next(self._numbers)

    def judged_late(self, number: int, origin: LinkOrigin, verdict: Verdict) -> None:
        """Learn from a late verdict. The queued links of a near duplicate leave the queue."""
        decision, through = self.judged(origin, verdict)
        if decision.drop or decision.priority:
            self._late[number] = decision, through
            if len(self._late) > MAX_LATE:
                self._late.popitem(last=False)

    def mark(self, request: Request, decision: Decision, through: tuple[str, ...], number: int | None) -> None:
        """Note in a link's meta what leads to it. A spider may have copied the meta of the page: replace that."""
        for name, value in ((CHAIN, decision.chain), (THROUGH, through), (UNJUDGED, number)):
            if value or name in request.meta:
                request.meta[name] = value

    def route(self, request: Request, decision: Decision) -> Request | None:
        """Return the link for the scheduler, or None where it waits or is dropped."""
        if request.meta.get(KEEP):
            return self._follow(request)
        if decision.drop:
            self._drop()
            return None
        if not decision.priority or request.dont_filter:
            return self._follow(request)
        return self._defer(request, decision)

    def is_pruned(self, request: Request) -> bool:
        """Whether a request must not be fetched now, since a late verdict calls its page a near duplicate.

        The request then waits, as other links of near duplicates do, or is dropped.
        """
        known = self._late.get(request.meta.get(UNJUDGED, 0))
        if known is None or request.meta.get(KEEP):
            return False
        decision, through = known
        self.mark(request, decision, through, None)
        kind = self._kind(request)
        if not decision.drop and (self._is_proven(kind) or not self._holds(request, decision, kind, again=True)):
            return False
        self.channel.count("links/pruned")
        return True

    def _drop(self) -> None:
        self.channel.count("links/dropped")
        if not self._told:
            self._told = True
            logger.warning(
                "links of near duplicates are dropped for good; pages that nothing else links to are not found: "
                "set SIMSTREAM_LINKS=probe to try some of these links"
            )

    def _defer(self, request: Request, decision: Decision) -> Request | None:
        kind = self._kind(request)
        late = request.replace(priority=request.priority + decision.priority)
        if self._is_proven(kind):
            return self._follow(late)
        if self._holds(request, decision, kind):
            self.channel.count("links/held")
            return None
        if self.held is not None and not self.held.trials(kind):
            self.held.refuse(kind)
            return None
        self.channel.count("links/deprioritized")
        return late

    def _holds(self, request: Request, decision: Decision, kind: str, again: bool = False) -> bool:
        """Hold a link back, where there is room. `again`: Scrapy has seen its address, and would filter it out."""
        late = request.replace(priority=request.priority + decision.priority, dont_filter=again)
        return self.held is not None and self.held.hold(late, decision.chain, kind)

    def _is_proven(self, kind: str) -> bool:
        return self._probes and self._yields.is_proven(kind)

    def _kind(self, request: Request) -> str:
        """Return the kind of a link's address; where no kinds are tried, all links are of one kind."""
        return kind_of(request.url) if self._probes else ""

    def _follow(self, request: Request) -> Request:
        """Return a link for the scheduler, and hold it no longer."""
        held = self.held.forget(request) if self.held is not None else None
        return request.replace(dont_filter=True) if held is not None and held.dont_filter else request
