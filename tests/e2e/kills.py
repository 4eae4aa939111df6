"""Kills of a service while it judges."""

from __future__ import annotations

import random
import signal
import time

from tests.e2e.harness import PATIENCE_S, QUICK_GROUPS, Program, Watcher


def judge_with_kills(
    program: Program, watcher: Watcher, count: int, kills: int, seed: int, *flags: object, **variables: str
) -> None:
    """Serve until `count` verdicts are there, with a kill -9 whenever a random number of new ones was seen.

    Frames are small, so that one transaction does not take all; and from its start the process runs in short turns,
    between which its verdicts are looked at, so that it is not done before it is killed.
    """
    rng = random.Random(seed)
    small = variables | {"SIMSTREAM_FRAME_MAX_PAGES": "2"} | QUICK_GROUPS
    seen = on_the_way = 0
    for _ in range(kills):
        with program.serve(*flags, **small) as service:
            wanted = min(count, seen + rng.randrange(1, count // (2 * kills)))
            end = time.monotonic() + PATIENCE_S
            while watcher.look(0.01) < wanted:
                assert service.process.poll() is None, service.output
                assert time.monotonic() < end, service.output
                service.process.send_signal(signal.SIGCONT)
                time.sleep(0.02)
                service.process.send_signal(signal.SIGSTOP)
            service.kill()
        seen = len(watcher.rest())
        if seen >= count:  # the service was faster than the kill
            break
        on_the_way += 1
    assert on_the_way, "it was killed too late to be a test"
    with program.serve(*flags, **small) as service:
        watcher.wait(count, service)
        service.ready()  # the one before may have judged all: then this one has just begun
        assert service.end() == 0
        assert "Traceback" not in service.output
