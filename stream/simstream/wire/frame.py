"""Encodes and decodes frames: the fingerprints of successive pages of one partition.

The layout is little-endian. Every column begins at a multiple of 8 bytes, so that numpy reads it in place:

    magic "smfr" | format u16 | flags u16 | checksum u64 of the rest | header length u32 | pages u32
    header (MessagePack) | offset i64 | time i64 | identity 2 u64 | fingerprint u64 | sketch S u64
    | words u32 | end of id u32 | end of URL u32 | kind u8 | reason u8 | ids | URLs

A page takes about 84 bytes, without its id and URL. If pages have several fingerprints, the further ones are the
first of the S words of `sketch`.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate, groupby
from typing import Any, Final

import mmh3
import msgspec
import numpy as np
from numpy.typing import NDArray

from simstream.errors import FrameDamaged
from simstream.model import MAX_ID_BYTES, REASONS, FingerprintColumns, PageKind
from simstream.wire import frame_versions
from simstream.wire.frame_versions import FORMAT
from simstream.wire.page_headers import NO_HEADERS

MAGIC = b"smfr"
_FIRST, _LOST = 1, 2
_PREFIX = struct.Struct("<4sHHQII")
_MOST = 1 << 62
"""Offsets and times stay below this number, as in a snapshot."""
MAX_RUNS = 32
"""Runs of arrivals in one header, which take at most about 350 bytes a frame."""
_CHECKED = 16  # the checksum covers everything from here on
_PAGE_BYTES = 8 + 8 + 16 + 8 + 4 + 4 + 4 + 1 + 1
_DTYPES = tuple(np.dtype(name) for name in ("i8", "i8", "u8", "u8", "u8", "u4", "u4", "u4", "u1", "u1"))
_KINDS, _REASONS = bytes(range(max(PageKind) + 1)), bytes(range(len(REASONS)))


class FrameHeader(msgspec.Struct, frozen=True, array_like=True):
    """What a frame says about itself.

    `start` is the design's `from`: the previous frame's `to`, or where reading began. A `first` frame may begin a
    partition. A `lost` frame has no pages: its offsets can no longer be read.
    """

    recipe: str
    topic: str
    topic_id: str
    partition: int
    start: int
    to: int
    sketch_words: int
    first: bool = False
    lost: bool = False
    came: tuple[tuple[int, int], ...] = ()
    """When its pages came into the source topic: runs of (ms of their records, pages), in the order of the pages.

    It is only for metrics: no verdict depends on it. Frames of earlier versions have no runs, and those versions
    skip them.
    """
    headers: msgspec.Raw = NO_HEADERS
    """What `page_headers.unpack` reads. A version that does not know them skips them, and so does every reader that
    publishes nothing."""


class Frame(msgspec.Struct, frozen=True):
    """A decoded frame; the columns share the memory of its bytes."""

    header: FrameHeader
    columns: FingerprintColumns
    checksum: int


def checksum(data: bytes | memoryview, seed: int = 0) -> int:
    """Return the 64-bit checksum of frames and digests: the first half of mmh3 x64 128."""
    return int.from_bytes(mmh3.mmh3_x64_128_digest(data, seed)[:8], "little")


def encode(header: FrameHeader, columns: FingerprintColumns) -> bytes:
    """Return the frame's bytes. Cost: one copy of the columns."""
    bare = header.headers == NO_HEADERS  # such a frame takes no byte more than in earlier versions
    head = msgspec.msgpack.encode(msgspec.structs.astuple(header)[:-1] if bare else header)
    parts: list[bytes] = [head]
    _pad(parts, _PREFIX.size + len(head))
    for column in _columns(columns):
        raw = column.tobytes()
        parts.append(raw)
        _pad(parts, len(raw))
    parts += (columns.ids, columns.urls)
    flags = (_FIRST if header.first else 0) | (_LOST if header.lost else 0)
    body = struct.pack("<II", len(head), len(columns)) + b"".join(parts)
    return struct.pack("<4sHHQ", MAGIC, FORMAT, flags, checksum(body, frame_versions.seed(FORMAT, flags))) + body


def _columns(columns: FingerprintColumns) -> tuple[NDArray[Any], ...]:
    c = columns
    return (
        c.offset, c.time, c.identity, c.fingerprint, c.sketch,
        c.words, c.id_ends, c.url_ends, c.kind, c.reason,
    )  # fmt: skip


def _pad(parts: list[bytes], size: int) -> None:
    if size % 8:
        parts.append(bytes(-size % 8))


def decode(data: bytes) -> Frame:
    """Read a frame without copying its columns.

    Raises FrameDamaged if magic, checksum, lengths or contents do not fit, so a returned frame needs no further
    checks. Raises FrameFormat for a whole frame that only another version can read. For a frame of format 1 it
    computes the identities from the ids, .6 us each.
    """
    if len(data) < _PREFIX.size:
        raise FrameDamaged("a frame is shorter than its prefix")
    magic, number, flags, stored, head_length, pages = _PREFIX.unpack_from(data)
    if magic != MAGIC:
        raise FrameDamaged("a record is not a frame")
    if checksum(memoryview(data)[_CHECKED:], frame_versions.seed(number, flags)) != stored:
        raise FrameDamaged("a frame's checksum is wrong")
    frame_versions.check(number)
    header = _header(data)
    if flags != (_FIRST if header.first else 0) | (_LOST if header.lost else 0):
        raise FrameDamaged("a frame's flags contradict its header")
    columns = _read(data, _PREFIX.size + head_length, pages, header.sketch_words)
    _check(header, columns)
    return Frame(header, frame_versions.upgrade_columns(number, columns), stored)


def _header(data: bytes) -> FrameHeader:
    length = _PREFIX.unpack_from(data)[4]
    try:
        return msgspec.msgpack.decode(memoryview(data)[_PREFIX.size : _PREFIX.size + length], type=FrameHeader)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise FrameDamaged(f"a frame's header cannot be read ({str(error)[:100]})") from error


def _read(data: bytes, at: int, pages: int, sketch_words: int) -> FingerprintColumns:
    at += -at % 8
    if not 0 <= sketch_words <= 8:
        raise FrameDamaged("a frame's sketch has an impossible width")
    arrays: list[NDArray[Any]] = []
    for dtype, width in zip(_DTYPES, (1, 1, 2, 1, sketch_words, 1, 1, 1, 1, 1), strict=True):
        size = pages * width * dtype.itemsize
        if at + size > len(data):
            raise FrameDamaged("a frame ends within its columns")
        arrays.append(np.frombuffer(data, dtype, pages * width, at))
        at += size + -size % 8
    offset, time, identity, fingerprint, sketch, words, id_ends, url_ends, kind, reason = arrays
    identity, sketch = identity.reshape(pages, 2), sketch.reshape(pages, sketch_words)
    id_bytes = int(id_ends[-1]) if pages else 0
    url_bytes = int(url_ends[-1]) if pages else 0
    if at + id_bytes + url_bytes != len(data):
        raise FrameDamaged("a frame's ids and URLs do not fill it")
    return FingerprintColumns(
        offset, kind, reason, time, identity, fingerprint, sketch, words, id_ends, url_ends,
        data[at : at + id_bytes], data[at + id_bytes :],
    )  # fmt: skip


NO_PAGES: Final = _read(b"", 0, 0, 0)
"""The columns of a frame without pages."""


def _check(header: FrameHeader, c: FingerprintColumns) -> None:
    if not 0 <= header.start <= header.to < _MOST or not 0 <= header.partition < _MOST:
        raise FrameDamaged("a frame's offsets are not a range")
    counts = [pages for _, pages in header.came]
    if header.came and (min(counts) < 1 or sum(counts) != len(c)):
        raise FrameDamaged("a frame's arrival times do not fit its pages")
    if header.lost and len(c):
        raise FrameDamaged("a frame of lost offsets has pages")
    if not len(c):
        return
    in_range = header.start <= c.offset[0] and c.offset[-1] < header.to
    if not in_range or np.count_nonzero(c.offset[1:] <= c.offset[:-1]):
        raise FrameDamaged("a frame's pages are not in the order of its offsets")
    # `translate` deletes the known bytes; on small frames it is faster than numpy, as `count_nonzero` is than `any`
    if c.kind.tobytes().translate(None, _KINDS) or c.reason.tobytes().translate(None, _REASONS):
        raise frame_versions.unknown("has pages of a kind or reason that this version does not know")
    if np.count_nonzero(c.time <= -_MOST):  # the acceptor bounds times from above
        raise FrameDamaged("a frame's pages have a time that no clock has")
    if any(np.count_nonzero(ends[1:] < ends[:-1]) for ends in (c.id_ends, c.url_ends)):
        raise FrameDamaged("a frame's ids or URLs overlap")
    if not (_is_text(c.ids, c.id_ends) and _is_text(c.urls, c.url_ends)):
        raise FrameDamaged("a frame has an id or URL that is not UTF-8")
    if len(c.ids) > MAX_ID_BYTES and _has_long_id(c):
        raise FrameDamaged("a frame has a page whose id is too long")


def _has_long_id(c: FingerprintColumns) -> bool:
    """Whether the id of a readable page is too long. The stand-in for that of an unreadable page may be longer."""
    long = c.id_ends[1:] - c.id_ends[:-1] > MAX_ID_BYTES
    if c.id_ends[0] <= MAX_ID_BYTES and not np.count_nonzero(long):
        return False
    first = c.id_ends[0] > MAX_ID_BYTES and c.kind[0] == PageKind.READABLE
    return bool(first or np.count_nonzero(long & (c.kind[1:] == PageKind.READABLE)))


def _is_text(blob: bytes, ends: NDArray[np.uint32]) -> bool:
    """Whether all bytes are UTF-8 and no end lies within a character."""
    if blob.isascii():
        return True
    try:
        blob.decode()
    except UnicodeDecodeError:
        return False
    inner = np.frombuffer(blob, np.uint8)[ends[ends < len(blob)]]
    return not ((inner & 0xC0) == 0x80).any()


def join(parts: Sequence[FingerprintColumns]) -> FingerprintColumns:
    """Return the pages of several columns of one sketch width, one after another. Cost: one copy, about 20 us."""
    if len(parts) == 1:
        return parts[0]
    names = ("offset", "kind", "reason", "time", "identity", "fingerprint", "sketch", "words")
    arrays = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    id_ends = _ends([(part.id_ends, part.ids) for part in parts])
    url_ends = _ends([(part.url_ends, part.urls) for part in parts])
    ids, urls = (b"".join([getattr(part, name) for part in parts]) for name in ("ids", "urls"))
    return FingerprintColumns(**arrays, id_ends=id_ends, url_ends=url_ends, ids=ids, urls=urls)


def _ends(parts: Sequence[tuple[NDArray[np.uint32], bytes]]) -> NDArray[np.uint32]:
    begins = accumulate((len(blob) for _, blob in parts), initial=0)
    shifted = [ends + np.uint32(begin) for (ends, _), begin in zip(parts, begins, strict=False)]
    return np.concatenate(shifted)


def group_arrivals(milliseconds: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Return `FrameHeader.came` for successive pages with these record timestamps, in at most MAX_RUNS runs.

    It is exact if MAX_RUNS runs are enough. Otherwise it groups pages, each group with its earliest time.
    """
    runs = tuple((at, len(list(group))) for at, group in groupby(milliseconds))
    if len(runs) <= MAX_RUNS:
        return runs
    size = -(-len(milliseconds) // MAX_RUNS)
    groups = (milliseconds[begin : begin + size] for begin in range(0, len(milliseconds), size))
    return tuple((min(group), len(group)) for group in groups)


def count_arrivals(header: FrameHeader, pages: int) -> Counter[int]:
    """Count the last `pages` pages of a frame by their arrival in ms; empty if the frame does not say."""
    found: Counter[int] = Counter()
    for milliseconds, number in reversed(header.came):
        found[milliseconds] += min(number, pages)
        pages -= min(number, pages)
    return +found


def find_cuts(
    columns: FingerprintColumns, max_pages: int, max_bytes: int, more: NDArray[np.int64] | None = None
) -> Iterator[tuple[int, int]]:
    """Yield ranges of pages that fit into frames of these limits; one page always fits.

    `more` is (n,): the bytes of each page in the frame's header.
    """
    c, n = columns, len(columns)
    whole = len(c.ids) + len(c.urls) + n * (_PAGE_BYTES + 8 * c.sketch.shape[1])
    whole += 0 if more is None else int(more.sum())
    if 0 < n <= max_pages and whole <= max_bytes:
        yield 0, n
        return
    sizes = np.diff(c.id_ends, prepend=0).astype(np.int64) + np.diff(c.url_ends, prepend=0)
    sizes += 0 if more is None else more
    total = np.concatenate(([0], np.cumsum(sizes + _PAGE_BYTES + 8 * c.sketch.shape[1])))
    start = 0
    while start < n:
        fitting = int(np.searchsorted(total, total[start] + max_bytes, side="right")) - 1
        stop = min(max(fitting, start + 1), start + max_pages, n)
        yield start, stop
        start = stop
