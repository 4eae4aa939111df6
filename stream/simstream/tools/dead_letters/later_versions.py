"""Finds out which pages of dead letters have come again since: to send such a page would undo its newer version."""

from __future__ import annotations

from collections.abc import Iterable

from simstream.log.base import Log
from simstream.log.committed_records import committed
from simstream.log.options import PAGES
from simstream.model import Record
from simstream.tools.dead_letters.letters import MAX_POLL_RECORDS, DeadLetter
from simstream.wire.identity_hash import identity_of
from simstream.wire.page import PageLimits, decode


class LaterVersions:
    """The last places of the pages of letters, in the partitions where these pages were read."""

    def __init__(self, log: Log, letters: Iterable[DeadLetter], limits: PageLimits) -> None:
        """Read `pages` from the first page of these letters on. `limits` say how a page without a key is named.

        Memory: an identity for each letter. Raises BrokerUnreachable, and RegistryFailed as `limits_of`.
        """
        self._limits = limits
        self._lows = log.low_watermarks(PAGES)
        self._last: dict[tuple[int, bytes], int] = {}
        starts = log.end_offsets(PAGES)
        for letter in letters:
            name = self._name(letter.page)
            self._last[name] = max(letter.source_offset, self._last.get(name, 0))
            if letter.source_offset < starts.get(letter.source_partition, 0):
                starts[letter.source_partition] = letter.source_offset
        for records in committed(log, PAGES, MAX_POLL_RECORDS, starts):
            for record in records:
                name = self._name(record)
                if name in self._last:
                    self._last[name] = max(record.offset, self._last[name])

    def has(self, letter: DeadLetter) -> bool | None:
        """Return whether the page of this letter has come again.

        None: nobody knows. Records behind the page are gone, or the letter has come meanwhile.
        """
        last = self._last.get(self._name(letter.page))
        if last is not None and last > letter.source_offset:
            return True
        is_whole = self._lows.get(letter.source_partition, 0) <= letter.source_offset + 1
        return False if is_whole and last is not None else None

    def _name(self, record: Record) -> tuple[int, bytes]:
        paths = self._limits.paths
        if record.key and (paths is None or paths.id_header is None):
            return record.partition, identity_of(record.key)
        return record.partition, decode(record, self._limits).identity
