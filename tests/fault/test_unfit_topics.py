"""Topics with wrong settings: one that breaks a rule stops `serve`, one that endangers the service is reported."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from simstream.log.options import FINGERPRINTS, MATCHES, POSITIONS, VERDICTS
from tests.contract.test_kafka_topics import make
from tests.e2e.harness import Program, Service, environment

pytestmark = pytest.mark.kafka
UNFIT = 'simstream_topic_settings_unfit{topic="fingerprints"}'
EMPTY = "Only if it has no records, delete it and create it again with `simstream topics create"
AGAIN = f"choose another --prefix. {EMPTY}"
REPLAY = f"publish under another prefix with `simstream replay --to`. {EMPTY}"
ALTER = "set cleanup.policy=delete with Kafka's kafka-configs.sh --alter --entity-type topics"

OFTEN = """
import sys
from simstream.roles.judge import retention
retention.ASK_EVERY_S = 0.2
from simstream.cli.main import main
sys.exit(main())
"""


def told(program: Program, *arguments: object, **variables: str) -> list[str]:
    """Return the things that need a person, as `status` lists them."""
    done = program.on_log("status", "--json", *arguments, **variables)
    wrong = [f"{one['what']}: {one['todo']}" for one in json.loads(done.stdout)["wrong"]]
    assert done.returncode == bool(wrong)
    return wrong


@pytest.mark.parametrize(
    ("topic", "partitions", "settings", "roles", "said", "todo"),
    [
        (FINGERPRINTS, 3, {}, ("fingerprint", "judge"), "partitions: 3, not 1", AGAIN),
        (POSITIONS, 2, {"cleanup.policy": "compact"}, ("judge",), "partitions: 2, not 1", REPLAY),
        (VERDICTS, 1, {"cleanup.policy": "compact"}, ("judge",), "cleanup.policy: compact, not delete", ALTER),
    ],
)
def test_a_topic_that_breaks_a_rule_stops_serve_by_name(
    on_kafka: Program,
    topic: str,
    partitions: int,
    settings: dict[str, str],
    roles: tuple[str, ...],
    said: str,
    todo: str,
) -> None:
    make(on_kafka.place, topic, partitions, settings)
    assert on_kafka.on_log("topics", "create", "--partitions", 1).returncode == 1
    name = f"{on_kafka.place.prefix}.{topic}"
    for role in roles:
        last = on_kafka.refused("--roles", role)
        assert last.startswith(f"simstream: {name} breaks the service's rules (")
        assert said in last
        assert last.removesuffix("`").endswith(todo)
    [line] = [line for line in told(on_kafka) if line.startswith(name) and said in line]
    assert todo in line


def test_settings_that_endanger_the_log_are_a_metric_a_line_and_in_the_status(
    on_kafka: Program, tmp_path: Path
) -> None:
    on_kafka.good("topics", "create", "--partitions", 1)
    on_kafka.place.alter(FINGERPRINTS, {"retention.ms": "604800000", "message.timestamp.type": "CreateTime"})
    with on_kafka.serve() as service:
        service.until(lambda: service.metric(UNFIT) == 2, "both are counted")
        assert "retention.ms: 604800000, not -1" in service.output
        lines = told(on_kafka)
        assert any("retention.ms: 604800000, not -1" in line and "--state" in line for line in lines)
        assert any("message.timestamp.type: CreateTime, not LogAppendTime" in line for line in lines)
        assert service.end() == 0
    state = ("--state", tmp_path / "state")
    with on_kafka.serve(*state) as service:  # a log that is meant to be cut
        service.until(lambda: service.metric(UNFIT) == 1, "the clock alone is counted")
        assert len(told(on_kafka, *state)) == 1
        assert service.end() == 0


def test_answers_that_may_be_cut_are_told_by_a_judge_with_shards_alone(on_kafka: Program) -> None:
    on_kafka.good("topics", "create", "--partitions", 1, "--shards", 2)
    on_kafka.place.alter(MATCHES, {"retention.ms": "604800000"})
    unfit = UNFIT.replace(FINGERPRINTS, MATCHES)
    with on_kafka.serve("--roles", "judge") as service:
        service.until(lambda: service.metric(unfit) == 1, "it is counted")
        assert "settings of the topic matches endanger the service: retention.ms: 604800000" in service.output
        assert any(".matches endangers" in line and "--state" in line for line in told(on_kafka))
        assert service.end() == 0
    with on_kafka.serve("--roles", "judge", "--shards", 0) as service:
        service.until(lambda: service.metric('simstream_role_elected{role="judge"}') == 1, "it is elected")
        assert 'topic="matches"' not in service.get("/metrics")[1]
        assert service.end() == 0
    assert told(on_kafka, SIMSTREAM_SHARDS="0") == []


@pytest.mark.long
def test_a_setting_changed_while_the_service_runs_is_noticed(on_kafka: Program, cache: Path) -> None:
    on_kafka.good("topics", "create", "--partitions", 1)
    where = ["--log", on_kafka.place.address, "--prefix", on_kafka.place.prefix, "--http-port", "0"]
    line = [sys.executable, "-c", OFTEN, "serve", "--roles", "judge", *where]
    service = Service.of(on_kafka.folder, line, environment(cache))
    try:
        service.ready()
        assert service.metric(UNFIT) == 0
        on_kafka.place.alter(FINGERPRINTS, {"retention.ms": "604800000"})
        service.until(lambda: service.metric(UNFIT) == 1, "it looks again")
        assert service.end() == 0
    finally:
        service.kill()
