"""Logs of other versions: an old log is judged on as it is; at a newer frame every role stops by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from simstream.log.options import FINGERPRINTS
from simstream.wire import frame as frames
from simstream.wire.frame_versions import FORMAT
from tests.e2e import pages
from tests.e2e.harness import Program, all_verdicts, bare, naive_verdicts, read_topic
from tests.fault.test_two_judges import pages_in
from tests.old_format import as_format, as_format_1

SMALL = {"SIMSTREAM_FRAME_MAX_PAGES": "20"}


def test_a_frame_of_a_newer_version_stops_a_judge_by_name_and_its_pages_wait_for_a_newer_judge(
    program: Program,
) -> None:
    program.good("topics", "create", "--partitions", 1)
    program.feed(60, seed=1)
    program.judge(60, **SMALL)
    with program.place.open() as log:
        last = read_topic(log, FINGERPRINTS)[-1].value or b""
        with log.open_appender(FINGERPRINTS) as appender:
            appender.append(as_format(FORMAT + 1, last), partition=0)
        program.feed(30, seed=2)
        for _ in range(2):
            said = program.refused(**SMALL)
            assert f"is of format {FORMAT + 1}" in said
            assert "fingerprinters last" in said
        done = program.on_log("status", "--gaps")
        assert done.returncode == 1
        assert f"is of format {FORMAT + 1}" in done.stderr.decode()
        assert len(all_verdicts(log)) == 60, "nothing behind it is judged as if it were not there"


@pytest.mark.parametrize("roles", ["fingerprint", "judge", "query"])
def test_a_log_that_a_newer_version_began_is_refused_by_every_role(on_folder: Program, roles: str) -> None:
    on_folder.good("topics", "create", "--partitions", 1)
    with on_folder.place.open() as log, log.open_appender(FINGERPRINTS) as appender:
        appender.append(as_format(FORMAT + 1, b"smfr" + bytes(60)), partition=0)
    assert f"is of format {FORMAT + 1}" in on_folder.refused("--roles", roles)


@pytest.mark.long
def test_a_log_of_the_first_format_is_judged_on_like_a_current_one(program: Program, tmp_path: Path) -> None:
    first, second = (pages.write(tmp_path / f"{seed}.jsonl", 60, seed=seed) for seed in (1, 2))
    program.good("topics", "create", "--partitions", 1)
    program.good("feed", first)
    with program.place.open() as log, program.serve("--roles", "fingerprint", **SMALL) as service:
        service.until(lambda: pages_in(log) == 60, "all pages are in the log")
        assert service.end() == 0
        whole = [frames.decode(record.value or b"") for record in read_topic(log, FINGERPRINTS)]
    program.place.delete(FINGERPRINTS)
    with program.place.open() as log:
        log.create_topics(1)
        with log.open_appender(FINGERPRINTS) as appender:
            for frame in whole:
                appender.append(as_format_1(frame.header, frame.columns), partition=0)
    program.good("feed", first)
    program.good("feed", second)
    verdicts = program.judge(180, **SMALL)
    with program.place.open() as log:
        assert verdicts == naive_verdicts(log)
    expected = program.dedup("--versions", first, first, second)
    assert [bare(verdict) for verdict in verdicts] == [bare(verdict) for verdict in expected]
    assert {verdict["verdict"] for verdict in expected[60:120]} >= {"unchanged"}
