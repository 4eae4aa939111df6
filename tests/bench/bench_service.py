"""Bench: pages a second of the whole service over a backlog, against a consumer that only reads and decodes it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import median

import msgspec

from deploy.kafka.broker import KafkaBroker
from simstream.deduper import Deduper
from simstream.model import Record, Verdict
from tests.bench.measure import against, line, title
from tests.bench.service import TopicSpace, serving, space

CONSUMED, VERDICTS = "simstream_pages_consumed_total", "simstream_verdicts_total"
READERS: Mapping[str, Mapping[str, object]] = {
    "the client's defaults": {},
    "tuned to the utmost": {"fetch.queue.backoff.ms": 1, "fetch.message.max.bytes": 4 << 20},
}
"""By default the client pauses for a second where 64 MB wait to be taken."""
Judged = tuple[str, str | None, str | None]


def run(pages: Sequence[Mapping[str, str]], repeat: int, partitions: int, flags: Sequence[str]) -> None:
    """Feed, read only, serve, read only again, check every verdict."""
    title("service", "a backlog judged, against a consumer that reads and decodes the same topic")
    with KafkaBroker() as broker:
        _warm(broker, pages, partitions, flags)
        where = space(broker.address, partitions)
        count = where.feed(pages, repeat)
        readings = [_read(where, count) for _ in range(2)]
        with serving(where, *flags) as service:
            began = service.wait(CONSUMED, 1)
            first = service.count(VERDICTS)
            seconds = service.wait(VERDICTS, count) - began
        readings.append(_read(where, count))
        _check(where, partitions, pages, repeat)
    line(f"{count:,} pages, {partitions} partition(s), serve {' '.join(flags) or 'with its defaults'}")
    line(f"the service {(count - first) / seconds:,.0f} pages/s")
    for name in READERS:
        reading = median(found[name] for found in readings)
        line(f"only reading, {name}: {count / reading:,.0f} pages/s")
        against(f"service against only reading, {name}", reading / seconds, "0.1")


def _read(where: TopicSpace, count: int) -> dict[str, float]:
    return {name: where.read_only(count, **more) for name, more in READERS.items()}


def _warm(broker: KafkaBroker, pages: Sequence[Mapping[str, str]], partitions: int, flags: Sequence[str]) -> None:
    """Judge the pages once in another space: a broker's first seconds go into compiling its own code."""
    where = space(broker.address, partitions)
    count = where.feed(pages)
    with serving(where, *flags) as service:
        service.wait(VERDICTS, count)


def _check(where: TopicSpace, partitions: int, pages: Sequence[Mapping[str, str]], repeat: int) -> None:
    """Each page has one verdict; with one partition it is the one that `Deduper` gives."""
    count = len(pages) * repeat
    verdicts = where.verdicts(count)
    names = [verdict.id for verdict in verdicts]
    if len(names) != count or len(set(names)) != count:
        raise AssertionError(f"{count} pages have {len(names)} verdicts for {len(set(names))} ids")
    line(f"checked: one verdict each; {', '.join(f'{n:,} {kind}' for kind, n in _kinds(verdicts).items())}")
    if partitions == 1:
        found = [judged(verdict) for verdict in verdicts]
        if found != [judged(verdict) for verdict in _expected(pages, repeat)]:
            raise AssertionError("the service's verdicts are not those of Deduper")
        line("checked: verdict, page and cluster of each are those of Deduper over the same pages")


def _kinds(verdicts: Sequence[Verdict]) -> Counter[str]:
    return Counter(verdict.verdict for verdict in verdicts)


def judged(verdict: Verdict) -> Judged:
    """What of a verdict does not depend on where the page came from."""
    return verdict.verdict, verdict.near_duplicate_of, verdict.cluster_id


def _expected(pages: Sequence[Mapping[str, str]], repeat: int) -> list[Verdict]:
    encode = msgspec.json.Encoder().encode
    with Deduper() as deduper:
        records = (
            Record("", 0, 0, (f"{page['id']}#{turn}" if repeat > 1 else page["id"]).encode(), encode(page))
            for turn in range(repeat)
            for page in pages
        )
        return list(deduper.stream(records))
