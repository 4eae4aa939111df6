"""Remembers what a crawl has fetched: which clusters, and which names in addresses. Knows nothing of Scrapy."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterable
from hashlib import blake2b
from typing import Final, NamedTuple
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlsplit

from simstream.crawlers.address_kinds import MAX_KIND_CHARS, MAX_KINDS, kind_of
from simstream.model import Verdict, VerdictKind

MAX_CLUSTERS: Final = 200_000
"""The pages of so many last clusters are remembered: 50 MB. A page of a forgotten one counts as the first again."""
_PLACE_BITS: Final = 26
_NUMBER: Final = re.compile(r"\d+")
COPIES: Final = "copies of pages: "
"""The first part of the kind of links that wait although they stand on new pages."""
_SESSION: Final = re.compile(r";[^/]*")
"""Parameters of a path's segment, such as `;jsessionid=4`."""
_MARK: Final = re.compile(rf"^({COPIES})?(?:(?:seen:|named:)(.*)|value:(.*) \+\S*)$")
MAX_PROGRAMS: Final = 8
"""So many names before a `?`, or words behind it, are kinds of their own. If a kind has more, they are titles."""
MAX_PARAMETERS: Final = 32
"""An address with more parameters counts as one without host and path."""


class SeenSet:
    """A set of byte strings: a Bloom filter of 8 MB.

    It mistakes some others for members: 1 in 1,000 after a million strings, 7 in 100 after ten million.
    """

    def __init__(self) -> None:
        self.bits = bytearray(1 << (_PLACE_BITS - 3))
        """The filter. An earlier process may have filled it."""

    def add(self, name: bytes) -> None:
        """Remember a string."""
        for place in self._places(name):
            self.bits[place >> 3] |= 1 << (place & 7)

    def __contains__(self, name: bytes) -> bool:
        return all(self.bits[place >> 3] >> (place & 7) & 1 for place in self._places(name))

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

    Session numbers make many addresses of one page. If these shared trials with pages that nobody has seen, they
    would use them up, and so would articles whose print pages were fetched first. If the path was fetched, the
    parameters count whose value it never had: `?id=45&sid=3` may be an article, where `?id=17&sid=3` is none. A few
    programs, such as `view.php` and `print.php` or `?do=view` and `?do=print`, are kinds of their own; many names
    are titles of pages.
    """

    def __init__(self) -> None:
        self.seen = SeenSet()
        self._programs: OrderedDict[str, set[str]] = OrderedDict()
        """By kind of addresses with a query: the same kind with its names, or words, until these are too many."""

    def add(self, url: str) -> None:
        """Remember a fetched address."""
        names = _names_of(url)
        for name in (names.path, names.last, *names.values.values()):
            self.seen.add(name)

    def kind_of(self, url: str) -> str:
        """Return the kind of an address (`address_kinds.kind_of`), with a mark before its host.

        Behind it stand the parameters with a new value. The family has the mark, but not these.
        Cost: about 7 us, and 20 for an address with parameters.
        """
        names = _names_of(url)
        kind = self._with_program(url) if names.values else kind_of(url)
        if names.path not in self.seen:
            return ("named:" if names.last in self.seen else "") + kind
        new = [quote(name, safe="") for name, value in names.values.items() if value not in self.seen]
        return f"value:{kind} +{','.join(sorted(new))[:MAX_KIND_CHARS]}" if new else f"seen:{kind}"

    def _with_program(self, url: str) -> str:
        """Return the kind of an address with a query, with the name before it and words in it if these are few."""
        kind = kind_of(url)
        for with_words in (False, True):
            finer = kind_of(url, with_name=True, with_words=with_words)
            names = self._programs.setdefault(kind, set())
            if len(names) <= MAX_PROGRAMS:
                names.add(finer)
            if len(self._programs) > MAX_KINDS:
                self._programs.popitem(last=False)
            if len(names) > MAX_PROGRAMS:
                break
            kind = finer
        return kind


class LedTo:
    """Tells a copy that lists other pages from one that is only another form of a page.

    The pages of an archive may be copies of each other, as they share an introduction, and lead to articles that
    other pages lead to as well, until one of them leads to a new one. Another form of a page leads where the page
    leads. A calendar leads to more of itself, which is copies alone.
    """

    def __init__(self) -> None:
        self.originals = SeenSet()
        self.from_cluster = SeenSet()

    def has_own(self, url: str, cluster: str, is_copy: bool, links: Iterable[bytes]) -> bool:
        """Remember a page and its links (`link_names`). Returns whether it is a copy with a link to a page that is
        none, and that no page with its text had."""
        if not is_copy:
            for name in link_names(url):
                self.originals.add(name)
        found = False
        for name in links:
            from_cluster = _bytes(cluster) + b" " + name
            found |= name in self.originals and from_cluster not in self.from_cluster
            self.from_cluster.add(from_cluster)
        return is_copy and found


def link_names(url: str) -> list[bytes]:
    """Return what makes a link different from others: its path, and the value of each parameter."""
    names = _names_of(url)
    return [names.path, *names.values.values()]


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
    host, path = parts.netloc.lower(), _SESSION.sub("", unquote(parts.path)).rstrip("/")
    last = path.rpartition("/")[2]
    last = "-".join(_NUMBER.findall(last)) or last.partition(".")[0]
    values = {name: _bytes(f"{host} {path}?{name}={value}") for name, value in query}
    return _AddressNames(_bytes(f"{host} {path}"), _bytes(f"{host}#{last}"), values)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _digest(name: bytes) -> bytes:
    """Return a hash that is the same in every process."""
    return blake2b(name, digest_size=8).digest()


def unmarked(kind: str) -> str:
    """Return a kind without the mark of SeenNames."""
    return _MARK.sub(r"\1\2\3", kind)
