"""Watches for paths in `[fields]` at which no page has a value: a misspelt one names every page by its place."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from simstream.model import Record
from simstream.wire.page import PageLimits, named_fields

LOOKED_AT: Final = 50
"""The number of pages that are looked at, the first ones of a process."""
_logger = logging.getLogger("simstream.fingerprint")


class AbsentFields:
    """Warns once of each path at which none of the first pages has a value.

    `text` and `html` are left out: a page without them is unreadable, which is told anyway.
    """

    def __init__(self, limits: PageLimits) -> None:
        self._limits = limits
        self._paths = {} if limits.paths is None else dict(limits.paths.paths)
        self._absent = self._paths.keys() - {"text", "html"}
        self._left = LOOKED_AT

    def look(self, records: Sequence[Record]) -> None:
        """Look at records until enough have been seen. Decodes each of them once more."""
        for record in records if self._absent else ():
            found = named_fields(record, self._limits)
            if found is None:
                continue
            self._absent -= found
            self._left -= 1
            if not self._left:
                for name in sorted(self._absent):
                    _logger.warning(
                        "none of the first %d pages has a value for fields.%s at %s: is the path right?",
                        LOOKED_AT,
                        name,
                        self._paths[name],
                    )
                self._absent = set()
            if not self._absent:
                return
