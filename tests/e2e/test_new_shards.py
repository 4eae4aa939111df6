"""Another number of shards takes over from the old one and changes no verdict; a new topic of answers is filled."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from simstream.log.options import MATCHES
from tests.e2e import eventful_pages
from tests.e2e.harness import Program, Service, by_ordinal, naive_verdicts, read_topic, watching
from tests.kafka_fixtures import TopicPlace

PAGES = 600
NEW = ("--matches", "matches-8")


@pytest.mark.kafka
def test_more_shards_come_up_beside_the_old_ones_and_take_over(broker, tmp_path: Path, cache: Path) -> None:
    place = TopicPlace(broker.address, tmp_path.name)
    program = Program(tmp_path, cache, place)
    program.good("topics", "create", "--partitions", 2, "--shards", 2)
    program.good("topics", "create", "--shards", 8, *NEW)
    pages = eventful_pages.make(PAGES)
    with ExitStack() as stack, place.open() as log, watching(log) as watcher:

        def serve(*flags: object) -> Service:
            return stack.enter_context(program.serve(*flags))

        fingerprinter = serve("--roles", "fingerprint")
        matcher, judge = serve("--roles", "match", "--state", "old"), serve("--roles", "judge")
        eventful_pages.append(log, pages[: PAGES // 2])
        watcher.wait(PAGES // 2, judge)
        more, standby = serve("--roles", "match", *NEW, "--state", "old"), serve("--roles", "judge", *NEW)
        standby.ready()  # it has judged all of the log by answers of the new shards
        assert standby.metric("simstream_answers_total") >= 8
        assert judge.end() == 0
        assert matcher.end() == 0
        eventful_pages.append(log, pages[PAGES // 2 :])
        watcher.wait(PAGES, standby)
        assert by_ordinal(watcher.rest()) == naive_verdicts(log)
        for service in (standby, more, fingerprinter):
            assert service.end() == 0, service.output


@pytest.mark.kafka
def test_a_new_topic_of_answers_is_filled_from_the_first_frame_on(broker, tmp_path: Path, cache: Path) -> None:
    """A judge without a snapshot needs all answers, also if what it needs was published long ago."""
    place = TopicPlace(broker.address, tmp_path.name)
    program = Program(tmp_path, cache, place)
    program.good("topics", "create", "--partitions", 2)
    with place.open() as log, watching(log) as watcher:
        eventful_pages.append(log, eventful_pages.make(PAGES))
        program.judge(PAGES)
        program.good("topics", "create", "--shards", 4)
        with program.serve("--roles", "match") as matcher, program.serve("--roles", "judge") as judge:
            judge.ready()
            answered = {record.partition for record in read_topic(log, MATCHES)}
            assert answered == set(range(4))
            assert judge.metric("simstream_published_position") > 0
            assert judge.end() == 0
            assert matcher.end() == 0
        assert by_ordinal(watcher.rest()) == naive_verdicts(log)
