"""Finds the texts of pages that a service named as matches, for `simstream match --with`."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

import msgspec

from simstream.closing import Closing
from simstream.model import Record
from simstream.text.fingerprinter import Fingerprinter
from simstream.tools.dedup.text_rows import TextRows, encoded
from simstream.tools.text_shares import TextShares, text_shares
from simstream.wire.page import PageLimits, decode

_ASKED: Final = b"asked"


class MatchedTexts(Closing):
    """Texts of the asked pages and of the pages that they match, in a temporary file.

    `limits` are those of the pages' records. Raises SimstreamError if the folder for temporary files is full.
    """

    def __init__(self, fingerprinter: Fingerprinter, limits: PageLimits) -> None:
        self._fingerprinter, self._limits = fingerprinter, limits
        self._rows = TextRows()
        self._matched: dict[bytes, int] = {}

    def ask(self, content: dict[str, str]) -> int:
        """Take the `text` or `html` of an asked page; return its number."""
        return self._add(Record("", 0, 0, _ASKED, msgspec.json.encode(content)))

    def read(self, records: Iterable[Record], ids: Collection[str]) -> None:
        """Take the pages with these ids; of several with one id the last counts."""
        wanted = {page_id.encode() for page_id in ids}
        for record in records:
            if record.key in wanted:
                self._matched[record.key] = self._add(record)

    def shares(self, asked: int, page_id: str) -> TextShares | None:
        """Return how much an asked page and a matched page have in common; None if either text is missing."""
        number = self._matched.get(page_id.encode())
        texts = [] if number is None else [self._rows.text(asked), self._rows.text(number)]
        return text_shares(*texts) if texts and all(texts) else None

    def close(self) -> None:
        """Remove the temporary file. May be called twice."""
        self._rows.close()

    def _add(self, record: Record) -> int:
        page = decode(record, self._limits)
        self._fingerprinter.columns([page])  # extracts the text of HTML
        self._rows.add(encoded(page.text))
        return len(self._rows) - 1
