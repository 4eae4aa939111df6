"""Finds gaps between `pages` and the log, and mends them, for `simstream source`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from simstream.errors import UsageError
from simstream.files import manifest
from simstream.files.file_system import FileSystem
from simstream.judge.acceptor import Acceptor
from simstream.judge.state_facts import restore_acceptor
from simstream.log.base import Log
from simstream.log.committed_records import committed
from simstream.log.options import FINGERPRINTS, PAGES
from simstream.roles.fingerprint.first_frame import first_header
from simstream.wire import frame as frames


class LogCoverage(NamedTuple):
    """What the log says about the partitions of the present topic `pages`.

    `positions` has the next offset that is not accepted. It is None if the partition has frames but no position,
    since its first frame is missing or damaged. `gaps` are the partitions that wait for missing pages.
    """

    recipe: str
    sketch_words: int
    positions: dict[int, int | None]
    gaps: frozenset[int]


def read_through(log: Log, state: str | None) -> LogCoverage:
    """Read the log as the acceptor does: all of it, or its part after the newest snapshot of the folder `state`.

    Raises UsageError if the log has no frame yet, or the first frames that are needed are gone; WrongLog for the
    state of another log; StateDamaged.
    """
    acceptor = _begun(log, state)
    topic_id = log.topic(PAGES).id
    for records in committed(log, FINGERPRINTS, 64, acceptor.next_frame):
        for record in records:
            acceptor.accept(record.offset, record.value or b"", record.timestamp)
    seen = [partition for source, partition in acceptor.gaps | acceptor.positions if source == topic_id]
    positions = {partition: acceptor.positions.get((topic_id, partition)) for partition in seen}
    gaps = frozenset(number for source, number in acceptor.gaps if source == topic_id)
    return LogCoverage(acceptor.recipe_id, acceptor.sketch_words, positions, gaps)


def _begun(log: Log, state: str | None) -> Acceptor:
    """Return an acceptor at the beginning of the log, or of its part that is not in the state."""
    low = log.low_watermarks(FINGERPRINTS)[0]
    snapshots = manifest.read_all(FileSystem(), Path(state)) if state else ()
    if snapshots:
        acceptor = restore_acceptor(snapshots[0].manifest.facts, log.topic(FINGERPRINTS).id)
    else:
        header = first_header(log)
        if header is None and not low:
            raise UsageError("the log has no frame yet", "start `simstream serve`: no page can be missing yet")
        acceptor = Acceptor(header.recipe if header else "", header.sketch_words if header else 0)
    if acceptor.next_frame < low:
        raise _state_needed(low, state, acceptor.next_frame if snapshots else None)
    return acceptor


def _state_needed(low: int, state: str | None, frame: int | None) -> UsageError:
    """Return the error for a log that was cut behind `frame`, that of the newest snapshot in the folder `state`."""
    begins = f"the log begins at frame {low}: retention removed what it accepted before"
    if not state:
        return UsageError(begins, "name the folder of the judge's state with --state")
    found = "has no snapshot" if frame is None else f"has its newest snapshot at frame {frame}"
    return UsageError(
        f"{begins}, and {state} {found}", "name the folder of the last judge's state, or choose another --prefix"
    )


def removed_pages(log: Log, positions: Mapping[int, int | None]) -> dict[int, tuple[int, int]]:
    """Return, for each partition whose next page was removed, the next offset and the first that still exists."""
    lows = log.low_watermarks(PAGES)
    return {
        p: (offset, lows[p]) for p, offset in positions.items() if offset is not None and offset < lows.get(p, 0)
    }


def rewind(log: Log, state: str | None = None) -> dict[int, int | None]:
    """Set the fingerprinters' committed offsets to the accepted positions, and return them.

    A partition without a position has None: its commit is deleted, and all its pages are read again. Raises
    UsageError, and changes nothing, if retention removed some of the missing pages; LogLocked while a fingerprinter
    runs; and what `read_through` raises."""
    positions = read_through(log, state).positions
    if removed := sorted(removed_pages(log, positions).items()):
        lacks = "; ".join(f"partition {p} lacks offsets {start} to {to - 1}" for p, (start, to) in removed)
        raise UsageError(
            f"{lacks}: retention removed what was there",
            "run `simstream source skip` instead: it gives these up, and all others are read again",
        )
    log.set_group_offsets(positions)
    return positions


def skip(log: Log, state: str | None = None) -> dict[int, tuple[int, int]]:
    """Give up the pages that retention removed before they were read. Returns `from` and `to` of each partition.

    Sets the fingerprinters' offsets as `rewind` does, but behind these pages, for which it then writes a frame of
    kind `lost`. Safe to repeat. Raises LogLocked while a fingerprinter runs, and what `read_through` raises.
    """
    read = read_through(log, state)
    lost = removed_pages(log, read.positions)
    log.set_group_offsets({p: lost[p][1] if p in lost else offset for p, offset in read.positions.items()})
    info = log.topic(PAGES)
    with log.open_appender(FINGERPRINTS) as appender:
        for partition, (start, to) in sorted(lost.items()):
            gap = frames.FrameHeader(
                recipe=read.recipe,
                topic=info.name,
                topic_id=info.id,
                partition=partition,
                start=start,
                to=to,
                sketch_words=read.sketch_words,
                lost=True,
            )
            appender.append(frames.encode(gap, frames.NO_PAGES), partition=0)
    return lost
