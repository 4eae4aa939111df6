"""Rebalance storms: members of the fingerprinters' group that come and go quickly."""

from __future__ import annotations

import random
import threading
from typing import Any

from confluent_kafka import Consumer

from simstream.log.base import PAGES
from tests.chaos.arena import QUICK_GROUPS, ChaosArena, ChaosScale

STRANGERS = 2


class GroupStranger(threading.Thread):
    """Joins the group, holds the partitions that it is given for a moment without reading them, leaves, joins."""

    def __init__(self, arena: ChaosArena, seed: int) -> None:
        super().__init__(name="stranger", daemon=True)
        self._rng = random.Random(seed)
        self._topic = f"{arena.place.prefix}.{PAGES}"
        self._config = {
            "bootstrap.servers": arena.place.address.removeprefix("kafka://"),
            "group.id": f"{arena.place.prefix}.fingerprint",
            "partition.assignment.strategy": "cooperative-sticky",
            "enable.auto.commit": False,
            "log_level": 0,
        } | QUICK_GROUPS
        self._enough = threading.Event()
        self.given = 0
        """How often it was given partitions."""

    def run(self) -> None:
        while not self._enough.is_set():
            consumer: Any = Consumer(self._config)
            consumer.subscribe([self._topic], on_assign=self._on_assign)
            before, patience = self.given, self._rng.choice([2, 50])  # some leave before they were given any
            while self.given == before and patience > 0 and not self._enough.is_set():
                consumer.poll(0.1)
                patience -= 1
            consumer.poll(self._rng.uniform(0, 0.3))
            consumer.close()
            self._enough.wait(self._rng.uniform(0, 0.3))

    def stop(self) -> None:
        self._enough.set()
        self.join(30)

    def _on_assign(self, consumer: Any, partitions: list[Any]) -> None:
        self.given += bool(partitions)
        consumer.incremental_assign(partitions)
        if partitions:
            consumer.pause(partitions)


def storm(arena: ChaosArena, scale: ChaosScale) -> str:
    """Fingerprinters start, are killed and leave, among strangers that take partitions and give them back."""
    arena.client(**QUICK_GROUPS)
    arena.open(8)
    arena.serve("judge")
    arena.serve("fingerprint", frame_max_pages=10)
    strangers = [GroupStranger(arena, arena.rng.randrange(1 << 30)) for _ in range(STRANGERS)]
    for stranger in strangers:
        stranger.start()
    try:
        for _ in range(scale.faults):
            passing = arena.serve("fingerprint", frame_max_pages=arena.rng.choice([3, 7, 40]))
            arena.feed.burst(scale.burst)
            if arena.rng.random() < 0.7:
                passing.ready()
            arena.pause(1.5)
            if arena.rng.random() < 0.5:
                arena.kill(passing)
            else:
                arena.end(passing)
    finally:
        for stranger in strangers:
            stranger.stop()
    given = sum(stranger.given for stranger in strangers)
    assert given > scale.faults // 2, f"the strangers were given partitions only {given} times"
    return f"strangers were given partitions {given} times, {scale.faults} members passed, {arena.settle()} pages"
