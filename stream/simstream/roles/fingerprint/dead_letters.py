"""Builds the dead letter of an unreadable page: its record, the error and its place."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final, Literal

import msgspec

from simstream.errors import RecordTooLarge
from simstream.log.base import Appender
from simstream.model import Page, Record
from simstream.wire.page_headers import FORMAT_NUMBER

MAX_KEPT_BYTES = 64 << 10
"""The bytes that a dead letter keeps if the whole does not fit: of the key, and of headers and value together."""
_HEADER_ROOM: Final = 10
"""The most bytes that Kafka adds to a header's name and value: their lengths."""
PREFIX = "simstream-"
"""The prefix of all headers that simstream adds: a page may have its own header `error`."""
OLD_ORIGIN = ("error", "error-class", "source-topic", "source-partition", "source-offset")
"""The names of the added headers in earlier versions, without the prefix."""
CUT = PREFIX + "cut"
"""One more header if the record did not fit: how many bytes its value had."""
_logger = logging.getLogger("simstream.fingerprint")


class LetterHeaders(msgspec.Struct, frozen=True, rename=lambda field: PREFIX + field.replace("_", "-")):
    """The headers that are added, in this order, behind the page's own: of two with one name the last counts."""

    format: Literal["1"]
    """The number of the record's format."""
    error: str
    """A sentence on what is wrong with the page."""
    error_class: str
    """The `reason` of the page's verdict."""
    source_topic: str
    """The topic that the record was read from."""
    source_partition: str
    """The partition that the record was read from, a decimal number."""
    source_offset: str
    """The record's offset there, a decimal number."""
    cut: str | msgspec.UnsetType = msgspec.UNSET
    """If the record did not fit: how many bytes its value had, a decimal number. The value is its beginning."""


ORIGIN = LetterHeaders.__struct_encode_fields__[:-1]
"""The headers that every letter has."""


def append(dead: Appender, record: Record, page: Page) -> int:
    """Append the record of an unreadable page, and return its number in this appender.

    A record that the topic does not admit is cut, and the error header says so: headers that fit stay. One that
    does not fit even then is lost, which a log line says; its number is 0. Raises DeliveryFailed.
    """
    note = page.detail or page.reason
    _logger.debug("partition %d, offset %d is unreadable: %s", record.partition, record.offset, note)
    try:
        headers = [*record.headers, *_origin(record, page, note)]
        return dead.append(record.value, key=record.key, headers=headers, partition=0)
    except RecordTooLarge:
        note = f"{note} (cut: the record of {len(record.value or b'')} bytes does not fit)"
        own, left = _fitting(record.headers)
        value, key = record.value and record.value[:left], record.key and record.key[:MAX_KEPT_BYTES]
        headers = [*own, *_origin(record, page, note), (CUT, b"%d" % len(record.value or b""))]
        try:
            return dead.append(value, key=key, headers=headers, partition=0)
        except RecordTooLarge as error:
            _tell_lost(error)
            return 0


def _fitting(headers: Sequence[tuple[str, bytes]]) -> tuple[list[tuple[str, bytes]], int]:
    """Return the headers that fit in MAX_KEPT_BYTES together, and the number of bytes that are left."""
    fitting, left = [], MAX_KEPT_BYTES
    for name, value in headers:
        if (size := len(name.encode()) + len(value) + _HEADER_ROOM) <= left:
            fitting.append((name, value))
            left -= size
    return fitting, left


def _tell_lost(error: RecordTooLarge) -> None:
    _logger.error("a dead letter is lost, since the topic does not admit it: %s", error.what)


def _origin(record: Record, page: Page, note: str) -> list[tuple[str, bytes]]:
    values = (
        FORMAT_NUMBER,
        note.encode("utf-8", "replace"),
        page.reason.encode(),
        record.topic.encode(),
        b"%d" % record.partition,
        b"%d" % record.offset,
    )
    return list(zip(ORIGIN, values, strict=True))


def skip_refused(look: Callable[[], int]) -> int:
    """Return the count that `look` returns; pass over dead letters that only the broker refuses.

    A broker refuses one if the topic's limit was lowered while the role runs. The page still gets its verdict, and
    a log line says that its dead letter is lost.
    """
    while True:
        try:
            return look()
        except RecordTooLarge as error:
            _tell_lost(error)
