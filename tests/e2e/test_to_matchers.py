"""A service whose judge has its own index moves to matchers while it runs, and no verdict changes."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from tests.e2e import eventful_pages
from tests.e2e.harness import Program, Service, by_ordinal, naive_verdicts, watching

PAGES = 600
ELECTED = 'simstream_role_elected{role="judge"}'


@pytest.mark.kafka
def test_a_judge_with_matchers_stands_by_beside_one_with_its_own_index_and_takes_over(on_kafka: Program) -> None:
    on_kafka.good("topics", "create", "--partitions", 2)
    pages = eventful_pages.make(PAGES)
    with ExitStack() as stack, on_kafka.place.open() as log, watching(log) as watcher:

        def serve(*flags: object) -> Service:
            return stack.enter_context(on_kafka.serve(*flags))

        fingerprinter = serve("--roles", "fingerprint")
        old = serve("--roles", "judge", "--shards", 0, "--state", "old")
        eventful_pages.append(log, pages[: PAGES // 2])
        watcher.wait(PAGES // 2, old)
        on_kafka.good("topics", "create", "--shards", 8)
        matcher = serve("--roles", "match", "--state", "matcher", "--instance", "matcher-1")
        new = serve("--roles", "judge", "--state", "new")
        new.ready()
        assert new.metric(ELECTED) == 0
        assert old.end() == 0
        eventful_pages.append(log, pages[PAGES // 2 :])
        watcher.wait(PAGES, new)
        assert by_ordinal(watcher.rest()) == naive_verdicts(log)
        last = on_kafka.refused("--roles", "judge", "--state", "old")
        assert "the state belongs to a judge with its own index" in last
        for service in (new, matcher, fingerprinter):
            assert service.end() == 0, service.output


@pytest.mark.kafka
def test_a_matcher_that_restarts_under_its_name_goes_on_from_its_snapshots(on_kafka: Program) -> None:
    on_kafka.good("topics", "create", "--partitions", 2, "--shards", 4)
    match = ("--roles", "match", "--state", "matcher", "--instance", "matcher-1")
    with on_kafka.place.open() as log, watching(log) as watcher, on_kafka.serve() as service:
        eventful_pages.append(log, eventful_pages.make(PAGES))
        with on_kafka.serve(*match) as matcher:
            watcher.wait(PAGES, service)
            assert matcher.end() == 0
        eventful_pages.append(log, eventful_pages.make(100, 2))
        with on_kafka.serve(*match) as matcher:
            watcher.wait(PAGES + 100, service)
            assert matcher.output.count(f"ordinal {PAGES} loaded") == 4
            assert matcher.end() == 0
        assert by_ordinal(watcher.rest()) == naive_verdicts(log)
        assert service.end() == 0


def test_another_number_of_shards_than_the_topic_has_is_refused_before_any_verdict(on_folder: Program) -> None:
    on_folder.good("topics", "create", "--partitions", 1)
    last = on_folder.refused("--roles", "judge", "--shards", 8, code=2)
    assert "shards is 8, but there is no topic" in last
    assert "--shards 8; or give --shards 0" in last
    on_folder.good("topics", "create", "--partitions", 1, "--shards", 4)
    for role in ("judge", "match"):
        last = on_folder.refused("--roles", role, "--shards", 8, code=2)
        assert "shards is 8" in last
        assert "give --shards 4" in last
