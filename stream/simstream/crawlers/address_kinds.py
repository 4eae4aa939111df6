"""Groups addresses by kind, and counts the new pages that each kind has brought. Knows nothing of Scrapy."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import astuple, dataclass
from urllib.parse import parse_qsl, urlsplit

MAX_KINDS = 10_000
"""At most so many kinds and families are remembered. The longest unused one is forgotten first; later it is
tried again."""
FAMILY_TRIALS = 8
"""A family has so many times the trials of a kind, since on some sites every page has a kind of its own."""
PAGES_A_TRIAL = 4
"""A kind has one trial for so many new pages, but never less than its least number."""
PROBE_EVERY = 8
"""One in so many links of a given-up kind on new pages is fetched nevertheless."""
MAX_KIND_CHARS = 300
MAX_NAME = 16
"""A longer segment or value is a title."""
UNREADABLE = "? ?"
"""The kind of an address that cannot be parsed."""
_NUMBER = re.compile(r"\d+")


def kind_of(url: str, with_name: bool = False, with_words: bool = False) -> str:
    """Return the kind of an address: host, path and names of parameters, without numbers, names and titles.

    `https://a.example/2026/03/some-long-title?page=2` is `a.example/# #/*?page`. The part before the space is the
    family. `with_name`: a short name at the path's end stays, such as `view.php`. `with_words`: so does the value
    of a parameter that is a short word, such as `do=view`. About 5 us.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        return UNREADABLE
    segments = [segment for segment in parts.path.split("/") if segment]
    last = -1 if with_name else len(segments) - 1
    path = [_mask(segment, number == last) for number, segment in enumerate(segments)]
    query = parse_qsl(parts.query, keep_blank_values=True)
    names = sorted({f"{name}={value}" if with_words and _is_word(value) else name for name, value in query})
    return f"{parts.netloc.lower()}/{''.join(path[:1])} {'/'.join(path[1:])}?{'&'.join(names)}"[:MAX_KIND_CHARS]


def _mask(segment: str, last: bool) -> str:
    """Return a segment of a path without its numbers, or `*` for a name or a title."""
    masked, numbers = _NUMBER.subn("#", segment)
    if numbers:
        return masked if numbers <= 2 and len(masked) <= 12 else "*"
    return "*" if last or len(segment) > MAX_NAME or segment.count("-") > 1 else segment


def _is_word(value: str) -> bool:
    return 0 < len(value) <= MAX_NAME and value.replace("-", "").replace("_", "").isalpha()


@dataclass(slots=True)
class _KindRecord:
    new: int = 0
    """New pages of this kind, and new pages that links of this kind led to."""
    wasted: int = 0
    """Near duplicates in a row since the last new page."""
    copies: int = 0
    """Near duplicates in a row without a link of their own, since the last new page."""
    held_back: int = 0
    """Links on new pages that came while the kind was given up, over the whole crawl."""


class KindYields:
    """Counts new pages and near duplicates by kind of address, and says how many more of a kind are worth a fetch.

    An index page of an archive may be a near duplicate of the index page before it. It is still worth a fetch if it
    leads to a new page. So a new page counts for every kind on the way to it, back to the last page that was not a
    near duplicate. Memory: at most MAX_KINDS records.
    """

    def __init__(self, least: int) -> None:
        """`least`: a kind without a new page is given up after so many near duplicates in a row."""
        self._least = least
        self._records: OrderedDict[str, _KindRecord] = OrderedDict()

    def __len__(self) -> int:
        return len(self._records)

    def count_new(self, kinds: Iterable[str]) -> None:
        """Count a new page for its own kind and for the kinds of the near duplicates that led to it."""
        for name in {name for kind in kinds for name in (kind, _family(kind))}:
            record = self._record(name)
            record.new += 1
            record.wasted = record.copies = 0

    def count_duplicate(self, kind: str) -> None:
        """Count a page of this kind that was a near duplicate."""
        for name in (kind, _family(kind)):
            self._record(name).wasted += 1

    def take_back(self, kind: str) -> None:
        """Count a page of this kind, the last one, as no near duplicate after all."""
        for name in (kind, _family(kind)):
            record = self._record(name)
            record.wasted = max(0, record.wasted - 1)

    def count_links(self, kind: str, has_own: bool) -> None:
        """Count a near duplicate that a new page led to. `has_own`: it has a link that the new page lacks."""
        record = self._record(kind)
        record.copies = 0 if has_own else record.copies + 1

    def is_copied(self, kind: str) -> bool:
        """Return whether the kind is given up on new pages, too: its last pages had nothing of their own."""
        record = self._records.get(kind)
        return record is not None and record.copies >= self._most_wasted(record)

    def holds_back(self, kind: str) -> bool:
        """Return whether a link of this kind on a new page has to wait.

        Every PROBE_EVERYth link is tried at once.
        """
        if not self.is_copied(kind):
            return False
        record = self._record(kind)
        record.held_back += 1
        return record.held_back % PROBE_EVERY != 0

    def is_proven(self, kind: str) -> bool:
        """Return whether the last page of the kind was new, or led to a new page."""
        record = self._records.get(kind)
        return record is not None and record.new > 0 and record.wasted == 0

    def trials(self, kind: str) -> int:
        """Return how many more near duplicates in a row the kind may have; 0: it is given up."""
        record = self._records.get(kind, _KindRecord())
        left = self._most_wasted(record) - record.wasted
        if not record.new:
            left = min(left, self._least * FAMILY_TRIALS - self._records.get(_family(kind), _KindRecord()).wasted)
        return max(0, left)

    def records(self) -> list[tuple[str, tuple[int, ...]]]:
        """Return the counts, for `restore`."""
        return [(name, astuple(record)) for name, record in self._records.items()]

    def restore(self, records: Iterable[tuple[str, tuple[int, ...]]]) -> None:
        """Begin with the counts of an earlier process."""
        for name, counts in records:
            self._records[name] = _KindRecord(*counts)

    def _most_wasted(self, record: _KindRecord) -> int:
        return max(self._least, record.new // PAGES_A_TRIAL)

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
