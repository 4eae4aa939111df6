"""Kinds of addresses, and what the pages of each kind have brought so far. Knows nothing of Scrapy."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlsplit

MAX_KINDS = 10_000
"""Kinds and families that are remembered; the longest unused is forgotten first, and is then tried anew."""
FAMILY_TRIALS = 8
"""Trials of a family are so many times those of a kind: some sites make a new kind with every page."""
PAGES_A_TRIAL = 4
"""A kind that has brought so many new pages, for each trial beyond the least, is given up later."""
MAX_KIND_CHARS = 300
UNREADABLE = "? ?"
"""The kind of what is no address."""
_NUMBER = re.compile(r"\d+")


def kind_of(url: str) -> str:
    """Return the kind of an address: host, path and names of parameters, with what varies left out.

    `https://a.example/2026/03/some-long-title?page=2` is `a.example/# #/*?page`. The part before the space is the
    family. About 5 us.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        return UNREADABLE
    segments = [segment for segment in parts.path.split("/") if segment]
    last = len(segments) - 1
    path = [_mask(segment, number == last) for number, segment in enumerate(segments)]
    names = sorted({name for name, _ in parse_qsl(parts.query, keep_blank_values=True)})
    return f"{parts.netloc.lower()}/{''.join(path[:1])} {'/'.join(path[1:])}?{'&'.join(names)}"[:MAX_KIND_CHARS]


def _mask(segment: str, last: bool) -> str:
    """A part of a path without its numbers; `*` for a name or a title."""
    masked, numbers = _NUMBER.subn("#", segment)
    if numbers:
        return masked if numbers <= 2 and len(masked) <= 12 else "*"
    return "*" if last or len(segment) > 16 or segment.count("-") > 1 else segment


@dataclass(slots=True)
class _KindRecord:
    new: int = 0
    """Pages that were new, of this kind or found by way of it."""
    wasted: int = 0
    """Near duplicates in a row since the last of these."""


class KindYields:
    """What the kinds of addresses have brought, in bounded memory: whether more of a kind is worth fetching.

    An index of an archive is a near duplicate of the one before it, and still worth its fetch if a page that it
    leads to is new: so a new page counts for all kinds on the way to it, back to the last page that was none.
    """

    def __init__(self, least: int) -> None:
        """`least`: near duplicates in a row after which a kind that has brought nothing is given up."""
        self._least = least
        self._records: OrderedDict[str, _KindRecord] = OrderedDict()

    def __len__(self) -> int:
        return len(self._records)

    def count_new(self, kinds: Iterable[str]) -> None:
        """A page was new: its own kind, and those of the near duplicates that led to it."""
        for name in {name for kind in kinds for name in (kind, _family(kind))}:
            record = self._record(name)
            record.new += 1
            record.wasted = 0

    def count_duplicate(self, kind: str) -> None:
        """A page of this kind was a near duplicate."""
        for name in (kind, _family(kind)):
            self._record(name).wasted += 1

    def is_proven(self, kind: str) -> bool:
        """Whether the last page of the kind was new, or led to a new page."""
        record = self._records.get(kind)
        return record is not None and record.new > 0 and record.wasted == 0

    def trials(self, kind: str) -> int:
        """How many more near duplicates in a row the kind may bring; 0: it is given up."""
        record = self._records.get(kind, _KindRecord())
        left = max(self._least, record.new // PAGES_A_TRIAL) - record.wasted
        if not record.new:
            left = min(left, self._least * FAMILY_TRIALS - self._records.get(_family(kind), _KindRecord()).wasted)
        return max(0, left)

    def _record(self, name: str) -> _KindRecord:
        record = self._records.get(name)
        if record is None:
            record = self._records[name] = _KindRecord()
            if len(self._records) > MAX_KINDS:
                self._records.popitem(last=False)
        else:
            self._records.move_to_end(name)
        return record


def _family(kind: str) -> str:
    return kind.partition(" ")[0]
