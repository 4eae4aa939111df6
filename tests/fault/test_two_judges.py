"""Two judges at once: never a verdict twice, and at least one goes on."""

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
            judges = [older, newer]
            newer.until(lambda: any(judge.process.poll() is not None for judge in judges), "one of them has ended")
            (ended,) = [judge for judge in judges if judge.process.poll() is not None]
            (going,) = [judge for judge in judges if judge is not ended]
            assert ended.wait() == 1
            assert "another judge publishes" in ended.output.splitlines()[-1]
            assert "Traceback" not in ended.output
            assert going.end() == 0
        assert fingerprinter.end() == 0
        assert by_ordinal(watcher.rest()) == naive_verdicts(log)


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
