"""Compares the verdicts of two judges over one log, by ordinal."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterator

import msgspec

from simstream.errors import UsageError, WrongLog
from simstream.log.base import Log
from simstream.log.committed_records import committed
from simstream.log.options import VERDICTS
from simstream.model import Verdict
from simstream.wire import position as positions
from simstream.wire import verdict as wire
from simstream.wire.position import Position

MAX_POLL_RECORDS = 10_000


class ComparedVerdict(msgspec.Struct, frozen=True):
    """The compared parts of one judge's verdict."""

    verdict: str
    near_duplicate_of: str | None
    similarity: float | None
    cluster_id: str | None


class DifferenceExample(msgspec.Struct, frozen=True, order=True):
    """A page that the two judges differ about."""

    ordinal: int
    id: str
    old: ComparedVerdict
    new: ComparedVerdict


class VerdictPair(msgspec.Struct):
    """The pages with the verdict `old` by the old judge and `new` by the new one.

    `share` is of all compared pages.
    """

    old: str
    new: str
    pages: int = 0
    share: float = 0.0
    other_page: int = 0
    """Both verdicts are near_duplicate, and name different pages."""
    other_cluster: int = 0
    """Both verdicts are the same, in different clusters."""
    examples: list[DifferenceExample] = []


class ReplayComparison(msgspec.Struct):
    """The differences between the verdicts of two prefixes. `compared` pages have a verdict under both."""

    old: str
    new: str
    old_policy: str
    new_policy: str
    compared: int = 0
    same: int = 0
    """Both verdicts are the same, name the same page, and are in the same cluster."""
    only_old: int = 0
    only_new: int = 0
    """Verdicts that the other topic lacks: not judged yet, or removed by retention."""
    pairs: list[VerdictPair] = []
    """The most frequent pair first."""


def compare(old: Log, new: Log, examples: int, tick: Callable[[int], None]) -> ReplayComparison:
    """Compare all verdicts of two prefixes. `examples`: at most so many for each kind of difference.

    Cost: a pass over both topics. Memory: the verdicts between both readers' places, and the verdicts that only
    one topic has. Raises UsageError if a prefix has no verdicts, WrongLog if their logs differ.
    """
    a, b = _position(old), _position(new)
    if a.log_id != b.log_id:
        raise WrongLog(
            f"{old.topic(VERDICTS).name} and {new.topic(VERDICTS).name} were made from different logs",
            "compare verdicts of one log",
        )
    comparison = ReplayComparison(old.topic(VERDICTS).name, new.topic(VERDICTS).name, a.policy, b.policy)
    counting = _VerdictCounter(comparison, examples)
    sides = [_verdicts(old), _verdicts(new)]
    read = [0, 0]
    while sides[0] is not _ENDED or sides[1] is not _ENDED:
        behind = 0 if sides[1] is _ENDED or (sides[0] is not _ENDED and read[0] <= read[1]) else 1
        verdicts = next(sides[behind], None)
        if verdicts is None:
            sides[behind] = _ENDED
            continue
        read[behind] += len(verdicts)
        for verdict in verdicts:
            counting.take(behind, verdict)
        tick(sum(read))
    counting.finish()
    return comparison


_ENDED: Iterator[list[Verdict]] = iter(())


def _position(log: Log) -> Position:
    with log.open_publisher() as publisher:
        data = publisher.committed()
    if data is None:
        raise UsageError(
            f"{log.topic(VERDICTS).name} has no verdicts yet",
            "judge the log first, with `simstream serve` or `simstream replay`",
        )
    return positions.decode(data)


def _verdicts(log: Log) -> Iterator[list[Verdict]]:
    for records in committed(log, VERDICTS, MAX_POLL_RECORDS):
        yield [wire.decode(record.value or b"") for record in records]


def _said(verdict: Verdict) -> ComparedVerdict:
    return ComparedVerdict(verdict.verdict, verdict.near_duplicate_of, verdict.similarity, verdict.cluster_id)


class _VerdictCounter:
    """Counts a page as soon as both its verdicts are there."""

    def __init__(self, comparison: ReplayComparison, examples: int) -> None:
        self._comparison = comparison
        self._examples = examples
        self._waiting: tuple[dict[int, ComparedVerdict], dict[int, ComparedVerdict]] = ({}, {})
        self._pairs: dict[tuple[str, str], VerdictPair] = {}

    def take(self, side: int, verdict: Verdict) -> None:
        said = _said(verdict)
        other = self._waiting[1 - side].pop(verdict.ordinal, None)
        if other is None:
            self._waiting[side][verdict.ordinal] = said
            return
        old, new = (other, said) if side else (said, other)
        self._comparison.compared += 1
        pair = self._pairs.setdefault((old.verdict, new.verdict), VerdictPair(old.verdict, new.verdict))
        pair.pages += 1
        same_kind = old.verdict == new.verdict
        other_page = same_kind and old.near_duplicate_of != new.near_duplicate_of
        other_cluster = same_kind and old.cluster_id != new.cluster_id
        pair.other_page += other_page
        pair.other_cluster += other_cluster
        if same_kind and not other_page and not other_cluster:
            self._comparison.same += 1
            return
        insort(pair.examples, DifferenceExample(verdict.ordinal, verdict.id, old, new), key=lambda one: one.ordinal)
        del pair.examples[self._examples :]

    def finish(self) -> None:
        comparison = self._comparison
        comparison.only_old, comparison.only_new = map(len, self._waiting)
        comparison.pairs = sorted(self._pairs.values(), key=lambda pair: (-pair.pages, pair.old, pair.new))
        for pair in comparison.pairs:
            pair.share = round(pair.pages / comparison.compared, 6)
