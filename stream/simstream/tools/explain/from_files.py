"""Finds pages of files for `explain`, and judges them as `dedup` does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from simstream.deduper import Deduper
from simstream.errors import PageUnknown
from simstream.model import MAX_ID_BYTES, PageSource, Record
from simstream.tools.explain.rejudge import AcceptedBatch, PageOrigin
from simstream.tools.explain.request import (
    ExplainRequest,
    JudgedPage,
    WantedIds,
    check_ordinal,
    no_such_ordinal,
)
from simstream.wire.identity_hash import replace_bad_id

Records = Callable[[str], Iterable[Record]]
"""Reads all inputs again; the argument is the title of the progress bar."""


class FileHistory:
    """Pages of files as a `PageHistory`. Does not change the deduper's state.

    Cost: that of `dedup` up to the last of the pages, and two passes of reading. Raises what `Deduper.stream`
    raises.
    """

    def __init__(self, deduper: Deduper, records: Records, threads: int) -> None:
        self._deduper = deduper
        self._records = records
        self._threads = threads

    def find(self, request: ExplainRequest, names: WantedIds) -> list[JudgedPage]:
        """See PageHistory. Extracts no text."""
        found, number = {}, -1
        for number, record in enumerate(self._records("finding pages")):
            shown = _shown(record.key or b"")
            if number == request.ordinal:
                check_ordinal(request, shown.decode())
                return [JudgedPage(shown.decode(), number)]
            page_id = names.known(shown)
            if page_id is not None:
                found[page_id] = JudgedPage(page_id, number)
        if request.ordinal is not None:
            raise no_such_ordinal(request, number + 1)
        return [found[page_id] for page_id in request.ids if page_id in found]

    def batches(self, _: int, /) -> Iterator[AcceptedBatch]:
        for batch in self._deduper.fingerprinted(self._records("judging"), self._threads):
            yield AcceptedBatch("", batch.columns, batch.columns.time, batch.sources)

    def originals(self, wanted: Iterable[PageOrigin]) -> dict[PageOrigin, Record | str]:
        """See PageHistory. Reads the inputs until all are found."""
        places = {origin.source: origin for origin in wanted}
        found: dict[PageOrigin, Record | str] = dict.fromkeys(places.values(), "the page is no longer in the input")
        for record in self._records("reading texts") if places else ():
            origin = places.pop(PageSource(record.topic, record.partition, record.offset), None)
            if origin is not None:
                found[origin] = record
            if not places:
                break
        return found

    def unknown(self, page_id: str, names: WantedIds) -> PageUnknown:
        advice = "give the id as the files have it; `simstream fingerprint INPUT` lists the ids"
        return names.unknown(page_id, "no page of the input has the id", advice)


def _shown(key: bytes) -> bytes:
    """Return the id as verdicts have it: not the key, if that is too long or not UTF-8."""
    if len(key) > MAX_ID_BYTES:
        return replace_bad_id(key).encode()
    try:
        key.decode()
    except UnicodeDecodeError:
        return replace_bad_id(key).encode()
    return key
