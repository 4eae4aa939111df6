"""Turns the pages of one partition in a batch from records into frames and dead letters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np
from numpy.typing import NDArray

from simstream.model import FingerprintColumns, Page, PageKind, Record, bytes_of
from simstream.setting_groups import FrameSettings
from simstream.text.fingerprinter import Fingerprinter
from simstream.wire import frame as frames
from simstream.wire import page_headers
from simstream.wire.page import PageLimits, decode
from simstream.wire.page_headers import HeaderChoice, Headers

MAX_QUICK_BYTES = 96 << 10
"""The bytes of a quick batch: some 60 pages of text, 3 ms."""


@dataclass(slots=True)
class PartitionFlow:
    """A partition that is being read: where its next frame begins, and whether that frame is its first.

    `running` becomes false when the partition goes or starts again; its batches in work are then dropped.
    """

    partition: int
    next: int
    first: bool
    running: bool = True


@dataclass(frozen=True, slots=True)
class PageShare:
    """Successive records of one flow, decoded. `header` covers all of them."""

    flow: PartitionFlow
    header: frames.FrameHeader
    records: Sequence[Record]
    pages: Sequence[Page]


@dataclass(frozen=True, slots=True)
class ShareBatch:
    """Shares of several partitions, one for each, that are fingerprinted together."""

    shares: Sequence[PageShare]
    pages: int
    bytes: int
    """The bytes of the records."""
    parsed_pages: int
    """The number of pages that another process parses, which may take long."""

    @property
    def partitions(self) -> set[int]:
        """The partitions of its records."""
        return {share.flow.partition for share in self.shares}

    @property
    def is_quick(self) -> bool:
        """Whether another thread is not worth its cost: the batch takes hardly longer than the hand-over."""
        return not self.parsed_pages and self.bytes <= MAX_QUICK_BYTES


@dataclass(frozen=True, slots=True)
class ShareFrames:
    """The frames of a share, and the records that become dead letters."""

    share: PageShare
    frames: Sequence[bytes]
    unreadable: Sequence[tuple[Record, Page]]
    headers_left_out: int = 0
    """The number of headers that were too long to go on to a verdict."""

    @property
    def bytes(self) -> int:
        """The bytes that its frames and dead letters take until they are acknowledged."""
        return sum(map(len, self.frames)) + sum(bytes_of(record) for record, _ in self.unreadable)


class ShareMaker:
    """Makes shares of records, and frames of shares, for one source topic under one recipe."""

    def __init__(
        self,
        fingerprinter: Fingerprinter,
        topic: str,
        topic_id: str,
        limits: PageLimits,
        frame: FrameSettings,
        headers: HeaderChoice | None = None,
    ) -> None:
        """`headers` says which headers of a page go on to its verdict; by default none."""
        self._fingerprinter = fingerprinter
        self._topic = topic
        self._topic_id = topic_id
        self._limits, self._without_kernels = limits, replace(limits, html_by_kernels=False)
        self._frame = frame
        self._headers = headers or HeaderChoice(())

    def decode(self, record: Record) -> Page:
        """Return the record's page. Most of it holds the GIL, so it runs beside threads of kernels, not in them.

        While kernels are compiled, none is called: the caller must not wait for it.
        """
        return decode(record, self._without_kernels if self._fingerprinter.is_compiling else self._limits)

    def is_parsed(self, page: Page) -> bool:
        """Whether another process parses this page, which may take long."""
        return _is_html(page) and self._fingerprinter.recipe.extract != "fast"

    def waits_for_kernels(self, page: Page) -> bool:
        """Whether this page must wait, perhaps for seconds, for kernels that a first start still compiles."""
        return self._fingerprinter.is_compiling and _is_html(page)

    def share(self, flow: PartitionFlow, records: Sequence[Record], pages: Sequence[Page]) -> PageShare:
        """Return the flow's next share, of these records and their decoded pages."""
        return PageShare(flow, self._header(flow, records[-1].offset + 1), records, pages)

    def _header(self, flow: PartitionFlow, to: int) -> frames.FrameHeader:
        """Return the header of a flow's next frame, up to offset `to`. The flow goes on there."""
        header = frames.FrameHeader(
            recipe=self._fingerprinter.recipe_id,
            topic=self._topic,
            topic_id=self._topic_id,
            partition=flow.partition,
            start=flow.next,
            to=to,
            sketch_words=self._fingerprinter.sketch_words,
            first=flow.first,
        )
        flow.next, flow.first = to, False
        return header

    def hole(self, flow: PartitionFlow, to: int) -> bytes:
        """Return a frame without pages: the flow has no further page below offset `to`."""
        header = self._header(flow, to)
        return frames.encode(header, self._fingerprinter.columns([]))

    def make(self, batch: ShareBatch) -> list[ShareFrames]:
        """Fingerprint all shares in one kernel call, and return their encoded frames. Safe in several threads."""
        pages = [page for share in batch.shares for page in share.pages]
        columns = self._fingerprinter.columns(pages)
        made, begin = [], 0
        for share in batch.shares:
            end = begin + len(share.pages)
            own = columns if len(share.pages) == len(pages) else columns.part(begin, end)
            made.append(self._made(share, own))
            begin = end
        return made

    def _made(self, share: PageShare, columns: FingerprintColumns) -> ShareFrames:
        encoded = []
        header, start = share.header, share.header.start
        headers, left_out = self._chosen_headers(share.records)
        more = _header_bytes(share.records, headers) if headers else None
        for begin, end in frames.find_cuts(columns, self._frame.max_pages, self._frame.max_bytes, more):
            to = header.to if end == len(columns) else int(columns.offset[end - 1]) + 1
            first = header.first and begin == 0
            came = frames.group_arrivals([record.timestamp for record in share.records[begin:end]])
            own = {at: headers[at] for at in columns.offset[begin:end].tolist() if at in headers} if headers else {}
            packed = page_headers.pack(own, start)
            part = msgspec.structs.replace(header, start=start, to=to, first=first, came=came, headers=packed)
            encoded.append(frames.encode(part, columns.part(begin, end)))
            start = to
        pairs = zip(share.records, share.pages, strict=True)
        unreadable = [(record, page) for record, page in pairs if page.kind == PageKind.UNREADABLE]
        return ShareFrames(share, encoded, unreadable, left_out)

    def _chosen_headers(self, records: Sequence[Record]) -> tuple[dict[int, Headers], int]:
        """Return the headers that go on, by the offsets of their pages, and how many were left out."""
        chosen: dict[int, Headers] = {}
        left_out = 0
        for record in records:
            if record.headers:
                headers, over = self._headers.choose(record.headers)
                left_out += over
                if headers:
                    chosen[record.offset] = headers
        return chosen, left_out


def _is_html(page: Page) -> bool:
    return page.kind == PageKind.READABLE and page.text is None


def _header_bytes(records: Sequence[Record], headers: Mapping[int, Headers]) -> NDArray[np.int64]:
    """Return the bytes that the headers of each page take in a frame."""
    found = [headers.get(record.offset, ()) for record in records]
    return np.array([sum(len(value) + page_headers.PAIR_BYTES for _, value in one) for one in found], np.int64)


def count_arrivals(shares: Sequence[PageShare]) -> Mapping[int, int]:
    """Count the records of these shares by timestamp in ms."""
    return Counter(record.timestamp for share in shares for record in share.records)
