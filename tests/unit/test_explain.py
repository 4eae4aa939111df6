"""Judging again for an explanation: the same verdicts as the judge's, and candidates that account for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import cycle, pairwise
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simstream.deduper import Deduper
from simstream.judge.candidates import RejectionRule
from simstream.log import open_log
from simstream.log.options import FINGERPRINTS
from simstream.model import GIVEN_REASONS, PageKind, PageSource, Record
from simstream.sources.demo import demo_records
from simstream.sources.read import read_pages
from simstream.tools.explain.explainer import rules_of
from simstream.tools.explain.from_files import FileHistory
from simstream.tools.explain.from_log import IGNORED, whereabouts
from simstream.tools.explain.reasons import MEANINGS, rejection, sentences
from simstream.tools.explain.rejudge import PageOrigins, Rejudge, VerdictCase
from simstream.wire import frame as frames
from simstream.wire import position as positions
from simstream.wire import verdict as wire
from simstream.wire.page import PageLimits
from simstream.wire.position import Position
from tests.e2e import pages
from tests.unit.test_frame import small as frame_of_two_pages

POLICIES = [{}, {"link": "canonical"}, {"window": "2h"}, {"window": "2h", "link": "canonical", "distance": 4}]


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> list[Record]:
    """Pages of every kind, each with a time."""
    path = tmp_path_factory.mktemp("explain") / "pages.jsonl"
    kept = [line for line in pages.lines(700, seed=5) if b'"time"' in line]
    path.write_bytes(b"\n".join(kept) + b"\n")
    return list(read_pages([str(path)]))


@pytest.fixture(params=POLICIES, ids=str)
def deduper(request: pytest.FixtureRequest, cache: Path) -> Iterator[Deduper]:
    with Deduper(cache=cache, workers=0, **request.param) as made:
        yield made


def test_every_reason_has_a_meaning() -> None:
    assert set(MEANINGS) == set(GIVEN_REASONS)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 2), st.integers(0, 2**62)), max_size=50))
def test_every_page_is_found_where_it_came_from(rows: list[tuple[str, int, int]]) -> None:
    origins = PageOrigins()
    sources = [PageSource(topic, partition, offset) for topic, partition, offset in rows]
    for source in sources:
        origins.add("id of " + source.topic, [source])
    assert [origins[i].source for i in range(len(rows))] == sources
    assert [origins[i].topic_id for i in range(len(rows))] == ["id of " + source.topic for source in sources]
    with pytest.raises(IndexError):
        origins[len(rows)]


def judged(deduper: Deduper, records: Iterable[Record], judging: Rejudge, threads: int) -> Iterator[VerdictCase]:
    return judging.cases(FileHistory(deduper, lambda _: records, threads).batches(0))


def test_judging_stops_at_any_page_and_gives_the_verdicts_of_dedup(deduper: Deduper, records: list[Record]) -> None:
    expected = [wire.encode(verdict) for verdict in deduper.stream(records)]
    for wanted in (range(len(records)), range(0, len(records), 7), [0], [len(records) - 1], [511, 512]):
        judging = Rejudge(deduper.policy, wanted)
        cases = list(judged(deduper, records, judging, threads=2))
        assert [wire.encode(case.verdict) for case in cases] == [expected[i] for i in sorted(wanted)]


def test_candidates_and_earlier_version_account_for_every_verdict(deduper: Deduper, records: list[Record]) -> None:
    rules = rules_of(deduper.fingerprinter.recipe, deduper.policy)
    judging = Rejudge(deduper.policy, range(len(records)))
    seen = set()
    for case in judged(deduper, records, judging, threads=1):
        account(case)
        said = sentences(case, rules)
        assert (case.verdict.near_duplicate_of or "") in said
        assert "None" not in said
        assert all(rejection(one, rules) for one in case.candidates)
        seen.add(case.verdict.verdict)
    assert seen == {"new", "near_duplicate", "unchanged", "too_short", "unreadable"}


def account(case: VerdictCase) -> None:
    verdict, earlier = case.verdict, case.before.earlier
    matches = [one for one in case.candidates if one.accepted]
    if verdict.verdict == "near_duplicate":
        named = matches[0]
        assert (named.id, named.distance, named.similarity) == (
            verdict.near_duplicate_of, verdict.distance, verdict.similarity
        )  # fmt: skip
        assert int(named.ordinal) < verdict.ordinal
    elif verdict.verdict == "unchanged":
        assert earlier is not None
        assert earlier.rejected_by is None
        assert (earlier.distance, earlier.similarity) == (verdict.distance, verdict.similarity)
    else:
        assert not matches
    if case.kind == PageKind.READABLE and earlier is not None:
        assert (earlier.rejected_by is None) == (verdict.verdict == "unchanged")
    if verdict.verdict in ("near_duplicate", "unchanged"):
        tied = {one.cluster_id for one in matches}
        if earlier is not None and earlier.rejected_by is None:
            tied.add(earlier.cluster_id)
        assert {verdict.cluster_id, *verdict.merged_clusters} <= tied
    for before, after in pairwise([one for one in case.candidates if not one.accepted]):
        assert before.distance <= after.distance


def test_a_page_that_the_window_takes_with_it_is_no_earlier_version(cache: Path) -> None:
    text = "the quiet harbour lantern maker sold twelve brass lamps before the winter storm closed the road"
    hour = 3_600_000
    with Deduper(cache=cache, workers=0, window="1h") as deduper:
        found = cases(deduper, [{"id": "a", "text": text, "time": 0}, {"id": "a", "text": text, "time": hour}])
        assert [case.verdict.verdict for case in found] == ["new", "new"]
        assert found[1].before.earlier is None
        late = cases(
            deduper, [{"id": "a", "text": text, "time": 2 * hour}, {"id": "b", "text": text, "time": hour}]
        )
        assert late[1].before.late
        assert "older than the window" in sentences(late[1], rules_of(deduper.fingerprinter.recipe, deduper.policy))


def cases(deduper: Deduper, made: list[dict[str, object]]) -> list[VerdictCase]:
    records = [Record("t", 0, i, None, msgspec.json.encode(page)) for i, page in enumerate(made)]
    return list(judged(deduper, records, Rejudge(deduper.policy, range(len(made))), threads=1))


def test_the_rules_that_reject_are_told_apart(cache: Path) -> None:
    with Deduper(cache=cache, workers=0, link="canonical") as deduper:
        records = list(demo_records())
        judging = Rejudge(deduper.policy, range(len(records)))
        found = list(judged(deduper, records, judging, threads=1))
    rules = {one.rejected_by for case in found for one in case.candidates}
    assert rules == {
        None,
        RejectionRule.DISTANCE,
        RejectionRule.OWN,
        RejectionRule.NOT_CANONICAL,
        RejectionRule.UNCHANGED,
    }


def test_an_endless_input_is_read_no_further_than_the_last_wanted_page(cache: Path) -> None:
    records = cycle(demo_records())
    with Deduper(cache=cache, workers=0) as deduper:
        [case] = judged(deduper, records, Rejudge(deduper.policy, [600]), threads=1)
    assert case.verdict.ordinal == 600


def test_a_page_in_a_frame_that_the_judge_ignored_was_not_judged(tmp_path: Path) -> None:
    """A frame behind a gap lies below the published position, too; no verdict on its pages was ever there."""
    header, columns = frame_of_two_pages()
    with open_log(str(tmp_path)) as log:
        log.create_topics(1)
        with log.open_appender(FINGERPRINTS) as appender:
            for _ in range(2):
                appender.append(frames.encode(header, columns))
        page_id = columns.id_list()[0]
        told = []
        for published in (0, 1, 2):
            with log.open_publisher() as publisher:
                publisher.start()
                place = Position(log.topic(FINGERPRINTS).id, published, 0, "0" * 16, "P")
                publisher.publish([], positions.encode(place))
            told.append(whereabouts(log, page_id, PageLimits(), lambda _: None))
    waits = "is fingerprinted (frame 1 of the log) and waits for the judge"
    assert told == [waits, waits, f"{IGNORED} (frame 1)"]
