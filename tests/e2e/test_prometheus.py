"""A real Prometheus over real processes: rules and dashboard ask for what exists, and faults make alerts fire."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import random
import re
import secrets
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import msgspec
import numpy as np
import pytest
import yaml
from confluent_kafka import Producer
from matplotlib.figure import Figure

from deploy.grafana import dashboard, picture
from deploy.grafana.panels import ROWS
from deploy.kafka.broker import KafkaBroker
from deploy.prometheus import server
from deploy.prometheus.server import Prometheus
from deploy.server_process import free_port
from simstream import settings
from simstream.log.base import Log
from simstream.log.options import FINGERPRINTS, MATCHES, PAGES
from simstream.telemetry.metrics import Metrics
from simstream.wire import frame as frames
from tests.e2e import pages
from tests.e2e.harness import PATIENCE_S, ROOT, Program, Service, read_topic
from tests.kafka_fixtures import TopicPlace
from tests.missing import skip_or_fail
from tests.unit.test_deploy import check_command
from tests.waiting import until

RULES = ROOT / "deploy" / "prometheus"
QUICKER = {
    "[15m]": "[10s]",
    "[2m]": "[4s]",
    "[1d]": "[5m]",
    "  ) > 60\n": "  ) > 2\n",
    "> 60\n": "> 4\n",
    "> 300\n": "> 200\n",
}
"""What makes the rules fire within a test: spans and limits of time are cut, and nothing has to last.

The judge's lag has the lowest limit: a judge that may run catches up in a moment, and is asked once a second."""
BY_HAND = {"SimstreamMemory", "SimstreamPagesNearLimit"}
"""Alerts whose fault is not caused here: it takes control groups, or too many pages."""
BLIND = {"SimstreamGone"}
"""Alerts of a Prometheus that has no target."""
SLOW = 60
"""Pages of HTML that take a moment to be read; as often as need be."""
FLOOD = 1_500
"""Pages of one template, alike and not identical: more than a cluster may have."""
NEW = 400


def installed() -> None:
    missing = server.missing_packages()
    if missing:
        skip_or_fail(f"a real Prometheus needs: apt-get install --no-install-recommends {' '.join(missing)}")


def promtool(*arguments: str, stdin: bytes = b"") -> str:
    """What promtool says; it must end with 0."""
    installed()
    done = subprocess.run(["promtool", *arguments], cwd=RULES, input=stdin, capture_output=True, check=False)
    said = (done.stdout + done.stderr).decode()
    assert done.returncode == 0, said
    return said


def alerts() -> list[str]:
    return re.findall(r"- alert: (\w+)", (RULES / "alerts.yml").read_text(encoding="utf-8"))


def test_configuration_and_rules_are_valid() -> None:
    assert "SUCCESS" in promtool("check", "config", "prometheus.yml")
    assert "SUCCESS" in promtool("check", "rules", "alerts.yml")


def test_series_that_fire_each_alert_and_series_that_do_not() -> None:
    assert "SUCCESS" in promtool("test", "rules", "alerts_test.yml")
    tested = (RULES / "alerts_test.yml").read_text(encoding="utf-8")
    for name in alerts():
        assert f"alertname: {name}}}" in tested, f"no series is close to {name} without firing it"
        assert re.search(rf"alertname: {name}\n\s+exp_alerts:", tested), f"no series fires {name}"


def test_each_alert_has_its_paragraph_in_the_runbook() -> None:
    rules = (RULES / "alerts.yml").read_text(encoding="utf-8")
    runbook = (ROOT / "docs/operate/runbook.md").read_text(encoding="utf-8")
    for name in alerts():
        assert f"runbook: docs/operate/runbook.md#{name.lower()}\n" in rules, name
        paragraph = re.search(rf"^## {name}\n(.*?)(?=^## |\Z)", runbook, re.MULTILINE | re.DOTALL)
        assert paragraph, f"the runbook has no paragraph {name}"
        for part in ("**What it means.**", "**How to see it.**", "**What to do.**", "```\n", "**Seen to fire**"):
            assert part in paragraph[1], f"{name}: {part}"


def test_the_runbook_names_commands_and_settings_that_exist() -> None:
    runbook = (ROOT / "docs/operate/runbook.md").read_text(encoding="utf-8")
    lines = [line for block in re.findall(r"```\n(.*?)```", runbook, re.DOTALL) for line in block.splitlines()]
    commands = [line.partition("#")[0].split()[1:] for line in lines if line.startswith("simstream ")]
    assert len(commands) >= 8
    for command in commands:
        where = ["--log", "kafka://host:9092", "--prefix", "simstream"]
        check_command([each for word in command for each in (where if word == "WHERE" else [word])])
    for name in re.findall(r"simstream_[a-z_]+[a-z]", runbook):
        assert any(metric.name.startswith(name) for metric in Metrics().described), name
    named = set(re.findall(r"`((?:extract|dead_letters)\.\w+|\w+_(?:after|every|bytes))`", runbook))
    assert named >= {"stuck_after", "give_up_after", "snapshot_every"}
    assert named <= set(settings.names())


def test_no_line_of_a_panel_has_a_bare_number_for_a_name() -> None:
    names = [query.legend for panels in ROWS.values() for panel in panels for query in panel.queries]
    assert {"partition {{partition}}", "shard {{shard}}"} <= set(names)
    assert [name for name in names if name.startswith(("{{partition}}", "{{shard}}"))] == []


@pytest.mark.parametrize(
    ("value", "unit", "told"),
    [(1536, "bytes", "1.5 KiB"), (3 << 30, "bytes", "3 GiB"), (512, "bytes", "512 B"), (1500, "short", "1.5 k")],
)
def test_the_picture_tells_values_as_grafana_does(value: float, unit: str, told: str) -> None:
    assert picture.told(value, unit) == told


def test_the_ticks_of_bytes_in_the_picture_are_round() -> None:
    defaults = {"unit": "bytes", "custom": {"stacking": {"mode": "none"}}}
    axes = Figure().add_subplot()
    picture.draw_panel(axes, {"title": "", "fieldConfig": {"defaults": defaults}}, [("", [0.0, 1.0], [0.0, 5e6])])
    told = [picture.told(value, "bytes") for value in axes.get_yticks() if value >= 0]
    assert told[:3] == ["0 B", "1 MiB", "2 MiB"]


def test_the_dashboard_is_made_of_its_panels() -> None:
    assert dashboard.FILE.read_text(encoding="utf-8") == dashboard.dashboard(), "python -m deploy.grafana.dashboard"
    titles = [title for title, _ in picture.rows(json.loads(dashboard.dashboard()))]
    assert titles == ["Flow", "Latency", "Index", "Shards", "Quality", "Faults"]


class MonitoredServices:
    """A fingerprinter and two judges on Kafka, one of them with shards on a matcher; a fingerprinter on a folder;
    and a Prometheus that scrapes them."""

    def __init__(self, folder: Path, cache: Path, broker: KafkaBroker, stack: ExitStack) -> None:
        self.folder = folder
        self.broker = broker
        self._stack = stack
        prefix = f"t{secrets.token_hex(4)}"
        self.program = Program(folder, cache, TopicPlace(broker.address, prefix))
        self.beside = Program(folder, cache, TopicPlace(str(folder / "log"), "simstream"))
        self.program.good("topics", "create", "--partitions", 2)
        self.beside.good("topics", "create")
        self.prefix = prefix
        self.log: Log = stack.enter_context(self.program.place.open())
        self.rng = random.Random(6)
        self.sent = 0
        alone = ("--roles", "fingerprint")
        self.fingerprinter = self.start(self.program, *alone, SIMSTREAM_FRAME_MAX_PAGES="1")
        self.wedged = self.start(self.beside, *alone)
        self.judge: Service | None = None
        self.sharded_prefix = f"{prefix}-shards"
        self.program.good("topics", "create", "--shards", 2, "--publish-to", self.sharded_prefix)
        self.sharded: Log = stack.enter_context(self.program.place.open(publish_to=self.sharded_prefix))
        port, *self.sharded_ports = (free_port() for _ in range(3))
        targets = {
            "simstream": [
                address(self.fingerprinter),
                *(f"127.0.0.1:{one}" for one in (port, *self.sharded_ports)),
            ],
            "simstream-folder": [address(self.wedged)],
        }
        rules = (RULES / "alerts.yml").read_text(encoding="utf-8")
        for before, after in QUICKER.items():
            assert before in rules, f"the rules have no {before!r} any more"
            rules = rules.replace(before, after)
        rules = re.sub(r"for: \w+", "for: 0s", rules)
        self.prometheus = stack.enter_context(Prometheus(folder, targets, rules, every="1s"))
        self.judge_port = port

    def start(self, program: Program, *arguments: object, **variables: str) -> Service:
        return self._stack.enter_context(program.serve(*arguments, **variables))

    def start_judge(self) -> Service:
        """Its state has a folder, and the first snapshot is far away."""
        where = ("--roles", "judge", "--state", self.folder / "state", "--http-port", self.judge_port)
        self.judge = self.start(self.program, *where, SIMSTREAM_SNAPSHOT_EVERY="1h", SIMSTREAM_GAP_PATIENCE="1s")
        return self.judge

    def start_sharded(self, role: str) -> Service:
        """A judge with shards, or the matcher that holds them, under another prefix; it keeps no state."""
        port = self.sharded_ports[role == "match"]
        where = ("--roles", role, "--publish-to", self.sharded_prefix, "--http-port", port)
        return self.start(self.program, *where)

    def send(self, texts: list[str], kind: str = "text", age_s: float = 0.0) -> None:
        """Pages that came to the broker so long ago."""
        with self.log.open_appender(PAGES) as appender:
            for text in texts:
                self.sent += 1
                page = json.dumps({"id": f"page {self.sent}", kind: text}).encode()
                came = int(1000 * (time.time() - age_s))
                appender.append(page, f"page {self.sent}".encode(), timestamp=came)
            appender.flush(PATIENCE_S)

    def fires(self, *names: str) -> None:
        """Wait until each of these has fired at least once."""
        until(
            lambda: set(names) <= self.fired(),
            lambda: f"{set(names) - self.fired()} fire; firing: {self.fired()}",
            every=0.2,
        )

    def ends(self, *names: str) -> None:
        """Wait until none of these fires any more."""
        firing = self.prometheus.firing
        until(
            lambda: not firing() & set(names),
            lambda: f"{firing() & set(names)} end with the cause",
            every=0.2,
        )

    def fired(self) -> set[str]:
        """The alerts that have fired so far."""
        found = self.prometheus.ask('count by (alertname) (max_over_time(ALERTS{alertstate="firing"}[1h]))')
        return {series["metric"]["alertname"] for series in found}


def address(service: Service) -> str:
    return f"127.0.0.1:{service.port}"


@pytest.fixture(scope="module")
def scene(
    broker: KafkaBroker, cache: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MonitoredServices]:
    installed()
    with ExitStack() as stack:
        yield MonitoredServices(tmp_path_factory.mktemp("scene"), cache, broker, stack)


def committed(scene: MonitoredServices) -> Callable[[], bool]:
    assert scene.judge is not None
    judge = scene.judge
    return lambda: judge.metric('simstream_transactions_total{result="committed"}') > 0


@pytest.mark.kafka
@pytest.mark.long
class TestScene:
    """One scene, in the order of these tests: what works is looked at first, then it is broken piece by piece."""

    def test_without_a_judge_and_with_a_backlog_of_one_template(self, scene: MonitoredServices) -> None:
        scene.program.place.alter(FINGERPRINTS, {"retention.ms": "3600000"})
        html = [f"<article><p>{pages.text(scene.rng, 2_000)}</p></article>" for _ in range(SLOW)]
        fingerprinter = scene.fingerprinter

        def lags() -> bool:
            """More of them, where it was quicker than Prometheus looks."""
            if "SimstreamSourceLag" in scene.fired():
                return True
            scene.send(html, "html", age_s=120)
            return False

        throttle(fingerprinter, lags)
        template = pages.text(scene.rng, 200)

        def flood() -> None:
            scene.send([pages.edited(scene.rng, template, 1) for _ in range(FLOOD)])

        def log_lags() -> bool:
            if "SimstreamLogLag" in scene.fired():
                return True
            for _ in range(4):
                flood()
            return False

        flood()
        scene.fires("SimstreamNoJudge")
        fingerprinter.until(
            lambda: fingerprinter.metric("simstream_frame_latency_seconds_count") == scene.sent, "it is at the end"
        )
        judge = scene.start_judge()
        judge.until(lambda: judge.metric('simstream_role_elected{role="judge"}') == 1, "it is elected")
        throttle(judge, log_lags, stopped_s=5.0, running_s=1.5)  # else it keeps up
        judge.until(lambda: judge.metric("simstream_next_ordinal") == scene.sent, "it has judged all")
        scene.fires(
            "SimstreamRetentionNear", "SimstreamTopicUnfit", "SimstreamSnapshotOld", "SimstreamLargeCluster"
        )

    def test_shards_without_a_matcher_a_strange_answer_and_a_matcher_that_replays(
        self, scene: MonitoredServices
    ) -> None:
        judge = scene.start_sharded("judge")
        scene.fires("SimstreamShardSilent")
        with scene.sharded.open_appender(MATCHES) as appender:
            appender.append(b"no answer", partition=1)
            appender.flush(PATIENCE_S)
        scene.fires("SimstreamAnswersIgnored")
        matcher = scene.start_sharded("match")
        judge.until(lambda: judge.metric("simstream_next_ordinal") == scene.sent, "it has judged all")
        scene.ends("SimstreamShardSilent")
        matcher.kill()
        matcher = scene.start_sharded("match")
        matcher.until(lambda: matcher.get("/health")[0] == 200, "it has begun")
        throttle(matcher, lambda: "SimstreamShardBehind" in scene.fired())
        scene.ends("SimstreamShardBehind")

    def test_what_works_fires_nothing_else(self, scene: MonitoredServices) -> None:
        caused = {"SimstreamNoJudge", "SimstreamSourceLag", "SimstreamLogLag", "SimstreamLatency"}
        caused |= {"SimstreamShardSilent", "SimstreamShardBehind", "SimstreamAnswersIgnored"}
        caused |= {"SimstreamRetentionNear", "SimstreamTopicUnfit", "SimstreamSnapshotOld", "SimstreamLargeCluster"}
        at_first = {"SimstreamDown", "SimstreamNotReady", "SimstreamNoPoll", "SimstreamPagesUnread"}
        # not there yet, or throttled: a scrape that fails ends the series of the fingerprinter, too
        assert scene.fired() <= caused | at_first | BLIND
        scene.ends("SimstreamSourceLag", "SimstreamLogLag", *at_first, *BLIND)

    def test_every_query_of_rules_and_dashboard_finds_what_it_names(self, scene: MonitoredServices) -> None:
        near = pages.text(scene.rng)
        scene.send([pages.edited(scene.rng, near, 1) for _ in range(40)])
        assert scene.judge is not None
        scene.judge.until(committed(scene), "it publishes")
        scene.judge.until(
            lambda: bool(scene.prometheus.ask("rate(simstream_similarity_ratio_count[20s]) > 0")), "near pages came"
        )
        there = scene.prometheus.metrics()
        rules = [rule["query"] for rule in scene.prometheus.rules()]
        assert len(rules) == len(alerts()) + 2
        asked = [picture.filled(target["expr"]) for target in targets()]
        assert len(asked) > 40
        for expression in rules + asked:
            named = set(re.findall(r"\b(?:job_prefix:)?(?:simstream|process)_[a-z0-9_:]+", expression))
            assert named or "up{" in expression, expression
            assert named <= there, f"{named - there} is asked for and not there: {expression}"
            scene.prometheus.ask(expression)
            for selector in re.findall(r"\b(?:simstream_\w+|up)\{[^}]*\}", expression):
                assert scene.prometheus.get("series", **{"match[]": selector}), f"no series is like {selector}"
        for expression in asked:
            assert scene.prometheus.ask(expression), f"a panel would be empty: {expression}"
        scaling = yaml.safe_load((ROOT / "deploy" / "kubernetes" / "scaling.yaml").read_text())
        query = scaling["spec"]["triggers"][0]["metadata"]["query"].replace('"simstream"', f'"{scene.prefix}"')
        [seconds] = scene.prometheus.ask(query)
        assert float(seconds["value"][1]) >= 0

    def test_the_exposition_keeps_to_prometheus_practice(self, scene: MonitoredServices) -> None:
        assert scene.judge is not None
        text = scene.judge.get("/metrics")[1]
        promtool("check", "metrics", stdin=text.encode())
        series = [line for line in text.splitlines() if line.startswith("simstream_")]
        assert len(series) < 400

    def test_unreadable_pages_strange_frames_a_gap_and_a_rival(self, scene: MonitoredServices) -> None:
        assert scene.judge is not None
        with scene.log.open_appender(PAGES) as appender:
            for _ in range(200):
                appender.append(b'{"text": ')
            appender.flush(PATIENCE_S)
        scene.fires("SimstreamDeadLetters")
        rival = Producer(
            {
                "bootstrap.servers": scene.program.place.servers,
                "transactional.id": f"{scene.prefix}.judge",
            }
        )
        rival.init_transactions(30)
        scene.send([pages.text(scene.rng)])
        scene.fires("SimstreamFenced")
        last = frames.decode(read_topic(scene.log, FINGERPRINTS)[-1].value or b"")
        start = last.header.to + 1_000
        behind = msgspec.structs.replace(last.header, start=start, to=start + 1, came=())
        with scene.log.open_appender(FINGERPRINTS) as appender:
            appender.append(b"no frame", partition=0)
            appender.append(frames.encode(behind, last.columns.part(0, 0)), partition=0)
        scene.fires("SimstreamFramesIgnored", "SimstreamGapOpen", "SimstreamNotReady")

    def test_nothing_but_new_pages_after_copies(self, scene: MonitoredServices) -> None:
        scene.send([pages.text(scene.rng) for _ in range(NEW)])
        scene.fires("SimstreamNearDuplicateShare")

    def test_a_log_whose_clock_was_ahead(self, scene: MonitoredServices) -> None:
        """Its frames are of another source topic: the judge knows where the present one goes on."""
        free = {"message.timestamp.type": "CreateTime", "message.timestamp.after.max.ms": 1 << 62}
        scene.program.place.alter(FINGERPRINTS, free)
        frame = frames.decode(read_topic(scene.log, FINGERPRINTS)[-1].value or b"")
        ahead, offsets = int(1000 * (time.time() + 2 * 3600)), itertools.count()

        def kept() -> bool:
            """Whether the log keeps the time that it is given; the brokers hear of its new setting in a moment."""
            offset = next(offsets)
            where = np.array([offset]), np.array([ahead])
            columns = dataclasses.replace(frame.columns.part(0, 1), offset=where[0], time=where[1])
            header = msgspec.structs.replace(
                frame.header, topic_id="another", start=offset, to=offset + 1, first=offset == 0, came=()
            )
            with scene.log.open_appender(FINGERPRINTS) as appender:
                appender.append(frames.encode(header, columns), partition=0, timestamp=ahead)
                appender.flush(PATIENCE_S)
            return read_topic(scene.log, FINGERPRINTS)[-1].timestamp == ahead

        until(kept, lambda: "the log takes a frame of later", every=0.2)
        scene.fires("SimstreamStreamTimeAhead")

    def test_a_state_that_is_damaged_between_two_runs(self, scene: MonitoredServices) -> None:
        assert scene.judge is not None
        scene.judge.end()
        manifest = scene.folder / "state" / "manifest"
        data = manifest.read_bytes()
        manifest.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        scene.start_judge()
        scene.fires("SimstreamStateDamaged")

    def test_a_loop_that_hangs_and_a_process_that_dies(self, scene: MonitoredServices) -> None:
        pipe = scene.folder / "pipe"
        os.mkfifo(pipe)
        pipe.replace(scene.folder / "log" / "topics.json")  # a read of it never ends
        scene.fires("SimstreamNoPoll")
        scene.wedged.kill()
        scene.fires("SimstreamDown")

    def test_partitions_whose_fingerprinter_dies(self, scene: MonitoredServices) -> None:
        scene.fingerprinter.kill()
        scene.fires("SimstreamPagesUnread")

    def test_all_alerts_but_those_of_the_runbook_have_fired(self, scene: MonitoredServices) -> None:
        assert scene.fired() | BLIND == set(alerts()) - BY_HAND


def test_a_prometheus_without_a_target_of_the_service_says_so(tmp_path: Path) -> None:
    installed()
    rules = re.sub(r"for: \w+", "for: 0s", (RULES / "alerts.yml").read_text(encoding="utf-8"))
    with Prometheus(tmp_path, {"simstream": []}, rules) as prometheus:
        until(lambda: prometheus.firing() == BLIND, lambda: f"{BLIND} fire: {prometheus.firing()}", every=0.2)


def throttle(
    service: Service, is_done: Callable[[], bool], stopped_s: float = 0.35, running_s: float = 0.05
) -> None:
    """Let a process run only a part of the time, as a container whose CPU is used up."""
    end = time.monotonic() + 3 * PATIENCE_S
    while not is_done():
        assert time.monotonic() < end, service.output
        service.process.send_signal(signal.SIGSTOP)
        time.sleep(stopped_s)
        service.process.send_signal(signal.SIGCONT)
        time.sleep(running_s)


def targets() -> list[dict[str, str]]:
    """All queries of the dashboard."""
    made = json.loads(dashboard.FILE.read_text(encoding="utf-8"))
    return [target for _, panels in picture.rows(made) for panel in panels for target in panel["targets"]]
