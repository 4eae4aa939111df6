"""Sustained slowness: a broker that takes little, pages that take long, a window that moves at once.

The slowness lasts longer than any single wait may last. The probes of an orchestrator run all the while.
"""

from __future__ import annotations

import json

from tests.chaos.arena import ChaosArena, ChaosScale
from tests.chaos.proxy import KafkaProxy
from tests.e2e.harness import Service, by_ordinal

NARROW_BYTES_S = 160 << 10
"""What the broker takes of the judge: a full default frame's verdicts take seconds, a poll's take a minute."""
URL_BYTES = 300
POLL_MS = 6_000
"""`max.poll.interval.ms`: the least that the group's session admits."""
SLOW_HTML_BYTES = 9 << 20
"""A page that takes the better part of a second, and is worth it."""
HOUR_MS = 3_600_000


def narrow(arena: ChaosArena, scale: ChaosScale) -> str:
    """Full default frames, and a broker that takes little from the judge: one transaction cannot carry the rest."""
    arena.open(4, transactions=False)
    with KafkaProxy(arena.broker) as proxy:
        proxy.slow = {"-judge": NARROW_BYTES_S}
        arena.feed.append([_page(number) for number in range(scale.pages)])
        service = arena.serve("all", via=proxy.address, state="state", snapshot_every="5s")
        _wait(arena, service, scale.pages, 60 + scale.pages * 800 / NARROW_BYTES_S * 2)
        proxy.slow = {}
        assert service.metric("simstream_restarts_total") == 0
    return _whole(arena, scale.pages)


def slow_pages(arena: ChaosArena, scale: ChaosScale) -> str:
    """Many large pages of HTML: all together take longer than a member of the group may be silent."""
    arena.client(max__poll__interval__ms=POLL_MS, session__timeout__ms=3_000, heartbeat__interval__ms=1_000)
    arena.client(**{"queue.buffering.max.kbytes": 256 << 10})
    arena.open(2, transactions=False)
    arena.place.alter("pages", {"max.message.bytes": 16 << 20})
    arena.place.alter("dead-letters", {"max.message.bytes": 17 << 20})
    for number in range(scale.pages):
        arena.feed.append([_large(number)])
    service = arena.serve("all", "--threads", 1, extract_workers=1, extract_timeout_s=60, max_record_bytes=16 << 20)
    _wait(arena, service, scale.pages, 120 + 3 * scale.pages)
    assert service.metric("simstream_rebalances_total") <= 1, "the member was taken for dead"
    return _whole(arena, scale.pages)


def window_moves(arena: ChaosArena, scale: ChaosScale) -> str:
    """A window that moves on at once: all pages of an archive leave as the first live page comes."""
    arena.open(2, transactions=False)
    then = 1_000_000_000_000
    service = arena.serve("all", "--window", "1h", stuck_after="5s", state="state", snapshot_every="2s")
    for turn in range(scale.faults):
        first, at = turn * scale.pages, then + 10 * turn * HOUR_MS
        arena.feed.append([_page(first + number, time=at + number) for number in range(scale.pages)])
        _wait(arena, service, first + scale.pages, 120 + scale.pages / 1_000)
        assert service.metric("simstream_live_pages") == scale.pages, "the pages of the previous turn have left"
    return _whole(arena, scale.faults * scale.pages)


def _wait(arena: ChaosArena, service: Service, pages: int, timeout: float) -> None:
    """Until so many verdicts are there, while the service is live at every look."""

    def come() -> bool:
        status, said = service.get("/health/live")
        assert status in (0, 200), said
        return arena.watcher.look() >= pages

    arena.until(come, f"{pages} verdicts are there", timeout)


def _whole(arena: ChaosArena, pages: int) -> str:
    while arena.running:
        arena.end(arena.running[-1])
    assert len(by_ordinal(arena.watcher.rest())) == pages
    return f"{pages} pages, one verdict each, live all the while"


def _page(number: int, **more: object) -> bytes:
    words = " ".join(f"w{number * 7 + i}" for i in range(12))
    url = f"http://x.example/{number}/" + "u" * URL_BYTES
    return json.dumps({"id": f"p{number}", "url": url, "text": words, **more}).encode()


def _large(number: int) -> bytes:
    words = " ".join(f"page{number}word{i}" for i in range(40))
    paragraph = f"<div class='a'><p>{words} and so on, until the end of it.</p></div>"
    html = f"<html><body>{paragraph * (SLOW_HTML_BYTES // len(paragraph))}</body></html>"
    return json.dumps({"id": f"p{number}", "html": html}).encode()
