"""Answers of shards that come twice, late, damaged, or from matchers of something else; requests that are lost."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec

from deploy.kafka.broker import KafkaBroker
from simstream.errors import AnswerDamaged
from simstream.judge.answer_book import OWN
from simstream.log.options import MATCHES
from simstream.model import Record
from simstream.wire import answer as wire
from simstream.wire.answer import Answer
from tests.chaos.arena import ChaosArena, ChaosScale
from tests.chaos.faults.connections import CutRule
from tests.chaos.faults.shards import SHARDS, ShardedArena
from tests.chaos.proxy import FETCH, HEARTBEAT, PRODUCE, KafkaProxy, ProxiedRequest, RequestFate
from tests.e2e.harness import QUICK_SESSION, Service, read_topic

FAR = 1 << 30
"""A frame that no log of a scenario reaches."""
EACH = 4
"""Records that are written for each reason at once."""
POINTS = (
    (PRODUCE, "-append-matches"),
    (FETCH, "-read-fingerprints"),
    (FETCH, "-read-positions"),
    (HEARTBEAT, "-matcher"),
)
"""The request, and the client of a matcher that sends it."""
DELAYED, LONGEST_S = 0.3, 0.5
"""The share of requests with answers that are held back, and for how long at most."""


class AnswerForger:
    """Writes records into `matches` that no judge may count, each made of an answer of the matchers."""

    def __init__(self, arena: ChaosArena) -> None:
        """Knows the matchers by the first answer; until then only they may have written some."""
        self._arena = arena
        first = wire.decode(read_topic(arena.log, MATCHES)[0].value or b"").header
        self._own = [getattr(first, name) for name in OWN]
        self.written: Counter[str] = Counter()

    def write(self) -> None:
        """Write some records of each kind among the answers of the matchers, in any order."""
        right = [record for record in read_topic(self._arena.log, MATCHES) if self._is_right(record)]
        rng, made = self._arena.rng, []
        for make in (self._repeated, self._damaged, self._other, self._gap):
            for record in rng.choices(right, k=EACH):
                reason, value = make(record.value or b"")
                made.append((record.partition, value))
                self.written[reason] += 1
        rng.shuffle(made)
        with self._arena.log.open_appender(MATCHES) as appender:
            for partition, value in made:
                appender.append(value, partition=partition)

    def _is_right(self, record: Record) -> bool:
        """Whether a matcher may have written this record."""
        try:
            header = wire.decode(record.value or b"").header
        except AnswerDamaged:
            return False
        own = [getattr(header, name) for name in OWN]
        return own == self._own and header.shard == record.partition and header.frame < FAR

    def _repeated(self, value: bytes) -> tuple[str, bytes]:
        return "repeated", value

    def _damaged(self, value: bytes) -> tuple[str, bytes]:
        rng, data = self._arena.rng, bytearray(value)
        place = rng.randrange(len(data))
        if rng.random() < 0.3:
            return "damaged", value[:place]
        data[place] ^= 1 << rng.randrange(8)
        return "damaged", bytes(data)

    def _other(self, value: bytes) -> tuple[str, bytes]:
        """An answer for another log, policy, number of shards, plan, or shard."""
        header = wire.decode(value).header
        changes: list[dict[str, Any]] = [
            {"log_id": "another"},
            {"policy": "0badcafe"},
            {"shards": 2 * SHARDS},
            {"tables": header.tables + 1},
            {"shard": (header.shard + 1) % SHARDS},
        ]
        change = self._arena.rng.choice(changes)
        return "other", self._changed(value, lambda found: msgspec.structs.replace(found.header, **change))

    def _gap(self, value: bytes) -> tuple[str, bytes]:
        """An answer for frames that no earlier answer reaches."""
        header = wire.decode(value).header
        later = {"frame": header.frame + FAR, "to_frame": header.to_frame + FAR}
        return "gap", self._changed(value, lambda found: msgspec.structs.replace(found.header, **later))

    def _changed(self, value: bytes, change: Callable[[Answer], wire.AnswerHeader]) -> bytes:
        found = wire.decode(value)
        return wire.encode(change(found), found.matches)


def answers_forged(arena: ChaosArena, scale: ChaosScale) -> str:
    """Among the answers of the matchers there are others: repeated, damaged, for another log, policy, number of
    shards, plan or shard, and behind a gap. Judges count and ignore them, also a judge that begins later."""
    arena.client(**QUICK_SESSION)
    sharded = ShardedArena(arena)
    sharded.fingerprint()
    judge = sharded.judge()
    for _ in range(2):
        sharded.match()
    sharded.burst(scale.burst)
    arena.judged()
    forger = AnswerForger(arena)
    for turn in range(scale.faults):
        sharded.burst(scale.burst)
        forger.write()
        arena.pause(0.3)
        forger.write()
        arena.judged()
        if turn % 2:
            arena.kill(judge)
            judge = sharded.judge()
    late = sharded.judge()
    sharded.burst(scale.burst)
    arena.judged()
    for reason, count in forger.written.items():
        arena.until(lambda why=reason, least=count: ignored(late, why) >= least, f"{reason} answers are counted")  # type: ignore[misc]
    assert all(ignored(late, reason) == forger.written[reason] for reason in ("damaged", "other", "gap"))
    return f"{forger.written.total()} forged answers, {sharded.settle()} pages"


def ignored(judge: Service, reason: str) -> float:
    """How many answers a judge has ignored for a reason."""
    return judge.metric(f'simstream_answers_ignored_total{{reason="{reason}"}}')


class SlowRule(CutRule):
    """Cuts like its base, and holds back some requests with answers."""

    def __init__(self, arena: ChaosArena) -> None:
        super().__init__()
        self._rng = arena.rng
        self.delayed = 0

    def __call__(self, request: ProxiedRequest) -> RequestFate:
        if request.api == PRODUCE and request.role.endswith("-append-matches") and self._rng.random() < DELAYED:
            self.delayed += 1
            time.sleep(self._rng.uniform(0, LONGEST_S))
        return super().__call__(request)


def answers_cut(arena: ChaosArena, scale: ChaosScale) -> str:
    """Lose each kind of request of two matchers in turn, before the broker sees it or after it is done without an
    answer. Hold back many of the answers that they write."""
    assert isinstance(arena.broker, KafkaBroker)
    arena.client(**QUICK_SESSION)
    sharded = ShardedArena(arena)
    rule = SlowRule(arena)
    with KafkaProxy(arena.broker, rule) as proxy:
        for _ in range(2):
            sharded.match(via=proxy.address)
        sharded.judge()
        sharded.fingerprint()
        sharded.burst(scale.burst)
        arena.judged()
        rule.lose_each(arena, proxy, POINTS, scale.faults, lambda: sharded.burst(scale.burst))
        report = f"{rule.done} connections cut within a request, {rule.delayed} requests late"
        return f"{report}, {sharded.settle()} pages"
