"""Rebalances: members of the fingerprinters' group that come and go, quickly or several together."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from confluent_kafka import Consumer

from simstream.closing import Closing
from simstream.log.options import PAGES
from tests.chaos.arena import ChaosArena, ChaosScale
from tests.chaos.faults.topics import add_partitions
from tests.chaos.feed import PATIENCE_S as FEED_PATIENCE_S
from tests.chaos.feed import SeededFeed
from tests.e2e.harness import QUICK_SESSION

STRANGERS = 2
MEMBERS, PARTITIONS = 8, 16
BURST, BURST_EVERY_S = 7, 0.1


class GroupStranger(threading.Thread):
    """Joins the group, holds the partitions that it is given for a moment without reading them, leaves, joins."""

    def __init__(self, arena: ChaosArena, seed: int) -> None:
        super().__init__(name="stranger", daemon=True)
        self._rng = random.Random(seed)
        self._topic = f"{arena.place.prefix}.{PAGES}"
        self._config = {
            "bootstrap.servers": arena.place.servers,
            "group.id": f"{arena.place.prefix}.fingerprint",
            "partition.assignment.strategy": "cooperative-sticky",
            "enable.auto.commit": False,
            "log_level": 0,
        } | QUICK_SESSION
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
    arena.client(**QUICK_SESSION)
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


class SteadyFeed(Closing):
    """Appends small bursts from a thread of its own, `pages` in all, until it is closed."""

    def __init__(self, arena: ChaosArena, seed: int, pages: int) -> None:
        self._feed = SeededFeed(arena.place, random.Random(seed), transactions=False)
        self._pages = pages
        self._enough = threading.Event()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="steady feed")
        self._work = self._pool.submit(self._run)

    def _run(self) -> None:
        for _ in range(0, self._pages, BURST):
            self._feed.burst(BURST)
            if self._enough.wait(BURST_EVERY_S):
                return

    def close(self) -> None:
        """See Closing. Raises what ended the thread."""
        self._enough.set()
        try:
            self._work.result(FEED_PATIENCE_S)
        finally:
            self._pool.shutdown(wait=False)
            self._feed.close()


def fleet(arena: ChaosArena, scale: ChaosScale) -> str:
    """Run eight fingerprinters over 16 partitions. One to three of them leave or are killed together and as many
    join, while pages keep coming and partitions are added."""
    arena.client(**QUICK_SESSION, topic__metadata__refresh__interval__ms=500)
    arena.open(PARTITIONS)
    arena.serve("judge")
    members = [arena.serve("fingerprint", frame_max_pages=10) for _ in range(MEMBERS)]
    members[-1].ready()
    partitions, left = PARTITIONS, 0
    with SteadyFeed(arena, arena.rng.randrange(1 << 30), scale.pages):
        for turn in range(scale.faults):
            leaving = arena.rng.sample(members, arena.rng.randrange(1, 4))
            for member in leaving:
                members.remove(member)
                if arena.rng.random() < 0.5:
                    arena.kill(member)
                else:
                    arena.end(member)
            if turn % 2:
                partitions += arena.rng.randrange(1, 4)
                add_partitions(arena, partitions)
            frame_pages = arena.rng.choice([3, 7, 40])
            members += [arena.serve("fingerprint", frame_max_pages=frame_pages) for _ in leaving]
            left += len(leaving)
            if arena.rng.random() < 0.5:
                members[-1].ready()
            arena.pause(1.5)
    with SeededFeed(arena.place, arena.rng, transactions=False) as feed:  # one that knows all partitions
        feed.burst(20 * partitions)
    found = {record.partition for record in arena.judged()}
    assert found == set(range(partitions)), found
    return f"{left} members left or were killed, {partitions - PARTITIONS} partitions added, {arena.settle()} pages"
