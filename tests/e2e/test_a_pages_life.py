"""Withdrawals, windows and link rules through the service."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from simstream.log.options import PAGES
from tests.e2e import pages
from tests.e2e.harness import Program, bare, by_ordinal, naive_verdicts, watching
from tests.e2e.pages import HARBOUR


def test_a_withdrawn_page_leaves_and_the_next_like_it_is_new(program: Program) -> None:
    program.good("topics", "create", "--partitions", 1)
    page = json.dumps({"text": HARBOUR}).encode()
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


def test_with_v_each_step_of_a_page_is_a_line(program: Program) -> None:
    program.good("topics", "create", "--partitions", 1)
    with program.place.open() as log, watching(log) as watcher, program.serve("-v") as service:
        with log.open_appender(PAGES) as appender:
            appender.append(json.dumps({"text": HARBOUR}).encode(), b"a")
            appender.append(b"no page", b"b")
        watcher.wait(2, service)
        service.until(
            lambda: "commits partitions up to these offsets: {0: 2}" in service.output, "pages are committed"
        )
        assert service.end() == 0
    for line in (
        "simstream.fingerprint: fingerprinted ",
        "simstream.fingerprint: partition 0, offset 1 is unreadable: ",
        "simstream.judge: judged ",
        "simstream.judge: published ",
    ):
        assert f"DEBUG   {line}" in service.output


def test_with_v_a_command_names_the_log_and_its_topics(program: Program) -> None:
    program.good("topics", "create")
    line = (
        f"INFO    simstream.log: the log is {program.place.address}; its topics: {program.place.prefix}.{PAGES}, "
    )
    quiet, more = (program.on_log("verdicts", *flags).stderr.decode() for flags in ([], ["-v"]))
    assert line in more
    assert line not in quiet


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
    verdicts = program.judge(len(kept), *flags)
    if "--distance" not in flags:
        window = 7_200_000 if "--window" in flags else None
        with program.place.open() as log:
            assert verdicts == naive_verdicts(log, window, "canonical" if "--link" in flags else "any")
    assert [bare(v) for v in verdicts] == [bare(v) for v in program.dedup(made, "--versions", *flags)]
