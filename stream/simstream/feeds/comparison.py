"""Compares two pages: reads their texts from `pages`, and marks the differences."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from simstream.errors import LogError, PageUnknown
from simstream.feeds.reasons import REASONS
from simstream.feeds.records import GONE, PageVersion, parts
from simstream.log.base import Log
from simstream.log.committed_records import committed
from simstream.log.options import PAGES
from simstream.model import Record
from simstream.text.extraction.extract import without_lone_surrogates
from simstream.text.extraction.fast import extract_fast
from simstream.tools.explain.difference import TextRun, TextUnit, counts, readable, runs, units
from simstream.wire.page import PageLimits, decode

MAX_CHARACTERS = 40_000
"""Only the beginning of a longer text is compared."""
MAX_POLL_RECORDS = 100
_ENDS = frozenset(".!?…;")
"""Marks that end a sentence if space follows: a dot may stand in a number."""
_WIDE_ENDS = frozenset("。！？；")
READ_S = 6.0
"""Seconds after which an unread text is given up."""


class PageTexts:
    """Reads the texts of pages again, by the places of their records, and compares two of them: of HTML the
    articles, whatever the recipe extracts."""

    def __init__(self, log: Log, limits: PageLimits) -> None:
        self._log = log
        self._limits = limits

    def compare(self, a: tuple[str, PageVersion], b: tuple[str, PageVersion]) -> dict[str, Any]:
        """Return both texts in rows, with their differences marked. Raises PageUnknown, LogError.

        Cost: two reads of `pages`, and about linear time if the texts are alike.
        """
        return side_by_side(self._text(*a), self._text(*b))

    def _text(self, page_id: str, version: PageVersion) -> str:
        record = None if version.source == GONE else self._record(*parts(version.source))
        if record is None:
            raise PageUnknown(*REASONS["record_gone"])
        page = decode(record, self._limits)
        if page.id != page_id:
            raise PageUnknown(*REASONS["record_replaced"])
        if page.text is not None:
            return without_lone_surrogates(page.text[:MAX_CHARACTERS])  # no answer could hold these
        return (extract_fast(page.raw or b"", page.content_type).text or "")[:MAX_CHARACTERS]

    def _record(self, partition: int, offset: int) -> Record | None:
        """Return the record at this place; None if it is gone."""
        end = time.monotonic() + READ_S
        for records in committed(self._log, PAGES, MAX_POLL_RECORDS, offset):
            if time.monotonic() > end:
                raise LogError(*REASONS["late_texts"])
            for record in records:
                if record.partition == partition and record.offset >= offset:
                    return record if record.offset == offset else None
        return None


def side_by_side(a: str, b: str) -> dict[str, Any]:
    """Return two texts as rows of pieces, and the number of their common words."""
    left, right = units(a, ()), units(b, ())
    found = readable(runs(left, right))
    same, only_left, only_right = counts(left, right, found)
    return {
        "rows": [
            {
                "same": all(run.same for run in row),
                "a": _pieces(left, [(run.same, run.a, run.b) for run in row]),
                "b": _pieces(right, [(run.same, run.c, run.d) for run in row]),
            }
            for row in rows(left, found)
        ],
        "words": {"same": same, "only_a": only_left, "only_b": only_right},
        "cut": max(len(a), len(b)) == MAX_CHARACTERS,
    }


def rows(left: Sequence[TextUnit], runs: Sequence[TextRun]) -> list[list[TextRun]]:
    """Return the runs in rows side by side: a row ends with a sentence or line that both texts have.

    Successive rows without a difference are joined into one.
    """
    made: list[list[TextRun]] = [[]]
    for part in _parted(left, runs):
        made[-1].append(part)
        if part.same and _ends_a_row(left[part.b - 1]):
            made.append([])
    joined: list[list[TextRun]] = []
    for row in filter(None, made):
        if joined and all(run.same for run in (*joined[-1], *row)):
            first, last = joined[-1][0], row[-1]
            joined[-1] = [TextRun(True, first.a, last.b, first.c, last.d)]
        else:
            joined.append(row)
    return joined


def _parted(left: Sequence[TextUnit], runs: Sequence[TextRun]) -> Iterator[TextRun]:
    """Yield the runs; cut a run without a difference after each end of a row."""
    for run in runs:
        if not run.same:
            yield run
            continue
        cuts = {at + 1 for at in range(run.a, run.b) if _ends_a_row(left[at])}
        for start, end in pairwise(sorted({run.a, *cuts, run.b})):
            yield TextRun(True, start, end, run.c + start - run.a, run.c + end - run.a)


def _ends_a_row(unit: TextUnit) -> bool:
    is_narrow_end = unit.key in _ENDS and unit.text[-1:].isspace()
    return "\n" in unit.text or unit.key in _WIDE_ENDS or is_narrow_end


def _pieces(all_units: Sequence[TextUnit], spans: Sequence[tuple[bool, int, int]]) -> list[dict[str, Any]]:
    """Return the pieces of one text; `differs` marks a piece that the other text does not have in this place.

    Space after a difference is a piece of its own: marked space would look odd.
    """
    pieces: list[dict[str, Any]] = []
    for same, start, end in spans:
        text = "".join(unit.text for unit in all_units[start:end])
        marked = text if same else text.rstrip()
        pieces += [{"text": marked, "differs": not same}, {"text": text[len(marked) :], "differs": False}]
    return [piece for piece in pieces if piece["text"]]
