"""The acceptor: decides which frames and pages of the log count, and numbers the pages.

It is the only module that decides this: every role, the tools and the tests' oracle use it unchanged. Its whole
state is a function of the frames in the order of the log.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simstream.errors import FrameDamaged
from simstream.model import FingerprintColumns
from simstream.wire import frame as frames

_DIGEST = struct.Struct("<QQQQ")


class IgnoreReason(StrEnum):
    """Why a frame, or all its pages, did not count."""

    DAMAGED = "damaged"
    RECIPE = "recipe"
    GAP = "gap"
    """It begins behind the position, so pages between them are missing."""
    UNBEGUN = "unbegun"
    """Its partition has no position, and it does not carry the flag `first`."""
    REPEATED = "repeated"
    """All of it lies below the position."""


@dataclass(frozen=True, slots=True)
class AcceptedPages:
    """The accepted pages of one frame. `time` is capped by the frame's append time."""

    header: frames.FrameHeader
    columns: FingerprintColumns  # n pages; 0 if a frame only moves the position
    time: NDArray[np.int64]  # (n,) ms
    ordinal: int  # of the first page


class LogPlace(NamedTuple):
    """A place between two frames of the log: the next frame, the next ordinal, the digest of all accepted pages."""

    frame: int
    ordinal: int
    digest: str


class Acceptor:
    """Positions, ordinals and digest of one log under one recipe.

    `positions` maps (unique id of the source topic, partition) to the next offset that is not accepted; the
    partition that began last comes last. `gaps` maps the same key to the furthest `from` seen behind an open gap.
    `next_frame` is the offset of the next frame to read, `ordinal` the ordinal of the next page.

    A source topic that was deleted and created again has a new id. Once the new topic begins, gaps of the old topic
    can never close, so `gaps` drops them.
    """

    def __init__(self, recipe_id: str, sketch_words: int) -> None:
        self.recipe_id = recipe_id
        self.sketch_words = sketch_words
        self.positions: dict[tuple[str, int], int] = {}
        self.gaps: dict[tuple[str, int], int] = {}
        self.next_frame = 0
        self.ordinal = 0
        self.digest = 0

    def accept(self, offset: int, data: bytes, append_time: int) -> AcceptedPages | IgnoreReason:
        """Take the frame at `offset` of the log. Return its accepted pages, or why it does not count.

        Raises FrameFormat, and changes nothing, for a whole frame that this version does not understand. It must
        not ignore such a frame: a newer judge may accept its pages. Cost: a checksum over the frame, without copies
        of pages.
        """
        frame = _decoded(data)
        self.next_frame = offset + 1
        if frame is None:
            return IgnoreReason.DAMAGED
        header = frame.header
        if header.recipe != self.recipe_id or header.sketch_words != self.sketch_words:
            return IgnoreReason.RECIPE
        key = (header.topic_id, header.partition)
        position = self.positions.get(key)
        if position is None:
            if not header.first:
                self._gap(key, header.start)
                return IgnoreReason.UNBEGUN
            position = header.start
        if header.start > position:
            self._gap(key, header.start)
            return IgnoreReason.GAP
        if header.to <= position and key in self.positions:
            return IgnoreReason.REPEATED
        return self._take(offset, frame, key, position, append_time)

    def _gap(self, key: tuple[str, int], start: int) -> None:
        """Note a gap, unless a later source topic has begun. A late frame of a deleted topic opens no gap."""
        begun = list(dict.fromkeys(topic_id for topic_id, _ in self.positions))
        if key[0] not in begun[:-1]:
            self.gaps[key] = max(start, self.gaps.get(key, 0))

    def _begin(self, topic_id: str) -> None:
        """Forget the gaps of the source topic before a new one: they can never close."""
        if all(topic_id != begun for begun, _ in self.positions):
            self.gaps = {key: start for key, start in self.gaps.items() if key[0] == topic_id}

    def _take(
        self, offset: int, frame: frames.Frame, key: tuple[str, int], position: int, append_time: int
    ) -> AcceptedPages:
        header, columns = frame.header, frame.columns
        if len(columns) and columns.offset[0] < position:
            columns = columns.part(int(np.searchsorted(columns.offset, position)), len(columns))
        if key not in self.positions:
            self._begin(key[0])
        self.positions[key] = header.to
        if self.gaps.get(key, -1) <= header.to:
            self.gaps.pop(key, None)
        accepted = AcceptedPages(header, columns, np.minimum(columns.time, append_time), self.ordinal)
        self.ordinal += len(columns)
        self.digest = frames.checksum(_DIGEST.pack(self.digest, offset, frame.checksum, position))
        return accepted

    @property
    def digest_hex(self) -> str:
        """Return the running digest of everything accepted so far, 16 hex digits."""
        return f"{self.digest:016x}"

    @property
    def place(self) -> LogPlace:
        """The place up to which the log is accepted."""
        return LogPlace(self.next_frame, self.ordinal, self.digest_hex)


def say_offset(awaited: int | None) -> str:
    """Return in words where a source partition goes on: at an offset, or at its beginning if none was accepted."""
    return "its beginning" if awaited is None else f"offset {awaited}"


def _decoded(data: bytes) -> frames.Frame | None:
    """Return the frame, or None for a damaged one. Raises FrameFormat."""
    try:
        return frames.decode(data)
    except FrameDamaged:
        return None
