"""Processes that sleep longer than they may, and wake up in the belief that nothing has happened."""

from __future__ import annotations

import signal
import threading

from deploy.server_process import freeze
from simstream.log.options import POSITIONS, VERDICTS
from tests.chaos.arena import PATIENCE_S, ChaosArena, ChaosScale
from tests.chaos.proxy import END_TRANSACTION, PRODUCE, KafkaProxy, ProxiedRequest, RequestFate
from tests.e2e.harness import Service, read_topic, shares

WRITTEN = VERDICTS, POSITIONS
"""The writes of one transaction. The judge is stopped after the broker has seen one of them."""


def stop(service: Service) -> None:
    freeze(service.process.pid)


def wake(service: Service) -> None:
    service.process.send_signal(signal.SIGCONT)


def zombies(arena: ChaosArena, scale: ChaosScale) -> str:
    """Stop a fingerprinter and a judge in the middle of their work, replace them, and wake them. The fingerprinter
    goes on as one of the group. The judge ends and says which judge publishes now."""
    arena.open(4, transactions=False)
    sleepy = arena.serve("fingerprint", frame_max_pages=5)
    arena.serve("fingerprint", frame_max_pages=10)
    judge = arena.serve("judge")
    admin = arena.admin()
    arena.until(lambda: shares(arena.place, admin) == [2, 2], "both have their partitions")
    arena.feed.burst(scale.burst)
    arena.until(lambda: sleepy.metric("simstream_pages_consumed_total") > 0, "the first one reads")
    for turn in range(scale.faults):
        arena.verdicts(len(arena.source()) - scale.burst + 1)
        arena.feed.burst(scale.burst)
        arena.pause(0.1)
        stop(sleepy)
        stop(judge)
        newer = arena.serve("judge")
        arena.verdicts(len(arena.source()), f"others do their work, turn {turn}")
        arena.feed.burst(scale.burst)
        wake(judge)
        line = arena.failed(judge)
        assert "another judge publishes" in line, line
        wake(sleepy)
        judge = newer
    return f"{2 * scale.faults} zombies, {arena.settle()} pages"


def outlived(arena: ChaosArena, scale: ChaosScale) -> str:
    """Stop the judge within a transaction until the broker aborts it. No other judge has started, so it goes on."""
    return _outlive(arena, scale, asleep=True)


def stalled(arena: ChaosArena, scale: ChaosScale) -> str:
    """The same, but it is the network that holds the end of the transaction back."""
    return _outlive(arena, scale, asleep=False)


def _outlive(arena: ChaosArena, scale: ChaosScale, asleep: bool) -> str:
    arena.open(2, transactions=False)
    due, free = threading.Event(), threading.Event()
    free.set()

    def rule(request: ProxiedRequest) -> RequestFate:
        wanted = PRODUCE if asleep else END_TRANSACTION
        if request.api == wanted and request.client.endswith("-judge"):
            if due.is_set():
                due.clear()
                stop(judge) if asleep else free.clear()
            free.wait(PATIENCE_S)
        return RequestFate.PASS

    with KafkaProxy(arena.broker, rule) as proxy:
        judge = arena.serve("judge", via=proxy.address)
        arena.serve("fingerprint", frame_max_pages=5)
        for turn in range(scale.faults):
            arena.feed.burst(scale.burst)
            arena.judged()
            arena.until(lambda: arena.hidden(*WRITTEN) == 0, "all of it is committed")
            before = arena.written(*WRITTEN)
            due.set()
            arena.feed.burst(scale.burst)
            arena.until(
                lambda seen=before: not due.is_set() and arena.written(*WRITTEN) > seen,
                f"a transaction is open, turn {turn}",
            )
            arena.until(lambda: arena.hidden(*WRITTEN) == 0, "the broker has ended it")
            wake(judge) if asleep else free.set()
            arena.judged()
        pages = arena.settle()
        seen = sum(len(read_topic(arena.log, topic)) for topic in WRITTEN)
    aborted = sum(map(arena.uncommitted, WRITTEN)) - seen
    assert aborted > 0, "no transaction was aborted"
    return f"{scale.faults} transactions outlived their time, {aborted} records were sent again, {pages} pages"
