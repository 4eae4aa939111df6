"""Which pages of a run are kept, against loops over all pairs; and what chains of bridges cannot do."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from simstream import Deduper
from simstream.deduper import FingerprintedPages
from simstream.judge.policy import Policy, make_policy
from simstream.model import PageKind, Record, Verdict
from simstream.text.recipe import preset
from simstream.tools.dedup import keep
from simstream.tools.dedup.keep import KeepSelector
from simstream.wire.page import NO_TIME
from tests.columns import page_columns
from tests.e2e import pages
from tests.naive import NaivePage, fingerprinted_pages, match


def run(deduper: Deduper, records: list[Record]) -> tuple[KeepSelector, list[NaivePage], list[Verdict]]:
    keeping = KeepSelector(deduper.policy)
    told: list[NaivePage] = []

    def seen(batch: FingerprintedPages) -> None:
        keeping.note_pages(batch.columns)
        told.extend(fingerprinted_pages(batch))

    verdicts = list(deduper.stream(records, 1, seen))
    for verdict in verdicts:
        keeping.take(verdict)
    return keeping, told, verdicts


def final(told: list[NaivePage], verdicts: list[Verdict]) -> list[tuple[int, int]]:
    """Age and ordinal of each page that is there in the end, the oldest first."""
    live: dict[bytes, tuple[int, int]] = {}
    for number, (page, verdict) in enumerate(zip(told, verdicts, strict=True)):
        if page.kind is PageKind.READABLE:
            age = live[page.identity][0] if verdict.verdict == "unchanged" else number
            live[page.identity] = age, number
        elif page.kind in (PageKind.TOO_SHORT, PageKind.WITHDRAWN):
            live.pop(page.identity, None)
    return sorted(live.values())


def naive_kept(
    told: list[NaivePage],
    verdicts: list[Verdict],
    policy: Policy,
    first: int,
    matches: Callable[[NaivePage, NaivePage], bool],
) -> list[int]:
    stream_time, now = [], -1
    for page in told:
        now = max(now, page.time if page.kind is PageKind.READABLE else -1)
        stream_time.append(now)
    kept: list[int] = []
    chosen = []
    for age, number in final(told, verdicts):
        edge = -1 if policy.window_ms is None else stream_time[age] - policy.window_ms
        like = any(told[other].time > edge and matches(told[number], told[other]) for other in kept)
        if age < first or not like:
            kept.append(number)
            chosen += [number] * (age >= first)
    return sorted(chosen)


@pytest.mark.parametrize(
    ("seed", "first", "options"),
    [(1, 0, {}), (2, 250, {}), (3, 0, {"link": "canonical"}), (4, 0, {"window": "2h"}), (5, 100, {"window": "2h"})],
)
def test_a_page_is_left_out_only_if_it_matches_a_kept_page(
    seed: int, first: int, options: dict[str, Any], cache: Path
) -> None:
    lines = [line for line in pages.lines(900, seed) if "window" not in options or b'"time"' in line]
    records = [
        Record("p", 0, i, f"p:{i}".encode() * (b'"id"' not in line), line, (), NO_TIME)
        for i, line in enumerate(lines)
    ]
    with Deduper(cache=cache, workers=0, distance=12, similarity=0.3, **options) as deduper:
        keeping, told, verdicts = run(deduper, records)
        kept = keeping.choose(first)
        policy = deduper.policy
        expected = naive_kept(told, verdicts, policy, first, lambda page, other: match(page, other, policy))
        assert kept.ordinals.tolist() == expected != []
    assert kept.left_out["like a kept page"] > 20
    assert ("like a page of the corpus" in kept.left_out) == (first > 0)
    assert len(kept.ordinals) + sum(kept.left_out.values()) == len(records) - first


def test_without_any_page_nothing_is_kept(cache: Path) -> None:
    with Deduper(cache=cache, workers=0) as deduper:
        kept = KeepSelector(deduper.policy).choose(0)
    assert (len(kept.ordinals), kept.left_out) == (0, {})


def test_a_chain_of_bridges_removes_no_kept_page(cache: Path) -> None:
    rng = random.Random(5)
    syllables = [first + last for first in "bcdfghjklmnprstvw" for last in "aeiou"]
    spam, victim = (
        [" ".join("".join(rng.choices(syllables, k=3)) for _ in range(3)) for _ in range(134)] for _ in "ab"
    )
    texts = [" ".join(spam), " ".join(victim)]
    texts += [" ".join([*victim[:cut], *spam[cut:]]) for cut in range(1, 134)]
    values = [b'{"id":"%d","text":"%s"}' % (i, text.encode()) for i, text in enumerate(texts)]
    records = [Record("p", 0, i, b"%d" % i, value, (), NO_TIME) for i, value in enumerate(values)]
    with Deduper(cache=cache, workers=0) as deduper:
        keeping, _, verdicts = run(deduper, records)
        kept = keeping.choose(0)
    assert any(verdict.merged_clusters for verdict in verdicts), "the bridges tie the victim to the spam"
    assert {0, 1} <= set(kept.ordinals.tolist())


def test_a_page_of_the_corpus_that_is_like_another_counts_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keep, "_BATCH_PAGES", 1)
    policy = make_policy(preset("default"), "0badcafe")
    near = (1 << policy.distance) - 1
    chain = np.array([0, near, near | near << policy.distance], np.uint64)  # the last is like the second alone
    keeping = KeepSelector(policy)
    keeping.note_pages(
        page_columns(
            [b"a", b"b", b"c"],
            offset=np.arange(3),
            identity=np.arange(6, dtype=np.uint64).reshape(3, 2),
            fingerprint=chain,
            sketch=np.repeat(chain[:, None], policy.sketch_bits // 64, axis=1),
            words=100,
            time=0,
        )
    )
    verdict: Any = SimpleNamespace(verdict="new")
    for _ in range(3):
        keeping.take(verdict)
    kept = keeping.choose(2)
    assert (kept.ordinals.tolist(), kept.left_out) == ([], {"like a page of the corpus": 1})
