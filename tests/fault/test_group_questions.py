"""A program that asks for a group's members lives through every outage of the brokers."""

from __future__ import annotations

import subprocess
import sys

import pytest

from deploy.kafka.broker import KafkaBroker
from tests.e2e.harness import PATIENCE_S, ROOT
from tests.kafka_fixtures import TopicPlace

ASKING = """
import sys, time
from threading import Thread
from simstream.log.options import LogOptions
from simstream.log.kafka import cluster as kafka_cluster
from simstream.log.kafka.topics import group_state

kafka_cluster.TRY_S = 0.5
cluster = kafka_cluster.KafkaCluster(sys.argv[1], LogOptions(patience=60.0))
asked, is_over = 0, False

def ask():
    global asked
    while not is_over:
        group_state(cluster, "some-group")
        asked += 1

thread = Thread(target=ask)
thread.start()
for _ in sys.stdin:
    before = asked
    while asked < before + 2:
        time.sleep(0.01)
    print(asked, flush=True)
is_over = True
thread.join()
"""
"""Asks again and again. Answers a line once it has had two more answers. One try has half a second: whatever the
client drops at the end of a try is dropped many times in an outage."""


@pytest.mark.kafka
@pytest.mark.long
def test_questions_for_a_group_survive_outages_longer_than_one_try(own_broker: KafkaBroker) -> None:
    with TopicPlace(own_broker.address, "questions").open() as log:
        log.create_topics(1)
    program = subprocess.Popen(
        [sys.executable, "-c", ASKING, own_broker.servers],
        cwd=ROOT,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        assert program.stdin
        assert program.stdout
        assert program.stderr
        for _ in range(2):
            program.stdin.write("\n")
            program.stdin.flush()
            assert program.stdout.readline(), program.stderr.read()
            own_broker.kill()
            with pytest.raises(subprocess.TimeoutExpired):
                program.wait(3.0)
            own_broker.start()
        rest, errors = program.communicate("\n", timeout=PATIENCE_S)
        assert program.returncode == 0, errors
        assert rest
    finally:
        program.kill()
        program.wait()
