"""The claim, checked: each committed page exactly one verdict, the right one, and no other.

Three witnesses, none of which is the judge: the quadratic judge over the log's frames, the source read as a
`read_committed` consumer reads it, and every page fingerprinted once more in quiet.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache as remember
from pathlib import Path
from typing import Any

from simstream.log.base import Log
from simstream.log.options import DEAD_LETTERS, POSITIONS
from simstream.model import REASONS, PageKind, Record, Verdict
from simstream.text.fingerprinter import Fingerprinter
from simstream.text.recipe_file import load_recipe
from simstream.wire import position as positions
from simstream.wire import verdict as wire
from simstream.wire.page import PageLimits, decode
from tests.e2e.harness import by_ordinal, naive_verdicts, read_topic

OWN = ("simstream-format", b"1")
"""The header that every verdict has behind its kind."""
WORDS = {
    PageKind.READABLE: ("new", "near_duplicate", "unchanged"),
    PageKind.TOO_SHORT: ("too_short",),
    PageKind.FAILED: ("too_short",),
    PageKind.UNREADABLE: ("unreadable",),
    PageKind.WITHDRAWN: ("withdrawn",),
}


def check(log: Log, cache: Path, source: Sequence[Record], published: Sequence[Record], **policy: Any) -> None:
    """Fails, naming the first page that is wrong. `policy` as for `naive_verdicts`. Seconds for some thousand."""
    values = by_ordinal(published)
    verdicts = [wire.decode(value) for value in values]
    check_source(source, verdicts)
    check_headers(source, published)
    check_contents(cache, source, verdicts)
    same(values, naive_verdicts(log, **policy))
    check_position(log, verdicts)
    check_letters(log, verdicts)


def same(values: Sequence[bytes], expected: Sequence[bytes]) -> None:
    """The same bytes, or a short report of where they differ first."""
    for ordinal, (got, wanted) in enumerate(zip(values, expected, strict=False)):
        assert got == wanted, f"ordinal {ordinal} is wrong:\n{got.decode()}\nit should be\n{wanted.decode()}"
    assert len(values) == len(expected), f"{len(values)} verdicts, the log's frames give {len(expected)}"


def check_source(source: Sequence[Record], verdicts: Sequence[Verdict]) -> None:
    """Each committed page has its verdict, no other has; each partition keeps its order."""
    judged = [(v.source.partition, v.source.offset) for v in verdicts]
    pages = {(record.partition, record.offset) for record in source}
    missing, strange = sorted(pages - set(judged)), sorted(set(judged) - pages)
    assert not missing, f"{len(missing)} pages have no verdict, the first at {missing[0]}"
    assert not strange, f"{len(strange)} verdicts belong to no committed page, the first at {strange[0]}"
    assert len(judged) == len(pages), "a page has two verdicts"
    for partition in {partition for partition, _ in pages}:
        offsets = [offset for where, offset in judged if where == partition]
        assert offsets == sorted(offsets), f"the pages of partition {partition} were judged out of order"


def check_headers(source: Sequence[Record], published: Sequence[Record]) -> None:
    """Each verdict has its page's `traceparent`, whoever published it in the end."""
    pages = {(record.partition, record.offset): record.headers for record in source}
    for record in published:
        place = wire.decode(record.value or b"").source
        assert record.headers[1:] == (OWN, *pages[place.partition, place.offset]), f"headers differ at {place}"


@remember
def _fingerprinter(cache: Path) -> Fingerprinter:
    return Fingerprinter(load_recipe("default"), cache, workers=0)


def check_contents(cache: Path, source: Sequence[Record], verdicts: Sequence[Verdict]) -> None:
    """Each verdict speaks of the page that lies at its source."""
    found = {(v.source.partition, v.source.offset): v for v in verdicts}
    pages = [decode(record, PageLimits(max_record_bytes=10 << 20)) for record in source]
    columns = _fingerprinter(cache).columns(pages)
    for i, (record, page_id, url) in enumerate(zip(source, columns.id_list(), columns.url_list(), strict=True)):
        verdict = found[record.partition, record.offset]
        kind = PageKind(int(columns.kind[i]))
        fingerprint = f"{int(columns.fingerprint[i]):016x}" if kind is PageKind.READABLE else None
        reason = REASONS[columns.reason[i]] or None
        expected = (page_id, url, reason, fingerprint)
        got = (verdict.id, verdict.url, verdict.reason, verdict.fingerprint)
        assert got == expected, f"the page at {record.partition}/{record.offset} is {expected}, judged as {got}"
        assert verdict.verdict in WORDS[kind]
        assert verdict.time <= columns.time[i]


def check_position(log: Log, verdicts: Sequence[Verdict]) -> None:
    """Publishing stands behind the last verdict."""
    if not verdicts:
        return
    last = positions.decode(read_topic(log, POSITIONS)[-1].value or b"")
    assert (last.ordinal, last.policy) == (len(verdicts), verdicts[-1].policy)


def check_letters(log: Log, verdicts: Sequence[Verdict]) -> None:
    """Every unreadable page has a dead letter at least, and nothing else has one."""
    unreadable = {(v.source.partition, v.source.offset) for v in verdicts if v.verdict == "unreadable"}
    letters = set()
    for record in read_topic(log, DEAD_LETTERS):
        headers = dict(record.headers)
        letters.add((int(headers["simstream-source-partition"]), int(headers["simstream-source-offset"])))
    assert letters == unreadable
