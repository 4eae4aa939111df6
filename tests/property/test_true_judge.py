"""`dedup --least-jaccard` against the quadratic judge: the same verdicts, pairs and kept pages on any input."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from simstream.deduper import FingerprintedPages
from simstream.judge.policy import Link, Policy
from simstream.model import Page, PageKind, PageSource, Verdict
from simstream.tools.dedup import text_rows
from simstream.tools.dedup.keep import KeepSelector
from simstream.tools.dedup.true_judge import TrueJudge, TruePair
from simstream.tools.dedup.true_matches import LeastJaccard
from tests.naive import NaivePage, NaiveTrueJudge, distance, fingerprinted_pages, similarity
from tests.naive import agreement as agreement_of
from tests.naive_truth import jaccard
from tests.property.test_judge import BASES, SKETCH_BASES, bits, columns_of, sketch_bits
from tests.short import examples
from tests.unit.test_dedup_keep import naive_kept

TEXTS = (
    "",
    "a",
    "一二三四五",
    "abcdefghijklmnop",
    "abcdefghijklmnOp!",
    "abcdefghijkl",
    "efghijklmnopqrst",
    "abcdefghijklmnopqrst",
)
PAGES = st.tuples(
    st.integers(0, 9),  # id
    st.sampled_from([PageKind.READABLE] * 9 + [PageKind.TOO_SHORT, PageKind.FAILED, PageKind.WITHDRAWN]),
    st.builds(
        lambda base, flips: base ^ flips,
        st.sampled_from(BASES[:1] * 3 + BASES[1:2]),
        st.just(0) | st.just(0) | bits,
    ),
    st.builds(
        lambda base, flips: base ^ flips,
        st.sampled_from(SKETCH_BASES[:1] * 3 + SKETCH_BASES[1:]),
        st.just(0) | st.just(0) | sketch_bits,
    ),
    st.integers(0, 12),  # time
    st.sampled_from([9, 300]),  # distinct words
    st.sampled_from(TEXTS),
)
READ, GONE = PageKind.READABLE, PageKind.WITHDRAWN
LIFE = [
    [(n, READ, 0, 0, n, 300, text) for n, text in enumerate((TEXTS[5], TEXTS[6], TEXTS[3]))],
    [(2, READ, 1, 0, 3, 300, TEXTS[4]), (1, GONE, 0, 0, 3, 0, ""), (1, READ, 0, 0, 4, 300, TEXTS[7])],
]
"""The third page ties the first two; then it comes unchanged, and the second one goes and comes again."""


def batch_of(rows: list[tuple[Any, ...]], first: int) -> FingerprintedPages:
    columns = columns_of([(first + n, row[:6]) for n, row in enumerate(rows)], 2)
    ids = columns.id_list()
    pages = [Page(ids[n], b"", first + n, row[4], text=row[6]) for n, row in enumerate(rows)]
    return FingerprintedPages(pages, columns, [PageSource("p", 0, first + n) for n in range(len(rows))])


def naive(judge: NaiveTrueJudge, pages: list[NaivePage], policy_id: str) -> tuple[list[Verdict], list[TruePair]]:
    verdicts, pairs = [], []
    for page in pages:
        judge.found = []
        verdicts.append(judge.judge(page))
        for other in judge.found:
            alike = similarity(agreement_of(page, other, judge.policy), judge.policy.sketch_bits)
            pairs.append(
                TruePair(
                    other.id, page.id, distance(page, other, judge.policy), alike, jaccard(page.text, other.text)
                )
            )
    return [Verdict(**{name: getattr(v, name) for name in v.__struct_fields__} | {"policy": policy_id})
            for v in verdicts], pairs  # fmt: skip


@pytest.mark.parametrize(
    ("link", "window", "fingerprints"),
    [("any", None, 1), ("any", 5, 2), ("canonical", None, 2), ("canonical", 5, 1), ("any", None, 0)],
)
def test_verdicts_pairs_and_kept_pages_are_those_of_the_quadratic_judge(
    link: Link, window: int | None, fingerprints: int
) -> None:
    one = Policy("0badcafe", 128, 4, 80, window, link, 20, 1, 120)
    two = Policy("0badcafe", 64, 4, 40, window, link, 20, 1, 60, fingerprints=2)
    looked_up = Policy("0badcafe", 128, 4, 80, window, link, 20, 1, 120, sketch_lookups=1)
    policy = (looked_up, one, two)[fingerprints]
    seen = Counter[str]()

    @settings(deadline=None, max_examples=examples(200))
    @given(
        st.lists(st.lists(PAGES, max_size=12), max_size=4),
        st.sampled_from([0.3, 0.3, 0.7, 0.75, 1.0]),
        st.integers(0, 20),
    )
    @example(LIFE, 0.3, 1)
    def check(batches: list[list[Any]], least: float, first: int) -> None:
        made, told, at = [], [], 0
        for rows in batches:
            made.append(batch_of(rows, at))
            at += len(rows)
        patch = pytest.MonkeyPatch()
        patch.setattr(text_rows, "MAX_BATCH_PAIRS", 3)
        with TrueJudge(policy, LeastJaccard(least), told.extend) as judge:
            keeping = KeepSelector(judge.policy)
            verdicts = list(judge.stream(made, lambda batch: keeping.note_pages(batch.columns)))
            for verdict in verdicts:
                keeping.take(verdict)
            kept = keeping.choose(first, confirm=judge.matcher.confirm).ordinals.tolist()
            policy_id = verdicts[0].policy if verdicts else ""
        patch.undo()
        pages = [page for batch in made for page in fingerprinted_pages(batch)]
        oracle = NaiveTrueJudge(judge.policy, least)
        expected, pairs = naive(oracle, pages, policy_id)
        assert verdicts == expected
        assert told == pairs
        assert kept == naive_kept(pages, verdicts, judge.policy, first, oracle.match)
        seen.update(verdict.verdict for verdict in verdicts)
        seen["merged"] += sum(bool(verdict.merged_clusters) for verdict in verdicts)

    check()
    assert set(seen) >= {"new", "near_duplicate", "unchanged", "withdrawn"}
    assert seen["merged"] or link == "canonical"


def test_the_rule_is_part_of_the_policy() -> None:
    policy = Policy("0badcafe", 128, 4, 80, None, "any")
    ids = {LeastJaccard(least).policy_id(policy) for least in (0.7, 0.8)} | {policy.id}
    assert len(ids) == 3
    assert LeastJaccard(0.7).candidate_similarity == "0.4500"
    assert LeastJaccard(0.1).candidate_similarity == "0.0000"


def test_copies_of_a_text_take_room_once() -> None:
    rows = [(n, PageKind.READABLE, 5, 7, 0, 300, "one and the same text") for n in range(50)]
    with TrueJudge(Policy("0badcafe", 128, 4, 80, None, "any"), LeastJaccard(0.7)) as judge:
        kinds = Counter(v.verdict for v in judge.stream([batch_of(rows, 0)], lambda batch: None))
        assert kinds == {"new": 1, "near_duplicate": 49}
        assert len(np.unique(judge.matcher.note(batch_of(rows, 50)))) == 1
