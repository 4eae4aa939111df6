"""Pages that the log misses: named, and mended by `source rewind` and `source skip`."""

from __future__ import annotations

import json
import signal

import pytest
from confluent_kafka import Producer

from simstream.errors import LogLocked
from simstream.log.options import FINGERPRINTS, PAGES
from tests.e2e.harness import QUICK_GROUPS, Program, Watcher, by_ordinal, read_topic, watching

SHORT = {"SIMSTREAM_GAP_PATIENCE": "1s"}


def judge_50_of_100(program: Program, *arguments: str) -> None:
    """Serve until 50 pages of one partition have their verdicts, and feed 50 more."""
    program.good("topics", "create", "--partitions", 1)
    program.feed(50, seed=1)
    program.judge(50, *arguments)
    program.feed(50, seed=2)


def served(program: Program, watcher: Watcher, count: int) -> list[tuple[int, int]]:
    """Serve until this many verdicts exist. Returns partition and offset of each page, in the verdicts' order."""
    with program.serve(**SHORT) as service:
        watcher.wait(count, service)
        service.ready()
        assert service.end() == 0
    sources = [json.loads(value)["source"] for value in by_ordinal(watcher.rest())]
    return [(source["partition"], source["offset"]) for source in sources]


def test_a_gap_makes_the_judge_unready_and_rewind_brings_every_page_its_verdict(program: Program) -> None:
    judge_50_of_100(program)
    with program.place.open() as log, watching(log) as watcher:
        log.set_group_offsets({0: 80})  # 30 pages with lost frames
        with program.serve(**SHORT) as service:
            service.until(lambda: "has a gap" in service.get("/health/ready")[1], "the gap is named")
            assert service.get("/health/ready")[0] == 503
            assert "source rewind" in service.get("/health/ready")[1]
            assert service.metric("simstream_source_gaps") == 1
            busy = program.on_log("source", "rewind")
            assert busy.returncode == 1
            assert service.end() == 0
        assert len(watcher.rest()) == 50
        assert program.good("source", "rewind") == "partition 0: reading goes on at offset 50\n"
        with program.serve(**SHORT) as service:
            watcher.wait(100, service)
            service.ready()
            assert service.metric("simstream_source_gaps") == 0
            assert service.end() == 0
        verdicts = [json.loads(value) for value in by_ordinal(watcher.rest())]
    assert [v["source"]["offset"] for v in verdicts] == list(range(100))


@pytest.mark.long
def test_rewind_begins_a_partition_anew_that_has_frames_but_no_first_one(program: Program) -> None:
    program.good("topics", "create", "--partitions", 2)
    program.feed(60, seed=1)
    with program.place.open() as log, watching(log) as watcher:
        in_first = sum(record.partition == 0 for record in read_topic(log, PAGES))
        log.set_group_offsets({1: 5})  # so its first frame, which began at 0, is missing
        with program.serve(**SHORT) as service:
            watcher.wait(in_first, service)
            service.until(lambda: service.metric("simstream_source_gaps") == 1, "the gap is counted")
            assert service.end() == 0
        assert program.good("source", "rewind").splitlines() == [
            f"partition 0: reading goes on at offset {in_first}",
            "partition 1: reading starts at its beginning",
        ]
        sources = served(program, watcher, 60)
    assert len(set(sources)) == len(sources) == 60


def test_a_group_with_members_is_not_rewound(program: Program) -> None:
    program.good("topics", "create", "--partitions", 1)
    with program.serve() as service, program.place.open() as log:
        service.ready()
        service.until(lambda: is_locked(log), "the fingerprinter is a member")
        assert service.end() == 0


def is_locked(log: object) -> bool:
    try:
        log.set_group_offsets({0: 0})  # type: ignore[attr-defined]
    except LogLocked:
        return True
    return False


@pytest.mark.kafka
@pytest.mark.long
def test_skip_gives_up_pages_that_were_removed_before_they_were_read(on_kafka: Program) -> None:
    judge_50_of_100(on_kafka)
    on_kafka.place.expire(PAGES, 70)
    assert "source skip" in on_kafka.refused()
    said = [on_kafka.good("source", "skip") for _ in range(2)]  # safe to repeat
    assert said[0] == "partition 0: offsets 50 to 69 are given up\n"
    assert said[1].startswith("no page is lost")
    with on_kafka.place.open() as log, watching(log) as watcher, on_kafka.serve() as service:
        watcher.wait(80, service)
        service.ready()
        assert service.end() == 0
        verdicts = [json.loads(value) for value in by_ordinal(watcher.rest())]
    assert [v["source"]["offset"] for v in verdicts] == [*range(50), *range(70, 100)]


@pytest.mark.kafka
def test_a_gap_whose_pages_have_partly_expired_is_skipped_and_the_rest_is_read_again(on_kafka: Program) -> None:
    judge_50_of_100(on_kafka)
    with on_kafka.place.open() as log, watching(log) as watcher:
        log.set_group_offsets({0: 80})  # 30 pages with lost frames
        with on_kafka.serve(**SHORT) as service:
            service.until(lambda: "from offset 50 on" in service.get("/health/ready")[1], "the gap is named")
            assert "pages of partition 0 from offset 50 to 79 are missing" in service.output
            assert service.end() == 0
        on_kafka.place.expire(PAGES, 70)
        found = on_kafka.on_log("status", "--gaps")
        assert found.returncode == 1
        assert "source skip" in found.stdout.decode()
        refused = on_kafka.on_log("source", "rewind")
        assert refused.returncode == 2
        assert "partition 0 lacks offsets 50 to 69: retention removed what was there" in refused.stderr.decode()
        assert on_kafka.good("source", "skip") == "partition 0: offsets 50 to 69 are given up\n"
        assert served(on_kafka, watcher, 80) == [(0, offset) for offset in (*range(50), *range(70, 100))]


@pytest.mark.kafka
def test_of_a_log_that_was_cut_each_command_says_which_state_it_needs(on_kafka: Program) -> None:
    judge_50_of_100(on_kafka, "--state", "kept")
    with on_kafka.place.open() as log, on_kafka.serve("--roles", "fingerprint") as service:
        service.until(lambda: log.source_offsets() == {0: 100}, "all pages are read")
        assert service.end() == 0
    on_kafka.place.expire(FINGERPRINTS)
    wanted = {
        (): "name the folder of the judge's state with --state",
        ("--state", "none"): "none has no snapshot: name the folder of the last judge's state, or choose another",
        ("--state", "kept"): "kept has its newest snapshot at frame ",
    }
    for state, words in wanted.items():
        for way in ("skip", "rewind"):
            refused = on_kafka.on_log("source", way, *state)
            assert refused.returncode == 2
            assert words in refused.stderr.decode()
        told = on_kafka.on_log("status", "--gaps", *state)
        assert told.returncode == 1
        assert "read up to" in told.stdout.decode()
        assert ("no snapshot in" if state else words) in told.stdout.decode()


@pytest.mark.kafka
def test_skip_also_begins_a_partition_anew_that_has_frames_but_no_first_one(on_kafka: Program) -> None:
    on_kafka.good("topics", "create", "--partitions", 2)
    on_kafka.feed(60, seed=1)
    with on_kafka.place.open() as log, watching(log) as watcher:
        ends = log.end_offsets(PAGES)
        log.set_group_offsets({1: 5})  # so its first frame, which began at 0, is missing
        with on_kafka.serve(**SHORT) as service:
            watcher.wait(ends[0], service)
            service.until(lambda: service.metric("simstream_source_gaps") == 1, "the gap is counted")
            assert service.end() == 0
        on_kafka.feed(60, seed=2)
        on_kafka.place.expire(PAGES, ends[0] + 2)
        assert "source skip" in on_kafka.on_log("status", "--gaps").stdout.decode()
        left = f"partition 0: offsets {ends[0]} to {ends[0] + 1} are given up"
        assert on_kafka.good("source", "skip").splitlines() == [left]
        count = sum(log.end_offsets(PAGES).values()) - 2
        sources = served(on_kafka, watcher, count)
    assert len(set(sources)) == len(sources) == count


def produce_in_a_transaction(program: Program, count: int) -> None:
    """Pages that are committed together, which leaves a marker behind them."""
    producer = Producer(
        {"bootstrap.servers": program.place.servers, "transactional.id": f"{program.place.prefix}.crawler"}
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    for number in range(count):
        producer.produce(f"{program.place.prefix}.{PAGES}", json.dumps({"text": f"page {number}"}).encode())
    producer.commit_transaction(30)


@pytest.mark.kafka
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "asked to end"])
@pytest.mark.long
def test_transactional_pages_that_have_all_expired_are_no_gap(on_kafka: Program, how: signal.Signals) -> None:
    on_kafka.good("topics", "create", "--partitions", 1)
    produce_in_a_transaction(on_kafka, 5)
    with on_kafka.place.open() as log, watching(log) as watcher:
        end = log.end_offsets(PAGES)[0]
        assert end == 6
        with on_kafka.serve(**QUICK_GROUPS) as service:
            watcher.wait(5, service)
            service.until(lambda: log.source_offsets() == {0: end}, "the commit stands behind the marker")
            assert service.end(how) == (0 if how == signal.SIGTERM else -how)
        assert log.source_offsets() == {0: end}
        on_kafka.place.expire(PAGES, end)
        produce_in_a_transaction(on_kafka, 3)
        with on_kafka.serve(**QUICK_GROUPS) as service:
            watcher.wait(8, service)
            service.ready()
            assert service.end() == 0
        verdicts = [json.loads(value) for value in by_ordinal(watcher.rest())]
    assert [v["source"]["offset"] for v in verdicts] == [0, 1, 2, 3, 4, 6, 7, 8]


def test_rewind_of_a_log_without_frames_says_that_nothing_is_missing(program: Program) -> None:
    program.good("topics", "create", "--partitions", 1)
    done = program.on_log("source", "rewind")
    assert done.returncode == 2
    assert b"no frame yet" in done.stderr
