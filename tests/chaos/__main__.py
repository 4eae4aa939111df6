"""The long form of the chaos: `python -m tests.chaos`, or `make chaos`.

Goes through all scenarios in a seeded order, round after round, each with a seed of its own, on real brokers that
it starts and ends. Stops at the first failure and says how to repeat it.
"""

from __future__ import annotations

import argparse
import os
import random
import secrets
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path

from deploy.kafka.jars import missing_packages
from tests.chaos.arena import ChaosScale
from tests.chaos.grounds import ChaosGrounds
from tests.chaos.scenarios import SCENARIOS, ChaosScenario


def options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description="Faults on real brokers, seeded.")
    parser.add_argument("--seed", type=int, help="repeat a run (default: drawn, and printed)")
    parser.add_argument("--rounds", type=int, default=1, help="how often every scenario is run (default: 1)")
    parser.add_argument("--seconds", type=float, default=3_600, help="begin no scenario after so long")
    parser.add_argument("--only", action="append", metavar="NAME", help="only this scenario; may be repeated")
    parser.add_argument("--short", action="store_true", help="as much of each as `make test-all` does")
    parser.add_argument("--list", action="store_true", help="list all scenarios with a description")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """0 where all held, 1 at the first failure, 2 where it cannot begin. On a signal it ends everything that it
    started."""
    chosen = options(arguments)
    if chosen.list:
        for scenario in SCENARIOS:
            print(f"{scenario.name:18} {(scenario.run.__doc__ or '').split(chr(10) + chr(10))[0]}")
        return 0
    unknown = set(chosen.only or ()) - {scenario.name for scenario in SCENARIOS}
    if unknown or missing_packages():
        print(f"chaos: no scenario {min(unknown)}" if unknown else f"chaos: install {missing_packages()}")
        return 2
    seed = secrets.randbelow(1 << 31) if chosen.seed is None else chosen.seed
    print(f"chaos: seed {seed}; the same again: {again(chosen, seed)}", flush=True)
    for ending in (signal.SIGTERM, signal.SIGINT):  # also where a shell's `&` made it ignored
        signal.signal(ending, lambda number, _: sys.exit(128 + number))
    return run(chosen, seed)


def again(chosen: argparse.Namespace, seed: int, only: str = "") -> str:
    """The command that repeats a run."""
    names = [only] if only else chosen.only or []
    parts = [f"--seed {seed}", f"--rounds {chosen.rounds}", f"--seconds {chosen.seconds:g}"]
    parts += [f"--only {name}" for name in names] + (["--short"] if chosen.short else [])
    return "python -m tests.chaos " + " ".join(parts)


def run(chosen: argparse.Namespace, seed: int) -> int:
    """All rounds."""
    began = time.monotonic()
    wanted = [s for s in SCENARIOS if not chosen.only or s.name in chosen.only]
    with ChaosGrounds(cache()) as grounds:
        grounds.warm()
        for turn, scenario in plan(wanted, chosen.rounds, seed):
            if time.monotonic() - began > chosen.seconds:
                print("chaos: time is over; what was begun has held")
                return 0
            scale = (scenario.short if chosen.short else None) or scenario.long
            if not held(grounds, scenario, scale, own_seed(seed, turn, scenario)):
                print(f"chaos: FAILED: {scenario.name}, round {turn + 1}: {again(chosen, seed, scenario.name)}")
                return 1
    print(f"chaos: all held, {time.monotonic() - began:.0f} s")
    return 0


def plan(wanted: Sequence[ChaosScenario], rounds: int, seed: int) -> Iterator[tuple[int, ChaosScenario]]:
    """Every scenario once a round, in an order of the seed's."""
    for turn in range(rounds):
        order = sorted(wanted, key=lambda scenario: own_seed(seed, turn, scenario))
        yield from ((turn, scenario) for scenario in order)


def own_seed(seed: int, turn: int, scenario: ChaosScenario) -> int:
    """Depends on nothing else, so that one scenario alone can be repeated."""
    return random.Random(f"{seed} {turn} {scenario.name}").getrandbits(31)


def held(grounds: ChaosGrounds, scenario: ChaosScenario, scale: ChaosScale, seed: int) -> bool:
    """Run one scenario, and print its report or its error."""
    began, good = time.monotonic(), False
    with tempfile.TemporaryDirectory(prefix="simstream-chaos-") as folder:
        try:
            said = grounds.run(scenario, scale, Path(folder), seed)
            good = True
        except Exception as error:  # noqa: BLE001  # any error is a failure to report
            traceback.print_exc()
            said = f"{type(error).__name__}: {error}".splitlines()[0]
    print(f"{scenario.name:18} {time.monotonic() - began:6.1f} s  {said}", flush=True)
    return good


def cache() -> Path:
    """Where tables are kept that are built once."""
    named = os.environ.get("SIMSTREAM_CACHE")
    return Path(named) if named else Path.home() / ".cache" / "simstream"


if __name__ == "__main__":
    sys.exit(main())
