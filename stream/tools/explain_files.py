"""Explaining from files: finds pages in them, judges them as `dedup` does, reads texts back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from stream.deduper import Deduper
from stream.model import MAX_ID_BYTES, Record, Source
from stream.tools.explain import Explainer
from stream.tools.explain_asked import Answer, Asked, Names, check_ordinal
from stream.tools.explain_judging import Batch, Case, Judging, Origin
from stream.tools.explain_texts import Original
from stream.wire.identity import shown_id

Records = Callable[[str], Iterable[Record]]
"""Reads all inputs anew, for the purpose that is named."""


def explain(deduper: Deduper, explainer: Explainer, records: Records, asked: Asked, threads: int) -> Answer:
    """Explain pages of files under the deduper's policy; its own state is not touched.

    Cost: that of `dedup` up to the last of the pages, and two passes of reading. Raises as `Deduper.stream`, and
    PageUnknown where the ordinal asked for is not there.
    """
    names = Names(asked.ids)
    newest = last_ordinals(records, names) if asked.ordinal is None else {}
    wanted = [newest[name] for name in asked.ids if name in newest] if asked.ordinal is None else [asked.ordinal]
    judging = Judging(deduper.policy, wanted, asked.beside)
    cases = {case.verdict.ordinal: case for case in judged(deduper, records, judging, threads)}
    if asked.ordinal is not None:
        found = cases.get(asked.ordinal)
        check_ordinal(asked, found.verdict if found else None, judging.ordinal)
    chosen = [cases[ordinal] for ordinal in wanted]
    made = explainer.explain(chosen, judging.origins, lambda places: originals(records, places), None)
    advice = "give the id to the letter, not the URL beside it; `simstream fingerprint INPUT` lists the ids"
    missing = [name for name in asked.ids if asked.ordinal is None and name not in newest]
    return Answer(made, [names.unknown(name, "no page of the input has the id", advice) for name in missing])


def last_ordinals(records: Records, names: Names) -> dict[str, int]:
    """Where the newest version of each page that is asked for stands. Reads all inputs, but no text."""
    found = {}
    for number, record in enumerate(records("finding pages")):
        page_id = names.known(_shown(record.key or b""))
        if page_id is not None:
            found[page_id] = number
    return found


def _shown(key: bytes) -> bytes:
    """The id as verdicts have it: not the key where that is too long or not UTF-8."""
    if len(key) > MAX_ID_BYTES:
        return shown_id(key).encode()
    try:
        key.decode()
    except UnicodeDecodeError:
        return shown_id(key).encode()
    return key


def judged(deduper: Deduper, records: Records, judging: Judging, threads: int) -> Iterator[Case]:
    """Judge the files until all wanted pages have come. Raises as `Deduper.stream`."""
    if judging.done():
        return
    for batch in deduper.fingerprinted(records("judging"), threads):
        yield from judging.feed(Batch("", batch.columns, batch.columns.time, batch.sources))
        if judging.done():
            return


def originals(records: Records, wanted: Mapping[Origin, str]) -> dict[Origin, Original]:
    """The records of pages by where they came from; reads the inputs until all are found."""
    places = {origin.source: origin for origin in wanted}
    found = {origin: Original(None, "the page is no longer in the input") for origin in wanted}
    for record in records("reading texts") if places else ():
        origin = places.pop(Source(record.topic, record.partition, record.offset), None)
        if origin is not None:
            found[origin] = Original(record)
        if not places:
            break
    return found
