"""An index on matchers: matchers, judges and brokers are killed, asleep or missing, and shards move."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

from deploy.kafka.brokers import BrokerCluster
from simstream.log.options import FINGERPRINTS, MATCHES, POSITIONS
from tests.chaos.arena import ChaosArena, ChaosScale
from tests.chaos.faults.brokers import leader, wait_until_whole
from tests.chaos.faults.groups import GroupStranger
from tests.chaos.faults.zombies import stop, wake
from tests.e2e import eventful_pages
from tests.e2e.harness import QUICK_SESSION, Service

SHARDS = 8
WINDOW_MS = 10 * eventful_pages.HOUR_MS
POLICY = ("--window", f"{WINDOW_MS}ms")
OFTEN = {"snapshot_every": "100ms"}
WORKING = 0.7
"""Share of kills that wait until their victim works; the others may hit it while it starts."""
LED = (MATCHES, FINGERPRINTS, POSITIONS, "__consumer_offsets")
MATCHERS = 4
STRANGERS = 2


class ShardedArena:
    """An arena with shards: its processes, with the flags that they need, and its pages."""

    def __init__(self, arena: ChaosArena, partitions: int = 2, transactions: bool = True) -> None:
        self.arena = arena
        arena.open(partitions, transactions=transactions)
        arena.log.create_topics(shards=SHARDS)
        self._maker = eventful_pages.endless(arena.rng.randrange(1 << 30))

    def fingerprint(self) -> Service:
        """Start a fingerprinter. Frames have another size each time."""
        return self.arena.serve("fingerprint", frame_max_pages=self.arena.rng.choice([3, 7, 10, 40]))

    def judge(self, **more: Any) -> Service:
        return self.arena.serve("judge", *POLICY, **more)

    def match(self, via: str = "", **more: Any) -> Service:
        return self.arena.serve("match", *POLICY, via=via, **more)

    def burst(self, count: int) -> None:
        """Append `count` pages: a part of them as other scenarios do, maybe in a transaction, a part eventful."""
        self.arena.feed.burst(count - count // 2)
        eventful_pages.append(self.arena.log, [next(self._maker) for _ in range(count // 2)])

    def settle(self) -> int:
        """Wait for all verdicts, end all processes, and ask the oracle; the number of pages."""
        return self.arena.settle(window_ms=WINDOW_MS)


class Crew:
    """Processes by their names; each starts again as it was, apart from the state that it keeps."""

    def __init__(self, sharded: ShardedArena, names: list[str], copies: int = 1) -> None:
        self._sharded, self._copies = sharded, copies
        self.loaded = 0
        """How many matchers have loaded a snapshot."""
        self.working = {self.start(name): name for name in names}

    def start(self, name: str) -> Service:
        """Start a process: odd ones keep their state, and every third matcher has a name for its group."""
        sharded, (role, _, number) = self._sharded, name.partition(" ")
        if role == "fingerprint":
            return sharded.fingerprint()
        kept: dict[str, Any] = {"state": sharded.arena.folder / f"state {name}", **OFTEN} if int(number) % 2 else {}
        if role == "judge":
            return sharded.judge(**kept)
        named = {"instance": f"matcher-{number}"} if int(number) % 3 == 0 else {}
        return sharded.match(copy=1 + int(number) % self._copies, **named, **kept)

    def replace(self, victim: Service) -> None:
        """Kill a process, and start one like it."""
        self._sharded.arena.kill(victim)
        self.note(victim)
        name = self.working.pop(victim)
        self.working[self.start(name)] = name

    def note(self, service: Service) -> None:
        """Count the matchers that have gone on from a snapshot."""
        is_matcher = self.working[service].startswith("match")
        self.loaded += is_matcher and "loaded in" in service.output


def matchers_killed(arena: ChaosArena, scale: ChaosScale) -> str:
    """Run a fingerprinter, two judges, and two matchers for each of two copies of the index. Kill one or two of
    them all the time and start them again: with their kept state and without, under their names and as others."""
    rng = arena.rng
    arena.client(**QUICK_SESSION)
    sharded = ShardedArena(arena)
    matchers = [f"match {number}" for number in range(MATCHERS)]
    crew = Crew(sharded, ["fingerprint", "judge 0", "judge 1", *matchers], copies=2)
    hit = 0
    for _ in range(scale.faults):
        victims = rng.sample(list(crew.working), 2 if rng.random() < 0.3 else 1)
        if rng.random() < WORKING:
            for victim in victims:
                victim.ready()
        sharded.burst(rng.randrange(2, 2 * scale.burst))
        arena.pause(rng.choice([0.05, 0.3, 1.0]))
        for victim in victims:
            crew.replace(victim)
            hit += 1
        arena.watcher.look()
    sharded.burst(scale.burst)
    arena.judged()
    for service in crew.working:
        crew.note(service)
    return f"{hit} kills, {crew.loaded} matchers went on from a snapshot, {sharded.settle()} pages"


def matchers_asleep(arena: ChaosArena, scale: ChaosScale) -> str:
    """Stop a matcher in the middle of its work until its session is over: others take its shards. It wakes up,
    writes its late answers, and is one of the group again."""
    arena.client(**QUICK_SESSION)
    sharded = ShardedArena(arena)
    sharded.fingerprint()
    judge = sharded.judge()
    matchers = [sharded.match() for _ in range(3)]
    sharded.judge()
    for service in matchers:
        service.ready()
    for turn in range(scale.faults):
        sleeper = arena.rng.choice(matchers)
        arena.until(lambda one=sleeper: shards_of(one) > 0, "it has shards")  # type: ignore[misc]
        sharded.burst(scale.burst)
        arena.pause(0.3)
        stop(sleeper)
        sharded.burst(scale.burst)
        arena.judged()
        others = [service for service in matchers if service is not sleeper]
        arena.until(lambda all=others: sum(map(shards_of, all)) == SHARDS, f"others have all, turn {turn}")  # type: ignore[misc]
        wake(sleeper)
        sharded.burst(scale.burst)
    arena.until(lambda: all(shards_of(service) for service in matchers), "each has a part again")
    ignored = judge.metric('simstream_answers_ignored_total{reason="repeated"}')
    return f"{scale.faults} matchers slept, {ignored:.0f} late answers were dropped, {sharded.settle()} pages"


def shards_of(service: Service) -> int:
    """How many shards a matcher holds, as it says itself."""
    found = re.search(r"holds (\d+) of", service.get("/health/ready")[1])
    return int(found[1]) if found else 0


def shards_missing(arena: ChaosArena, scale: ChaosScale) -> str:
    """One matcher sleeps within its session, or all are gone: the judge is unready and names the missing shards,
    publishes nothing, and goes on when they are back, with the state that they kept."""
    sharded = ShardedArena(arena)
    sharded.fingerprint()
    judge = sharded.judge()
    kept: list[dict[str, Any]] = [
        {"instance": name, "state": arena.folder / name, **OFTEN} for name in ("one", "two")
    ]
    for turn in range(scale.faults):
        matchers = [sharded.match(**more) for more in kept]
        sharded.burst(scale.burst)
        arena.judged()
        judge.ready()
        arena.until(lambda all=matchers: sorted(map(shards_of, all)) == [4, 4], "both have a part")  # type: ignore[misc]
        if turn:
            assert any("loaded in" in service.output for service in matchers), "no snapshot was used"
        asleep = _asleep(matchers[0])
        _missing(sharded, judge, scale, asleep)
        wake(matchers[0])
        arena.judged()
        judge.ready()
        arena.until(
            lambda all_=matchers: all("took a snapshot" in one.output for one in all_), "each has a snapshot"
        )  # type: ignore[misc]
        for service in matchers:
            arena.end(service) if turn % 2 else arena.kill(service)
        _missing(sharded, judge, scale, frozenset(range(SHARDS)))
    for more in kept:
        sharded.match(**more)
    arena.judged()
    judge.ready()
    return f"{2 * scale.faults} times without answers of some shards, {sharded.settle()} pages"


def _asleep(service: Service) -> frozenset[int]:
    """Stop a matcher; the shards that it has."""
    moves = re.findall(r"(took|gave back) shard (\d+) of", service.output)
    last = {int(number): move for move, number in moves}
    stop(service)
    return frozenset(number for number, move in last.items() if move == "took")


def _missing(sharded: ShardedArena, judge: Service, scale: ChaosScale, shards: frozenset[int]) -> None:
    """Pages come while these shards are missing."""
    arena = sharded.arena
    seen = arena.watcher.look(0.5)
    sharded.burst(scale.burst)
    eventful_pages.append(arena.log, eventful_pages.make(20))  # others may have been in an aborted transaction
    told = ", ".join(map(str, sorted(shards)))
    arena.until(
        lambda: (
            re.search(rf"waits for the answer of shard {told}\b(?!,)", judge.get("/health/ready")[1]) is not None
        ),
        f"the judge misses shards {told}",
    )
    assert judge.get("/health/ready")[0] == 503
    assert arena.watcher.look(0.5) == seen, "a verdict came without the answers of all shards"


class ShardStranger(GroupStranger):
    """Joins the matchers, holds the shards that it is given for a moment without an answer, leaves, joins."""

    def __init__(self, arena: ChaosArena, seed: int) -> None:
        super().__init__(arena, seed)
        self._topic = f"{arena.place.prefix}.{MATCHES}"
        self._config = self._config | {"group.id": f"{arena.place.prefix}.matchers"}


def matchers_storm(arena: ChaosArena, scale: ChaosScale) -> str:
    """Matchers start, are killed and leave, among strangers that take shards and give them back. So shards move all
    the time."""
    rng = arena.rng
    arena.client(**QUICK_SESSION)
    sharded = ShardedArena(arena)
    sharded.fingerprint()
    sharded.judge()
    matchers = [sharded.match(state=arena.folder / "steady", **OFTEN)]
    strangers = [ShardStranger(arena, rng.randrange(1 << 30)) for _ in range(STRANGERS)]
    for stranger in strangers:
        stranger.start()
    try:
        for _ in range(scale.faults):
            passing = sharded.match()
            matchers.append(passing)
            sharded.burst(scale.burst)
            if rng.random() < 0.7:
                arena.within(10.0, partial(shards_of, passing))  # type: ignore[arg-type]
            arena.pause(1.5)
            if rng.random() < 0.5:
                arena.kill(passing)
            else:
                arena.end(passing)
            arena.watcher.look()
    finally:
        for stranger in strangers:
            stranger.stop()
    given = sum(stranger.given for stranger in strangers)
    moved = sum(service.output.count("took shard") for service in matchers)
    assert given > scale.faults // 2, f"the strangers were given shards only {given} times"
    assert moved > SHARDS, "no shard has moved"
    return f"matchers took a shard {moved} times, strangers {given} times some, {sharded.settle()} pages"


def matchers_lose_brokers(arena: ChaosArena, scale: ChaosScale) -> str:
    """Kill the broker that leads answers, log, positions or groups, amid the work of two matchers and two judges,
    and start it again. Each third time two of three brokers are away."""
    assert isinstance(arena.broker, BrokerCluster)
    brokers = arena.broker
    arena.client(topic__metadata__refresh__interval__ms=1_000)
    arena.until(lambda: len(arena.admin().list_topics(timeout=30).brokers) == 3, "three brokers are there")
    sharded = ShardedArena(arena, transactions=False)
    sharded.fingerprint()
    sharded.match()
    sharded.match(state=arena.folder / "state", **OFTEN)
    # A judge whose coordinator is away too long is taken over.
    for start in (sharded.judge, partial(sharded.judge, state=arena.folder / "judge", **OFTEN)):
        arena.taken_over[start()] = start
    sharded.burst(10)
    arena.judged()
    for turn in range(scale.faults):
        led = brokers.node(leader(arena, LED[turn % len(LED)]))
        sharded.burst(scale.burst)
        arena.pause(0.1)
        away = [node for node in brokers.nodes if node is not led] if turn % 3 == 2 else [led]
        for node in away:
            node.kill()
        if len(away) == 1:
            sharded.burst(scale.burst)
            arena.judged()  # two are enough
        else:
            arena.pause(3.0)
        brokers.bring_up(away)
        sharded.burst(scale.burst)
        arena.judged()
        wait_until_whole(arena)
    return f"{scale.faults} times without brokers, {sharded.settle()} pages"
