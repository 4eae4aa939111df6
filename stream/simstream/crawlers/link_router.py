"""Decides where each link goes: to the scheduler, to the waiting links, or nowhere."""

from __future__ import annotations

import itertools
import logging
import secrets
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from scrapy import Request, signals
from scrapy.http import Response

from simstream.crawlers.address_kinds import KindYields, kind_of
from simstream.crawlers.channel import VerdictChannel, channel_of
from simstream.crawlers.copies import MAX_LINKS, PageLinks, address_of, is_named_after
from simstream.crawlers.dropped_link_counts import DroppedLinks
from simstream.crawlers.jobdir import JobFolder
from simstream.crawlers.origin import (
    AGAIN,
    ASKED,
    CHAIN,
    FORM_OF,
    KEEP,
    THROUGH,
    TRIED,
    UNJUDGED,
    LinkingPage,
    LinkOrigin,
    asked_address,
    origin_of,
    seen_again,
)
from simstream.crawlers.page_decision import LinkDecision, decide, is_comparable
from simstream.crawlers.patterned_links import patterned_links
from simstream.crawlers.seen_pages import COPIES, LedTo, SeenClusters, SeenNames, link_names, unmarked
from simstream.crawlers.waiting_links import MAX_LINKS_AT_ONCE, WaitingLinks
from simstream.model import Verdict

_ROUTER = "_simstream_router"
"""A crawler's attribute. In a table by crawler both would stay for ever, since a router refers to its crawler."""
logger = logging.getLogger("simstream.crawlers")
MAX_THROUGH = 8
"""At most so many kinds of a chain are kept, the nearest ones."""
MAX_LATE = 20_000
"""At most so many pages with a late verdict `near_duplicate` are remembered until their links come."""
MAX_AT_RISK = 20_000
"""At most so many queued links are remembered that may leave the queue again."""
SHARED = -1
"""In place of the page that awaits a verdict (0: none): more than one page has this link."""


def router_of(crawler: Any) -> LinkRouter:
    """Return the one router of a crawler; the first call makes it. Raises SettingsError."""
    router: LinkRouter | None = getattr(crawler, _ROUTER, None)
    if router is None:
        router = LinkRouter(crawler, channel_of(crawler))
        setattr(crawler, _ROUTER, router)
    return router


class LinkRouter:
    """Decides about links, and learns from verdicts which kinds of addresses are worth a fetch. Bounded memory."""

    def __init__(self, crawler: Any, channel: VerdictChannel) -> None:
        self.channel = channel
        self._name: Callable[[Request], bytes] = crawler.request_fingerprinter.fingerprint
        options = channel.options
        self._probes = options.links == "probe"
        self._yields = KindYields(options.trials)
        self._clusters = SeenClusters()
        self._names = SeenNames()
        self._led_to = LedTo()
        self._seen_sets = self._names.seen, self._led_to.originals, self._led_to.from_cluster
        self._page_links = PageLinks()
        trials = self._trials if self._probes else lambda _: MAX_LINKS_AT_ONCE
        waits = options.links in ("probe", "deprioritize")
        self.held = WaitingLinks(crawler, options.held, trials, self._kind) if waits else None
        """The waiting links; None if no link ever waits."""
        self._dropped = DroppedLinks(crawler)
        self._patterned = patterned_links(channel, self._dropped)
        """What skips links by patterns; None without a file of them."""
        self._job = JobFolder(crawler)
        crawler.signals.connect(self._opened, signal=signals.spider_opened)
        crawler.signals.connect(self._closed, signal=signals.spider_closed)
        self._numbers = itertools.count(secrets.randbits(60))
        """The first number is random: a resumed crawl may still have requests of the earlier process."""
        self._told = False
        self._has_loaded = False
        """Whether the links of a stopped crawl were taken over. Until then its file stays."""
        self._late: OrderedDict[int, tuple[LinkDecision, tuple[str, ...]]] = OrderedDict()
        self._at_risk: OrderedDict[bytes, int] = OrderedDict()
        """Queued links that may leave the queue, with the page that awaits its verdict (0: none), or SHARED."""
        self._pruned: OrderedDict[bytes, None] = OrderedDict()
        """Links that were dropped from the queue. Scrapy would filter such a link out where another page has it."""

    def learn(self, origin: LinkOrigin, verdict: Verdict | None) -> tuple[LinkDecision, tuple[str, ...]]:
        """Learn from a page's verdict. Returns the decision about its links, and the kinds that lead to them."""
        is_copy = None
        if verdict is not None and is_comparable(verdict):
            is_copy = self._clusters.is_copy(verdict)
            if is_copy:
                self._yields.count_duplicate(origin.kinds[0])
            else:
                self._yields.count_new(origin.kinds)
        decision = decide(is_copy, origin.chain, self.channel.options)
        return decision, origin.kinds[:MAX_THROUGH] if decision.chain else ()

    def number(self) -> int:
        """Return a number for a page."""
        return next(self._numbers)

    def origin(self, response: Response) -> LinkOrigin:
        """Return what led to a page, and remember its address: once for each response."""
        asked = asked_address(response)
        own = self._kind_of(asked)
        for url in {asked, response.url}:
            self._names.add(url)
        return origin_of(response, own)

    def begin(
        self, response: Response, origin: LinkOrigin, verdict: Verdict | None, number: int, is_awaited: bool
    ) -> LinkingPage:
        """Learn from a page's verdict. Returns the page, to route its links."""
        decision, through = self.learn(origin, verdict)
        callback = response.request.callback if response.request is not None else None
        own = {address_of(response.url)}
        return LinkingPage(
            response.url, number, origin, decision, through, callback, is_awaited, verdict, own, set(), set()
        )

    def end(self, page: LinkingPage) -> None:
        """Learn from the links of a page after all are routed."""
        if page.verdict is None:
            return
        if self._patterned is not None:
            self._patterned.end(page)
        kind, is_copy, cluster = page.origin.kinds[0], page.decision.duplicate, page.verdict.cluster_id
        if self._probes and cluster and self._led_to.has_own(page.url, cluster, is_copy, page.link_names):
            self._yields.take_back(kind)
        if not is_copy:
            self._page_links.add(page.number, page.verdict, page.links)
        elif page.origin.form_of is not None:
            others = page.links - {address_of(page.url)}
            has_all = self._page_links.has_all(page.origin.form_of, page.verdict, kind_of(page.url), others)
            if has_all is not None:
                self._yields.count_links(kind, has_own=not has_all)

    def learn_late(self, number: int, origin: LinkOrigin, verdict: Verdict) -> None:
        """Learn from a late verdict. The queued links of a near duplicate leave the queue."""
        decision, through = self.learn(origin, verdict)
        if decision.drop or decision.priority:
            self._late[number] = decision, through
            if len(self._late) > MAX_LATE:
                self._late.popitem(last=False)

    def route(self, request: Request, page: LinkingPage) -> Request | None:
        """Return the page's link for the scheduler, or None if the link waits or is dropped."""
        decision = page.decision
        request.meta[ASKED] = request.url
        self._mark(request, decision, page.through, page.number if page.is_awaited else None)
        self._relate(request, page)
        if self._patterned is not None:
            self._patterned.note(request, page)
        if request.meta.get(KEEP):
            return self._follow(request)
        if self._patterned is not None:
            found = self._patterned.route(request, page)
            if found is None:
                return None
            request = found
        if request.dont_filter:
            return self._follow(request)
        if decision.drop:
            self._drop(request)
            return None
        if decision.priority:
            return self._defer(request, decision)
        return None if self._is_held_back(request) else self._follow(request)

    def _mark(self, request: Request, decision: LinkDecision, through: tuple[str, ...], number: int | None) -> None:
        """Note in a link's meta what leads to it. A spider may have copied the page's meta: replace that."""
        for name, value in ((CHAIN, decision.chain), (THROUGH, through), (UNJUDGED, number)):
            if value or name in request.meta:
                request.meta[name] = value

    def _relate(self, request: Request, page: LinkingPage) -> None:
        """Note a link of the page, and whether the link's address is named after the page."""
        if len(page.links) <= MAX_LINKS:
            page.links.add(address_of(request.url))
            page.link_names.update(link_names(request.url) if self._probes else ())
        is_form = self._probes and not (page.decision.duplicate or page.is_awaited or request.dont_filter)
        is_form = is_form and request.callback == page.callback and is_named_after(request.url, page.url)
        for name, value in ((FORM_OF, page.number if is_form else None), (TRIED, None)):
            if value or name in request.meta:
                request.meta[name] = value

    def _is_held_back(self, request: Request, again: bool = False) -> bool:
        """Return whether a link on a new page waits, since its kind only brings copies of such pages."""
        meta = request.meta
        if not self._probes or meta.get(FORM_OF) is None or meta.get(TRIED) or meta.get(KEEP) or self.held is None:
            return False
        kind = self._kind_of(request.url)
        if not self._yields.holds_back(kind):
            meta[TRIED] = self._yields.is_copied(kind)
            return False
        before = self.held.forget(request)
        again = again or (before is not None and before.dont_filter)
        if not self.held.hold(seen_again(request.copy()) if again else request, 0, COPIES + kind):
            return False
        self.channel.count("links/held")
        return True

    def _note_risk(self, request: Request) -> None:
        """Note a link that may leave the queue again, or that another page has such a link, too.

        Scrapy queues an address once: the link of the other page must not leave the queue with the first one.
        """
        meta = request.meta
        is_form = meta.get(FORM_OF) is not None and not meta.get(TRIED)
        page = meta.get(UNJUDGED) or 0
        if not meta.get(KEEP) and (is_form or page):
            name = self._name(request)
            first = self._at_risk.setdefault(name, page)
            if page and first != page:
                self._at_risk[name] = SHARED
            if len(self._at_risk) > MAX_AT_RISK:
                self._at_risk.popitem(last=False)
        elif self._at_risk and (name := self._name(request)) in self._at_risk:
            self._at_risk[name] = SHARED

    def is_pruned(self, request: Request) -> bool:
        """Return whether a queued request must not be fetched now.

        Either a late verdict calls its page a near duplicate, or its kind was given up since. Then the request
        waits, like other links of near duplicates, or is dropped. It is fetched if another page has the same link.
        Or a pattern says that it brings a copy of a page that was fetched meanwhile.

        A request that is no link stays, unless a pattern skips it: a spider may have copied a page's meta to it.
        """
        if request.meta.pop(AGAIN, False):
            request.dont_filter = False  # the scheduler has let it pass. A redirect of it may be filtered
        if self._patterned is not None and self._patterned.is_skipped(request):
            return True
        if request.meta.get(ASKED) != request.url:
            return False
        if self._at_risk and self._at_risk.get(self._name(request)) == SHARED:
            return False
        known = self._late.get(request.meta.get(UNJUDGED, 0))
        if known is None or request.meta.get(KEEP):
            return self._is_held_back(request, again=True)
        decision, through = known
        self._mark(request, decision, through, None)
        kind = self._kind(request)
        if decision.drop:
            if request.dont_filter:
                return False
            self._drop(request)
            self._pruned[self._name(request)] = None
            if len(self._pruned) > MAX_AT_RISK:
                self._pruned.popitem(last=False)
        elif self._is_proven(kind) or not self._holds(request, decision, kind, again=True):
            return False
        self.channel.count("links/pruned")
        return True

    def _drop(self, request: Request) -> None:
        self._dropped.add(request, kind_of(request.url))
        if not self._told:
            self._told = True
            logger.warning(
                "links of near duplicates are dropped, so pages that only they lead to are not found: "
                "set SIMSTREAM_LINKS=probe to try some of these links"
            )

    def _defer(self, request: Request, decision: LinkDecision) -> Request | None:
        kind = self._kind(request)
        late = request.replace(priority=request.priority + decision.priority)
        if self._is_proven(kind) or self._dropped.is_fetched(request):
            return self._follow(late)
        if self._holds(request, decision, kind):
            self.channel.count("links/held")
            return None
        if self.held is not None and not self.held.trials(kind):
            self._dropped.add(request, unmarked(kind))
            return None
        self.channel.count("links/deprioritized")
        return late

    def _holds(self, request: Request, decision: LinkDecision, kind: str, again: bool = False) -> bool:
        """Hold a link back, if there is room. `again`: Scrapy has seen its address, and would filter it out."""
        late = request.replace(priority=request.priority + decision.priority)
        late = seen_again(late) if again else late
        return self.held is not None and self.held.hold(late, decision.chain, kind)

    def _trials(self, kind: str) -> int:
        """Return how many waiting links of a kind may be fetched now."""
        if kind.startswith(COPIES):
            return 0 if self._yields.is_copied(kind.removeprefix(COPIES)) else MAX_LINKS_AT_ONCE
        return self._yields.trials(kind)

    def _opened(self) -> None:
        """Go on with the links of a stopped crawl in its JOBDIR."""
        if self.held is None:
            if self._job.has_links:
                logger.warning(
                    "the JOBDIR keeps its waiting links, and this crawl does not follow them: set SIMSTREAM_LINKS "
                    "to probe or deprioritize to go on with them"
                )
            return
        kept = self._job.load()
        self._has_loaded = True
        self._yields.restore(kept.kinds)
        self._clusters.restore(kept.clusters)
        for one, bits in zip(self._seen_sets, kept.seen, strict=False):
            one.bits = bytearray(bits)
        for request in kept.requests:
            kind = self._kind(request)
            if not self.held.hold(request, request.meta.get(CHAIN, 0), kind):
                self._dropped.add(request, unmarked(kind))

    def _closed(self, reason: str = "") -> None:
        """Save the waiting links of a stopped crawl, and report links that were dropped or are lost."""
        waiting = list(self.held.links()) if self.held is not None else []
        if reason == "finished":
            if self._has_loaded:
                self._job.clear()
            for kind, request in waiting:
                self._dropped.add(request, unmarked(kind))
        elif self.held is not None:
            requests = [request for _, request in waiting]
            lost = len(requests)
            if self._has_loaded:
                seen = [bytes(one.bits) for one in self._seen_sets]
                lost = self._job.save(requests, self._yields.records(), self._clusters.records(), seen)
            if len(waiting) > lost:
                self.channel.count("links/kept", len(waiting) - lost)
            if lost:
                self.channel.count("links/lost", lost)
                logger.warning(
                    "%d waiting links are lost, with the pages that only they lead to. Set JOBDIR to keep waiting "
                    "links for a resumed crawl; their callbacks must be methods of the spider",
                    lost,
                )
        self._dropped.tell()

    def _is_proven(self, kind: str) -> bool:
        return self._probes and self._yields.is_proven(kind)

    def _kind(self, request: Request) -> str:
        """Return the kind of a link: that of its address, marked if it waits although it stands on a new page."""
        meta = request.meta
        is_copy = self._probes and meta.get(FORM_OF) is not None and not meta.get(CHAIN)
        return (COPIES if is_copy else "") + self._kind_of(request.url)

    def _kind_of(self, url: str) -> str:
        """Return the kind of an address. If no kinds are tried, all have one kind."""
        return self._names.kind_of(url) if self._probes else ""

    def _follow(self, request: Request) -> Request:
        """Return a link for the scheduler, and forget it."""
        self._note_risk(request)
        held = self.held.forget(request) if self.held is not None else None
        again = held is not None and held.dont_filter
        if self._pruned and (name := self._name(request)) in self._pruned:
            del self._pruned[name]
            again = True
        return seen_again(request) if again else request
