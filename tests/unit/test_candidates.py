"""Candidates: which live pages stand beside one that is about to be judged, and the rule that decides each."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from simstream.judge.candidates import Candidate, RejectionRule
from simstream.judge.policy import Policy
from simstream.judge.resolver import Resolver
from simstream.judge.state import make_index
from simstream.model import FingerprintColumns, PageKind, PageSource, Verdict
from tests.columns import page_columns

Row = tuple[str, int, int, int]
"""(id, fingerprint, sketch, distinct words)."""
ANY = Policy("00000000", 64, 3, 50, None, "any", short_words=20, short_distance=1, short_agreement=60)
CANONICAL = Policy("00000000", 64, 3, 50, None, "canonical")


def columns(rows: Sequence[Row], time: int = 0, kind: PageKind = PageKind.READABLE) -> FingerprintColumns:
    ids = [row[0].encode() for row in rows]
    return page_columns(
        ids,
        kind=kind,
        time=time,
        identity=[[int.from_bytes(one, "little"), 0] for one in ids],
        fingerprint=[row[1] for row in rows],
        sketch=[[row[2]] for row in rows],
        words=[row[3] for row in rows],
    )


def judged(policy: Policy, rows: Sequence[Row]) -> Resolver:
    resolver = Resolver(policy, make_index(policy))
    for ordinal, row in enumerate(rows):
        judge(resolver, row, ordinal)
    return resolver


def judge(resolver: Resolver, row: Row, ordinal: int) -> Verdict:
    batch = columns([row])
    [verdict] = resolver.judge(batch, batch.time, ordinal, [PageSource("pages", 0, ordinal)])
    return verdict


def beside(resolver: Resolver, row: Row, distance: int = 16) -> list[Candidate]:
    batch = columns([row])
    return resolver.meets(batch, batch.time, distance).candidates


def rules(found: list[Candidate]) -> dict[str, RejectionRule | None]:
    return {candidate.id: candidate.rejected_by for candidate in found}


def test_each_limit_that_a_pair_does_not_keep_to_is_named() -> None:
    resolver = judged(
        ANY,
        [
            ("match", 0b1, 0, 300),
            ("distance", 0b11111, 0, 300),
            ("sketch", 0, 0xFFFF, 300),
            ("short", 0b11, 0, 19),
            ("both", 0b1, 0b1, 19),
            ("far", 2**20 - 1, 0, 300),
        ],
    )
    found = beside(resolver, ("page", 0, 0, 300))
    assert rules(found) == {
        "match": None,
        "short": RejectionRule.SHORT,
        "distance": RejectionRule.DISTANCE,
        "both": None,
        "sketch": RejectionRule.SKETCH,
    }
    assert [candidate.id for candidate in found] == ["match", "short", "distance", "both", "sketch"]
    assert [candidate.short for candidate in found] == [False, True, False, True, False]


def test_the_first_that_is_accepted_is_the_one_that_the_verdict_names() -> None:
    rows = [("a", 0b111, 0b11, 300), ("b", 0b11, 0b111, 300), ("c", 0, 0b1111111, 300), ("d", 0b1111, 0, 300)]
    resolver = judged(ANY, rows)
    first = next(c for c in beside(resolver, ("page", 0, 0, 300)) if c.accepted)
    verdict = judge(resolver, ("page", 0, 0, 300), 4)
    assert (first.id, first.distance, first.similarity) == ("a", 3, 0.9375)
    assert (verdict.near_duplicate_of, verdict.distance, verdict.similarity) == first[:1] + first[3:6:2]


@pytest.mark.parametrize("words", [19, 20])
def test_the_error_names_the_accepted_values(words: int) -> None:
    rows = [("a", 0b111, 0, 300), ("b", 0b1, 0b11, 300), ("c", 0b11, 0, 19), ("d", 0b1, 0b1, 19)]
    resolver, page = judged(ANY, rows), ("page", 0, 0, words)
    batch = columns([page])
    found = resolver.match(batch.fingerprint, batch.sketch, batch.words)
    assert [match.id for match in found] == [c.id for c in beside(resolver, page) if c.accepted]
    assert len(found) == (2 if words == 19 else 3)


@pytest.mark.parametrize(("fingerprint", "fails"), [(0b1, None), (0b1111, RejectionRule.DISTANCE)])
def test_the_own_earlier_version_is_set_aside_whether_it_matches_or_not(
    fingerprint: int, fails: RejectionRule | None
) -> None:
    [own] = beside(judged(ANY, [("page", fingerprint, 0, 300)]), ("page", 0, 0, 300))
    assert (own.rejected_by, own.fails, own.accepted) == (RejectionRule.OWN, fails, False)


def test_under_canonical_the_oldest_of_a_cluster_stands_for_it() -> None:
    resolver = judged(CANONICAL, [("a", 0, 0, 300), ("b", 0b1, 0, 300), ("c", 0b11, 0, 300)])
    assert rules(beside(resolver, ("page", 0, 0, 300))) == {
        "a": None,
        "b": RejectionRule.NOT_CANONICAL,
        "c": RejectionRule.NOT_CANONICAL,
    }


def test_under_canonical_the_oldest_stays_so_when_it_is_fetched_again_unchanged() -> None:
    resolver = judged(CANONICAL, [("a", 0, 0, 300), ("b", 0b1, 0, 300), ("a", 0, 0b1, 300)])
    assert rules(beside(resolver, ("page", 0, 0, 300))) == {"a": None, "b": RejectionRule.NOT_CANONICAL}
    assert judge(resolver, ("page", 0, 0, 300), 3).near_duplicate_of == "a"


def test_under_canonical_the_heir_is_compared_once_the_page_itself_has_left_its_cluster() -> None:
    resolver = judged(CANONICAL, [("page", 0b11111000, 0, 300), ("b", 0b111000, 0, 300)])
    found = beside(resolver, ("page", 0b1000, 0, 300))
    assert rules(found) == {"page": RejectionRule.OWN, "b": None}
    assert judge(resolver, ("page", 0b1000, 0, 300), 2).near_duplicate_of == "b"


def test_under_canonical_an_unchanged_page_is_compared_no_further() -> None:
    resolver = judged(CANONICAL, [("a", 0b111, 0, 300), ("page", 0b110000, 0, 300)])
    found = beside(resolver, ("page", 0b10000, 0, 300))
    assert rules(found) == {"page": RejectionRule.OWN, "a": RejectionRule.DISTANCE}
    assert rules(beside(resolver, ("page", 0b110001, 0, 300), 8)) == {
        "page": RejectionRule.OWN,
        "a": RejectionRule.DISTANCE,
    }
    near = judged(CANONICAL, [("a", 0, 0, 300), ("page", 0b1111, 0, 300)])
    assert rules(beside(near, ("page", 0b11, 0, 300))) == {"a": RejectionRule.UNCHANGED, "page": RejectionRule.OWN}


def test_pages_that_the_window_would_leave_behind_are_no_candidates() -> None:
    policy = Policy("00000000", 64, 3, 50, 10, "any")
    resolver = Resolver(policy, make_index(policy))
    for ordinal, (name, time) in enumerate([("old", 0), ("late", 5), ("new", 8)]):
        batch = columns([(name, 0, 0, 300)], time)
        resolver.judge(batch, batch.time, ordinal, [PageSource("pages", 0, ordinal)])
    batch = columns([("page", 0, 0, 300)], 12)
    assert [c.id for c in resolver.meets(batch, batch.time).candidates] == ["late", "new"]
    assert resolver.stream_time == 8
    assert resolver.live_pages == 3


def test_every_page_within_the_policys_distance_is_a_candidate() -> None:
    resolver = judged(ANY, [("near", 0b111, 0, 300), ("far", 0b1111, 0, 300)])
    assert [c.id for c in beside(resolver, ("page", 0, 0, 300), distance=0)] == ["near"]


def test_a_page_that_is_not_readable_has_no_candidates() -> None:
    resolver = judged(ANY, [("a", 0, 0, 300)])
    batch = columns([("page", 0, 0, 3)], kind=PageKind.TOO_SHORT)
    assert resolver.meets(batch, batch.time).candidates == []
