"""Connections that are cut in the middle of a transaction, or of a frame's delivery."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from tests.chaos.arena import ChaosArena, ChaosScale
from tests.chaos.proxy import (
    ADD_PARTITIONS,
    COMMIT,
    END_TRANSACTION,
    FETCH,
    HEARTBEAT,
    NAMES,
    PRODUCE,
    KafkaProxy,
    ProxiedRequest,
    RequestFate,
)

POINTS = (
    (ADD_PARTITIONS, "-judge"),
    (PRODUCE, "-judge"),
    (END_TRANSACTION, "-judge"),
    (PRODUCE, "-append-fingerprints"),
    (FETCH, "-read-fingerprints"),
    (FETCH, "-fingerprint"),
    (COMMIT, "-fingerprint"),
    (HEARTBEAT, "-judge"),
)
"""The request, and the client that sends it."""


class CutRule:
    """The proxy's rule: cuts at the next request of the kind that is due."""

    def __init__(self) -> None:
        self._due: tuple[int, str, RequestFate] | None = None
        self._lock = threading.Lock()
        self.done = 0

    @property
    def waits(self) -> bool:
        return self._due is not None

    def lose_each(
        self,
        arena: ChaosArena,
        proxy: KafkaProxy,
        points: Sequence[tuple[int, str]],
        turns: int,
        burst: Callable[[], object],
    ) -> None:
        """Lose each kind of request in turn, with and without its work done, and sometimes end all connections at
        once. `burst` makes the clients send requests."""
        kinds = [(*point, fate) for point in points for fate in (RequestFate.CUT, RequestFate.UNANSWERED)]
        arena.rng.shuffle(kinds)
        for turn in range(turns):
            api, client, fate = kinds[turn % len(kinds)]
            self._due = (api, client, fate)
            for _ in range(20):  # an aborted burst makes no role send anything
                burst()
                if arena.within(3.0, lambda: not self.waits):
                    break
            assert not self.waits, f"no connection was {fate.value} a {NAMES[api]} of {client}"
            if arena.rng.random() < 0.25:
                proxy.cut()

    def __call__(self, request: ProxiedRequest) -> RequestFate:
        with self._lock:
            if self._due is None or self._due[0] != request.api or not request.role.endswith(self._due[1]):
                return RequestFate.PASS
            fate, self._due = self._due[2], None
            self.done += 1
            return fate


def cuts(arena: ChaosArena, scale: ChaosScale) -> str:
    """Lose each kind of request in turn, before the broker sees it or after it is done without an answer. Sometimes
    end all connections at once."""
    arena.open(3)
    rule = CutRule()
    with KafkaProxy(arena.broker, rule) as proxy:
        arena.serve(via=proxy.address, frame_max_pages=5)
        arena.feed.burst(scale.burst)
        arena.judged()
        rule.lose_each(arena, proxy, POINTS, scale.faults, lambda: arena.feed.burst(scale.burst))
        return f"{rule.done} connections cut within a request, {arena.settle()} pages"
