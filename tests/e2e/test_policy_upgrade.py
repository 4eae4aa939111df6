"""Upgrades from the former recipe `default`, and to more lookups in the same log."""

from __future__ import annotations

import json
from pathlib import Path

from simstream.log.options import FINGERPRINTS
from tests.e2e import pages
from tests.e2e.harness import Program, all_verdicts, naive_verdicts, watching

PAGES, MORE = 150, 50
SMALL = {"SIMSTREAM_FRAME_MAX_PAGES": "8"}


def test_a_service_goes_on_under_a_file_that_stands_for_the_former_recipe(program: Program, tmp_path: Path) -> None:
    former = tmp_path / "former.toml"
    former.write_text(
        'base = "default"\nextract = "prose"\nsketch_bits = 192\nsketch_fill = "copied"\n', encoding="utf-8"
    )
    options = ("--state", tmp_path / "state")
    with program.place.open() as log:
        log.create_topics(2)
        for count, name in ((PAGES, "one"), (PAGES + MORE, "two")):
            program.good(
                "feed", pages.write(tmp_path / f"{name}.jsonl", count - len(all_verdicts(log)), seed=count)
            )
            with program.serve("--recipe", former, *options, **SMALL) as service, watching(log) as watcher:
                watcher.wait(count, service)
                assert service.end() == 0
            refused = program.on_log("serve", "--http-port", 0, *options)
            assert refused.returncode == 1
            assert (
                'use a recipe file with base = "default", extract = "prose", sketch_bits = 192'
                in refused.stderr.decode()
            )
        assert all_verdicts(log) == naive_verdicts(log, recipe=former)
        refused = program.on_log("replay", "--to", f"{program.place.prefix}-other")
        assert refused.returncode == 1
        assert b"created" not in refused.stderr


def test_a_replay_with_a_lookup_by_the_sketch_finds_more_in_the_same_log(program: Program, tmp_path: Path) -> None:
    to, alone = f"{program.place.prefix}-next", tmp_path / "alone.toml"
    alone.write_text('base = "default"\nsketch_lookups = 0\n', encoding="utf-8")
    with program.place.open() as old, program.place.open(publish_to=to) as new:
        old.create_topics(2)
        program.good("feed", pages.write(tmp_path / "one.jsonl", PAGES, seed=5))
        with program.serve("--recipe", alone, **SMALL) as service, watching(old) as watcher:
            watcher.wait(PAGES, service)
            assert service.end() == 0
        refused = program.on_log("serve", "--http-port", 0)
        assert refused.returncode == 1
        assert "sketch_lookups (a setting" in refused.stderr.decode()
        program.good("replay", "--to", to, "--state", tmp_path / "next")
        program.good("feed", pages.write(tmp_path / "two.jsonl", MORE, seed=6))
        with (
            program.serve("--publish-to", to, "--state", tmp_path / "next") as service,
            watching(new) as watcher,
        ):
            watcher.wait(PAGES + MORE, service)
            assert service.end() == 0
        verdicts = all_verdicts(new)
        assert all_verdicts(old) == naive_verdicts(old, recipe=alone)[:PAGES]
        assert verdicts == naive_verdicts(old)
        assert new.topic(FINGERPRINTS) == old.topic(FINGERPRINTS)
        found, earlier = (
            [json.loads(value)["verdict"] for value in values].count("near_duplicate")
            for values in (verdicts[:PAGES], all_verdicts(old))
        )
        assert found > earlier
