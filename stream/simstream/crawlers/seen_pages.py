"""Remembers what a crawl has fetched: which clusters, and which names in addresses. Knows nothing of Scrapy."""

from __future__ import annotations

import re
import zlib
from collections import OrderedDict
from collections.abc import Iterable
from hashlib import blake2b
from typing import Final
from urllib.parse import unquote, urlsplit

from simstream.crawlers.address_kinds import kind_of
from simstream.model import Verdict, VerdictKind

MAX_CLUSTERS: Final = 200_000
"""The pages of so many last clusters are remembered: 30 MB. A page of a forgotten one counts as the first again."""
_PLACE_BITS: Final = 26
_NUMBER: Final = re.compile(r"\d+")
COPIES: Final = "copies of pages: "
"""The first part of the kind of links that wait although they stand on new pages."""
_MARKS: Final = "seen:", "named:"
_MARK: Final = re.compile(f"^({COPIES})?(?:{'|'.join(_MARKS)})")


class SeenSet:
    """A set of byte strings: a Bloom filter of 8 MB.

    It mistakes some others for members: 1 in 1,000 after a million strings, 7 in 100 after ten million.
    """

    def __init__(self) -> None:
        self._bits = bytearray(1 << (_PLACE_BITS - 3))

    def add(self, name: bytes) -> None:
        """Remember a string."""
        for place in self._places(name):
            self._bits[place >> 3] |= 1 << (place & 7)

    def __contains__(self, name: bytes) -> bool:
        return all(self._bits[place >> 3] >> (place & 7) & 1 for place in self._places(name))

    def record(self) -> bytes:
        """Return the set, for `restore`: some KB after a small crawl, at most 8 MB."""
        return zlib.compress(self._bits, 1)

    def restore(self, record: bytes) -> None:
        """Begin with the set of an earlier process."""
        self._bits = bytearray(zlib.decompress(record))

    def _places(self, name: bytes) -> tuple[int, int]:
        mask = (1 << _PLACE_BITS) - 1
        number = int.from_bytes(_digest(name), "little")
        return number & mask, number >> _PLACE_BITS & mask


class SeenClusters:
    """Remembers the first page of each cluster in this crawl.

    A verdict alone does not tell a copy: its other page may be of an earlier crawl, and no link of this crawl leads
    there, such as one with an old session number.
    """

    def __init__(self) -> None:
        self._first: OrderedDict[str, bytes] = OrderedDict()

    def is_copy(self, verdict: Verdict) -> bool:
        """Return whether this crawl has seen the page's text at another address. Remembers the page."""
        clusters = [name for name in (verdict.cluster_id, *verdict.merged_clusters) if name is not None]
        if not clusters:
            return False
        own = _digest(verdict.id.encode("utf-8", "surrogatepass"))
        known = next((self._first[name] for name in clusters if name in self._first), own)
        self._first[clusters[0]] = known
        self._first.move_to_end(clusters[0])
        if len(self._first) > MAX_CLUSTERS:
            self._first.popitem(last=False)
        return known != own and verdict.verdict != VerdictKind.NEW

    def records(self) -> list[tuple[str, bytes]]:
        """Return what is remembered, for `restore`."""
        return list(self._first.items())

    def restore(self, records: Iterable[tuple[str, bytes]]) -> None:
        """Begin with what an earlier process remembered."""
        self._first.update(records)


class SeenNames:
    """Cuts kinds of addresses in three: pages whose path was fetched, whose name was, and all others.

    Session numbers make many addresses of a page that was fetched. They must not use up the trials of the same kind
    for pages that nobody has seen, such as those that only an archive links to. Nor may articles whose print pages
    were fetched first use up those of other articles.
    """

    def __init__(self) -> None:
        self.seen = SeenSet()

    def add(self, url: str) -> None:
        """Remember a fetched address."""
        for name in (_address(url), *_names_of(url)):
            self.seen.add(name)

    def has(self, url: str) -> bool:
        """Return whether this address was fetched."""
        return _address(url) in self.seen

    def kind_of(self, url: str) -> str:
        """Return the kind of an address (`address_kinds.kind_of`), with a mark before its host. About 8 us."""
        for mark, name in zip(_MARKS, _names_of(url), strict=False):
            if name in self.seen:
                return mark + kind_of(url)
        return kind_of(url)


def _digest(name: bytes) -> bytes:
    """Return a hash that is the same in every process."""
    return blake2b(name, digest_size=8).digest()


def unmarked(kind: str) -> str:
    """Return a kind without the mark of SeenNames."""
    return _MARK.sub(r"\1", kind)


def _address(url: str) -> bytes:
    return url.partition("#")[0].encode("utf-8", "surrogatepass")


def _names_of(url: str) -> list[bytes]:
    """Return host and path of an address, and host and name: the numbers in the path's last part, or that part."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return []
    host, path = parts.netloc.lower(), unquote(parts.path).rstrip("/")
    last = path.rpartition("/")[2]
    name = "-".join(_NUMBER.findall(last)) or last.partition(".")[0]
    found = [f"{host} {path}"] + ([f"{host}#{name}"] if name else [])
    return [one.encode("utf-8", "surrogatepass") for one in found]
