"""Explains pages of a log: finds their verdicts, and judges the log up to them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from simstream.errors import FrameDamaged, PageUnknown, WrongLog
from simstream.judge.acceptor import AcceptedPages, Acceptor
from simstream.judge.policy import Policy
from simstream.log.base import FINGERPRINTS, PAGES, POSITIONS, VERDICTS, Log
from simstream.log.committed_records import committed
from simstream.model import PageSource, Record, Verdict
from simstream.roles.fingerprint.first_frame import check_recipe
from simstream.tools.explain.explainer import Explainer
from simstream.tools.explain.policy import check_policy
from simstream.tools.explain.rejudge import AcceptedBatch, PageOrigin, Rejudge, VerdictCase
from simstream.tools.explain.request import Counting, ExplainAnswer, ExplainRequest, Tick, WantedIds, check_ordinal
from simstream.tools.explain.texts import PageOriginal
from simstream.wire import frame as frames
from simstream.wire import position as positions
from simstream.wire import verdict as wire
from simstream.wire.page import PageLimits, decode

VERDICTS_A_POLL = 10_000
FRAMES_A_POLL = 16
PAGES_A_POLL = 100
RETAINED = "was judged, but its verdict is no longer in the topic"


class PublishedVerdict(NamedTuple):
    """A published verdict and its bytes."""

    verdict: Verdict
    value: bytes


def explain(log: Log, explainer: Explainer, request: ExplainRequest, counting: Counting) -> ExplainAnswer:
    """Explain published verdicts of a log. Joins no consumer group, and writes nothing.

    Cost: a pass over `verdicts`, judging the log up to the last of the pages, and a few reads of `pages`. Raises
    WrongRecipe, WrongPolicy, WrongLog, and PageUnknown if the ordinal asked for does not exist.
    """
    policy, names = explainer.policy, WantedIds(request.ids)
    check_recipe(log, policy.recipe_id)
    with counting("reading verdicts", None) as tick:
        if request.ordinal is None:
            found = newest_verdicts(log, names, tick)
            chosen = [found[name] for name in request.ids if name in found]
        else:
            chosen = [verdict_at(log, request, tick)]
    for published in chosen:
        check_policy(published.verdict.id, published.verdict.policy, policy, explainer.recipe)
    values = {published.verdict.ordinal: published.value for published in chosen}
    rejudge = Rejudge(policy, values, request.beside)
    with counting("judging", max(values, default=0) + 1) as tick:
        cases = {case.verdict.ordinal: case for case in judged(log, policy, rejudge, tick)}
    ordered = [cases[ordinal] for ordinal in values]
    made = explainer.explain(ordered, rejudge.origins, lambda places: originals(log, places), values)
    unknown = [] if request.ordinal is not None else _missing(log, request, found, names, counting)
    return ExplainAnswer(made, unknown)


def newest_verdicts(log: Log, names: WantedIds, tick: Tick) -> dict[str, PublishedVerdict]:
    """Return the verdict of the greatest ordinal of each requested page. Reads all of `verdicts`."""
    found: dict[str, PublishedVerdict] = {}
    for record in _records(log, VERDICTS, VERDICTS_A_POLL, tick):
        value = record.value or b""
        page_id = names.known(record.key or b"", value[: value.find(b',"verdict":"')])
        if page_id is None:
            continue
        published = PublishedVerdict(wire.decode(value), value)
        if page_id not in found or published.verdict.ordinal >= found[page_id].verdict.ordinal:
            found[page_id] = published
    return found


def verdict_at(log: Log, request: ExplainRequest, tick: Tick) -> PublishedVerdict:
    """Return the verdict of the ordinal asked for. Reads `verdicts` up to it. Raises PageUnknown."""
    mark, count = b',"ordinal":%d,' % (request.ordinal or 0), 0
    for record in _records(log, VERDICTS, VERDICTS_A_POLL, tick):
        value = record.value or b""
        count += 1
        if mark in value and (verdict := wire.decode(value)).ordinal == request.ordinal:
            return PublishedVerdict(check_ordinal(request, verdict, count), value)
    return PublishedVerdict(check_ordinal(request, None, count), b"")


def _missing(
    log: Log, request: ExplainRequest, found: Mapping[str, PublishedVerdict], names: WantedIds, counting: Counting
) -> list[PageUnknown]:
    """Return an error for each page without a verdict."""
    errors = []
    for page_id in request.ids:
        if page_id not in found:
            with counting(f"looking for {page_id[:40]}", None) as tick:
                state = whereabouts(log, page_id, tick)
            if state == RETAINED:
                errors.append(
                    PageUnknown(
                        f"{page_id} {state}", "keep the topic `verdicts` longer, to explain such pages in future"
                    )
                )
            elif state:
                advice = "wait, and check that `simstream serve` runs and is ready (/health/ready)"
                errors.append(PageUnknown(f"{page_id} has no verdict yet: it {state}", advice))
            else:
                where = f"{log.topic(VERDICTS).name} has no verdict for"
                errors.append(names.unknown(page_id, where, "see `simstream verdicts` for the ids"))
    return errors


def whereabouts(log: Log, page_id: str, tick: Tick) -> str:
    """Return a sentence about how far a page without a verdict has come, or "". Reads both topics."""
    name = page_id.encode("utf-8", "surrogateescape")
    for record in _records(log, FINGERPRINTS, FRAMES_A_POLL, tick):
        try:
            columns = frames.decode(record.value or b"").columns
        except FrameDamaged:
            continue
        if name in columns.ids and page_id in columns.id_list():
            if record.offset < _published_frames(log):
                return RETAINED
            return f"is fingerprinted (frame {record.offset} of the log) and waits for the judge"
    for record in _records(log, PAGES, PAGES_A_POLL, tick):
        if name == record.key or (name in (record.value or b"") and decode(record, PageLimits()).id == page_id):
            where = f"partition {record.partition}, offset {record.offset}"
            return f"is in {record.topic} ({where}) and waits to be fingerprinted"
    return ""


def _published_frames(log: Log) -> int:
    """Return the number of frames of the log that have their verdicts."""
    frame = 0
    for record in _records(log, POSITIONS, VERDICTS_A_POLL, lambda _: None):
        frame = positions.decode(record.value or b"").frame
    return frame


def judged(log: Log, policy: Policy, rejudge: Rejudge, tick: Tick) -> Iterator[VerdictCase]:
    """Judge the log without publishing until all wanted pages have come. `tick` hears the next ordinal.

    Raises WrongLog if frames are missing, or the log ends too early."""
    if rejudge.done():
        return
    acceptor = Acceptor(policy.recipe_id, policy.sketch_bits // 64)
    for record in _records(log, FINGERPRINTS, FRAMES_A_POLL, lambda _: tick(acceptor.ordinal)):
        if record.offset != acceptor.next_frame:
            raise WrongLog(
                f"the log goes on at frame {record.offset}, but frame {acceptor.next_frame} is missing",
                "keep the topic `fingerprints` longer: only pages of frames that are still there can be explained",
            )
        accepted = acceptor.accept(record.offset, record.value or b"", record.timestamp)
        if isinstance(accepted, AcceptedPages):
            header, columns = accepted.header, accepted.columns
            sources = [PageSource(header.topic, header.partition, offset) for offset in columns.offset.tolist()]
            yield from rejudge.judge(AcceptedBatch(header.topic_id, columns, accepted.time, sources))
        if rejudge.done():
            return
    raise WrongLog(
        f"the log ends at ordinal {acceptor.ordinal}, before the verdict",
        "restore the topic `fingerprints`: these verdicts were made from another log",
    )


def originals(log: Log, wanted: Mapping[PageOrigin, str]) -> dict[PageOrigin, PageOriginal]:
    """Return the records of pages by their origin, or why they are gone. `wanted` has their ids."""
    info = log.topic(PAGES)
    lows = log.low_watermarks(PAGES)
    found = {}
    for origin in wanted:
        where = f"{info.name}, partition {origin.source.partition}, offset {origin.source.offset}"
        if origin.topic_id != info.id:
            found[origin] = PageOriginal(
                None, f"the topic {info.name} was deleted and created again since, and the page went with it"
            )
        elif origin.source.offset < lows.get(origin.source.partition, 0):
            found[origin] = PageOriginal(None, f"retention has removed the page from {where}")
        else:
            record = _record_at(log, origin.source)
            missing = None if record else f"the page is no longer at {where}"
            found[origin] = PageOriginal(record, missing)
    return found


def _record_at(log: Log, source: PageSource) -> Record | None:
    for record in _records(log, PAGES, PAGES_A_POLL, lambda _: None, source.offset):
        if record.partition == source.partition and record.offset >= source.offset:
            return record if record.offset == source.offset else None
    return None


def _records(log: Log, topic: str, limit: int, tick: Tick, start: int = 0) -> Iterator[Record]:
    """Yield the committed records. `tick` hears their number."""
    count = 0
    for records in committed(log, topic, limit, start):
        yield from records
        count += len(records)
        tick(count)
