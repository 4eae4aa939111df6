"""Three brokers, of which some are away: the leader, or so many that the others may take nothing."""

from __future__ import annotations

import contextlib
from functools import partial

from confluent_kafka import KafkaException

from deploy.kafka.broker import KafkaBroker
from deploy.kafka.brokers import BrokerCluster
from simstream.log.options import FINGERPRINTS, POSITIONS, VERDICTS
from tests.chaos.arena import ChaosArena, ChaosScale

LED = (FINGERPRINTS, VERDICTS, POSITIONS, "__transaction_state", "__consumer_offsets")
"""What a broker may lead when it goes: topics of the service, or what Kafka keeps of transactions and groups."""


def leader(arena: ChaosArena, topic: str) -> int:
    """The id of the broker that leads partition 0 of a topic."""
    name = topic if topic.startswith("__") else f"{arena.place.prefix}.{topic}"
    found: list[int] = []

    def is_led() -> bool:
        with contextlib.suppress(KafkaException, KeyError):  # three brokers that have just started may be slow
            found.append(int(arena.admin().list_topics(name, timeout=10).topics[name].partitions[0].leader))
        return bool(found)

    arena.until(is_led, f"{name} has a leader")
    return found[-1]


def leaders_killed(arena: ChaosArena, scale: ChaosScale) -> str:
    """Kill a broker amid the work, and start it again: the leader of the log, of the judge's topics, or of Kafka's
    own topics of transactions and groups."""
    brokers = _begin(arena)
    for turn in range(scale.faults):
        node = brokers.node(leader(arena, LED[turn % len(LED)]))
        arena.feed.burst(scale.burst)
        arena.pause(0.1)
        node.kill()
        arena.feed.burst(scale.burst)
        arena.judged()  # two are enough
        node.start()
        wait_until_whole(arena)
    return f"{scale.faults} leaders killed, {arena.settle()} pages"


def below_min_insync(arena: ChaosArena, scale: ChaosScale) -> str:
    """Two of three brokers are away for a while: nothing may be acknowledged, and all goes on when one is back."""
    brokers = _begin(arena)
    for turn in range(scale.faults):
        arena.feed.burst(scale.burst)
        arena.pause(0.05)
        left = brokers.node(leader(arena, LED[turn % len(LED)]))
        away = [node for node in brokers.nodes if node is not left]
        for node in away:
            node.kill()
        arena.until(lambda: not _ready(arena), "the service says that it is not ready")
        arena.pause(2.0)
        brokers.bring_up(away)
        arena.feed.burst(scale.burst)
        arena.judged()
        wait_until_whole(arena)
    return f"{scale.faults} times below min.insync.replicas, {arena.settle()} pages"


def frozen(arena: ChaosArena, scale: ChaosScale) -> str:
    """A leader stops for longer than its session, and wakes as one that leads no more."""
    brokers = _begin(arena)
    for turn in range(scale.faults):
        topic = LED[turn % len(LED)]
        node = brokers.node(leader(arena, topic))
        arena.feed.burst(scale.burst)
        arena.pause(0.1)
        node.pause()
        arena.until(partial(_led_by_another, arena, topic, node), "another one leads")
        arena.feed.burst(scale.burst)
        arena.pause(2.0)
        node.resume()
        arena.judged()
        wait_until_whole(arena)
    return f"{scale.faults} leaders frozen, {arena.settle()} pages"


def _begin(arena: ChaosArena) -> BrokerCluster:
    assert isinstance(arena.broker, BrokerCluster)
    arena.client(**{"topic.metadata.refresh.interval.ms": 1_000})
    arena.until(lambda: len(arena.admin().list_topics(timeout=30).brokers) == 3, "three brokers are there")
    arena.open(3, transactions=False)
    arena.serve("judge")
    arena.serve("fingerprint", frame_max_pages=10)
    arena.feed.burst(10)
    arena.judged()
    return arena.broker


def _led_by_another(arena: ChaosArena, topic: str, node: KafkaBroker) -> bool:
    try:
        return leader(arena, topic) != node.node.id
    except KafkaException:  # it was the frozen one that was asked
        return False


def _ready(arena: ChaosArena) -> bool:
    return all(service.get("/health/ready")[0] == 200 for service in arena.running)


def wait_until_whole(arena: ChaosArena) -> None:
    """Until every copy of every partition is in step again: the next fault meets a healthy cluster."""

    def in_step() -> bool:
        topics = arena.admin().list_topics(timeout=30).topics
        partitions = [p for topic in topics.values() for p in topic.partitions.values()]
        return all(len(p.isrs) == len(p.replicas) for p in partitions)

    arena.until(in_step, "all copies are in step")
