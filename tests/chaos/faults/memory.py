"""A backlog at full speed while the broker takes verdicts slowly: memory stays below what the settings allow."""

from __future__ import annotations

import json
import time
from pathlib import Path

from tests.chaos.arena import ChaosArena, ChaosScale
from tests.chaos.faults.zombies import stop, wake
from tests.chaos.proxy import KafkaProxy
from tests.e2e.harness import Service, by_ordinal

MB = 1 << 20
FRAME_PAGES = 20
POLL_MB, OUTBOX_MB, BATCH_MB = 16, 8, 0.5
"""One poll of the judge at most; verdicts that wait for their commit; frames that are judged together."""
FETCHED_MB, QUEUED_MB = 1, 4
"""Bytes that a client may fetch ahead, and bytes that it may keep until they are sent. Both are settings."""
COPIES = 4
"""How often a page's bytes may lie in memory on their way: as received, decoded, encoded, and in the client."""
KEPT = {"state": "state", "snapshot_every": "5s"}
LIVE_BYTES = 250
"""What a live page may cost the judge."""
SLACK_MB = 32
"""What the allocators and the interpreter may keep beside."""
SLOW_BYTES_S = 2 * MB


def url_bytes(pages: int) -> int:
    """A long URL makes the frame and the verdict of a page as large as the page, but no part has to keep it. All of
    them together would not fit into the bound, and the disk takes them three times."""
    return 2_000 if pages <= 100_000 else 200


def bound_mb(pages: int) -> dict[str, float]:
    """Return the MB that each role may use beyond its use before the backlog, with every queue at its limit."""
    page_mb = (url_bytes(pages) + 1_000) / MB
    judged = POLL_MB + 2 * OUTBOX_MB + COPIES * BATCH_MB
    worked = 4 * FRAME_PAGES * page_mb
    return {
        "judge": COPIES * 2 * FETCHED_MB + judged + QUEUED_MB + pages * LIVE_BYTES / MB + SLACK_MB,
        "fingerprint": COPIES * (2 * FETCHED_MB + worked) + 2 * QUEUED_MB + SLACK_MB,
    }


def backlog(arena: ChaosArena, scale: ChaosScale) -> str:
    """`scale.pages` pages wait; then fingerprinter and judge read at full speed, but their ways to write are narrow
    for `scale.faults` seconds."""
    arena.client(**{"queued.max.messages.kbytes": FETCHED_MB << 10, "queue.buffering.max.kbytes": QUEUED_MB << 10})
    arena.open(4, transactions=False)
    with KafkaProxy(arena.broker) as proxy:
        roles = {
            name: arena.serve(name, via=proxy.address, frame_max_pages=FRAME_PAGES, **KEPT)
            for name in ("judge", "fingerprint")
        }
        arena.feed.burst(500)  # all is loaded before anything is measured
        warm = len(arena.judged())
        stop(roles["fingerprint"])
        _fill(arena, scale.pages)
        proxy.slow = {"-judge": SLOW_BYTES_S, "-append-fingerprints": SLOW_BYTES_S}
        before = {name: _rss_mb(service) for name, service in roles.items()}
        peak = dict(before)
        wake(roles["fingerprint"])
        narrow_until = time.monotonic() + scale.faults

        def grown(count: int) -> bool:
            for name, service in roles.items():
                peak[name] = max(peak[name], _rss_mb(service))
            return arena.watcher.look() >= warm + count

        slow_enough = 60.0 + scale.faults
        arena.until(lambda: grown(1) and time.monotonic() > narrow_until, "it was slow for a while", slow_enough)
        slow = len(arena.watcher.records) - warm
        assert slow < scale.pages / 2, "it was not slow"
        proxy.slow = {}
        arena.until(lambda: grown(scale.pages), "all verdicts are there", timeout=60 + scale.pages / 500)
        assert len(by_ordinal(arena.watcher.rest())) == warm + scale.pages
        while arena.running:
            arena.end(arena.running[-1])
    said = []
    for name, most in bound_mb(scale.pages).items():
        used = peak[name] - before[name]
        assert used < most, f"{name} used {used:.0f} MB more than before, {most:.0f} are allowed"
        said.append(f"{name} +{used:.0f} of {most:.0f} MB")
    return f"{scale.pages} pages, {slow} verdicts while it was slow, {', '.join(said)}"


def _fill(arena: ChaosArena, pages: int) -> None:
    """Short pages with long URLs, all different."""
    for start in range(0, pages, 10_000):
        lines = []
        for number in range(start, min(pages, start + 10_000)):
            words = " ".join(f"w{number * 7 + i}" for i in range(12))
            url = f"http://x.example/{number}/" + "u" * url_bytes(pages)
            lines.append(json.dumps({"id": f"p{number}", "url": url, "text": words}).encode())
        arena.feed.append(lines)


def _rss_mb(service: Service) -> float:
    """Resident memory of the process itself, from the operating system."""
    pages = int(Path(f"/proc/{service.process.pid}/statm").read_text().split()[1])
    return pages * 4096 / MB
