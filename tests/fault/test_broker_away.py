"""A broker that goes and comes back: the service waits, says so, and goes on by itself."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from deploy.kafka.broker import KafkaBroker
from tests.e2e import pages
from tests.e2e.harness import Program, by_ordinal, watching
from tests.kafka_fixtures import TopicPlace

pytestmark = pytest.mark.kafka


@pytest.fixture
def away(own_broker: KafkaBroker, tmp_path: Path, cache: Path) -> Program:
    """The program over a broker that goes away."""
    return Program(tmp_path, cache, TopicPlace(own_broker.address, "away"))


@pytest.fixture
def nowhere(tmp_path: Path, cache: Path) -> Program:
    """The program over an address where no broker is."""
    return Program(tmp_path, cache, TopicPlace("kafka://127.0.0.1:1", "away"))


def test_the_service_is_not_ready_while_the_broker_is_away_and_goes_on_when_it_is_back(
    own_broker: KafkaBroker, away: Program, tmp_path: Path
) -> None:
    away.good("topics", "create", "--partitions", 2)
    away.good("feed", pages.write(tmp_path / "one.jsonl", 300, seed=1))
    more = pages.write(tmp_path / "two.jsonl", 300, seed=2)
    with away.serve(SIMSTREAM_FRAME_MAX_PAGES="20") as service:
        with away.place.open() as log, watching(log) as watcher:
            watcher.wait(20, service)
        own_broker.kill()
        service.until(lambda: service.get("/health/ready")[0] == 503, "it is not ready")
        assert service.get("/health/live")[0] == 200
        service.until(lambda: "no broker answers at" in service.output, "it says why")
        own_broker.start()
        service.ready()
        service.until(lambda: "a broker answers again at" in service.output, "it says so")
        away.good("feed", more)
        with away.place.open() as log, watching(log) as watcher:
            watcher.wait(600, service)
            assert service.end() == 0
            assert len(by_ordinal(watcher.rest())) == 600
        assert "Traceback" not in service.output


@pytest.mark.long
def test_a_service_without_its_broker_gives_up_with_one_line_and_one_that_is_asked_ends_with_0(
    own_broker: KafkaBroker, away: Program, tmp_path: Path, cache: Path
) -> None:
    other = Program(tmp_path, cache, TopicPlace(own_broker.address, "other"))
    for program in (away, other):
        program.good("topics", "create", "--partitions", 1)
    with (
        away.serve(SIMSTREAM_GIVE_UP_AFTER="3s", SIMSTREAM_STOP_TIMEOUT="10s") as impatient,
        other.serve(SIMSTREAM_STOP_TIMEOUT="6s") as asked,
    ):
        impatient.ready()
        asked.ready()
        own_broker.kill()
        asked.until(lambda: asked.get("/health/ready")[0] == 503, "it is not ready")
        began = time.monotonic()
        code = asked.end()
        assert time.monotonic() - began < 18
        assert code == 0, asked.output  # nothing was under way
        assert own_broker.servers in impatient.failed()
        assert sum(line.startswith("simstream: ") for line in impatient.output.splitlines()) == 1


def test_a_service_that_waits_for_a_broker_is_live_and_a_signal_ends_it_with_0(nowhere: Program) -> None:
    with nowhere.serve() as service:

        def waits() -> bool:
            code, said = service.get("/health/ready")
            return code == 503 and "fingerprint: " in said and "judge: " in said

        service.until(waits, "both roles wait")
        assert service.get("/health/live")[0] == 200
        began = time.monotonic()
        assert service.end() == 0
        assert time.monotonic() - began < 9.5  # one question to a broker takes 10 s
        assert "Traceback" not in service.output


def test_a_news_page_that_finds_no_broker_says_so_and_goes_on_once_there_is_one(
    own_broker: KafkaBroker, away: Program
) -> None:
    away.good("topics", "create", "--partitions", 1)
    own_broker.kill()
    with away.news() as news:
        news.until(lambda: "no broker has answered" in news.get("/health/ready")[1], "it names the broker")
        assert news.get("/health/live")[0] == 200
        own_broker.start()
        news.ready()
        assert news.end() == 0
        assert "Traceback" not in news.output


def test_a_news_page_that_waits_for_a_broker_ends_soon_with_0_when_asked(nowhere: Program) -> None:
    with nowhere.news() as news:
        assert news.get("/health/live")[0] == 200
        assert news.get("/health/ready")[0] == 503
        assert news.end(timeout=9.5) == 0
        assert "Traceback" not in news.output


def test_a_news_page_gives_up_after_its_patience_with_one_line(nowhere: Program) -> None:
    with nowhere.news(SIMSTREAM_GIVE_UP_AFTER="1s") as news:
        assert news.failed().startswith("simstream: no Kafka broker answered at 127.0.0.1:1 within 1 s")
