"""Two pages side by side: their texts, read again from `pages`, with what differs marked. Keeps no copy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from stream.errors import PageUnknown
from stream.feeds.records import Version, parts
from stream.log.base import PAGES, Log
from stream.log.committed import committed
from stream.model import Record
from stream.text.extraction_pool import ExtractionPool
from stream.tools.explain_diff import Unit, counts, readable, runs, units
from stream.wire.page import PageLimits, decode

MOST_CHARACTERS = 40_000
"""Of a longer text the beginning is compared."""
A_POLL = 100


class Texts:
    """Reads the texts of pages again, by where their records lie, and compares two of them."""

    def __init__(self, log: Log, pool: ExtractionPool, limits: PageLimits) -> None:
        self._log = log
        self._pool = pool
        self._limits = limits

    def compare(self, a: tuple[str, Version], b: tuple[str, Version]) -> dict[str, Any]:
        """Both texts in pieces, each marked where the other has something else. Raises PageUnknown, LogError.

        Cost: two reads of `pages`, and about linear in the texts where these are alike.
        """
        texts = [self._text(*page) for page in (a, b)]
        left, right = (units(text, ()) for text in texts)
        found = readable(runs(left, right))
        same, only_left, only_right = counts(left, right, found)
        return {
            "a": _pieces(left, [(run.same, run.a, run.b) for run in found]),
            "b": _pieces(right, [(run.same, run.c, run.d) for run in found]),
            "words": {"same": same, "only_a": only_left, "only_b": only_right},
            "cut": any(len(text) == MOST_CHARACTERS for text in texts),
        }

    def _text(self, page_id: str, version: Version) -> str:
        record = self._record(*parts(version.source))
        if record is None:
            raise PageUnknown("the page is no longer in the topic", "keep the topic pages longer")
        page = decode(record, self._limits)
        if page.id != page_id:
            raise PageUnknown("another page is in its place now", "was the topic pages made anew?")
        if page.text is not None:
            return page.text[:MOST_CHARACTERS]
        [done] = self._pool.extract([(page.raw or b"", page.content_type)])
        return (done.text or "")[:MOST_CHARACTERS]

    def _record(self, partition: int, offset: int) -> Record | None:
        """The record at this place, None where it is gone."""
        for records in committed(self._log, PAGES, A_POLL, offset):
            for record in records:
                if record.partition == partition and record.offset >= offset:
                    return record if record.offset == offset else None
        return None


def _pieces(all_units: Sequence[Unit], spans: Iterable[tuple[bool, int, int]]) -> list[dict[str, Any]]:
    """What is shown of one text: pieces with `differs` where the other text has something else, or nothing.

    Space behind what differs is a piece of its own: to mark it would only look odd.
    """
    pieces: list[dict[str, Any]] = []
    for same, start, end in spans:
        text = "".join(unit.text for unit in all_units[start:end])
        marked = text if same else text.rstrip()
        pieces += [{"text": marked, "differs": not same}, {"text": text[len(marked) :], "differs": False}]
    return [piece for piece in pieces if piece["text"]]
