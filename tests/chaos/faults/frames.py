"""The log's frames: one of five in flight is refused; frames are written twice, old and overlapping ones too."""

from __future__ import annotations

import json
from dataclasses import fields
from functools import partial
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np

from simstream.judge.acceptor import Acceptor, IgnoreReason
from simstream.log.options import FINGERPRINTS
from simstream.model import FingerprintColumns
from simstream.wire import frame as frames
from tests.chaos.arena import ChaosArena, ChaosScale
from tests.e2e.harness import Service, read_topic

FRAME = 20
CUT = {"frame_max_pages": 5 * FRAME, "frame_max_bytes": 21_200}
"""One batch of pages becomes frames of this size, which are appended one right behind the other. Two pages with a
long URL fit behind the pages before them, headers included; three never fit."""
LIMIT = 15_500
"""Bytes that the log admits for a while: the frame where the long URLs begin has more, the next ones have less."""
USUAL = 16 << 20


def ignored(arena: ChaosArena) -> dict[IgnoreReason, int]:
    """How many frames of the log do not count, by reason."""
    found: dict[IgnoreReason, int] = {}
    acceptor = None
    for record in read_topic(arena.log, FINGERPRINTS):
        header = frames.decode(record.value or b"").header
        acceptor = acceptor or Acceptor(header.recipe, header.sketch_words)
        answer = acceptor.accept(record.offset, record.value or b"", record.timestamp)
        if isinstance(answer, IgnoreReason):
            found[answer] = found.get(answer, 0) + 1
    return found


def one_of_five(arena: ChaosArena, scale: ChaosScale) -> str:
    """Many frames are in flight at once, one record a request, and the broker refuses the first: no page is lost.

    In the long form at least one frame behind it is written all the same.
    """
    arena.client(batch__num__messages=1, linger__ms=0)
    arena.open(1, transactions=False)
    arena.serve("judge")
    turn = gaps = 0
    while turn < scale.faults or (gaps == 0 and turn < scale.faults + 3):
        turn += 1
        _refuse_one(arena, turn)
        gaps = ignored(arena).get(IgnoreReason.GAP, 0)
    # The role drops frames in flight within a few ms, often before the client sends them again, so one turn rarely
    # succeeds.
    assert gaps > 0 or scale.faults == 1, "no frame was written behind the one that failed"
    return f"{turn} frames refused, {gaps} written behind them, {arena.settle()} pages"


def _refuse_one(arena: ChaosArena, turn: int) -> None:
    """A fingerprinter meets a log that has just become too narrow for one of its frames; then it is as before."""
    arena.place.alter(FINGERPRINTS, {"max.message.bytes": USUAL})
    worker = arena.serve("fingerprint", frame_linger_ms=300, **CUT)
    worker.ready()
    arena.feed.append(_frames(f"{turn}", large=-1))
    arena.judged()
    arena.place.alter(FINGERPRINTS, {"max.message.bytes": LIMIT})
    for attempt in range(20):  # the broker takes a moment to know the limit
        arena.feed.append(_frames(f"{turn}x{attempt}", large=2))
        if arena.within(2.0, partial(_noticed, worker)):
            break
    assert _noticed(worker), "no frame was refused"
    arena.place.alter(FINGERPRINTS, {"max.message.bytes": USUAL})
    if arena.within(3.0, lambda: worker.process.poll() is not None):
        # It began again before the limit was back, and named it.
        assert "max.message.bytes" in arena.failed(worker)
        worker = arena.serve("fingerprint", **CUT)
    arena.judged()
    arena.end(worker)


def _frames(name: str, large: int) -> list[bytes]:
    """Pages of one batch; the URLs of a fifth of them may be far longer than the others'."""
    lines = []
    for number in range(5 * FRAME):
        url = "http://x.example/" + "u" * (7_000 if number // FRAME == large else 10)
        text = " ".join(f"w{name}{number}{i}" for i in range(10))
        lines.append(json.dumps({"id": f"p{name}-{number}", "url": url, "text": text}).encode())
    return lines


def _noticed(worker: Service) -> bool:
    return worker.process.poll() is not None or worker.metric("simstream_delivery_restarts_total") > 0


def doubles(arena: ChaosArena, scale: ChaosScale) -> str:
    """While the service runs, append copies of frames: whole ones, halves, two in one. Also let fingerprinters go
    back and write long stretches again, cut elsewhere."""
    rng = arena.rng
    arena.open(2)
    arena.serve("judge")
    written = 0
    for turn in range(scale.faults):
        worker = arena.serve("fingerprint", frame_max_pages=rng.choice([4, 9, 30]))
        arena.feed.burst(scale.burst)
        if turn:
            written += _write_again(arena)
        arena.judged()
        written += _write_again(arena)
        arena.end(worker)
        ends = arena.log.end_offsets("pages")
        arena.log.set_group_offsets({p: rng.randrange(end) for p, end in ends.items() if end})
    arena.serve("fingerprint", frame_max_pages=17)
    arena.feed.burst(scale.burst)
    pages = arena.settle()
    repeated = ignored(arena).get(IgnoreReason.REPEATED, 0)
    assert repeated >= written
    return f"{written} frames written again, {repeated} frames repeated in all, {pages} pages"


def _write_again(arena: ChaosArena) -> int:
    """Copies of some of the log's frames, in any order; how many were written."""
    values = [record.value or b"" for record in read_topic(arena.log, FINGERPRINTS)]
    found = [frames.decode(value) for value in values]
    wanted: list[bytes] = arena.rng.choices(values, k=5)
    for frame in arena.rng.choices([f for f in found if len(f.columns) > 1], k=5):
        middle = len(frame.columns) // 2
        start = int(frame.columns.offset[middle])
        half = msgspec.structs.replace(frame.header, start=start, first=False, came=())
        wanted.append(frames.encode(half, frame.columns.part(middle, len(frame.columns))))
    for a, b in pairwise(found):
        if a.header.to == b.header.start and a.header.partition == b.header.partition and arena.rng.random() < 0.2:
            header = msgspec.structs.replace(a.header, to=b.header.to, came=())
            wanted.append(frames.encode(header, joined(a.columns, b.columns)))
    arena.rng.shuffle(wanted)
    with arena.log.open_appender(FINGERPRINTS) as appender:
        for value in wanted:
            appender.append(value, partition=0)
    return len(wanted)


def joined(a: FingerprintColumns, b: FingerprintColumns) -> FingerprintColumns:
    """The pages of two frames in one."""
    parts: dict[str, Any] = {}
    for field in fields(FingerprintColumns):
        x, y = getattr(a, field.name), getattr(b, field.name)
        if field.name in ("id_ends", "url_ends"):
            y = y + np.uint32(x[-1] if len(x) else 0)
        parts[field.name] = x + y if isinstance(x, bytes) else np.concatenate((x, y))
    return FingerprintColumns(**parts)
