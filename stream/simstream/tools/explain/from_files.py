"""Explains pages of files: judges them as `dedup` does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from simstream.deduper import Deduper
from simstream.model import MAX_ID_BYTES, PageSource, Record
from simstream.tools.explain.explainer import Explainer
from simstream.tools.explain.rejudge import AcceptedBatch, PageOrigin, Rejudge, VerdictCase
from simstream.tools.explain.request import ExplainAnswer, ExplainRequest, WantedIds, check_ordinal
from simstream.tools.explain.texts import PageOriginal
from simstream.wire.identity_hash import replace_bad_id

Records = Callable[[str], Iterable[Record]]
"""Reads all inputs again; the argument is the title of the progress bar."""


def explain(
    deduper: Deduper, explainer: Explainer, records: Records, request: ExplainRequest, threads: int
) -> ExplainAnswer:
    """Explain pages of files under the deduper's policy. Does not change its state.

    Cost: that of `dedup` up to the last of the pages, and two passes of reading. Raises what `Deduper.stream`
    raises, and PageUnknown if the ordinal asked for does not exist.
    """
    names = WantedIds(request.ids)
    newest = last_ordinals(records, names) if request.ordinal is None else {}
    wanted = (
        [newest[name] for name in request.ids if name in newest] if request.ordinal is None else [request.ordinal]
    )
    rejudge = Rejudge(deduper.policy, wanted, request.beside)
    cases = {case.verdict.ordinal: case for case in judged(deduper, records, rejudge, threads)}
    if request.ordinal is not None:
        found = cases.get(request.ordinal)
        check_ordinal(request, found.verdict if found else None, rejudge.ordinal)
    chosen = [cases[ordinal] for ordinal in wanted]
    made = explainer.explain(chosen, rejudge.origins, lambda places: originals(records, places), None)
    advice = "give the exact id, not the URL; `simstream fingerprint INPUT` lists the ids"
    missing = [name for name in request.ids if request.ordinal is None and name not in newest]
    return ExplainAnswer(made, [names.unknown(name, "no page of the input has the id", advice) for name in missing])


def last_ordinals(records: Records, names: WantedIds) -> dict[str, int]:
    """Return where the newest version of each requested page stands. Reads all inputs, but extracts no text."""
    found = {}
    for number, record in enumerate(records("finding pages")):
        page_id = names.known(_shown(record.key or b""))
        if page_id is not None:
            found[page_id] = number
    return found


def _shown(key: bytes) -> bytes:
    """Return the id as verdicts have it: not the key, if that is too long or not UTF-8."""
    if len(key) > MAX_ID_BYTES:
        return replace_bad_id(key).encode()
    try:
        key.decode()
    except UnicodeDecodeError:
        return replace_bad_id(key).encode()
    return key


def judged(deduper: Deduper, records: Records, rejudge: Rejudge, threads: int) -> Iterator[VerdictCase]:
    """Judge the files until all wanted pages have come. Raises what `Deduper.stream` raises."""
    if rejudge.done():
        return
    for batch in deduper.fingerprinted(records("judging"), threads):
        yield from rejudge.judge(AcceptedBatch("", batch.columns, batch.columns.time, batch.sources))
        if rejudge.done():
            return


def originals(records: Records, wanted: Mapping[PageOrigin, str]) -> dict[PageOrigin, PageOriginal]:
    """Return the records of pages by their origin. Reads the inputs until all are found."""
    places = {origin.source: origin for origin in wanted}
    found = {origin: PageOriginal(None, "the page is no longer in the input") for origin in wanted}
    for record in records("reading texts") if places else ():
        origin = places.pop(PageSource(record.topic, record.partition, record.offset), None)
        if origin is not None:
            found[origin] = PageOriginal(record)
        if not places:
            break
    return found
