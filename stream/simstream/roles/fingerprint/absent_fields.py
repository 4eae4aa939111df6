"""Finds paths in `[fields]` at which no page has a value of the right type: they cost pages their texts or ids."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from simstream.errors import SettingsError
from simstream.log.base import Log
from simstream.log.options import FINGERPRINTS, PAGES
from simstream.model import Record
from simstream.wire.page import PageLimits, named_fields

MAX_LOOKED_AT: Final = 50
"""The number of pages that are looked at, the first ones of a process."""
SAMPLE_RECORDS: Final = 200
"""The number of records at each end of a topic that are looked at before its first page is read."""
MIN_PAGES: Final = 20
"""With fewer pages, a start is not refused."""
SAMPLE_S: Final = 5.0
"""The most seconds that looking at the first, and at the last records takes."""
CONTENT: Final = ("text", "html")
"""Of these, a page needs a value, with a path or under its own name; an error page needs none."""
_logger = logging.getLogger("simstream.fingerprint")


class AbsentFields:
    """Warns once of each path at which none of the first pages has a value of the right type.

    `text` and `html` are left out: a page without them is unreadable, which is told anyway.
    """

    def __init__(self, limits: PageLimits) -> None:
        self._limits = limits
        self._paths = {} if limits.paths is None else dict(limits.paths.paths)
        self._absent = self._paths.keys() - {"text", "html"}
        self._left = MAX_LOOKED_AT

    def look(self, records: Sequence[Record]) -> None:
        """Look at records until enough have been seen. Decodes each of them once more."""
        for record in records if self._absent else ():
            found = named_fields(record, self._limits)
            if found is None:
                continue
            self._absent -= found.names
            self._left -= 1
            if not self._left:
                for name in sorted(self._absent):
                    _logger.warning(
                        "none of the first %d pages has a value of the right type for fields.%s at %s: "
                        "is the path right?",
                        MAX_LOOKED_AT,
                        name,
                        self._paths[name],
                    )
                self._absent = set()
            if not self._absent:
                return


def refuse_absent_paths(
    log: Log, limits: PageLimits, admit: Callable[[Sequence[Record]], Sequence[Record]]
) -> None:
    """Raise SettingsError if no page of the topic has a text, or a field at its path in the settings.

    Only before the first page of a log is read: later, a stranger's pages must not stop it. It looks at the first
    and the last records of the topic. `admit` returns the records whose schemas are known.
    """
    paths = limits.paths
    if paths is None or any(log.end_offsets(FINGERPRINTS).values()):
        return
    pages, errors, found = 0, 0, set[str]()
    for records in _samples(log):
        for record in admit(records):
            page = named_fields(record, limits)
            if page is not None:
                pages += 1
                errors += page.is_error
                found |= page.names
        if found.issuperset(paths.paths) and found.intersection(CONTENT):
            return
    has_content = bool(found.intersection(CONTENT))
    absent: list[tuple[Sequence[str], int]] = [] if has_content else [(CONTENT, pages - errors)]
    absent += [
        ((name,), pages) for name in paths.paths if name not in found and (has_content or name not in CONTENT)
    ]
    for group, count in absent:
        if count >= MIN_PAGES:
            raise _absence(group, paths.paths, f"none of {count} pages of {log.topic(PAGES).name}")


def _absence(group: Sequence[str], paths: Mapping[str, str], none_of: str) -> SettingsError:
    """Return the error for a group of fields that no page has."""
    where = " or ".join(f"fields.{name} at {paths[name]}" for name in group if name in paths)
    if not where:
        advice = "set fields.text or fields.html to the path of what the pages say"
        return SettingsError(f"{none_of} has a `text` or `html`", advice)
    rest = "" if group in (CONTENT, ("id",)) else ", or leave it out"
    return SettingsError(
        f"{none_of} has a value of the right type for {where}",
        f"correct the path, or send a page that has one first{rest}",
    )


def _samples(log: Log) -> Iterator[list[Record]]:
    """Yield the first records of `pages`, then the last ones."""
    ends, behind = log.end_offsets(PAGES), log.low_watermarks(PAGES)
    each = -(-SAMPLE_RECORDS // max(1, len(ends)))
    for back in (None, each):
        start = behind if back is None else {one: max(behind[one], end - back) for one, end in ends.items()}
        seen, until = 0, time.monotonic() + SAMPLE_S
        with log.open_reader(PAGES, start) as reader:
            while seen < SAMPLE_RECORDS and not reader.passed(ends) and time.monotonic() < until:
                records = reader.poll(SAMPLE_RECORDS - seen, 0.2)
                seen += len(records)
                behind = behind | {record.partition: record.offset + 1 for record in records}
                yield records
