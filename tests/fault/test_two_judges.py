"""Two judges at once: never a verdict twice, and the newer goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e import pages
from tests.e2e.harness import Program, by_ordinal, naive_verdicts, watching

SMALL = {"SIMSTREAM_FRAME_MAX_PAGES": "20"}


@pytest.mark.kafka
def test_a_newer_judge_takes_over_and_the_older_says_so(on_kafka: Program, tmp_path: Path) -> None:
    on_kafka.good("topics", "create", "--partitions", 2)
    with (
        on_kafka.place.open() as log,
        watching(log) as watcher,
        on_kafka.serve("--roles", "fingerprint", **SMALL) as fingerprinter,
        on_kafka.serve("--roles", "judge") as older,
    ):
        on_kafka.good("feed", pages.write(tmp_path / "one.jsonl", 200, seed=1))
        watcher.wait(100, older)
        with on_kafka.serve("--roles", "judge") as newer:
            newer.ready()
            on_kafka.good("feed", pages.write(tmp_path / "two.jsonl", 400, seed=2))
            newer.until(lambda: watcher.look() >= 600, "all verdicts are there")
            newer.until(lambda: older.process.poll() is not None, "the older has ended")
            assert older.wait() == 1
            assert "another judge publishes" in older.output.splitlines()[-1]
            assert "Traceback" not in older.output
            assert newer.end() == 0
        assert fingerprinter.end() == 0
        assert by_ordinal(watcher.rest()) == naive_verdicts(log)


@pytest.mark.kafka
def test_a_judge_of_another_policy_or_recipe_is_refused_and_the_running_one_goes_on(
    on_kafka: Program, tmp_path: Path
) -> None:
    on_kafka.good("topics", "create", "--partitions", 1)
    with on_kafka.place.open() as log, watching(log) as watcher, on_kafka.serve() as running:
        on_kafka.good("feed", pages.write(tmp_path / "one.jsonl", 100, seed=1))
        watcher.wait(100, running)
        for wrong in (("--distance", "3"), ("--recipe", "google2007")):
            with on_kafka.serve("--roles", "judge", *wrong) as refused:
                assert refused.wait() == 1
                assert "Traceback" not in refused.output
        on_kafka.good("feed", pages.write(tmp_path / "two.jsonl", 100, seed=2))
        watcher.wait(200, running)
        assert running.end() == 0
        assert len(by_ordinal(watcher.rest())) == 200


def test_a_second_judge_on_a_local_log_is_refused_while_the_first_lives(on_folder: Program, tmp_path: Path) -> None:
    on_folder.good("topics", "create")
    with on_folder.place.open() as log, watching(log) as watcher, on_folder.serve() as first:
        first.ready()
        with on_folder.serve("--roles", "judge") as second:
            assert second.wait() == 1
            assert second.output.splitlines()[-1].startswith("simstream: ")
        on_folder.good("feed", pages.write(tmp_path / "one.jsonl", 100))
        watcher.wait(100, first)
        assert first.end() == 0
        assert len(by_ordinal(watcher.rest())) == 100
