"""Defines the entries of the news page's table: newest versions, merges of clusters, waiting pages, pages left out.

The key of an entry begins with its kind. No entry depends on another. So after a crash, the records that come again
from the topics repair any part of the table that is left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import msgspec

NOWHERE = -1
"""Stands for the cluster of a page that has left."""


GONE = "-1/-1"
"""The place of a record whose topic is gone."""


class PageVersion(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A page's newest version, by its newest verdict. Times are in ms since 1970."""

    ordinal: int
    time: int
    stream_time: int
    """The news page's stream time after this version."""
    cluster: int = NOWHERE
    """The cluster that the verdict named; later merges are separate entries."""
    joined: int = 0
    """The ordinal with which the page came into its cluster; `unchanged` verdicts keep it."""
    first: int = 0
    """The time of the version with that ordinal."""
    judged: int = 0
    """The time at which the verdict with that ordinal was written; 0 in entries of an earlier checkout."""
    verdict: str = ""
    """The verdict with which the page came: `new`, `near_duplicate`, or `unchanged` if it was not known here."""
    like: str | None = None
    similarity: float | None = None
    url: str | None = None
    source: str = ""
    """The place of the page's record, see `place`."""
    title: str = ""
    awaits_title: bool = False
    """Whether the record of this version was not read yet. Then `title` is the earlier one, or empty."""
    doubts: tuple[str, ...] = ()
    """Later error pages; only their records say whether the page is gone."""
    is_list: bool = False
    """Whether the page is a list of links; False until its record was read."""

    @property
    def is_live(self) -> bool:
        """Whether the page still belongs to a cluster."""
        return self.cluster != NOWHERE

    @property
    def is_shown(self) -> bool:
        """Whether the page belongs to a story. A list of links does not."""
        return self.is_live and not self.is_list


class ClusterMerge(msgspec.Struct, frozen=True, gc=False):
    """A merge of a cluster into another. `time` is the news page's stream time when it came."""

    into: int
    time: int


class PageSheet(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What a page's own record says about the page."""

    title: str
    time: int
    gone: bool = False
    """Whether it was answered with status 404 or 410."""
    is_list: bool = False
    """Whether the page is a list of links."""
    page_id: str = ""
    """The page's id; empty in entries of an earlier version, and if it is not known."""

    def may_be_of(self, page_id: str) -> bool:
        """Whether this can be the record of this page. It is another's if verdicts are of a topic that is gone."""
        return self.page_id in ("", page_id)


class LeftOutCounts(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Counts the pages that were left out since the news page began with this log, and notes that it caught up."""

    too_old: int = 0
    """Pages that were older than the window when they came."""
    too_many: int = 0
    """Pages that left within the window, since the news page was full."""
    untitled: int = 0
    """Pages whose records never came: each shows its earlier title, or else its address."""
    last: dict[int, int] = {}
    """The ordinal of the last page that was too old, by partition of `verdicts`: a repeated page counts once."""
    was_up_to_date: bool = False
    """Whether the news page was ever up to date with this log. Until then, its stories are no news."""


Entry = PageVersion | ClusterMerge | PageSheet | LeftOutCounts
COUNTS_KEY = "c"
_json = msgspec.json.Encoder()
_decoders: dict[str, Callable[[bytes], Entry]] = {
    "v": msgspec.json.Decoder(PageVersion).decode,
    "m": msgspec.json.Decoder(ClusterMerge).decode,
    "s": msgspec.json.Decoder(PageSheet).decode,
    "c": msgspec.json.Decoder(LeftOutCounts).decode,
}
encode = _json.encode


def place(partition: int, offset: int) -> str:
    """Return the name of a place in `pages`."""
    return f"{partition}/{offset}"


def parts(name: str) -> tuple[int, int]:
    """Return partition and offset of the name of a place. Raises ValueError."""
    partition, _, offset = name.partition("/")
    return int(partition), int(offset)


def version_key(page_id: str) -> str:
    """Return the key of a page's version."""
    return f"v{page_id}"


def merge_key(cluster: int) -> str:
    """Return the key of a cluster's merge into another."""
    return f"m{cluster}"


def sheet_key(source: str) -> str:
    """Return the key of the sheet of a page without verdict."""
    return f"s{source}"


def entries(table: Mapping[str, bytes]) -> Iterator[tuple[str, Entry]]:
    """Yield all entries of a table, decoded, with the rest of their keys after the kind.

    Raises msgspec.MsgspecError.
    """
    for key, value in list(table.items()):
        yield key[1:], _decoders[key[0]](value)
