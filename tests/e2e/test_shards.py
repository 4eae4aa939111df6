"""One log, judged with an own index and by matchers: the verdicts are the same bytes, however shards are shared."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from simstream.log.base import Log
from simstream.log.options import FINGERPRINTS, MATCHES
from tests.e2e import eventful_pages
from tests.e2e.harness import Program, Service, by_ordinal, naive_verdicts, read_topic, watching
from tests.kafka_fixtures import TopicPlace

PAGES = 1_500
SHARDS = 4
WINDOW_MS = 10 * eventful_pages.HOUR_MS
POLICY = ("--window", f"{WINDOW_MS}ms")
SMALL = {"SIMSTREAM_FRAME_MAX_PAGES": "7"}
REPEATED = 'simstream_answers_ignored_total{reason="repeated"}'


class JudgedLog:
    """A log that a service with an own index has judged, and ways to judge it again under other prefixes."""

    def __init__(self, program: Program, log: Log, expected: list[bytes]) -> None:
        self.program, self.log, self.expected = program, log, expected

    @contextmanager
    def again(self, to: str, matchers: int, copies: int = 1) -> Iterator[tuple[Service, list[Service]]]:
        """A judge and so many matchers for each copy, which publish to another prefix."""
        where = ("--publish-to", to)
        self.program.good("topics", "create", "--shards", SHARDS, *where)
        with ExitStack() as stack:

            def serve(*flags: object) -> Service:
                return stack.enter_context(self.program.serve(*flags, *where, *POLICY))

            fleet = [
                serve("--roles", "match", "--copy", copy) for copy in range(1, copies + 1) for _ in range(matchers)
            ]
            yield serve("--roles", "judge"), fleet

    def verdicts(self, to: str, judge: Service) -> list[bytes]:
        """Wait until a judge has published all verdicts under this prefix."""
        with self.open(to) as log, watching(log) as watcher:
            watcher.wait(len(self.expected), judge)
            return by_ordinal(watcher.rest())

    def open(self, to: str) -> Log:
        """The log with the verdicts and answers of another prefix."""
        return self.program.place.open(publish_to=to)


@contextmanager
def judged_log(program: Program) -> Iterator[JudgedLog]:
    """Append the pages, and judge them with an own index."""
    program.good("topics", "create", "--partitions", 1 if program.place.is_local else 4)
    with program.place.open() as log:
        eventful_pages.append(log, eventful_pages.make(PAGES))
        yield JudgedLog(program, log, program.judge(PAGES, *POLICY, **SMALL))


@pytest.fixture(scope="module")
def on_broker(
    broker: Any, tmp_path_factory: pytest.TempPathFactory, cache: Path
) -> Iterator[tuple[JudgedLog, Callable[[], str]]]:
    """A judged log on the broker, and prefixes to publish to."""
    folder = tmp_path_factory.mktemp("shards")
    place = TopicPlace(broker.address, folder.name + "-pages")
    numbers = iter(range(100))
    with judged_log(Program(folder, cache, place)) as judged:
        yield judged, lambda: f"{place.prefix}-{next(numbers)}"


def ended(*services: Service) -> None:
    """All end well when they are asked to."""
    for service in services:
        assert service.end() == 0, service.output
        assert "Traceback" not in service.output


@pytest.mark.kafka
def test_the_pages_of_these_tests_move_the_state_in_every_way(on_broker: Any) -> None:
    judged, _ = on_broker
    assert judged.expected == naive_verdicts(judged.log, window_ms=WINDOW_MS)
    verdicts = [json.loads(value) for value in judged.expected]
    kinds = Counter(verdict["verdict"] for verdict in verdicts)
    assert min(kinds[kind] for kind in ("new", "near_duplicate", "unchanged", "withdrawn", "too_short")) >= 5, kinds
    assert any(verdict["merged_clusters"] for verdict in verdicts)
    assert verdicts[-1]["time"] - verdicts[0]["time"] > 2 * WINDOW_MS
    assert max(Counter(verdict["cluster_id"] for verdict in verdicts if verdict["cluster_id"]).values()) > 20
    assert len(read_topic(judged.log, FINGERPRINTS)) > PAGES // 7


@pytest.mark.kafka
@pytest.mark.parametrize(
    ("matchers", "copies"),
    [
        pytest.param(1, 1, marks=pytest.mark.long),
        pytest.param(2, 1, marks=pytest.mark.long),
        (4, 1),
        (1, 2),
        (2, 2),
    ],
)
def test_matchers_and_copies_change_no_byte_of_any_verdict(on_broker: Any, matchers: int, copies: int) -> None:
    judged, prefixes = on_broker
    to = prefixes()
    with judged.again(to, matchers, copies) as (judge, fleet):
        assert judged.verdicts(to, judge) == judged.expected
        judge.ready()
        answered = judge.metric("simstream_answers_total")
        assert answered >= SHARDS
        if copies > 1:
            judge.until(lambda: judge.metric(REPEATED) > 0, "answers of a second copy are dropped")
        ended(judge, *fleet)
    with judged.open(to) as log:
        assert {record.partition for record in read_topic(log, MATCHES)} == set(range(SHARDS))


@pytest.mark.kafka
def test_a_judge_with_shards_0_needs_no_matcher(on_broker: Any) -> None:
    judged, prefixes = on_broker
    to = prefixes()
    judged.program.good("topics", "create", "--shards", SHARDS, "--publish-to", to)
    with judged.program.serve("--roles", "judge", "--shards", 0, "--publish-to", to, *POLICY) as judge:
        assert judged.verdicts(to, judge) == judged.expected
        ended(judge)


def test_on_a_local_log_one_matcher_owns_all_shards_and_a_second_is_refused(on_folder: Program) -> None:
    with judged_log(on_folder) as judged:
        assert judged.expected == naive_verdicts(judged.log, window_ms=WINDOW_MS)
        with judged.again("other", matchers=1) as (judge, [matcher]):
            assert judged.verdicts("other", judge) == judged.expected
            matcher.until(
                lambda: f"holds {SHARDS} of {SHARDS} shards" in matcher.get("/health/ready")[1], "it has all"
            )
            last = judged.program.refused("--roles", "match", "--publish-to", "other", *POLICY)
            assert "already writes to other.matches" in last
            ended(judge, matcher)
