"""State that does not fit is refused by name, before any verdict; a topic that was created again begins again."""

from __future__ import annotations

import json

import pytest

from simstream.log.options import FINGERPRINTS, PAGES, POSITIONS, VERDICTS
from simstream.roles.context import RoleContext
from simstream.roles.topics import TopicWatch
from simstream.settings import Settings
from tests.e2e.harness import Program, all_verdicts, read_topic, watching
from tests.e2e.pages import HARBOUR, ORCHARD
from tests.e2e.test_status import status


@pytest.fixture
def served(program: Program) -> Program:
    """60 pages with their verdicts, and 60 more without."""
    program.good("topics", "create", "--partitions", 1)
    program.feed(60, seed=1)
    program.judge(60)
    program.feed(60, seed=2)
    return program


def test_another_recipe_is_refused_by_both_roles_and_nothing_is_written(served: Program) -> None:
    for role in ("fingerprint", "judge"):
        assert "recipe" in served.refused("--recipe", "google2007", "--roles", role)
    with served.place.open() as log:
        assert len(all_verdicts(log)) == 60
    assert len(served.judge(120)) == 120, "nothing was committed: the 60 pages are still there"


@pytest.mark.long
def test_another_policy_is_refused(served: Program) -> None:
    for flags in (["--distance", "5"], ["--window", "9h"], ["--link", "canonical"]):
        assert "policy" in served.refused("--roles", "judge", *flags)
    with served.place.open() as log:
        assert len(all_verdicts(log)) == 60


def test_a_log_made_anew_under_old_verdicts_needs_a_person_and_is_refused(served: Program) -> None:
    served.place.delete(FINGERPRINTS)
    with served.place.open() as log:
        log.create_topics(1)
    told = status(served, code=1)["wrong"]
    assert any("verdicts were published for the log" in wrong["what"] for wrong in told)
    refused = served.refused()
    assert "created again" in refused
    assert "a copy in another cluster" in refused
    with served.place.open() as log:
        assert len(all_verdicts(log)) == 60


@pytest.mark.kafka
def test_lost_verdicts_are_told_once_while_a_judge_works_and_again_at_each_start(
    on_kafka: Program, caplog: pytest.LogCaptureFixture
) -> None:
    on_kafka.good("topics", "create", "--partitions", 1)
    on_kafka.feed(60, seed=1)
    with on_kafka.place.open() as log, watching(log) as watcher, on_kafka.serve() as service:
        watcher.wait(60, service)
        assert service.end() == 0
        assert "created again" not in service.output
        watch = TopicWatch(log, [VERDICTS], RoleContext(Settings()))
        watch.look()
        on_kafka.place.delete(VERDICTS)
        log.create_topics(1)
        watch.look()
        watch.look()
    assert caplog.text.count("was deleted and created again while it was in use") == 1
    on_kafka.feed(5, seed=2)
    with on_kafka.place.open() as log, watching(log) as watcher, on_kafka.serve() as service:
        watcher.wait(5, service)
        assert service.end() == 0
        assert service.output.count("60 verdicts were published, but the end of the topic") == 1


@pytest.mark.kafka
@pytest.mark.long
def test_verdicts_without_positions_are_refused(on_kafka: Program) -> None:
    on_kafka.good("topics", "create", "--partitions", 1)
    on_kafka.feed(30)
    on_kafka.judge(30)
    on_kafka.place.delete(POSITIONS)
    with on_kafka.place.open() as log:
        log.create_topics(1)
        assert POSITIONS in on_kafka.refused()
        assert len(read_topic(log, VERDICTS)) == 30


def test_pages_named_by_their_places_replace_those_of_an_earlier_topic(program: Program) -> None:
    verdicts: list[bytes] = []
    for texts in ([HARBOUR], [ORCHARD, HARBOUR]):
        with program.place.open() as log:
            log.create_topics(1)
            with log.open_appender(PAGES) as pages:
                for text in texts:
                    pages.append(json.dumps({"text": text}).encode())
        verdicts = program.judge(len(verdicts) + len(texts))
        program.place.delete(PAGES)
    told = [json.loads(value) for value in verdicts]
    name = f"{program.place.prefix}.{PAGES}"
    assert [one["id"] for one in told] == [f"{name}/0/0", f"{name}/0/0", f"{name}/0/1"]
    assert [one["verdict"] for one in told] == ["new"] * 3, "the first page has left when its copy comes"


@pytest.mark.long
def test_pages_made_anew_stop_the_service_and_a_new_start_reads_them_from_their_beginning(program: Program) -> None:
    program.good("topics", "create", "--partitions", 1)
    program.feed(60, seed=1)
    with program.place.open() as log, watching(log) as watcher, program.serve() as service:
        watcher.wait(60, service)
        program.place.delete(PAGES)
        log.create_topics(1)
        said = service.failed()
        assert "created again" in said or "no topic" in said
    program.feed(40, seed=2)
    verdicts = [json.loads(value) for value in program.judge(100)]
    assert [v["source"]["offset"] for v in verdicts] == [*range(60), *range(40)]
