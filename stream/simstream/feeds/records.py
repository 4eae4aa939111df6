"""The entries of the feed's table: newest versions, merges of clusters, waiting pages, pages left out.

The key of an entry begins with its kind. No entry depends on another one. So after a crash, whatever part of the
table is left, the records that come again from the topics repair it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import msgspec

NOWHERE = -1
"""The cluster of a page that has left."""


class PageVersion(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A page's newest version, by its newest verdict. Times are in ms since 1970."""

    ordinal: int
    time: int
    stream_time: int
    """The feed's, once this had come."""
    cluster: int = NOWHERE
    """As the verdict named it; merges since are on record apart."""
    joined: int = 0
    """Ordinal with which the page came into its cluster: what `unchanged` says later leaves it."""
    first: int = 0
    """Time of the version that did."""
    verdict: str = ""
    """As what the page came in: `new`, `near_duplicate`, or `unchanged` where the feed did not know it."""
    like: str | None = None
    similarity: float | None = None
    url: str | None = None
    source: str = ""
    """Where the page's record lies, see `place`."""
    title: str = ""
    awaits_title: bool = False
    """The record of this version is still to be read; `title` is that of the one before, or empty."""
    doubts: tuple[str, ...] = ()
    """Error pages fetched since, of which only their records say whether the page is gone."""
    is_list: bool = False
    """Whether the page is a list of links; False as long as its record has not been read."""

    @property
    def is_live(self) -> bool:
        """Whether the page still belongs to a cluster."""
        return self.cluster != NOWHERE

    @property
    def is_shown(self) -> bool:
        """Whether the page belongs to a story: a list of links does not."""
        return self.is_live and not self.is_list


class ClusterMerge(msgspec.Struct, frozen=True, gc=False):
    """A cluster went into another; `time` is the feed's stream time when it heard of it."""

    into: int
    time: int


class PageSheet(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What the page's own record says of it."""

    title: str
    time: int
    gone: bool = False
    """It was answered with status 404 or 410."""
    is_list: bool = False
    """Whether the page is a list of links."""


class LeftOutCounts(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Counts the pages that the feed has left out since it began with this log."""

    too_old: int = 0
    """Pages that were older than the window when they came."""
    too_many: int = 0
    """Pages that left within the window, because there were more pages than the feed holds."""
    untitled: int = 0
    """Pages whose records never came: each shows its earlier title, or else its address."""
    last: dict[int, int] = {}
    """By partition of `verdicts` the ordinal of the last page that was too old: a repeated page counts once."""


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
    """The name of a place in `pages`."""
    return f"{partition}/{offset}"


def parts(name: str) -> tuple[int, int]:
    """Partition and offset of such a name. Raises ValueError."""
    partition, _, offset = name.partition("/")
    return int(partition), int(offset)


def version_key(page_id: str) -> str:
    """Where a page's version is kept."""
    return f"v{page_id}"


def merge_key(cluster: int) -> str:
    """Where a cluster's merge into another is kept."""
    return f"m{cluster}"


def sheet_key(source: str) -> str:
    """Where the sheet of a page without verdict is kept."""
    return f"s{source}"


def entries(table: Mapping[str, bytes]) -> Iterator[tuple[str, Entry]]:
    """All entries of a table, decoded, with what follows the kind in their keys. Raises msgspec.MsgspecError."""
    for key, value in list(table.items()):
        yield key[1:], _decoders[key[0]](value)
