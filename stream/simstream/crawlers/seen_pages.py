"""Remembers what a crawl has fetched: which clusters, and which names in addresses. Knows nothing of Scrapy."""

from __future__ import annotations

import re
import zlib
from collections import OrderedDict
from collections.abc import Iterable
from hashlib import blake2b
from typing import Final, NamedTuple
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlsplit

from simstream.crawlers.address_kinds import MAX_KIND_CHARS, kind_of
from simstream.model import Verdict, VerdictKind

MAX_CLUSTERS: Final = 200_000
"""The pages of so many last clusters are remembered: 30 MB. A page of a forgotten one counts as the first again."""
_PLACE_BITS: Final = 26
_NUMBER: Final = re.compile(r"\d+")
COPIES: Final = "copies of pages: "
"""The first part of the kind of links that wait although they stand on new pages."""
_MARK: Final = re.compile(rf"^({COPIES})?(?:(?:seen:|named:)(.*)|value:(.*) \+\S*)$")
MAX_PARAMETERS: Final = 32
"""An address with more parameters counts as one without host and path."""


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
        own = _digest(_bytes(verdict.id))
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
    """Cuts kinds of addresses by what is new in them, so that each has trials of its own.

    Session numbers make many addresses of a page that was fetched. They must not use up the trials of the same kind
    for pages that nobody has seen, such as those that only an archive links to. Nor may articles whose print pages
    were fetched first use up those of other articles. If the path was fetched, the parameters count whose value it
    never had: `?id=45&sid=3` may be an article, where `?id=17&sid=3` is none.
    """

    def __init__(self) -> None:
        self.seen = SeenSet()

    def add(self, url: str) -> None:
        """Remember a fetched address."""
        names = _names_of(url)
        for name in (_address(url), names.path, names.last, *names.values.values()):
            self.seen.add(name)

    def has(self, url: str) -> bool:
        """Return whether this address was fetched."""
        return _address(url) in self.seen

    def kind_of(self, url: str) -> str:
        """Return the kind of an address (`address_kinds.kind_of`), with a mark before its host. About 10 us.

        Behind it stand the parameters with a new value. The family has the mark, but not these.
        """
        names = _names_of(url)
        if names.path not in self.seen:
            return ("named:" if names.last in self.seen else "") + kind_of(url)
        new = [quote(name, safe="") for name, value in names.values.items() if value not in self.seen]
        return f"value:{kind_of(url)} +{','.join(sorted(new))[:MAX_KIND_CHARS]}" if new else "seen:" + kind_of(url)


class _AddressNames(NamedTuple):
    """What a crawl remembers of an address, each with its host."""

    path: bytes
    last: bytes
    """The numbers in the path's last part, or that part."""
    values: dict[str, bytes]
    """By parameter: the path with this parameter and its value."""


def _names_of(url: str) -> _AddressNames:
    try:
        parts = urlsplit(url)
        query = parse_qsl(parts.query, keep_blank_values=True, max_num_fields=MAX_PARAMETERS)
    except ValueError:
        parts, query = SplitResult("", "", "", "", ""), []
    host, path = parts.netloc.lower(), unquote(parts.path).rstrip("/")
    last = path.rpartition("/")[2]
    last = "-".join(_NUMBER.findall(last)) or last.partition(".")[0]
    values = {name: _bytes(f"{host} {path}?{name}={value}") for name, value in query}
    return _AddressNames(_bytes(f"{host} {path}"), _bytes(f"{host}#{last}"), values)


def _address(url: str) -> bytes:
    return _bytes(url.partition("#")[0])


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _digest(name: bytes) -> bytes:
    """Return a hash that is the same in every process."""
    return blake2b(name, digest_size=8).digest()


def unmarked(kind: str) -> str:
    """Return a kind without the mark of SeenNames."""
    return _MARK.sub(r"\1\2\3", kind)
