"""Builds the dead letter of an unreadable page: its record, the error and its place."""

from __future__ import annotations

import logging
from collections.abc import Callable

from simstream.errors import RecordTooLarge
from simstream.log.base import Appender
from simstream.model import Page, Record

MAX_KEPT_BYTES = 64 << 10
"""What is kept of a key and a value that do not fit into a dead letter."""
PREFIX = "simstream-"
"""The beginning of all headers that simstream adds: a page may have an `error` header of its own."""
OLD_ORIGIN = ("error", "error-class", "source-topic", "source-partition", "source-offset")
"""The names of these headers in earlier versions, without the prefix."""
ORIGIN = tuple(PREFIX + name for name in OLD_ORIGIN)
"""The headers that stand, in this order, behind those of the page itself."""
CUT = PREFIX + "cut"
"""One header more where the record did not fit: how many bytes its value had."""
_log = logging.getLogger("simstream.fingerprint")


def append(dead: Appender, record: Record, page: Page) -> int:
    """Append the record of an unreadable page; cut, with a note, where the topic does not admit all of it.

    Returns its number in this appender. Raises DeliveryFailed.
    """
    note = page.detail or page.reason
    try:
        headers = [*record.headers, *_origin(record, page, note)]
        return dead.append(record.value, key=record.key, headers=headers, partition=0)
    except RecordTooLarge:
        note = f"{note} (cut: the record of {len(record.value or b'')} bytes does not fit)"
        value, key = record.value and record.value[:MAX_KEPT_BYTES], record.key and record.key[:MAX_KEPT_BYTES]
        headers = [*_origin(record, page, note), (CUT, b"%d" % len(record.value or b""))]
        return dead.append(value, key=key, headers=headers, partition=0)


def _origin(record: Record, page: Page, note: str) -> list[tuple[str, bytes]]:
    values = (
        note.encode("utf-8", "replace"),
        page.reason.encode(),
        record.topic.encode(),
        b"%d" % record.partition,
        b"%d" % record.offset,
    )
    return list(zip(ORIGIN, values, strict=True))


def admitted(look: Callable[[], int]) -> int:
    """What `look` says is acknowledged, over dead letters that only the broker refuses.

    That takes a topic whose limit was lowered while we run: the page still gets its verdict, and the log says
    that its dead letter is missing.
    """
    while True:
        try:
            return look()
        except RecordTooLarge as error:
            _log.error("a dead letter is lost, the broker does not admit it: %s", error.what)
