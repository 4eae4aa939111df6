"""The judge's state in a folder: taken up again where it fits, refused by name where it does not."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from simstream.log.base import Log
from simstream.log.options import FINGERPRINTS, POSITIONS, VERDICTS
from tests.disks import fill, small_disk
from tests.e2e.harness import Program, Service, all_verdicts, by_ordinal, naive_verdicts, read_topic, watching
from tests.e2e.test_status import status

SMALL = {"SIMSTREAM_FRAME_MAX_PAGES": "20"}
OFTEN = SMALL | {"SIMSTREAM_SNAPSHOT_EVERY": "50ms"}
KEPT = ("--state", "state")
"""A folder beside the test's files."""


def served(program: Program, seed: int, count: int = 200) -> None:
    """Feed `count` pages, serve until they have their verdicts, and end cleanly."""
    program.feed(count, seed)
    with program.place.open() as log:
        there = len(all_verdicts(log))
    program.judge(there + count, *KEPT, **SMALL)


def loaded(service: Service) -> int:
    """The frame of the state that it took up."""
    service.until(lambda: " loaded in " in service.output, "it has taken up its state")
    found = re.search(r"state of frame (\d+),", service.output)
    assert found
    return int(found[1])


def end_of(log: Log) -> int:
    return log.end_offsets(FINGERPRINTS)[0]


def test_a_clean_stop_keeps_the_state_and_a_restart_judges_nothing_again(program: Program) -> None:
    program.good("topics", "create", "--partitions", 2)
    served(program, seed=1)
    with program.place.open() as log, watching(log) as watcher:
        frames = end_of(log)
        with program.serve(*KEPT, **SMALL) as service:
            assert loaded(service) == frames
            service.until(lambda: "replayed" in service.output, "it goes on")
            assert "replaying" not in service.output
            program.feed(200, seed=2)
            watcher.wait(400, service)
            assert service.end() == 0
        assert by_ordinal(watcher.rest()) == naive_verdicts(log)


@pytest.mark.long
def test_killed_again_and_again_it_goes_on_from_its_last_snapshot(on_folder: Program) -> None:
    on_folder.good("topics", "create", "--partitions", 2)
    on_folder.feed(3000, seed=1)
    frames = []
    with on_folder.place.open() as log, watching(log) as watcher:
        for round_ in range(4):
            with on_folder.serve(*KEPT, **OFTEN) as service:
                if round_:
                    frames.append(loaded(service))
                watcher.wait(min(3000, 500 * (round_ + 1)), service)
                service.until(lambda: "snapshot of frame" in service.output, "it is kept")
                service.kill()
        with on_folder.serve(*KEPT, **OFTEN) as service:
            frames.append(loaded(service))
            watcher.wait(3000, service)
            assert service.end() == 0
        assert frames == sorted(frames)
        assert frames[0] > 0
        assert by_ordinal(watcher.rest()) == naive_verdicts(log)


@pytest.mark.kafka
@pytest.mark.long
def test_where_the_log_is_cut_the_state_goes_on_and_without_it_nobody_does(on_kafka: Program) -> None:
    on_kafka.good("topics", "create", "--partitions", 1)
    served(on_kafka, seed=1)
    with on_kafka.place.open() as log, watching(log) as watcher:
        kept = end_of(log)
        shutil.copytree(on_kafka.folder / "state", on_kafka.folder / "older")
        expected = naive_verdicts(log)
        on_kafka.place.expire(FINGERPRINTS, kept)
        for without in ((), ("--state", "none")):
            said = on_kafka.refused("--roles", "judge", *without)
            assert f"the log begins at frame {kept}, and no state reaches that far" in said
        served(on_kafka, seed=2)
        on_kafka.place.expire(FINGERPRINTS, kept + 2)
        said = on_kafka.refused("--roles", "judge", "--state", "older")
        assert f"the log begins at frame {kept + 2}, the state in older is at frame {kept}" in said
        assert by_ordinal(watcher.rest())[:200] == expected
        served(on_kafka, seed=3)


@pytest.mark.kafka
@pytest.mark.long
def test_a_gap_is_mended_where_the_log_is_cut(on_kafka: Program) -> None:
    on_kafka.good("topics", "create", "--partitions", 1)
    served(on_kafka, seed=1)
    with on_kafka.place.open() as log:
        on_kafka.place.expire(FINGERPRINTS, end_of(log))
        log.set_group_offsets({0: 250})  # a commit that no frame covers
        on_kafka.feed(100, seed=2)
        with on_kafka.serve("--roles", "fingerprint") as service:
            service.until(lambda: log.source_offsets() == {0: 300}, "all is read")
            assert service.end() == 0
        refused = on_kafka.on_log("source", "rewind")
        assert refused.returncode == 2
        assert "--state" in refused.stderr.decode()
        copy = on_kafka.folder / "copy"
        copy.mkdir()
        shutil.copy(on_kafka.folder / "state" / "manifest", copy)  # it alone is enough, as the runbook says
        found = on_kafka.on_log("status", "--json", "--gaps", "--state", "copy")
        assert json.loads(found.stdout)["gaps"] == {"0": 200}
        assert "offset 200" in on_kafka.good("source", "rewind", "--state", "copy")
        assert len(on_kafka.judge(300, *KEPT)) == 300


@pytest.mark.kafka
def test_a_lost_position_is_noticed_also_when_the_verdicts_have_expired(on_kafka: Program) -> None:
    on_kafka.good("topics", "create", "--partitions", 1)
    on_kafka.feed(100, seed=1)
    on_kafka.judge(100, **SMALL)
    on_kafka.place.delete(POSITIONS)
    on_kafka.good("topics", "create", "--partitions", 1)
    whats = [wrong["what"] for wrong in status(on_kafka, code=1)["wrong"]]
    assert len(whats) == 1, "nothing else can be done before"
    assert "positions has none" in whats[0]
    on_kafka.place.expire(VERDICTS)
    assert "has or had records" in on_kafka.refused(**SMALL)
    told = status(on_kafka, code=1)["wrong"]
    assert any("has or had records" in wrong["what"] for wrong in told)


@pytest.mark.kafka
def test_status_says_when_no_judge_can_start_from_what_is_left(on_kafka: Program) -> None:
    on_kafka.good("topics", "create", "--partitions", 1)
    served(on_kafka, seed=1)
    with on_kafka.place.open() as log:
        on_kafka.place.expire(FINGERPRINTS, end_of(log))
    assert on_kafka.on_log("status", *KEPT).returncode == 0
    empty = on_kafka.on_log("status", "--state", "nothing")
    assert empty.returncode == 1
    assert "no snapshot in nothing reaches it: no judge can start" in empty.stdout.decode()
    assert "no state reaches that far" in on_kafka.refused("--state", "nothing")


@pytest.mark.kafka
def test_a_log_whose_frames_have_all_expired_keeps_its_recipe(on_kafka: Program) -> None:
    on_kafka.good("topics", "create", "--partitions", 1)
    served(on_kafka, seed=1)
    with on_kafka.place.open() as log:
        recipe = json.loads(on_kafka.on_log("status", "--json").stdout)["recipe"]
        on_kafka.place.expire(FINGERPRINTS)
        assert json.loads(on_kafka.on_log("status", "--json").stdout)["recipe"] == recipe
        on_kafka.feed(50, seed=2)
        end = end_of(log)
        for roles in ("fingerprint", "fingerprint,judge"):
            said = on_kafka.refused("--roles", roles, *KEPT, "--recipe", "google2007")
            assert f"the log began under recipe {recipe}" in said
        assert end_of(log) == end
        on_kafka.judge(250, *KEPT)


def test_a_full_disk_makes_unready_and_keeps_the_verdicts_coming(on_folder: Program) -> None:
    on_folder.good("topics", "create", "--partitions", 1)
    (on_folder.folder / "state").mkdir()
    with (
        small_disk(on_folder.folder / "state", 4000),
        on_folder.place.open() as log,
        watching(log) as watcher,
        on_folder.serve(*KEPT, **OFTEN) as service,
    ):
        on_folder.feed(100, seed=1)
        service.until(lambda: "snapshot of frame" in service.output, "it is kept")
        watcher.wait(100, service)
        make_room = fill(on_folder.folder / "state")
        on_folder.feed(200, seed=2)
        service.until(lambda: "no room" in service.get("/health/ready")[1], "it says that the disk is full")
        watcher.wait(300, service)
        make_room()
        service.until(lambda: f"snapshot of frame {end_of(log)}" in service.output, "it is kept again")
        service.ready()
        assert service.end() == 0
        assert by_ordinal(watcher.rest()) == naive_verdicts(log)


@pytest.mark.long
def test_a_state_ahead_of_what_is_published_is_not_used(on_folder: Program) -> None:
    on_folder.good("topics", "create", "--partitions", 1)
    served(on_folder, seed=1)
    place = Path(on_folder.place.address)
    shutil.copytree(place, on_folder.folder / "back")
    first = json.loads(on_folder.on_log("status", "--json", *KEPT).stdout)["snapshots"][0]["frame"]
    served(on_folder, seed=2)
    shutil.copytree(on_folder.folder / "state", on_folder.folder / "ahead")
    shutil.rmtree(place)
    shutil.copytree(on_folder.folder / "back", place)
    with on_folder.place.open() as log, watching(log) as watcher:
        with on_folder.serve(*KEPT, **SMALL) as service:
            assert loaded(service) == first
            service.until(lambda: "replayed" in service.output, "it goes on")
            on_folder.feed(300, seed=3)
            watcher.wait(500, service)
            service.kill()
        with on_folder.serve(*KEPT, **SMALL) as service:
            assert loaded(service) == first, (
                "the state of lost frames counts again, now that others have their place"
            )
            service.ready()
            assert service.end() == 0
        said = on_folder.refused("--roles", "judge", "--state", "ahead")
        assert re.search(r"the state in ahead does not belong to this log: .*: start again", said)
        with on_folder.serve("--state", "ahead", **SMALL) as service:
            assert loaded(service) == first
            service.ready()
            assert service.end() == 0
        assert by_ordinal(watcher.rest()) == naive_verdicts(log)
    shutil.rmtree(place)
    shutil.copytree(on_folder.folder / "back", place)
    (on_folder.folder / "state" / "manifest.previous").unlink()
    with on_folder.serve(*KEPT, **SMALL) as service:
        said = service.failed()
        assert re.search(rf"at frame \d+, verdicts are published up to frame {first}: remove the folder", said)
    shutil.rmtree(on_folder.folder / "state")
    with on_folder.place.open() as log, watching(log) as watcher, on_folder.serve(*KEPT, **SMALL) as service:
        service.ready()
        assert service.end() == 0
        assert by_ordinal(watcher.rest())[:200] == naive_verdicts(log)[:200]


def test_a_state_of_another_log_is_refused(on_folder: Program, tmp_path: Path) -> None:
    on_folder.good("topics", "create", "--partitions", 1)
    served(on_folder, seed=1)
    other = Program(on_folder.folder, on_folder._cache, type(on_folder.place)(str(tmp_path / "other"), "simstream"))
    other.good("topics", "create", "--partitions", 1)
    assert "the state was made from the log" in other.refused(*KEPT)


def test_two_processes_do_not_share_a_state_and_the_first_goes_on(program: Program) -> None:
    program.good("topics", "create", "--partitions", 1)
    with program.place.open() as log, watching(log) as watcher, program.serve(*KEPT) as first:
        first.ready()
        said = program.refused("--roles", "judge", *KEPT)
        assert f"process {first.process.pid} already uses the state" in said
        program.feed(100, seed=1)
        watcher.wait(100, first)
        assert first.end() == 0


@pytest.mark.long
def test_a_state_that_is_removed_costs_time_and_no_verdict(on_folder: Program) -> None:
    on_folder.good("topics", "create", "--partitions", 1)
    for seed in (1, 2):
        served(on_folder, seed)
        shutil.rmtree(on_folder.folder / "state")
    served(on_folder, seed=3)
    with on_folder.place.open() as log, watching(log) as watcher:
        assert by_ordinal(watcher.rest()) == naive_verdicts(log)


def test_frames_without_a_verdict_are_no_reason_not_to_keep(on_folder: Program) -> None:
    on_folder.good("topics", "create", "--partitions", 1)
    served(on_folder, seed=1)
    with on_folder.place.open() as log:
        last = read_topic(log, FINGERPRINTS)[-1]
        with log.open_appender(FINGERPRINTS) as appender:
            appender.append(last.value, partition=0)  # as a zombie does
        with on_folder.serve("--roles", "judge", *KEPT, **OFTEN) as service:
            service.until(lambda: f"snapshot of frame {end_of(log)}" in service.output, "it is kept")
            assert service.end() == 0
        with on_folder.serve("--roles", "judge", *KEPT) as service:
            assert loaded(service) == end_of(log)
            service.ready()


def test_a_standby_keeps_its_state_too(on_folder: Program) -> None:
    on_folder.good("topics", "create", "--partitions", 1)
    with on_folder.place.open() as log, watching(log) as watcher, on_folder.serve(**SMALL) as first:
        first.until(lambda: first.metric('simstream_role_elected{role="judge"}') == 1, "it is elected")
        with on_folder.serve("--roles", "judge", *KEPT, **OFTEN) as second:
            on_folder.feed(200, seed=1)
            watcher.wait(200, first)
            second.until(lambda: f"snapshot of frame {end_of(log)}" in second.output, "the standby keeps its state")
            assert second.end() == 0
        assert first.end() == 0
        with on_folder.serve("--roles", "judge", *KEPT) as third:
            assert loaded(third) == end_of(log)
            third.ready()


def test_the_folder_says_how_old_it_is(on_folder: Program) -> None:
    on_folder.good("topics", "create", "--partitions", 1)
    served(on_folder, seed=1)
    shown = on_folder.good("status", *KEPT)
    assert re.search(r"snapshot +at frame \d+, ordinal 200, \d+ s old", shown)
    with on_folder.serve(*KEPT) as service:
        service.ready()
        assert 0 < service.metric("simstream_snapshot_age_seconds") < 600
