"""The long form of the fuzzing: `make fuzz SECONDS=600`, or `python -m tests.fault.fuzz --only frames`.

Goes round the targets with ever new seeds until time is over, prints how many inputs each was given, and ends with
1 at the first that does worse than a named error, after making it small. Also with 1 where memory grows.
"""

from __future__ import annotations

import argparse
import gc
import random
import resource
import sys
import time
from collections import Counter
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.fault.fuzz_targets import TARGETS, FuzzTarget
from tests.fault.watchdog import watched

A_TURN = 500
GROWTH_KB = 400 << 10
"""What the process may grow by, once each target has had its first turn: hypothesis itself keeps something."""
ROOM_BYTES = 6 << 30
"""Of address space: an input that makes a reader ask for more is found."""
PHASES = (Phase.explicit, Phase.generate, Phase.shrink)


def main() -> int:
    """Fuzz until time is over; the exit code."""
    parser = argparse.ArgumentParser(description="Hostile bytes for every reader, until time is over.")
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=None, help="of an earlier run, to repeat it")
    parser.add_argument("--only", action="append", choices=sorted(TARGETS), help="this target (may be repeated)")
    options = parser.parse_args()
    first = random.randrange(2**32) if options.seed is None else options.seed
    print(f"seed {first}", flush=True)
    resource.setrlimit(resource.RLIMIT_AS, (ROOM_BYTES, ROOM_BYTES))
    return _fuzz({name: TARGETS[name] for name in options.only or TARGETS}, first, options.seconds)


def _fuzz(targets: dict[str, FuzzTarget], first: int, seconds: float) -> int:
    began, turn, given_to = time.monotonic(), 0, Counter[str]()
    settled = 0
    while not turn or time.monotonic() - began < seconds:
        for name, target in targets.items():
            given_to[name] += _turn(name, target, first + turn)
            if turn and time.monotonic() - began >= seconds:
                break
        turn += 1
        used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        settled = settled or used
        if used > settled + GROWTH_KB:
            print(f"memory grew from {settled} to {used} KB", file=sys.stderr)
            return 1
    counts = ", ".join(f"{name} {count:,}" for name, count in given_to.items())
    gc.collect()
    left = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() >> 10
    print(f"{time.monotonic() - began:.0f} s, {turn} rounds, inputs: {counts}")
    print(f"memory at its highest {settled:,} KB after the first round, {used:,} in all; {left:,} KB at the end")
    return 0


def _turn(name: str, target: FuzzTarget, number: int) -> int:
    """A target's inputs of one seed; how many they were."""
    count = 0

    @seed(number)
    @settings(
        max_examples=A_TURN, deadline=None, database=None, phases=PHASES, suppress_health_check=list(HealthCheck)
    )
    @given(target.strategy)
    def run(drawn: object) -> None:
        nonlocal count
        count += 1
        with watched():
            target.run(drawn)

    try:
        run()
    except BaseException:
        print(f"target {name}, seed {number}: --only {name} --seed {number} repeats it", file=sys.stderr)
        raise
    return count


if __name__ == "__main__":
    sys.exit(main())
