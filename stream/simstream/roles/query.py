"""Runs the role `query`: follows the elected judge like a standby, and answers questions. It never publishes."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

import numpy as np

from simstream.judge.lookups import KnownCluster, KnownPage, Match
from simstream.judge.policy import Policy
from simstream.log.base import Log
from simstream.log.options import FINGERPRINTS
from simstream.model import Page, PageKind, Verdict
from simstream.roles.context import RoleContext
from simstream.roles.fingerprint.first_frame import check_recipe
from simstream.roles.judge.log_follower import FollowerRole, LogFollower, PublishedPositionCheck
from simstream.roles.judge.log_judge import LogJudge
from simstream.roles.judge.retention import RetentionWatch
from simstream.roles.judge.role import finish, load, open_snapshots
from simstream.roles.judge.snapshots import LoadStoppedError
from simstream.roles.turn_lock import TurnLock
from simstream.text.fingerprinter import Fingerprinter
from simstream.wire.identity_hash import identity_of

NAME = "query"
MAX_RECENT = 20_000
"""The number of verdicts that are remembered, of about 1 KB each."""
MAX_RECENT_BYTES = 32 << 20
"""With long ids and addresses, fewer are remembered."""
_logger = logging.getLogger("simstream.query")


class MatchResult(NamedTuple):
    """What a page matches, or why it is not compared (`few_words`, `no_text`, …)."""

    matches: list[Match]
    reason: str | None


class QueryRole:
    """The live state, for questions from any thread. `run` works until `context.stop` is set, or raises.

    Like a judge it starts from a folder of its own (setting `state`) or from the whole log. It is as current as the
    newest committed verdicts. While frames wait, up to nine questions are answered between two batches of them.
    """

    def __init__(self, log: Log, policy: Policy, fingerprinter: Fingerprinter, context: RoleContext) -> None:
        self._log = log
        self._fingerprinter = fingerprinter
        self._context = context
        self.policy = policy
        self._log_judge = LogJudge(policy, context, NAME)
        self._resolver = self._log_judge.state.resolver
        self._turns = TurnLock()
        self._recent = RecentVerdicts()

    def run(self) -> None:
        """Follow until `context.stop` is set. Raises every StateError and LogError, as a judge does."""
        self._context.health.expect(NAME, self._context.settings.give_up_s)
        position_check = PublishedPositionCheck(self._log, self.policy)
        check_recipe(self._log, self.policy.recipe_id)
        with self._log.open_publisher() as publisher:
            published = position_check.decode(publisher.committed())
        role = FollowerRole(NAME, 0.0, NAME, partial(self._turns, ahead=True), self._hear)
        with (
            suppress(LoadStoppedError),
            self._log_judge,
            open_snapshots(self._log_judge, position_check.log_id, self._context) as snapshots,
        ):
            with self._turns():
                load(NAME, snapshots, published, self._log, self._context)
            with (
                RetentionWatch(self._log, snapshots, self._context, logger=_logger),
                self._log.open_reader(FINGERPRINTS, self._log_judge.next_frame) as reader,
            ):
                follower = LogFollower(
                    self._log, reader, self._log_judge, position_check, snapshots, self._context, role
                )
                published = follower.follow(lambda behind: False)
            with self._turns():
                finish(NAME, self._log_judge, snapshots, published.frame if published else 0, self._context)

    def match(self, pages: Sequence[Page], most: int) -> list[MatchResult]:
        """Return for each page the live pages that it would match, closest first; or why it is not compared.

        Fingerprints outside the state's turn, and looks up within one turn a page. Changes the pages; see
        `Fingerprinter.columns`.
        """
        columns = self._fingerprinter.columns(pages)
        found = []
        for at, page in enumerate(pages):
            one = slice(at, at + 1)
            matches: list[Match] = []
            if page.kind == PageKind.READABLE:
                with self._turns():
                    keys = columns.fingerprint[one], columns.sketch[one], columns.words[one]
                    matches = self._resolver.match(*keys, most)
            found.append(MatchResult(matches, page.reason or None))
        return found

    def near(self, fingerprints: Sequence[int], sketch: Sequence[int] | None, most: int) -> list[Match]:
        """Return the live pages that match a page's fingerprints with its sketch, or are near them without a
        sketch."""
        with self._turns():
            if sketch is None:
                return self._resolver.near(fingerprints, most)
            keys = np.array(fingerprints[:1], np.uint64), np.array([[*fingerprints[1:], *sketch]], np.uint64)
            return self._resolver.match(*keys, np.array([self.policy.short_words], np.uint32), most)

    def page(self, page_id: str, most: int) -> tuple[KnownPage, KnownCluster] | None:
        """Return the live page with this id, and its cluster with up to `most` members."""
        identity = identity_of(page_id.encode("utf-8", "surrogatepass"))
        with self._turns():
            page, cluster = self._resolver.page(identity), self._resolver.cluster_of(identity, most)
        return None if page is None or cluster is None else (page, cluster)

    def cluster(self, cluster_id: int, most: int) -> KnownCluster | None:
        """Return the cluster of this id with up to `most` members; None if it never had two pages.

        Scans the ids of all clusters outside the state's turn.
        """
        return self._resolver.cluster(cluster_id, most, self._turns)

    def verdict(self, page_id: str) -> Verdict | None:
        """Return a page's latest verdict, if it is one of the recent ones; else None."""
        with self._turns():
            return self._recent.get(page_id)

    @property
    def live_pages(self) -> int:
        """Return how many pages a new page is compared with."""
        return self._resolver.live_pages

    def _hear(self, verdicts: Sequence[Verdict]) -> None:
        self._recent.add(verdicts)


class RecentVerdicts:
    """The latest verdicts of pages: at most MAX_RECENT, and about MAX_RECENT_BYTES. For one thread at a time."""

    def __init__(self) -> None:
        self._by_id: OrderedDict[str, Verdict] = OrderedDict()
        """The latest verdict of each page, the newest last."""
        self._bytes = 0

    def get(self, page_id: str) -> Verdict | None:
        """Return a page's latest verdict; None if it is not remembered."""
        return self._by_id.get(page_id)

    def add(self, verdicts: Sequence[Verdict]) -> None:
        """Remember these verdicts, and forget the oldest ones. Cost: about 2 us a verdict."""
        for verdict in verdicts[-MAX_RECENT:]:
            if (earlier := self._by_id.pop(verdict.id, None)) is not None:
                self._bytes -= _bytes_of(earlier)
            self._by_id[verdict.id] = verdict
            self._bytes += _bytes_of(verdict)
        while len(self._by_id) > MAX_RECENT or self._bytes > MAX_RECENT_BYTES:
            self._bytes -= _bytes_of(self._by_id.popitem(last=False)[1])


def _bytes_of(verdict: Verdict) -> int:
    """Return about how much memory a verdict takes."""
    texts = filter(None, (verdict.id, verdict.url, verdict.near_duplicate_of, verdict.canonical))
    # Not getsizeof: a string that is not ASCII keeps its UTF-8 once it was encoded, and has to count the same then.
    sizes = (50 + len(text) * (1 if text.isascii() else 8) for text in texts)
    return 600 + sum(sizes) + 70 * len(verdict.merged_clusters)
