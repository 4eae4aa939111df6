"""A process that works until it is killed: `python -m tests.contract.writer ADDRESS PREFIX WHAT`; WHAT is append,
publish, stand or own.

It prints the number of what was acknowledged, a line each time, so that a test knows what must be there.
"""

from __future__ import annotations

import sys
import time

from simstream.log import LogOptions, open_log
from simstream.log.base import Log, OutgoingVerdict
from simstream.log.options import FINGERPRINTS

BATCH = 50


def append(log: Log) -> None:
    """Frames with their own number as value."""
    appender = log.open_appender(FINGERPRINTS)
    told, number = 0, 0
    while True:
        number = appender.append(b"%d" % (number + 1))
        safe = appender.acknowledged()
        if safe >= told + 100:
            told = safe
            print(told, flush=True)


def publish(log: Log) -> None:
    """Batches of verdicts, with the number of batches as position."""
    publisher = log.open_publisher()
    batch = int(publisher.start() or b"0")
    while True:
        batch += 1
        verdicts = [OutgoingVerdict(b"id%d" % i, b"%d" % batch, ()) for i in range(BATCH)]
        publisher.publish(verdicts, b"%d" % batch)
        print(batch, flush=True)


def stand(log: Log) -> None:
    """Stand for election; says 1 when elected, 0 when not any more."""
    election = log.join_election()
    told = False
    while True:
        if election.elected != told:
            told = not told
            print(int(told), flush=True)
        time.sleep(0.02)


def own(log: Log) -> None:
    """Join the matchers; says how many shards are its own when that changes."""
    member = log.join_matchers(None, 1)
    told = 0
    while True:
        if len(member.owned) != told:
            told = len(member.owned)
            print(told, flush=True)
        time.sleep(0.02)


def main() -> None:
    address, prefix, what = sys.argv[1:]
    log = open_log(address, LogOptions(prefix=prefix))
    {"append": append, "publish": publish, "stand": stand, "own": own}[what](log)


if __name__ == "__main__":
    main()
