"""Finds the verdicts of a log for `explain`, and judges the log up to them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from simstream.errors import FrameDamaged, LogDamaged, PageUnknown, WrongLog
from simstream.judge.acceptor import AcceptedPages, Acceptor
from simstream.judge.policy import Policy
from simstream.log.base import Log
from simstream.log.committed_records import committed
from simstream.log.options import FINGERPRINTS, PAGES, POSITIONS, VERDICTS
from simstream.model import PageSource, Record, Verdict
from simstream.roles.fingerprint.first_frame import check_recipe
from simstream.text.recipe import Recipe
from simstream.tools.explain.policy import check_policy
from simstream.tools.explain.rejudge import AcceptedBatch, PageOrigin
from simstream.tools.explain.request import (
    Counting,
    ExplainRequest,
    JudgedPage,
    Tick,
    WantedIds,
    check_ordinal,
    no_such_ordinal,
)
from simstream.wire import frame as frames
from simstream.wire import position as positions
from simstream.wire import verdict as wire
from simstream.wire.page import PageLimits, decode

VERDICTS_A_POLL = 10_000
FRAMES_A_POLL = 16
PAGES_A_POLL = 100
RETAINED = "was judged, but its verdict is no longer in the topic"
IGNORED = "stands in a frame of the log that the judge has ignored"


class LogHistory:
    """Published verdicts of a log, as a `PageHistory`. Joins no consumer group, and writes nothing.

    Cost: a pass over `verdicts`, judging the log up to the last of the pages, and a few reads of `pages`. Raises
    WrongRecipe, and `find` WrongPolicy, if the log has another recipe or policy.
    """

    def __init__(self, log: Log, policy: Policy, recipe: Recipe, limits: PageLimits, counting: Counting) -> None:
        check_recipe(log, policy.recipe_id)
        self._log = log
        self._policy = policy
        self._recipe = recipe
        self._limits = limits
        self._counting = counting

    def find(self, request: ExplainRequest, names: WantedIds) -> list[JudgedPage]:
        """See PageHistory. Also raises WrongPolicy."""
        with self._counting("reading verdicts", None) as tick:
            if request.ordinal is None:
                found = self._newest(names, tick)
                chosen = [found[page_id] for page_id in request.ids if page_id in found]
            else:
                chosen = [self._verdict_at(request, tick)]
        for verdict, _ in chosen:
            check_policy(verdict.id, verdict.policy, self._policy, self._recipe)
        return [JudgedPage(verdict.id, verdict.ordinal, value) for verdict, value in chosen]

    def _newest(self, names: WantedIds, tick: Tick) -> dict[str, tuple[Verdict, bytes]]:
        """Return the verdict of the greatest ordinal of each requested page. Reads all of `verdicts`."""
        found: dict[str, tuple[Verdict, bytes]] = {}
        for record in _records(self._log, VERDICTS, VERDICTS_A_POLL, tick):
            value = _as_json(record)
            page_id = names.known(record.key or b"", value[: value.find(b',"verdict":"')])
            if page_id is None:
                continue
            verdict = wire.decode(record.value or b"")
            if page_id not in found or verdict.ordinal >= found[page_id][0].ordinal:
                found[page_id] = verdict, value
        return found

    def _verdict_at(self, request: ExplainRequest, tick: Tick) -> tuple[Verdict, bytes]:
        """Return the verdict of the ordinal asked for. Reads `verdicts` up to it."""
        mark, count = b',"ordinal":%d,' % (request.ordinal or 0), 0
        for record in _records(self._log, VERDICTS, VERDICTS_A_POLL, tick):
            value = _as_json(record)
            count += 1
            if mark in value and (verdict := wire.decode(value)).ordinal == request.ordinal:
                check_ordinal(request, verdict.id)
                return verdict, value
        raise no_such_ordinal(request, count)

    def batches(self, end: int, /) -> Iterator[AcceptedBatch]:
        """See PageHistory. Raises WrongLog if frames are missing, or the log ends too early."""
        acceptor = Acceptor(self._policy.recipe_id, self._policy.sketch_words)
        with self._counting("judging", end) as tick:
            for record in _records(self._log, FINGERPRINTS, FRAMES_A_POLL, lambda _: tick(acceptor.ordinal)):
                if record.offset != acceptor.next_frame:
                    raise WrongLog(
                        f"the log goes on at frame {record.offset}, but frame {acceptor.next_frame} is missing",
                        "keep the topic `fingerprints` longer: "
                        "only pages of frames that are still there can be explained",
                    )
                accepted = acceptor.accept(record.offset, record.value or b"", record.timestamp)
                if isinstance(accepted, AcceptedPages):
                    header, columns = accepted.header, accepted.columns
                    places = [
                        PageSource(header.topic, header.partition, offset) for offset in columns.offset.tolist()
                    ]
                    yield AcceptedBatch(header.topic_id, columns, accepted.time, places)
        raise WrongLog(
            f"the log ends at ordinal {acceptor.ordinal}, before the verdict",
            "restore the topic `fingerprints`: these verdicts were made from another log",
        )

    def originals(self, wanted: Iterable[PageOrigin]) -> dict[PageOrigin, Record | str]:
        info = self._log.topic(PAGES)
        lows = self._log.low_watermarks(PAGES)
        found: dict[PageOrigin, Record | str] = {}
        for origin in wanted:
            where = f"{info.name}, partition {origin.source.partition}, offset {origin.source.offset}"
            if origin.topic_id != info.id:
                why = f"the topic {info.name} was deleted and created again since, and the page went with it"
                found[origin] = why
            elif origin.source.offset < lows.get(origin.source.partition, 0):
                found[origin] = f"retention has removed the page from {where}"
            else:
                found[origin] = _record_at(self._log, origin.source) or f"the page is no longer at {where}"
        return found

    def unknown(self, page_id: str, names: WantedIds) -> PageUnknown:
        """See PageHistory. Reads `fingerprints` and `pages`."""
        with self._counting(f"looking for {page_id[:40]}", None) as tick:
            state = whereabouts(self._log, page_id, self._limits, tick)
        if state == RETAINED:
            return PageUnknown(
                f"{page_id} {state}", "keep the topic `verdicts` longer, to explain such pages in future"
            )
        if state.startswith(IGNORED):
            advice = "a line of the judge's log says why, and for an open gap also `simstream status --gaps`"
            return PageUnknown(f"{page_id} has no verdict: it {state}", advice)
        if state:
            advice = "wait, and check that `simstream serve` runs and is ready (/health/ready)"
            return PageUnknown(f"{page_id} has no verdict yet: it {state}", advice)
        where = f"{self._log.topic(VERDICTS).name} has no verdict for"
        return names.unknown(page_id, where, "see `simstream verdicts` for the ids")


def whereabouts(log: Log, page_id: str, limits: PageLimits, tick: Tick) -> str:
    """Return a sentence about how far a page without a verdict has come, or "". Reads both topics."""
    name, frame = page_id.encode("utf-8", "surrogateescape"), -1
    for record in _records(log, FINGERPRINTS, FRAMES_A_POLL, tick):
        try:
            columns = frames.decode(record.value or b"").columns
        except FrameDamaged:
            continue
        if name in columns.ids and page_id in columns.id_list():
            frame = record.offset
    if frame >= _published_frames(log):
        return f"is fingerprinted (frame {frame} of the log) and waits for the judge"
    if frame >= 0:  # judged, or passed over: then no verdict was ever there to be removed
        return RETAINED if any(log.low_watermarks(VERDICTS).values()) else f"{IGNORED} (frame {frame})"
    for record in _records(log, PAGES, PAGES_A_POLL, tick):
        is_named = limits.paths is None and name == record.key
        may_name = limits.paths is not None or limits.read is not None or name in (record.value or b"")
        if is_named or (may_name and decode(record, limits).id == page_id):
            where = f"partition {record.partition}, offset {record.offset}"
            return f"is in {record.topic} ({where}) and waits to be fingerprinted"
    return ""


def _as_json(record: Record) -> bytes:
    """Return the verdict as JSON; nothing for bytes of another program: other pages can be explained."""
    try:
        return wire.as_json(record.value or b"")
    except LogDamaged:
        return b""


def _published_frames(log: Log) -> int:
    """Return the number of frames of the log that have their verdicts."""
    frame = 0
    for record in _records(log, POSITIONS, VERDICTS_A_POLL, lambda _: None):
        frame = positions.decode(record.value or b"").frame
    return frame


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
