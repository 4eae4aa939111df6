"""kill -9 at random instants, of fingerprinters and judges, working or still starting."""

from __future__ import annotations

from typing import Any

from tests.chaos.arena import ChaosArena, ChaosScale
from tests.e2e.harness import QUICK_SESSION, Service

MANY = 20
KEPT = 0.5
"""Share of starts of a judge with its state in a folder."""
WORKING = 0.8
"""Share of kills that wait until their victim works; the others may hit it while it starts."""


def kills(arena: ChaosArena, scale: ChaosScale) -> str:
    """Run two fingerprinters and a judge, in the long form two judges. Kill one or two of them all the time and
    start them again, the judges sometimes with their kept state and sometimes without."""
    rng = arena.rng
    arena.client(**QUICK_SESSION)
    arena.open(4)
    roles = ["judge 1", "fingerprint", "fingerprint"] + (["judge 2"] if scale.faults > MANY else [])
    crew = {_start(arena, role): role for role in roles}
    hit = 0
    for _ in range(scale.faults):
        victims = rng.sample(list(crew), 2 if rng.random() < 0.15 else 1)
        if rng.random() < WORKING:
            for victim in victims:
                victim.ready()
        arena.feed.burst(rng.randrange(1, 2 * scale.burst))
        arena.pause(rng.choice([0.05, 0.3, 1.0]))
        for victim in victims:
            arena.kill(victim)
            role = crew.pop(victim)
            crew[_start(arena, role)] = role
            hit += 1
        arena.watcher.look()
    arena.feed.burst(scale.burst)
    return f"{hit} kills, {arena.settle()} pages"


def _start(arena: ChaosArena, role: str) -> Service:
    """Use frames of another size each time, so that pages that are read again are cut elsewhere."""
    more: dict[str, Any] = {"frame_max_pages": arena.rng.choice([3, 7, 10, 40])}
    name, _, number = role.partition(" ")
    if number and arena.rng.random() < KEPT:
        more |= {"state": arena.folder / f"state-{number}", "snapshot_every": "100ms"}
    return arena.serve(name, **more)
