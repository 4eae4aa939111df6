"""Bench: from a page's append to its committed verdict under a paced load, as a reader in another process sees it.

    python -m tests.bench.latency                              # 1, 4, 16 partitions; one and two fingerprinters
    python -m tests.bench.latency --partitions 4 --rate 1000 --seconds 300
    python -m tests.bench.latency --html 100000 --rate half    # pages of 100 KB of HTML

Broker, service, producer and reader share this machine, each in processes of its own. Every page's key says when it
was appended. The floor is the same pages read back at the same rate without the service. Where the floor itself is
slow the machine has no time left to measure with: the bench refuses, and ends with 1. The broker compiles itself
quickly and only once: a new one else takes a core for its first minutes, which one in production has behind it.
"""

from __future__ import annotations

import array
import multiprocessing
import os
import sys
import time
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import click
import msgspec
from confluent_kafka import Producer

from deploy.kafka.broker import KafkaBroker
from simstream.log.kafka.reader import consume
from tests.bench.measure import html_files, html_pages, line, load, share, title
from tests.bench.service import RunningService, TopicSpace, append, client, serving, space

HALF = "half"
WARM_RATE = 1_500
MAX_FLOOR_MS = 25.0
"""If the 99th percentile of the floor is above this, the machine is busy with other work."""
PATIENCE_S = 60.0
_MAX_HTML_BYTES = 500_000
"""Larger ones are left out: in JSON they may be beyond what the topic takes."""
WHOLE = "simstream_end_to_end_latency_seconds"
PARTS = (("median", 0.5), ("90th", 0.9), ("99th", 0.99), ("worst", 1.0))
_processes = multiprocessing.get_context("spawn")


@dataclass(frozen=True, slots=True)
class PacedLoad:
    """A paced stream: `pages` pages at `rate` a second, or all at once if `rate` is 0."""

    values: Sequence[bytes]
    rate: float
    pages: int


@dataclass(frozen=True, slots=True)
class AnswerTimes:
    """When pages were appended (s since 1970), and how long each answer took (ms), in the order of arrival."""

    sent: Sequence[float]
    milliseconds: Sequence[float]

    def __len__(self) -> int:
        return len(self.sent)

    def said(self) -> str:
        return ", ".join(f"{what} {share(self.milliseconds, part):.0f}" for what, part in PARTS) + " ms"

    def median_between(self, begin: float, end: float) -> float:
        """Median ms of the pages that were appended in this part of the run (0 to 1)."""
        first, last = min(self.sent), max(self.sent)
        low, high = first + begin * (last - first), first + end * (last - first)
        rows = zip(self.sent, self.milliseconds, strict=True)
        return share([ms for sent, ms in rows if low <= sent <= high], 0.5)


def produce(where: TopicSpace, load_: PacedLoad) -> None:
    """Append at a steady pace; a key is the moment of its append and a number."""
    producer = Producer(client(where.servers, {"linger.ms": 2, "partitioner": "murmur2_random"}))
    topic, values, number = where.topic("pages"), load_.values, 0
    began = time.time()
    while number < load_.pages:
        due = min(load_.pages, int((time.time() - began) * load_.rate) + 1 if load_.rate else number + 1_000)
        while number < due:
            append(producer, topic, f"{time.time():.6f}-{os.getpid()}-{number}", values[number % len(values)])
            number += 1
        producer.poll(0)
        if load_.rate:
            time.sleep(0.002)
    producer.flush()


def read(where: TopicSpace, topic: str, count: Any, stop: Event, out: Any) -> None:
    """Note when each committed record of a topic is here; `count` follows how many there are."""
    consumer = where.consumer(topic, **{"fetch.wait.max.ms": 20, "fetch.queue.backoff.ms": 1})
    sent, took = array.array("d"), array.array("d")
    while not stop.is_set():
        messages = consume(consumer, 1_000, 0.05)
        now = time.time()
        for message in messages:
            if message.error() is None:
                appended = float(message.key().split(b"-")[0])
                sent.append(appended)
                took.append((now - appended) * 1000)
        count.value = len(sent)
    consumer.close()
    out.send((sent, took))


class TopicReaderProcess:
    """A reader of one topic, in a process of its own."""

    def __init__(self, where: TopicSpace, topic: str) -> None:
        self._count = _processes.Value("q", 0)
        self._stop = _processes.Event()
        self._ours, theirs = _processes.Pipe(duplex=False)
        self._process = _processes.Process(
            target=read, args=(where, topic, self._count, self._stop, theirs), daemon=True
        )
        self._process.start()
        theirs.close()

    @property
    def count(self) -> int:
        """Records so far."""
        return int(self._count.value)

    def wait(self, least: int) -> None:
        """Wait until `count` records have come. Raises TimeoutError where none comes for PATIENCE_S."""
        before, end = -1, 0.0
        while (count := self.count) < least:
            if count != before:
                before, end = count, time.monotonic() + PATIENCE_S
            if time.monotonic() > end:
                raise TimeoutError(f"{count} of {least} records came")
            time.sleep(0.02)

    def end(self) -> AnswerTimes:
        """Stop reading; all that was read."""
        self._stop.set()
        sent, took = self._ours.recv()
        self._process.join()
        return AnswerTimes(sent, took)


def run_load(where: TopicSpace, load_: PacedLoad, reading: TopicReaderProcess) -> int:
    """Produce in another process, and wait until the reader has an answer to every page; how many these are."""
    before = reading.count
    writer = _processes.Process(target=produce, args=(where, load_), daemon=True)
    writer.start()
    writer.join()
    pages = appended(where) - before
    reading.wait(before + pages)
    return pages


def appended(where: TopicSpace) -> int:
    """How many records the topic of pages has; nothing here writes to it in transactions."""
    consumer = where.consumer("pages")
    ends = [consumer.get_watermark_offsets(partition, timeout=10) for partition in consumer.assignment()]
    consumer.close()
    return sum(high - low for low, high in ends)


@dataclass(frozen=True, slots=True)
class ServiceFootprint:
    """What the service holds at one moment, by its own metrics."""

    memory_bytes: float
    descriptors: float

    def to(self, later: ServiceFootprint) -> str:
        """Both, then and later."""
        memory = f"memory {self.memory_bytes / 1e6:.0f} MB, then {later.memory_bytes / 1e6:.0f} MB"
        return f"{memory}; file descriptors {self.descriptors:.0f}, then {later.descriptors:.0f}"


@dataclass(frozen=True, slots=True)
class LatencyResult:
    """One cell of the table."""

    rate: float
    floor: AnswerTimes
    service: AnswerTimes
    metric_ms: float
    """Mean by the service's own histogram."""
    reader_ms: float
    """Mean by the reader's clock, of the same pages."""
    before: ServiceFootprint
    after: ServiceFootprint

    @property
    def above(self) -> tuple[float, float]:
        """Return median and 99th percentile minus the floor's, in ms."""
        both = [[share(found.milliseconds, part) for part in (0.5, 0.99)] for found in (self.floor, self.service)]
        return both[1][0] - both[0][0], both[1][1] - both[0][1]

    def tell(self, aim: tuple[float, float]) -> None:
        median, high = self.above
        holds = "holds" if median <= aim[0] and high <= aim[1] else "MISSED"
        line(f"{self.rate:,.0f} pages/s, {len(self.service):,} pages: {self.service.said()}")
        line(f"  floor {self.floor.said()}; load {os.getloadavg()[0]:.1f}")
        line(f"  mean {self.reader_ms:.1f} ms by the reader, {self.metric_ms:.1f} ms by {WHOLE}")
        fifths = [self.service.median_between(fifth / 5, (fifth + 1) / 5) for fifth in range(5)]
        line(f"  medians of its fifths {', '.join(f'{median:.0f}' for median in fifths)} ms")
        line(f"  {self.before.to(self.after)}")
        print(f" > above the floor: median {median:.0f} ms, 99th {high:.0f} ms "
              f"(aim: {aim[0]:.0f} and {aim[1]:.0f}): {holds}", flush=True)  # fmt: skip


class FloorSlow(Exception):
    """The pages alone take too long to come back: nothing can be said of the service."""


class LatencyBench:
    """One running service with its space, reader, and the loads that it is given."""

    def __init__(self, where: TopicSpace, service: RunningService, values: Sequence[bytes]) -> None:
        self._where, self._service, self._values = where, service, values

    def warm(self, seconds: float, rate: float) -> None:
        """Compile, connect, fill caches."""
        self._load(PacedLoad(self._values, rate, int(rate * seconds)))

    def most(self, pages: int) -> float:
        """Pages a second that the service takes from a backlog, by the times at which verdicts come.

        Verdicts count from the last page's append on, as the producer shares the cores, unless few come then.
        """
        found = self._load(PacedLoad(self._values, 0, pages))
        arrived = sorted(sent + ms / 1000 for sent, ms in zip(found.sent, found.milliseconds, strict=True))
        undisturbed = arrived[bisect_right(arrived, max(found.sent)) :]
        if len(undisturbed) >= len(arrived) // 4 and undisturbed[-1] - undisturbed[0] > 1:
            arrived = undisturbed
        skipped = len(arrived) // 10
        return (len(arrived) - 2 * skipped) / (arrived[-skipped - 1] - arrived[skipped])

    def measure(self, rate: float, seconds: float, floor: AnswerTimes) -> LatencyResult:
        """One rate."""
        before, held = self._histogram(), self._footprint()
        found = self._load(PacedLoad(self._values, rate, int(rate * seconds)))
        after, holds = self._histogram(), self._footprint()
        metric = 1000 * (after[0] - before[0]) / max(1.0, after[1] - before[1])
        mean = sum(found.milliseconds) / len(found)
        return LatencyResult(rate, floor, found, metric, mean, held, holds)

    def _load(self, load_: PacedLoad) -> AnswerTimes:
        reading = TopicReaderProcess(self._where, "verdicts")
        already = appended(self._where)
        reading.wait(already)
        pages = run_load(self._where, load_, reading)
        time.sleep(1.5)  # for the metrics of the last commit, and verdicts that should not come
        found = reading.end()
        if len(found) != already + pages:
            raise AssertionError(f"{already + pages} pages have {len(found)} verdicts")
        return AnswerTimes(found.sent[already:], found.milliseconds[already:])

    def _footprint(self) -> ServiceFootprint:
        count = self._service.count
        return ServiceFootprint(count("process_resident_memory_bytes"), count("process_open_fds"))

    def _histogram(self) -> tuple[float, float]:
        return self._service.count(f"{WHOLE}_sum"), self._service.count(f"{WHOLE}_count")


def floor_of(address: str, partitions: int, load_: PacedLoad, max_floor_ms: float) -> AnswerTimes:
    """The pages themselves read back. Raises FloorSlow."""
    where = space(address, partitions)
    reading = TopicReaderProcess(where, "pages")
    run_load(where, PacedLoad(load_.values, min(load_.rate, 500), 500 if load_.rate >= 250 else 40), reading)
    warm = reading.count
    run_load(where, load_, reading)
    found = reading.end()
    found = AnswerTimes(found.sent[warm:], found.milliseconds[warm:])
    if share(found.milliseconds, 0.99) > max_floor_ms:
        raise FloorSlow(f"pages alone come back after {found.said()} at {load_.rate:,.0f} a second")
    return found


@contextmanager
def services(
    where: TopicSpace, fingerprinters: int, matchers: int, flags: Sequence[str]
) -> Iterator[RunningService]:
    """`serve`, with so many fingerprinters and matchers beside it, ready."""
    with ExitStack() as stack:
        for _ in range(matchers):
            stack.enter_context(serving(where, "--roles", "match", *flags)).wait_ready()
        first = stack.enter_context(serving(where, *flags))
        more = ("--roles", "fingerprint", *flags)
        for service in (first, *(stack.enter_context(serving(where, *more)) for _ in range(fingerprinters - 1))):
            service.wait_ready()
        yield first


def _rates(context: click.Context, option: click.Parameter, rates: Sequence[str]) -> Sequence[str]:
    """Raises BadParameter unless it is a number above 0 or `half`."""
    for rate in rates:
        if rate != HALF and not (rate.replace(".", "", 1).isdigit() and float(rate) > 0):
            raise click.BadParameter(f"{rate!r} is no number of pages a second, and not {HALF}")
    return rates


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--pages",
    "file",
    type=click.Path(path_type=Path, exists=True),
    help="News pages: JSONL, .xz, .gz; or a folder of files *.html.",
)
@click.option("--count", default=20_000, show_default=True, help="Pages taken from the file, or generated.")
@click.option("--html", default=0, help="Send pages of this many bytes of HTML instead.")
@click.option("--rate", "rates", multiple=True, default=("20", "300", "1000", "3000", HALF), show_default=True,
              callback=_rates, help="Pages a second; half: of the most that it takes from a backlog.")  # fmt: skip
@click.option("--partitions", multiple=True, type=click.IntRange(min=1), default=(1, 4, 16), show_default=True)
@click.option("--verdict-partitions", type=click.IntRange(min=1), help="As many as of pages if not given.")
@click.option("--fingerprinters", multiple=True, type=click.IntRange(min=1), default=(1, 2), show_default=True)
@click.option("--matchers", default=0, show_default=True, help="Matchers that hold the index; 0: the judge does.")
@click.option("--seconds", default=20.0, show_default=True, help="How long each rate lasts.")
@click.option("--warm", default=15.0, show_default=True, help="Seconds before, which do not count.")
@click.option("--warm-rate", default=WARM_RATE, show_default=True)
@click.option("--backlog", default=60_000, show_default=True, help="Pages of the backlog that `half` is half of.")
@click.option(
    "--max-floor", default=MAX_FLOOR_MS, show_default=True, help="99th percentile of a floor to trust, ms."
)
@click.option("--flag", "flags", multiple=True, help="A flag for `serve`.")
def main(
    file: Path | None, count: int, html: int, rates: Sequence[str], partitions: Sequence[int],
    verdict_partitions: int | None, fingerprinters: Sequence[int], matchers: int, seconds: float, warm: float,
    warm_rate: float, backlog: int, max_floor: float, flags: Sequence[str],
) -> None:  # fmt: skip
    """Latency from append to committed verdict, under a steady load.

    It starts a broker and, for each number of partitions and of fingerprinters, a service; then it sends pages at
    each rate for `--seconds` (about 25 s more a rate, a minute a service; all defaults: half an hour). The floor
    is the same pages read back without the service. The aim is what the service may add to it: 25 ms in the median,
    100 ms for 99 of 100. Without --pages the pages are made up. It ends with 0 also where the aim is missed.
    """
    values = _values(file, count, html)
    aim = (150.0, 1_000.0) if html or (file and file.is_dir()) else (25.0, 100.0)
    what = f"{len(values):,} pages, {sum(map(len, values)) / len(values):,.0f} bytes each"
    title("latency", f"append to committed verdict, paced; {what}")
    try:
        with KafkaBroker(quick=True) as broker:
            for parts in partitions:
                for members in fingerprinters:
                    own = f" ({verdict_partitions} of verdicts)" if verdict_partitions else ""
                    print(f"\n-- {parts} partition(s){own}, {members} fingerprinter(s)", flush=True)
                    shards = max(4, matchers) if matchers else None
                    where = space(broker.address, parts, shards, verdict_partitions)
                    with services(where, members, matchers, flags) as service:
                        bench = LatencyBench(where, service, values)
                        bench.warm(warm, warm_rate)
                        most = bench.most(backlog) if HALF in rates else 0.0
                        if most:
                            bytes_a_second = most * sum(map(len, values)) / len(values)
                            line(f"from a backlog: {most:,.0f} pages/s, {bytes_a_second / 1e6:,.0f} MB/s")
                        for rate in rates:
                            each = most / 2 if rate == HALF else float(rate)
                            paced = PacedLoad(values, each, int(each * min(seconds, 10)))
                            floor = floor_of(broker.address, parts, paced, max_floor)
                            bench.measure(each, seconds, floor).tell(aim)
    except FloorSlow as error:
        print(
            f"latency: {error}: the machine is too busy to measure: try later, or raise --max-floor",
            file=sys.stderr,
        )
        sys.exit(1)


def _values(file: Path | None, count: int, html: int) -> list[bytes]:
    encode = msgspec.json.Encoder().encode
    if html:
        return [encode({"html": page}) for page in html_pages(min(count, 500), html)]
    if file and file.is_dir():
        every = html_files(file)
        pages = [encode({"html": page.decode()}) for page in islice(every, count) if len(page) <= _MAX_HTML_BYTES]
        if not pages:
            raise click.UsageError(f"--pages: {file} has no files *.html of at most {_MAX_HTML_BYTES:,} bytes")
        return pages
    return [encode({"text": page["text"]}) for page in load(file, count)]


if __name__ == "__main__":
    main()
