"""Withdrawals, windows and link rules through the service."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from simstream.log.base import PAGES
from tests.e2e import pages
from tests.e2e.harness import Program, bare, by_ordinal, naive_verdicts, watching

TEXT = "the quiet harbour lantern maker sold twelve brass lamps before the winter storm closed the old market road"


def test_a_withdrawn_page_leaves_and_the_next_like_it_is_new(program: Program) -> None:
    program.good("topics", "create", "--partitions", 1)
    page = json.dumps({"text": TEXT}).encode()
    fed = [(b"a", page), (b"b", page), (b"a", None), (b"c", page), (b"b", None), (b"c", None), (b"d", page)]
    with program.place.open() as log, watching(log) as watcher, program.serve() as service:
        with log.open_appender(PAGES) as appender:
            for key, value in [*fed, (b"unknown", None)]:
                appender.append(value, key)
        watcher.wait(len(fed) + 1, service)
        assert service.end() == 0
        verdicts = [json.loads(value) for value in by_ordinal(watcher.rest())]
    said = [(v["id"], v["verdict"], v["near_duplicate_of"], v["canonical"]) for v in verdicts]
    assert said == [
        ("a", "new", None, "a"),
        ("b", "near_duplicate", "a", "a"),
        ("a", "withdrawn", None, None),
        ("c", "near_duplicate", "b", "b"),
        ("b", "withdrawn", None, None),
        ("c", "withdrawn", None, None),
        ("d", "new", None, "d"),
        ("unknown", "withdrawn", None, None),
    ]


@pytest.mark.parametrize(
    "flags",
    [["--window", "2h"], ["--link", "canonical"], ["--window", "2h", "--link", "canonical", "--distance", "4"]],
)
def test_window_link_and_distance_mean_the_same_in_dedup_and_serve(
    program: Program, tmp_path: Path, flags: list[str]
) -> None:
    lines = [json.loads(line) for line in pages.lines(600, seed=9) if line.endswith(b"}")]
    kept = [json.dumps(line) for line in lines if "id" in line]
    made = tmp_path / "pages.jsonl"
    made.write_text("\n".join(kept) + "\n")
    program.good("topics", "create", "--partitions", 1)
    program.good("feed", made)
    with program.place.open() as log, watching(log) as watcher, program.serve(*flags) as service:
        watcher.wait(len(kept), service)
        assert service.end() == 0
        verdicts = by_ordinal(watcher.rest())
        if "--distance" not in flags:
            window = 7_200_000 if "--window" in flags else None
            assert verdicts == naive_verdicts(log, window, "canonical" if "--link" in flags else "any")
    assert [bare(v) for v in verdicts] == [bare(v) for v in program.dedup(made, "--versions", *flags)]
