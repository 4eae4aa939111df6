"""Defines the types that every layer shares: pages, records, columns of fingerprints, limits, verdicts."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

U64 = NDArray[np.uint64]
PYTHON = "python"
"""`source.topic` of pages that a program hands over, and the log's id in a Deduper's folder."""
FINGERPRINT_MASK: Final = (1 << 64) - 1
MAX_ID_BYTES = 2048
MAX_URL_BYTES = 8192


def lookup_values(fingerprint: int, sketch: int, count: int) -> tuple[int, ...]:
    """Return the first `count` lookups of a page, 64 bits each: its fingerprints, then words of its sketch.

    `sketch` is the bits of the column `sketch` as one integer: the further fingerprints, the second one lowest, and
    then the sketch.
    """
    return fingerprint, *(sketch >> 64 * i & FINGERPRINT_MASK for i in range(count - 1))


def fingerprint_hex(fingerprint: int, sketch: int = 0, count: int = 1) -> str:
    """Return 16 hex digits for each fingerprint of a page; see `lookup_values`."""
    if count == 1:
        return f"{fingerprint:016x}"
    return "".join(f"{one:016x}" for one in lookup_values(fingerprint, sketch, count))


class PageKind(IntEnum):
    """The kind of a page before it is judged. Frames hold the number."""

    READABLE = 0
    TOO_SHORT = 1
    """Too few words, or status 404 or 410: the earlier version leaves."""
    FAILED = 2
    """`too_short` for any other status: a failed fetch is no edit, the earlier version stays."""
    UNREADABLE = 3
    WITHDRAWN = 4


ENDING_KINDS: Final = (PageKind.TOO_SHORT, PageKind.WITHDRAWN)
"""Kinds that end a page's earlier version and bring no new one."""
VERSION_KINDS: Final = (PageKind.READABLE, *ENDING_KINDS)
"""Kinds that replace or end a page's earlier version. The other kinds are failed fetches, which do neither."""


class VerdictKind(StrEnum):
    """What the judge says of a page. The text stands in records, metrics and tables.

    Examples:
        >>> with Deduper() as deduper:
        ...     [verdict] = deduper.judge(["Too short to compare."])
        >>> verdict.verdict is VerdictKind.TOO_SHORT, verdict.verdict == "too_short"
        (True, True)
    """

    NEW = "new"
    NEAR_DUPLICATE = "near_duplicate"
    UNCHANGED = "unchanged"
    TOO_SHORT = "too_short"
    UNREADABLE = "unreadable"
    WITHDRAWN = "withdrawn"

    __repr__ = str.__repr__


COMPARED_VERDICTS: Final = (VerdictKind.NEW, VerdictKind.NEAR_DUPLICATE, VerdictKind.UNCHANGED)
"""Verdicts of readable pages, the only ones with a fingerprint and a cluster."""
INCOMPARABLE_VERDICTS: Final = (VerdictKind.TOO_SHORT, VerdictKind.UNREADABLE)
"""Verdicts of pages that came with nothing to compare. A withdrawn page did not come."""
VERDICT_OF_KIND: Final = {
    PageKind.TOO_SHORT: VerdictKind.TOO_SHORT,
    PageKind.FAILED: VerdictKind.TOO_SHORT,
    PageKind.UNREADABLE: VerdictKind.UNREADABLE,
    PageKind.WITHDRAWN: VerdictKind.WITHDRAWN,
}
"""The verdict of each kind of page that is not compared."""


REASONS = (
    "",
    "few_words",
    "http_status",
    "bad_json",
    "bad_id",
    "long_url",
    "wrong_type",
    "no_text",
    "empty_value",
    "too_large",
    "bad_content_type",
    "binary",
    "extract_failed",
    "kernel_error",
    "bad_encoding",
    "damaged",
    "bad_schema",
    "bad_value",
)
"""Why a page is `too_short` or `unreadable`. Frames hold the index: append only, never reorder."""
GIVEN_REASONS: Final = tuple(reason for reason in REASONS if reason not in ("", "bad_encoding"))
"""The reasons that pages get. `bad_encoding` only keeps its number: no page ever got it."""


class Record(msgspec.Struct, frozen=True):
    """One record of a topic as a log delivers it: a page, a verdict, or a frame of fingerprints.

    Examples:
        >>> from simstream import Record
        >>> Record("pages", 0, 7, b"a", b'{"text": "Too short."}').offset
        7
    """

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()
    timestamp: int = 0
    """ms since 1970."""


def bytes_of(record: Record) -> int:
    """Return the bytes that a record holds: value, key and headers. Cost: 0.3 us, and 0.05 us a header."""
    size = len(record.value or b"") + len(record.key or b"")
    return size + sum(len(name) + len(value) for name, value in record.headers)


class Page(msgspec.Struct):
    """One page between decoding and fingerprinting.

    There are three cases. `text` is set; or `raw` holds HTML or plain text as fetched, which still needs decoding
    and extraction; or `kind` already says that there is nothing to compare.
    """

    id: str
    identity: bytes
    """16 bytes: `wire.identity.identity_of` the raw id."""
    offset: int
    time: int
    """ms since 1970."""
    url: str | None = None
    kind: PageKind = PageKind.READABLE
    reason: str = ""
    detail: str = ""
    """A sentence for the dead letter that says what exactly was wrong."""
    text: str | None = None
    raw: bytes | str | None = None
    """HTML as text (from JSON; as Utf8Html where `PageLimits.html_by_kernels` asks for it), or as fetched bytes."""
    content_type: str = ""
    """Media type of `raw`: `text/html` or `text/plain`, with the HTTP charset if it was given."""
    partition: int = 0
    cut: bool = False
    """The text was longer than `max_text_bytes`, and only its beginning was fingerprinted."""
    key_differs: bool = False
    """The Kafka key and the JSON `id` named different pages; the key won."""


@dataclass(frozen=True, slots=True)
class FingerprintColumns:
    """The fingerprints of n successive pages of one source partition, one array a field.

    `ids` and `urls` hold UTF-8, one after another: page i's id is `ids[id_ends[i-1]:id_ends[i]]`. An empty URL
    means that the page has none.
    """

    offset: NDArray[np.int64]  # (n,) source offset
    kind: NDArray[np.uint8]  # (n,) Kind
    reason: NDArray[np.uint8]  # (n,) index into REASONS
    time: NDArray[np.int64]  # (n,) ms since 1970
    identity: U64  # (n, 2)
    fingerprint: U64  # (n,) 0 where the page is not readable
    sketch: U64  # (n, further + sketch bits / 64): the further fingerprints, then the sketch
    words: NDArray[np.uint32]  # (n,) distinct words
    id_ends: NDArray[np.uint32]  # (n,)
    url_ends: NDArray[np.uint32]  # (n,)
    ids: bytes
    urls: bytes

    def __len__(self) -> int:
        return len(self.offset)

    def part(self, start: int, stop: int) -> FingerprintColumns:
        """Return the pages `start:stop`: arrays as views, ids and URLs cut out."""
        id_from, id_to = _span(self.id_ends, start, stop)
        url_from, url_to = _span(self.url_ends, start, stop)
        s = slice(start, stop)
        return FingerprintColumns(
            self.offset[s], self.kind[s], self.reason[s], self.time[s],
            self.identity[s], self.fingerprint[s], self.sketch[s], self.words[s],
            self.id_ends[s] - np.uint32(id_from), self.url_ends[s] - np.uint32(url_from),
            self.ids[id_from:id_to], self.urls[url_from:url_to],
        )  # fmt: skip

    def id_list(self) -> list[str]:
        """Return the n ids as text."""
        return _cut(self.ids, self.id_ends)

    def url_list(self) -> list[str | None]:
        """Return the n URLs as text, None for an empty one."""
        return [url or None for url in _cut(self.urls, self.url_ends)]


def _span(ends: NDArray[np.uint32], start: int, stop: int) -> tuple[int, int]:
    return (int(ends[start - 1]) if start else 0), (int(ends[stop - 1]) if stop else 0)


def _cut(blob: bytes, ends: NDArray[np.uint32]) -> list[str]:
    start, out = 0, []
    for end in ends.tolist():
        out.append(blob[start:end].decode())
        start = end
    return out


class MatchLimits(NamedTuple):
    """The limits within which two pages match."""

    distance: int
    """Greatest Hamming distance."""
    agreement: int
    """Least number of agreeing sketch bits; 0 without a sketch."""


class PageSource(msgspec.Struct, frozen=True):
    """Where a page came from: a record of a topic, a line of a file, or a page of a program.

    Examples:
        >>> with Deduper() as deduper:
        ...     [verdict] = deduper.judge(["Too short to compare."])
        >>> verdict.source
        PageSource(topic='python', partition=0, offset=0)
    """

    topic: str
    """The topic, the file, or `python`."""
    partition: int
    offset: int


class Verdict(msgspec.Struct, frozen=True):
    """One verdict on one page. The fields and their order are those of a record of the topic `verdicts`.

    Examples:
        >>> story = "The night train stops at the mill village again after forty years, before dawn."
        >>> with Deduper() as deduper:
        ...     first, second = deduper.judge([{"id": "a", "text": story}, {"id": "b", "text": story.upper()}])
        >>> second.verdict, second.near_duplicate_of, second.distance, second.similarity
        ('near_duplicate', 'a', 0, 1.0)
        >>> first.cluster_id == second.cluster_id, second.canonical
        (True, 'a')
    """

    id: str
    """The page's id: its own, its URL, or its place."""
    url: str | None
    """Its address, if it has one."""
    verdict: VerdictKind
    """`new`, `near_duplicate`, `unchanged`, `too_short`, `unreadable` or `withdrawn`."""
    reason: str | None
    """Why the page is `too_short` or `unreadable`."""
    near_duplicate_of: str | None
    """The id of the closest live page that matches, or None."""
    distance: int | None
    """The Hamming distance of the closest lookups of two pages, in bits of 64: fingerprints, words of sketches."""
    similarity: float | None
    """The similarity of the two sketches, from 0 to 1, rounded to 4 decimals; empty without a match or a sketch."""
    cluster_id: str | None
    """The cluster that the page belongs to, a decimal number."""
    canonical: str | None
    """The id of the cluster's oldest live page."""
    merged_clusters: tuple[str, ...]
    """The ids of clusters that this page joined to its own; they are not used again."""
    fingerprint: str | None
    """16 hex digits for each fingerprint of the page."""
    policy: str
    """The id of the policy: recipe, lookups by the sketch, distance, similarity, window and link."""
    ordinal: int
    """The number of the verdict, from 0."""
    time: int
    """The page's time, ms since 1970."""
    source: PageSource
    """The record or line that the page came from."""
