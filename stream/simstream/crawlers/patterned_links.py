"""Skips links to addresses that only bring copies, by the patterns that `simstream patterns` has learned."""

from __future__ import annotations

import logging

from scrapy import Request

from simstream.crawlers.channel import VerdictChannel
from simstream.crawlers.dropped_link_counts import DroppedLinks
from simstream.crawlers.origin import FORM, KEEP, LinkingPage
from simstream.crawlers.page_decision import is_comparable
from simstream.crawlers.predicted_copies import MAX_LINKS, CopyPredictor
from simstream.tools.patterns.pattern import PatternSet, PlainAddress
from simstream.tools.patterns.pattern_file import read_patterns

logger = logging.getLogger("simstream.crawlers")
PRIORITY = -10
"""Added to the priority of links with a pattern: their plain addresses are fetched first, after retries too."""


def patterned_links(channel: VerdictChannel, dropped: DroppedLinks) -> PatternedLinks | None:
    """Return what skips links by the file SIMSTREAM_PATTERNS; None without one. Raises UsageError."""
    path = channel.options.patterns
    if path is None:
        return None
    patterns = PatternSet(learned.pattern for learned in read_patterns(path))
    return PatternedLinks(CopyPredictor(patterns, channel.options.trials), channel, dropped)


class PatternedLinks:
    """Skips a link with a pattern if a page with its plain address was fetched. Bounded memory."""

    def __init__(self, predictor: CopyPredictor, channel: VerdictChannel, dropped: DroppedLinks) -> None:
        self._predictor = predictor
        self._channel = channel
        self._dropped = dropped
        self._told: set[str] = set()
        """The patterns whose first exception was logged."""

    def note(self, request: Request, page: LinkingPage) -> None:
        """Note a link of a page, wherever it leads."""
        if len(page.plain_links) <= MAX_LINKS:
            plain = self._predictor.plain(request.url)
            page.plain_links.add(hash(plain.text if plain is not None else request.url.partition("#")[0]))

    def route(self, request: Request, page: LinkingPage) -> Request | None:
        """Return a link of a page, or None if it is skipped. Links with a pattern get a lower priority.

        Never skipped: links for another callback than the page's own, and requests other than GET.
        """
        plain = self._predictor.plain(request.url)
        is_form = plain is not None and bool(plain.patterns) and not request.dont_filter
        is_form = is_form and request.method == "GET" and request.callback == page.callback
        if not is_form:
            request.meta.pop(FORM, None)  # a spider may have copied the meta of its page
            return request
        request.meta[FORM] = True
        return None if self.is_skipped(request) else request.replace(priority=request.priority + PRIORITY)

    def is_skipped(self, request: Request) -> bool:
        """Return whether a link, or a queued request, must not be fetched. Counts it."""
        may_skip = request.meta.get(FORM) and not request.meta.get(KEEP)
        plain = self._predictor.plain(request.url) if may_skip else None
        if plain is None or not self._predictor.is_copy(plain):
            return False
        if self._predictor.is_sample(request.url):
            self._channel.count("patterns/sampled")
            return False
        self._channel.count("patterns/skipped")
        first = plain.patterns[0]
        self._dropped.add(request, f"{first.site} {first}")
        return True

    def end(self, page: LinkingPage) -> None:
        """Take in a page after its callback ended, if it was compared."""
        plain = self._predictor.plain(page.url)
        if plain is None or page.verdict is None or not is_comparable(page.verdict):
            return
        if not self._predictor.add(plain, page.verdict.cluster_id, page.plain_links):
            self._channel.count("patterns/exceptions")
            self._tell(plain, page)

    def _tell(self, plain: PlainAddress, page: LinkingPage) -> None:
        for pattern in plain.patterns:
            shown = f"{pattern.site} {pattern}"
            if shown not in self._told:
                self._told.add(shown)
                logger.warning(
                    "the pattern %s does not hold for %s, which has another text or links of its own: pages with "
                    "it are fetched until %d in a row are copies",
                    shown,
                    page.url,
                    self._channel.options.trials,
                )
