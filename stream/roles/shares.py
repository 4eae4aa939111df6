"""A share: one partition's part of a polled batch, on its way from records to frames and dead letters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from stream.model import Kind, Page, Record
from stream.settings import FrameSettings
from stream.text.fingerprinter import Fingerprinter
from stream.wire import frame as frames
from stream.wire.page import PageLimits, decode


@dataclass(slots=True)
class Flow:
    """A partition that is being read: where its next frame begins, and whether that one is its first.

    `running` ends when the partition goes or starts again; what is still under way for it is then dropped.
    """

    partition: int
    next: int
    first: bool
    running: bool = True


@dataclass(frozen=True, slots=True)
class Share:
    """Successive records of one flow, decoded. `header` covers all of them; `bytes` are their values'."""

    flow: Flow
    header: frames.Header
    records: Sequence[Record]
    pages: Sequence[Page]
    bytes: int

    def came(self) -> Counter[int]:
        """How many of its records have which timestamp, in ms."""
        return Counter(record.timestamp for record in self.records)


@dataclass(frozen=True, slots=True)
class Made:
    """What fingerprinting made of a share."""

    frames: Sequence[bytes]
    unreadable: Sequence[tuple[Record, Page]]
    pages: int
    cut: int
    key_differs: int

    def reasons(self) -> Counter[str]:
        """How many pages are unreadable, by reason."""
        return Counter(page.reason for _, page in self.unreadable)


class ShareMaker:
    """Makes shares of records, and frames of shares, for one source topic under one recipe."""

    def __init__(
        self, fingerprinter: Fingerprinter, topic: str, topic_id: str, limits: PageLimits, frame: FrameSettings
    ) -> None:
        self._fingerprinter = fingerprinter
        self._topic = topic
        self._topic_id = topic_id
        self._limits = limits
        self._frame = frame

    def share(self, flow: Flow, records: Sequence[Record]) -> Share:
        """Decode the flow's next records. Holds the GIL, so it runs beside the kernels' threads, not in them."""
        header = frames.Header(
            recipe=self._fingerprinter.recipe_id,
            topic=self._topic,
            topic_id=self._topic_id,
            partition=flow.partition,
            start=flow.next,
            to=records[-1].offset + 1,
            sketch_words=self._fingerprinter.sketch_words,
            first=flow.first,
        )
        flow.next, flow.first = header.to, False
        pages = [decode(record, self._limits) for record in records]
        return Share(flow, header, records, pages, sum(len(record.value or b"") for record in records))

    def make(self, share: Share) -> Made:
        """Fingerprint and encode. Safe in several threads; the kernels hold no GIL."""
        columns = self._fingerprinter.columns(share.pages)
        encoded = []
        header, start = share.header, share.header.start
        for begin, end in frames.cuts(columns, self._frame.max_pages, self._frame.max_bytes):
            to = header.to if end == len(columns) else int(columns.offset[end - 1]) + 1
            first = header.first and begin == 0
            came = frames.arrivals([record.timestamp for record in share.records[begin:end]])
            part = msgspec.structs.replace(header, start=start, to=to, first=first, came=came)
            encoded.append(frames.encode(part, frames.take(columns, begin, end)))
            start = to
        pairs = zip(share.records, share.pages, strict=True)
        return Made(
            frames=encoded,
            unreadable=[(record, page) for record, page in pairs if page.kind == Kind.UNREADABLE],
            pages=len(share.pages),
            cut=sum(page.cut for page in share.pages),
            key_differs=sum(page.key_differs for page in share.pages),
        )
