"""Encodes and decodes answers: what one shard found for the pages of successive frames of the log.

The layout is little-endian. Only pages with a match in the shard take room:

    magic "sman" | format u16 | checksum u64 of the rest | header length u32 | pages u32 | header (MessagePack)
    | place u32 | best 2 u64 | distance u8 | agreement u16 | ends of clusters u32 | clusters 2 u64

A page takes 27 bytes, and 16 for each further cluster that it ties. A frame takes 8, for its digest.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from simstream.errors import AnswerDamaged
from simstream.model import U64
from simstream.wire.frame import checksum

MAGIC: Final = b"sman"
FORMAT: Final = 1
_PREFIX = struct.Struct("<4sHQII")
_CHECKED: Final = 14  # the checksum covers everything from here on
NO_IDENTITY: Final = bytes(16)
"""In the place of a best match, if the page only ties clusters."""


class AnswerHeader(msgspec.Struct, frozen=True, array_like=True):
    """What an answer says about itself: for which frames of which log, from which shard, under which policy."""

    log_id: str
    policy: str
    shard: int
    shards: int
    tables: int
    """The number of tables by which the shards are cut; see `index.plan.divided_plan`."""
    frame: int
    """The first answered frame of the log."""
    to_frame: int
    """The frame behind the last answered frame."""
    ordinal: int
    """The ordinal of the first page."""
    pages: int
    digests: bytes
    """Behind each answered frame the digest of everything accepted so far: 8 bytes, little-endian."""

    def digest(self, frame: int) -> int:
        """Return the digest behind the answered frame that ends before `frame`."""
        at = 8 * (frame - 1 - self.frame)
        return int.from_bytes(self.digests[at : at + 8], "little")


class MatchColumns(NamedTuple):
    """The m answered pages that have a match, in their order. Pages are named by identity."""

    place: NDArray[np.uint32]  # (m,) among all answered pages
    best: U64  # (m, 2) the closest match; 0 if the page only ties clusters
    distance: NDArray[np.uint8]  # (m,)
    agreement: NDArray[np.uint16]  # (m,)
    tie_ends: NDArray[np.uint32]  # (m,)
    ties: U64  # (t, 2) a page of each further cluster that the page ties

    def cut(self, start: int, end: int) -> MatchColumns:
        """Return the matches of the pages from number `start` to `end` of these m pages."""
        s, begin = slice(start, end), int(self.tie_ends[start - 1]) if start else 0
        ends = self.tie_ends[s] - np.uint32(begin)
        stop = begin + (int(ends[-1]) if len(ends) else 0)
        return MatchColumns(
            self.place[s], self.best[s], self.distance[s], self.agreement[s], ends, self.ties[begin:stop]
        )


class MatchLists:
    """Collects matches page by page."""

    def __init__(self) -> None:
        self._rows: list[tuple[int, bytes, int, int, int]] = []
        self._ties: list[bytes] = []

    def add(self, place: int, best: bytes | None, distance: int, agreement: int, ties: Sequence[bytes]) -> None:
        """Note a page with a best match, or with clusters alone."""
        self._ties.extend(ties)
        self._rows.append((place, best or NO_IDENTITY, distance, agreement, len(self._ties)))

    def columns(self) -> MatchColumns:
        """Return all noted pages."""
        rows = self._rows
        return MatchColumns(
            np.array([row[0] for row in rows], np.uint32),
            _identities(b"".join(row[1] for row in rows)),
            np.array([row[2] for row in rows], np.uint8),
            np.array([row[3] for row in rows], np.uint16),
            np.array([row[4] for row in rows], np.uint32),
            _identities(b"".join(self._ties)),
        )


class Answer(NamedTuple):
    """A decoded answer."""

    header: AnswerHeader
    matches: MatchColumns


def encode(header: AnswerHeader, matches: MatchColumns) -> bytes:
    """Return the answer's bytes."""
    head = msgspec.msgpack.encode(header)
    body = (
        struct.pack("<II", len(head), len(matches.place)) + head + b"".join(column.tobytes() for column in matches)
    )
    return struct.pack("<4sHQ", MAGIC, FORMAT, checksum(body, FORMAT)) + body


def encode_within(
    header: AnswerHeader, matches: MatchColumns, frame_pages: Sequence[int], most_bytes: int
) -> list[bytes]:
    """Return the bytes of one answer or, if it is larger than `most_bytes`, of several to fewer frames each.

    `frame_pages` are the pages of each frame. The answer to one frame is never divided.
    """
    data, frames = encode(header, matches), header.to_frame - header.frame
    if len(data) <= most_bytes or frames == 1:
        return [data]
    half, pages = frames // 2, sum(frame_pages[: frames // 2])
    at, middle = int(np.searchsorted(matches.place, pages)), header.frame + half
    first = structs.replace(header, to_frame=middle, pages=pages, digests=header.digests[: 8 * half])
    second = structs.replace(
        header,
        frame=middle,
        ordinal=header.ordinal + pages,
        pages=header.pages - pages,
        digests=header.digests[8 * half :],
    )
    rest = matches.cut(at, len(matches.place))
    rest = rest._replace(place=rest.place - np.uint32(pages))
    return [
        *encode_within(first, matches.cut(0, at), frame_pages[:half], most_bytes),
        *encode_within(second, rest, frame_pages[half:], most_bytes),
    ]


def decode(data: bytes) -> Answer:
    """Return the answer. Raises AnswerDamaged if its format is another one, or if anything in it does not fit."""
    if len(data) < _PREFIX.size or data[:4] != MAGIC:
        raise AnswerDamaged("a record is not an answer")
    _, number, stored, length, pages = _PREFIX.unpack_from(data)
    if number != FORMAT or checksum(memoryview(data)[_CHECKED:], number) != stored:
        raise AnswerDamaged(f"an answer of format {number} cannot be read, or its checksum is wrong")
    at = _PREFIX.size + length
    try:
        header = msgspec.msgpack.decode(memoryview(data)[_PREFIX.size : at], type=AnswerHeader)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise AnswerDamaged(f"an answer's header cannot be read ({str(error)[:100]})") from error
    matches = _columns(data, at, pages)
    _check(header, matches)
    return Answer(header, matches)


_SHAPES: Final[Sequence[tuple[Any, int]]] = (
    (np.uint32, 1), (np.uint64, 2), (np.uint8, 1), (np.uint16, 1), (np.uint32, 1), (np.uint64, 2)
)  # fmt: skip
"""The type of each column, and its values a row."""


def _columns(data: bytes, at: int, pages: int) -> MatchColumns:
    """Return the columns of so many pages. The columns begin at byte `at`."""
    arrays: list[NDArray[Any]] = []
    for number, (dtype, width) in enumerate(_SHAPES):
        rows = pages if number < len(_SHAPES) - 1 else int(arrays[-1][-1]) if pages else 0
        size = rows * width * np.dtype(dtype).itemsize
        if at + size > len(data):
            raise AnswerDamaged("an answer ends within its columns")
        array: NDArray[Any] = np.frombuffer(data, dtype, rows * width, at)
        arrays.append(array.reshape(rows, width) if width > 1 else array)
        at += size
    if at != len(data) or (np.diff(arrays[4].astype(np.int64)) < 0).any():
        raise AnswerDamaged("an answer's clusters do not fit its pages or its length")
    return MatchColumns(*arrays)


def _check(header: AnswerHeader, matches: MatchColumns) -> None:
    if not 0 <= header.frame < header.to_frame or header.ordinal < 0 or not 0 <= header.shard < header.shards:
        raise AnswerDamaged("an answer's frames, ordinal or shard are not possible")
    if len(header.digests) != 8 * (header.to_frame - header.frame):
        raise AnswerDamaged("an answer does not have one digest for each frame")
    place = matches.place
    if len(place) and (place[-1].item() >= header.pages or (place[1:] <= place[:-1]).any()):
        raise AnswerDamaged("an answer's pages are not in their order")


def _identities(data: bytes) -> U64:
    return np.frombuffer(data, np.uint64).reshape(-1, 2)
