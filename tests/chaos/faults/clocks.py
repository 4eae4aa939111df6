"""Clocks that are set back and forward by years: those of the sites, of the producers, and of the broker."""

from __future__ import annotations

import random

from simstream.log.options import FINGERPRINTS, PAGES
from tests.chaos import oracle
from tests.chaos.arena import ChaosArena, ChaosScale
from tests.chaos.feed import changed
from tests.e2e.harness import all_verdicts, naive_verdicts, read_topic

WINDOW = "72h"
WINDOW_MS = 72 * 3_600_000
NOW_MS = 1_780_000_000_000
YEAR_MS = 365 * 86_400_000
ANY_TIME = {"message.timestamp.before.max.ms": 1 << 62, "message.timestamp.after.max.ms": 1 << 62}


class JumpingClock:
    """Mostly goes on by minutes; now and then it is set, by hours, days or years, either way."""

    def __init__(self, rng: random.Random, now: int) -> None:
        self._rng = rng
        self._now = now

    def tick(self) -> int:
        """The next moment in ms; never before 1970, where Kafka's time begins."""
        rng = self._rng
        self._now += rng.randrange(600_000)
        if rng.random() < 0.05:
            self._now += rng.choice([-1, 1]) * rng.choice([3_600_000, 80 * 3_600_000, YEAR_MS, 5 * YEAR_MS])
        self._now = max(0, self._now)
        return self._now


def clocks(arena: ChaosArena, scale: ChaosScale) -> str:
    """Under a window, send pages with jumping times, or without times and with jumping record timestamps. Then
    judge the same frames from a log with a broker whose clock jumped meanwhile."""
    rng = arena.rng
    arena.open(2)
    arena.place.alter(PAGES, ANY_TIME)
    arena.serve("all", "--window", WINDOW, frame_max_pages=10)
    sites, producers = JumpingClock(rng, NOW_MS), JumpingClock(rng, NOW_MS)
    for _ in range(scale.faults):
        lines = []
        for line in arena.feed.take(scale.burst):
            time = sites.tick() if rng.random() < 0.6 else rng.choice(["tomorrow", -1, 1 << 60])
            lines.append(changed(line, {"time": time}))
        arena.feed.append(lines, [producers.tick() for _ in lines])
    pages = arena.settle(window_ms=WINDOW_MS)
    with ChaosArena(arena.broker, arena.folder, arena.cache, rng.randrange(1 << 30)) as again:
        _judged_again(arena, again, JumpingClock(rng, NOW_MS))
    return f"{pages} pages under clocks of sites, producers and broker that jump"


def _judged_again(arena: ChaosArena, again: ChaosArena, broker: JumpingClock) -> None:
    """The frames in another log, each with the append time that a wrong clock of the broker would have given it."""
    again.open(2, transactions=False)
    again.place.alter(FINGERPRINTS, {"message.timestamp.type": "CreateTime"} | ANY_TIME)
    frames = read_topic(arena.log, FINGERPRINTS)
    with again.log.open_appender(FINGERPRINTS) as appender:
        for frame in frames:
            appender.append(frame.value, partition=0, timestamp=broker.tick())
    expected = naive_verdicts(again.log, window_ms=WINDOW_MS)
    assert len(expected) == len(all_verdicts(arena.log))
    assert expected != all_verdicts(arena.log), "the broker's clock changed nothing"
    again.serve("judge", "--window", WINDOW)
    again.verdicts(len(expected))
    while again.running:
        again.end(again.running[-1])
    oracle.same(all_verdicts(again.log), expected)
