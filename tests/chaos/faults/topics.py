"""What is done to topics while nobody thinks of simstream: partitions added, records removed, logs mixed up."""

from __future__ import annotations

import shutil
from pathlib import Path

from confluent_kafka.admin import NewPartitions

from simstream.log.options import FINGERPRINTS, PAGES
from tests.chaos.arena import ChaosArena, ChaosScale
from tests.chaos.feed import SeededFeed
from tests.e2e.harness import Program, all_verdicts, naive_verdicts
from tests.kafka_fixtures import TopicPlace


def partitions_added(arena: ChaosArena, scale: ChaosScale) -> str:
    """`pages` grows while the service runs, and while it is down: pages of the new partitions are judged, too."""
    arena.client(**{"topic.metadata.refresh.interval.ms": 500})
    arena.open(2)
    service = arena.serve(frame_max_pages=10)
    count = 2
    for turn in range(scale.faults):
        arena.feed.burst(scale.burst)
        count += arena.rng.randrange(1, 3)
        running = turn % 2 == 0
        if not running:
            arena.end(service)
        add_partitions(arena, count)
        with SeededFeed(arena.place, arena.rng, transactions=False) as feed:  # one that knows all partitions
            feed.burst(scale.burst)
        if not running:
            service = arena.serve(frame_max_pages=10)
        arena.judged()
    found = {record.partition for record in arena.source()}
    assert found == set(range(count))
    return f"{count - 2} partitions added, {arena.settle()} pages"


def add_partitions(arena: ChaosArena, count: int) -> None:
    """Raise `pages` to `count` partitions, and wait until the arena's client sees them."""
    request = [NewPartitions(f"{arena.place.prefix}.{PAGES}", count)]
    for future in arena.admin().create_partitions(request).values():
        future.result(30)
    arena.until(lambda: arena.log.topic(PAGES).partitions == count, "all see the new partitions")


def log_cut(arena: ChaosArena, scale: ChaosScale) -> str:
    """Remove published frames from the log. A running judge goes on. A judge that has to read these frames again
    refuses to start."""
    arena.open(1)
    fingerprinter = arena.serve("fingerprint", frame_max_pages=10)
    judge = arena.serve("judge")
    arena.feed.burst(scale.burst)
    arena.judged()
    expected = naive_verdicts(arena.log)
    end = arena.log.end_offsets(FINGERPRINTS)[0]
    arena.cut(end - 1)
    arena.feed.burst(scale.burst)
    count = len(arena.judged())
    arena.end(judge)
    arena.end(fingerprinter)
    line = arena.failed(arena.serve("judge"))
    assert f"begins at frame {end - 1}, and no state reaches that far" in line, line
    verdicts = all_verdicts(arena.log)
    assert len(verdicts) == count
    assert verdicts[: len(expected)] == expected
    return f"{end - 1} frames removed, {count} pages"


def another_log(arena: ChaosArena, scale: ChaosScale) -> str:
    """Put other pages into a log of the same name, id and offsets, as a mistaken restore would. The judge refuses
    it by its digest, before any verdict. In folders, as Kafka gives no two topics one id."""
    places = [TopicPlace(str(arena.folder / name), "simstream") for name in ("mine", "other")]
    mine, other = (Program(arena.folder, arena.cache, place) for place in places)
    mine.good("topics", "create", "--partitions", 1)
    shutil.copytree(places[0].address, places[1].address)
    for number, program in enumerate((mine, other)):
        program.feed(scale.pages, seed=number)
        expected = program.judge(scale.pages)
    name = f"simstream.{FINGERPRINTS}.log"
    shutil.copy(Path(places[0].address) / name, Path(places[1].address) / name)
    last = other.refused("--roles", "judge")
    assert "the published verdicts come from another log" in last, last
    with places[1].open() as log:
        assert all_verdicts(log) == expected
    return f"refused, {scale.pages} pages"
