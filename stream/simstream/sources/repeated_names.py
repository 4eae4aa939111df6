"""Decides whether a repeated id in files names a page everywhere, or only within its file."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from typing import Final

import msgspec

from simstream.model import MAX_ID_BYTES, U64, Record
from simstream.sources.name_origins import NameOrigins
from simstream.sources.page_origins import hash64, lasting_origin
from simstream.wire.identity_hash import replace_bad_id

_MAX_PART_BYTES: Final = 900
"""The length of key and path in a long name; two such parts, their hashes and a line number fit into an id."""


class NameNotes:
    """What `PageNames.separate` found out about its records, until `take` takes it over: 17 bytes a record."""

    def __init__(self) -> None:
        self._pairs = array("Q")
        """For each record, the hashes of its name, and of input and text."""
        self._renamed = bytearray()

    def add(self, name: int, origin: int, renamed: bool) -> None:
        """Note the next record."""
        self._pairs.append(name)
        self._pairs.append(origin)
        self._renamed.append(renamed)

    def take(self, records: int) -> tuple[bytes, int]:
        """Return the hashes of the next records as bytes, and how many of these have another name than before."""
        pairs, repeated = self._pairs[: 2 * records].tobytes(), sum(self._renamed[:records])
        del self._pairs[: 2 * records], self._renamed[:records]
        return pairs, repeated


class PageNames:
    """Tells different pages of one name apart.

    Two records of one name are versions of one page only if both have the same text and come from one input. Every
    other record with a known name is another page; `repeated` counts these records. Memory: about 20 bytes a name.
    Cost: 5 us a record of 1 KB; for a longer one that of `origin_of` besides.
    """

    def __init__(self, origin_of: Callable[[Record], int] = lasting_origin) -> None:
        """`origin_of` must be `lasting_origin` if another process may take up the notes."""
        self.repeated = 0
        self.notes: NameNotes | None = None
        self._last = 0, 0
        """The hashes of the last name that was looked up."""
        self._origins = NameOrigins()
        self._origin_of = origin_of

    def separate(self, records: Iterable[Record]) -> Iterator[Record]:
        """Yield the records in order. Another page of a known name gets the name `NAME@PLACE`."""
        for record in records:
            if renamed := not self.is_free(record):
                self.repeated += 1
                others = (msgspec.structs.replace(record, key=key) for key in _new_names(record))
                record = next(other for other in others if self.is_free(other))
            if self.notes is not None:
                self.notes.add(*self._last, renamed)
            yield record

    def take_up(self, pairs: U64, repeated: int) -> None:
        """Take over what notes (n, 2) say about the next records, before all others. Cost: 1 us a record."""
        for name, origin in pairs.tolist():
            self._origins.first(name, origin)
        self.repeated += repeated

    def count_repeated(self, records: Iterable[Record], most: int) -> Iterator[Record]:
        """Yield the records unchanged. Counts only until `most` names are known, so that memory is bounded."""
        for record in records:
            if len(self._origins) < most and not self.is_free(record):
                self.repeated += 1
            yield record

    def is_free(self, record: Record) -> bool:
        """Return whether no other page has the record's name. From now on the name belongs to this page."""
        self._last = name, origin = hash64(record.key or b""), self._origin_of(record)
        return self._origins.first(name, origin) == origin


def _new_names(record: Record) -> Iterator[bytes]:
    """Yield the names `KEY@PATH:LINE`, `KEY@PATH:LINE+` and so on.

    Key and path are shortened if the name is too long for an id. A key that is itself no id stays whole.
    """
    key, path = record.key or b"", record.topic.encode()
    is_id = len(key) <= MAX_ID_BYTES and _is_utf8(key)
    for pluses in count():
        line = b":%d" % (record.offset + 1) + b"+" * pluses
        name = key + b"@" + path + line
        if is_id and len(name) > MAX_ID_BYTES:
            name = _shortened(key) + b"@" + _shortened(path) + line
        yield name


def _is_utf8(key: bytes) -> bool:
    try:
        key.decode()
    except UnicodeDecodeError:
        return False
    return True


def _shortened(part: bytes) -> bytes:
    return part if len(part) <= _MAX_PART_BYTES else replace_bad_id(part, _MAX_PART_BYTES).encode()
