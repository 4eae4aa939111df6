"""The service says what `dedup` says, each page once, whatever happens to it on the way."""

from __future__ import annotations

import json
import random
import signal
import time
from pathlib import Path

import pytest

from tests.e2e import pages
from tests.e2e.harness import (
    PATIENCE_S,
    QUICK_GROUPS,
    Program,
    all_verdicts,
    bare,
    by_ordinal,
    naive_verdicts,
    shares,
    watching,
)

PAGES = 2_500


@pytest.fixture
def made(tmp_path: Path) -> Path:
    return pages.write(tmp_path / "pages.jsonl", PAGES)


def killed_on_the_way(program: Program, count: int, kills: int, seed: int, *flags: object) -> list[bytes]:
    """Serve until `count` verdicts are there, with a kill -9 whenever a random number of new ones was seen.

    Frames are small, so that one transaction does not take all; and from its start the process runs in short turns,
    between which its verdicts are looked at, so that it is not done before it is killed.
    """
    rng = random.Random(seed)
    small = {"SIMSTREAM_FRAME_MAX_PAGES": "2"} | QUICK_GROUPS
    with program.place.open() as log, watching(log) as watcher:
        seen = on_the_way = 0
        for _ in range(kills):
            with program.serve(*flags, **small) as service:
                wanted = min(count, seen + rng.randrange(1, count // (2 * kills)))
                end = time.monotonic() + PATIENCE_S
                while watcher.look(0.01) < wanted:
                    assert service.process.poll() is None, service.output
                    assert time.monotonic() < end, service.output
                    service.process.send_signal(signal.SIGCONT)
                    time.sleep(0.02)
                    service.process.send_signal(signal.SIGSTOP)
                service.kill()
            seen = len(watcher.rest())
            if seen >= count:  # the service was faster than the kill
                break
            on_the_way += 1
        assert on_the_way, "it was killed too late to be a test"
        with program.serve(*flags, **small) as service:
            watcher.wait(count, service)
            service.ready()  # the one before may have judged all: then this one has just begun
            assert service.end() == 0
            assert "Traceback" not in service.output
        return by_ordinal(watcher.rest())


def test_one_partition_gives_the_verdicts_of_dedup(program: Program, made: Path) -> None:
    program.good("topics", "create", "--partitions", 1)
    program.good("feed", made)
    verdicts = program.judge(PAGES)
    assert [bare(v) for v in verdicts] == [bare(v) for v in program.dedup(made, "--versions")]
    assert {v["verdict"] for v in map(json.loads, verdicts)} == {
        "new", "near_duplicate", "unchanged", "too_short", "unreadable",
    }  # fmt: skip


@pytest.mark.long
def test_a_recipe_that_asks_more_of_short_pages_gives_the_verdicts_of_the_quadratic_judge(
    on_folder: Program, tmp_path: Path
) -> None:
    recipe, made = tmp_path / "strict.toml", pages.write(tmp_path / "pages.jsonl", 600)
    recipe.write_text('short_words = 40\nshort_distance = 2\nshort_similarity = "0.9"\n', encoding="utf-8")
    on_folder.good("topics", "create", "--partitions", 1)
    on_folder.good("feed", made)
    verdicts = on_folder.judge(600, "--recipe", recipe)
    with on_folder.place.open() as log:
        assert verdicts == naive_verdicts(log, recipe=recipe)
    lax, strict = (on_folder.dedup(made, "--versions", "--recipe", name) for name in ("default", recipe))
    assert [bare(v) for v in verdicts] == [bare(v) for v in strict]
    assert 5 <= sum(a["verdict"] != b["verdict"] for a, b in zip(lax, strict, strict=True)) <= 300


@pytest.mark.long
def test_kills_change_no_verdict_on_pages_of_two_fingerprints(on_folder: Program, tmp_path: Path) -> None:
    recipe, made = tmp_path / "two.toml", pages.write(tmp_path / "pages.jsonl", 1_000)
    recipe.write_text("fingerprints = 2\ndistance = 7\n", encoding="utf-8")
    on_folder.good("topics", "create", "--partitions", 1)
    on_folder.good("feed", made)
    verdicts = killed_on_the_way(on_folder, 1_000, 2, 3, "--recipe", recipe)
    with on_folder.place.open() as log:
        assert verdicts == naive_verdicts(log, recipe=recipe)
    assert [bare(v) for v in verdicts] == [
        bare(v) for v in on_folder.dedup(made, "--versions", "--recipe", recipe, "--distance", "7")
    ]
    found = [json.loads(v) for v in verdicts]
    assert {len(v["fingerprint"]) for v in found if v["fingerprint"]} == {32}
    one = on_folder.dedup(made, "--versions", "--distance", "7")
    assert sum(v["verdict"] == "near_duplicate" for v in found) > sum(v["verdict"] == "near_duplicate" for v in one)


def test_three_kills_on_the_way_change_no_verdict(program: Program, made: Path) -> None:
    program.good("topics", "create", "--partitions", 1)
    program.good("feed", made)
    verdicts = killed_on_the_way(program, PAGES, kills=3, seed=7)
    assert [bare(v) for v in verdicts] == [bare(v) for v in program.dedup(made, "--versions")]


@pytest.mark.long
def test_four_partitions_give_the_verdicts_of_the_quadratic_judge(program: Program, made: Path) -> None:
    program.good("topics", "create", "--partitions", 4)
    program.good("feed", made)
    verdicts = killed_on_the_way(program, PAGES, kills=1, seed=5)
    with program.place.open() as log:
        assert verdicts == naive_verdicts(log)
    assert {json.loads(v)["source"]["partition"] for v in verdicts} == {0, 1, 2, 3}


@pytest.mark.kafka
@pytest.mark.long
def test_two_fingerprinters_and_a_judge_survive_a_killed_fingerprinter(on_kafka: Program, tmp_path: Path) -> None:
    made = pages.write(tmp_path / "pages.jsonl", 1_000)
    admin = on_kafka.place.admin()
    on_kafka.good("topics", "create", "--partitions", 4)
    small = {"SIMSTREAM_FRAME_MAX_PAGES": "25"} | QUICK_GROUPS
    with (
        on_kafka.place.open() as log,
        watching(log) as watcher,
        on_kafka.serve("--roles", "fingerprint", **small) as first,
        on_kafka.serve("--roles", "fingerprint", **small) as second,
        on_kafka.serve("--roles", "judge") as judge,
    ):
        second.until(lambda: shares(on_kafka.place, admin) == [2, 2], "both have their partitions")
        on_kafka.good("feed", made)
        second.until(lambda: second.metric("simstream_pages_consumed_total") > 0, "the second reads, too")
        first.kill()
        watcher.wait(1_000, judge)
        assert judge.end() == 0
        assert second.end() == 0
    with on_kafka.place.open() as log:
        assert all_verdicts(log) == naive_verdicts(log)


def test_pages_fed_while_the_service_runs_come_through_once(program: Program, tmp_path: Path) -> None:
    program.good("topics", "create", "--partitions", 2)
    with program.place.open() as log, watching(log) as watcher, program.serve() as service:
        for part in range(3):
            program.good("feed", pages.write(tmp_path / f"{part}.jsonl", 100, seed=part))
            watcher.wait(100 * (part + 1), service)
        assert service.end() == 0
        assert len(by_ordinal(watcher.rest())) == 300
