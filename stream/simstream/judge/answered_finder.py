"""Finds best matches in the answers of shards: the judge's finder if its index is on other machines."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from simstream.errors import WrongAnswer
from simstream.judge.answer_book import ANSWER_ANEW, AnswerBook
from simstream.judge.batch import PageBatch
from simstream.judge.best_match import BestMatch, Chosen
from simstream.judge.candidates import ComparedPage
from simstream.judge.earlier_versions import EarlierVersion
from simstream.judge.live_pages import LivePages
from simstream.judge.numbers import NO_ENTRY, BatchPlace, ClusterRef, EntryId, Row
from simstream.judge.policy import Policy
from simstream.wire.answer import NO_IDENTITY


class ShardMatch(NamedTuple):
    """What one shard found for a page. Other pages are named by identity."""

    best: bytes
    """The best match; NO_IDENTITY if the page only ties clusters."""
    distance: int
    agreement: int
    ties: Sequence[bytes]
    """A page of each further cluster that the page ties."""


class AnsweredFinder:
    """Finds best matches in a book of answers, for the batches of one store of live pages.

    Ask for the pages of a batch in their order; see `ClosestFinder`, which looks into an index instead.
    Cost: 3 us for each page that an answer names.
    """

    def __init__(self, policy: Policy, store: LivePages, book: AnswerBook) -> None:
        self._policy, self._store, self._book = policy, store, book
        self._found: Mapping[int, Sequence[ShardMatch]] = {}
        self._known: Mapping[bytes, Sequence[EarlierVersion]] = {}

    def begin(self, batch: PageBatch) -> None:
        """Begin with the pages of this batch, which all shards must have answered."""
        self._ordinals: list[int] = batch.ordinals.tolist()
        found: defaultdict[int, list[ShardMatch]] = defaultdict(list)
        named: dict[bytes, None] = {}
        if len(batch):
            for ordinals, matches in self._book.of(self._ordinals[0], self._ordinals[-1] + 1):
                best, ties = matches.best.tobytes(), matches.ties.tobytes()
                at, ends = 0, matches.tie_ends.tolist()
                columns = ordinals.tolist(), matches.distance.tolist(), matches.agreement.tolist()
                for place, (ordinal, distance, agreement) in enumerate(zip(*columns, strict=True)):
                    own: list[bytes] = []
                    if at < ends[place]:  # few matches tie further clusters
                        own = [ties[i : i + 16] for i in range(16 * at, 16 * ends[place], 16)]
                        at = ends[place]
                        named.update(dict.fromkeys(own))
                    match = ShardMatch(best[16 * place : 16 * place + 16], distance, agreement, own)
                    found[ordinal].append(match)
                    named[match.best] = None
        named.pop(NO_IDENTITY, None)
        self._found = found
        identities = np.frombuffer(b"".join(named), np.uint64).reshape(-1, 2)
        self._known = dict(zip(named, self._store.known(identities), strict=True)) if named else {}

    def twin(self, number: BatchPlace) -> EntryId:
        """Return 0: the judge has no entries if shards find the matches."""
        return NO_ENTRY

    def choose(self, page: ComparedPage, number: BatchPlace, same: Row) -> Chosen:
        """Return the best match of page `number`, and the clusters that it ties; see `ClosestFinder.choose`."""
        store = self._store
        best: BestMatch | None = None
        ties: set[ClusterRef] = set()
        said: tuple[bytes, int, int] | None = None
        for match in self._found.get(self._ordinals[number], ()):
            for identity in match.ties:
                ties.add(store.clusters.of(self._row(identity, number)))
            said, last = match[:3], said
            if match.best != NO_IDENTITY and said != last:  # usually several shards find the same
                row = self._row(match.best, number)
                self._check_limits(match, number)
                ties.add(store.clusters.of(row))
                found = BestMatch(row, match.distance, match.agreement)
                if best is None or self._rank(found) < self._rank(best):
                    best = found
        if same:
            ties.add(store.clusters.of(same))
        return best, ties

    def _rank(self, match: BestMatch) -> tuple[int, int, int]:
        return -match.agreement, match.distance, self._store.ordinal_rank(match.row)

    def _check_limits(self, match: ShardMatch, number: BatchPlace) -> None:
        """Raise WrongAnswer if the policy does not allow the match."""
        limits, bits = self._policy.limits, self._policy.sketch_bits
        if match.distance > limits.distance or not limits.agreement <= match.agreement <= bits:
            raise WrongAnswer(
                f"a shard matches the page of ordinal {self._ordinals[number]} at distance {match.distance} with "
                f"{match.agreement} of {bits} bits of the sketches, which the policy does not allow",
                ANSWER_ANEW,
            )

    def _row(self, identity: bytes, number: BatchPlace) -> Row:
        """Return the live page of this identity. Raises WrongAnswer if there is none."""
        version = self._store.live_version(identity, self._known[identity])
        if version is None:
            raise WrongAnswer(
                f"a shard matches the page of ordinal {self._ordinals[number]} with the page of identity "
                f"{identity.hex()}, which is not live",
                ANSWER_ANEW,
            )
        return version.row
