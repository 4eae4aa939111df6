"""`simstream status` on both logs: what it shows, what needs a person, and that it disturbs nobody."""

from __future__ import annotations

import json
import re
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest
from confluent_kafka import Consumer

from simstream.log.committed_records import committed
from simstream.log.options import FINGERPRINTS
from simstream.wire import frame as frames
from tests.e2e.harness import ROOT, Program, Service, watching
from tests.waiting import until

ELECTED = 'simstream_role_elected{role="judge"}'


def status(program: Program, *arguments: object, code: int = 0, **variables: str) -> dict[str, Any]:
    """What `status --json` says."""
    done = program.on_log("status", "--json", *arguments, **variables)
    assert done.returncode == code, (done.stderr, done.stdout)
    found: dict[str, Any] = json.loads(done.stdout)
    assert bool(found["wrong"]) == bool(code)
    return found


def address(service: Service) -> str:
    return f"127.0.0.1:{service.port}"


def test_a_running_service_is_shown_and_not_disturbed(program: Program) -> None:
    program.good("topics", "create", "--partitions", 2)
    program.feed(300)
    with program.place.open() as log, watching(log) as watcher, program.serve() as service:
        watcher.wait(300, service)
        service.until(lambda: sum(log.source_offsets().values()) == 300, "offsets are committed")
        with program.serve("--roles", "judge") as second:
            second.until(lambda: "standby" in second.get("/health/ready")[1], "it stands by")
            second.until(lambda: status_judges(program) == expected_judges(program), "the group has settled")
            found = status(program, "--http", address(service), "--http", address(second), "--gaps")
            assert second.end() == 0
        assert [topic["name"].split(".")[1] for topic in found["topics"]] == [
            "pages",
            "fingerprints",
            "verdicts",
            "positions",
            "dead-letters",
        ]
        assert sum(lag["read"] for lag in found["source"]) == 300
        assert [lag["waiting"] for lag in found["source"]] == [0, 0]
        frames = log.end_offsets(FINGERPRINTS)[0]
        assert (found["published"]["frame"], found["published"]["ordinal"]) == (frames, 300)
        assert found["unpublished_frames"] == 0
        assert found["gaps"] == {}
        assert len(found["fingerprinters"]) == 1
        assert str(service.process.pid) in found["fingerprinters"][0]
        [elected] = [judge for judge in found["judges"] if judge["elected"]]
        assert str(service.process.pid) in elected["name"]
        assert [process["roles"]["judge"]["state"] for process in found["processes"]] == ["working", "standby"]
        program.feed(100, seed=2)
        watcher.wait(400, service)
        assert service.metric(ELECTED) == 1
        assert service.end() == 0


def status_judges(program: Program) -> int:
    return len(status(program)["judges"])


def expected_judges(program: Program) -> int:
    """Nobody knows who waits for a lock."""
    return 1 if program.place.is_local else 2


def test_it_is_a_table_for_people(program: Program) -> None:
    program.good("topics", "create", "--partitions", 1)
    shown = program.good("status")
    assert "nothing yet; 0 frames to go" in shown
    assert "none runs" in shown
    program.feed(20)
    program.judge(20)
    shown = program.good("status")
    assert "ordinal 20, policy" in shown
    documented = (ROOT / "docs/tutorials/operator.md").read_text()
    for name in (r"recipe +", "policy "):
        [found] = re.findall(rf"\b{name}([0-9a-f]{{8}})\b", shown)
        assert re.findall(rf"\b{name}([0-9a-f]{{8}})\b", documented) == [found]
    assert "20 verdicts published" in shown
    assert status(program)["verdicts"] == 20


def test_unread_pages_and_unjudged_frames_need_a_person(program: Program, tmp_path: Path) -> None:
    program.good("topics", "create", "--partitions", 1)
    program.feed(20)
    [wrong] = status(program, code=1)["wrong"]
    assert wrong["what"] == "20 pages wait, and no fingerprinter runs"
    assert "simstream serve --roles fingerprint --log" in wrong["todo"]
    assert "leave out --roles to run both" in wrong["todo"]
    with program.place.open() as log, program.serve("--roles", "fingerprint") as service:
        service.until(lambda: sum(log.source_offsets().values()) == 20, "all is read")
        assert service.end() == 0
    (tmp_path / "mine.toml").write_text('link = "any"\n')
    given = ("--config", str(tmp_path / "mine.toml"), "--state", str(tmp_path / "state"))
    [wrong] = status(program, *given, code=1)["wrong"]
    assert "no judge runs" in wrong["what"]
    assert "simstream serve --roles judge --log" in wrong["todo"]
    assert wrong["todo"].endswith(" ".join(given))


def test_the_advice_to_start_a_judge_has_the_flags_of_the_published_policy(
    program: Program, tmp_path: Path
) -> None:
    policy = ("--similarity", "0.9", "--link", "canonical")
    program.good("topics", "create", "--partitions", 1)
    with program.place.open() as log, watching(log) as watcher:
        for number in range(2):
            program.feed(20, seed=number)
            with program.serve("--roles", ("all", "fingerprint")[number], *policy) as service:
                if number == 0:
                    watcher.wait(20, service)
                service.until(
                    lambda wanted=20 * (number + 1): sum(log.source_offsets().values()) == wanted, "all is read"
                )
                assert service.end() == 0
    [wrong] = status(program, code=1)["wrong"]
    assert "no judge runs" in wrong["what"]
    found = re.match(
        r"start one with (--distance (\d+) --similarity (\S+) --window none --link canonical): simstream",
        wrong["todo"],
    )
    assert found, wrong
    program.feed(20, seed=2)
    waiting = status(program, code=1)["wrong"][0]["todo"]
    assert waiting.endswith(f"leave out --roles to run both, with {found[1]}")
    (tmp_path / "mine.toml").write_text(f'distance = {found[2]}\nsimilarity = "{found[3]}"\nlink = "canonical"\n')
    for wrong in status(program, "--config", str(tmp_path / "mine.toml"), code=1)["wrong"]:
        assert "--similarity" not in wrong["todo"]


def test_frames_without_pages_need_no_judge(program: Program) -> None:
    """A fingerprinter that stops behind its judge may leave one, for the markers behind the last page."""
    program.good("topics", "create", "--partitions", 1)
    program.feed(20)
    program.judge(20)
    with program.place.open() as log:
        [[record], *_] = filter(None, committed(log, FINGERPRINTS, 1))
        frame = frames.decode(record.value or b"")
        header = msgspec.structs.replace(frame.header, first=False, start=20, to=21, came=())
        with log.open_appender(FINGERPRINTS) as out:
            out.append(frames.encode(header, frame.columns.part(0, 0)), partition=0)
            out.flush(60)
        assert status(program)["unpublished_frames"] == 0
        with log.open_appender(FINGERPRINTS) as out:
            out.append(record.value, partition=0)
            out.flush(60)
    assert status(program, code=1)["unpublished_frames"] > 0


def test_missing_topics_and_silent_processes_are_named(program: Program) -> None:
    done = program.on_log("status")
    assert done.returncode == 1
    assert "simstream topics create --log" in done.stdout.decode()
    program.good("topics", "create", "--partitions", 1)
    [wrong] = status(program, "--http", "127.0.0.1:1", code=1)["wrong"]
    assert wrong["what"].startswith("nothing answers at 127.0.0.1:1")


def test_shards_are_listed_with_their_matchers_and_those_without_one_need_a_person(program: Program) -> None:
    copies = ["1"] if program.place.is_local else ["1", "3"]  # a local log has one writer a topic
    program.good("topics", "create", "--partitions", 1, "--shards", 4)
    assert [one["owners"] for one in status(program)["shards"]] == [{}] * 4
    program.feed(100)
    with program.place.open() as log, watching(log) as watcher, program.serve() as service:
        with ExitStack() as stack:
            matchers = [stack.enter_context(program.serve("--roles", "match", "--copy", copy)) for copy in copies]
            watcher.wait(100, service)
            frames = log.end_offsets(FINGERPRINTS)[0]
            service.until(lambda: held(program) == [copies] * 4, "all copies have owners")
            service.until(lambda: {one["answered"] for one in shards(program)} == {frames}, "all is answered")
            found = status(program)
            assert [(one["shard"], one["behind"]) for one in found["shards"]] == [(shard, 0) for shard in range(4)]
            assert all(str(matchers[0].process.pid) in one["owners"]["1"] for one in found["shards"])
            assert found["topics"][-1]["name"].endswith(".matches")
            shown = program.good("status")
            assert "answered up to" in shown
            assert ("matcher of copy 3" in shown) == (len(copies) > 1)
            assert [matcher.end() for matcher in matchers] == [0] * len(copies)
        service.until(lambda: held(program) == [[]] * 4, "they have left")
        program.feed(20, seed=2)
        service.until(lambda: "waits for the answer" in service.get("/health/ready")[1], "a frame waits")
        [wrong] = status(program, code=1)["wrong"]
        assert wrong["what"].endswith("no matcher holds shard 0, 1, 2, 3 of 4")
        assert "simstream serve --roles match --log" in wrong["todo"]
        assert {one["behind"] for one in shards(program)} == {log.end_offsets(FINGERPRINTS)[0] - frames}


def held(program: Program) -> list[list[str]]:
    """The copies of each shard that have an owner."""
    return [sorted(one["owners"]) for one in shards(program)]


def shards(program: Program) -> list[dict[str, Any]]:
    """What status says of each shard, whatever else needs a person."""
    found: list[dict[str, Any]] = json.loads(program.on_log("status", "--json").stdout)["shards"]
    return found


def test_another_number_of_shards_than_the_topic_has_needs_a_person(program: Program) -> None:
    program.good("topics", "create", "--partitions", 1)
    [wrong] = status(program, code=1, SIMSTREAM_SHARDS="8")["wrong"]
    assert wrong["what"].startswith("shards is 8, but there is no topic ")
    assert wrong["todo"].startswith("run: simstream topics create --shards 8 --log")
    program.good("topics", "create", "--partitions", 1, "--shards", 4)
    [wrong] = status(program, code=1, SIMSTREAM_SHARDS="8")["wrong"]
    assert wrong["todo"].startswith("set shards to 4")
    assert status(program, SIMSTREAM_SHARDS="0")["shards"] == []


@pytest.mark.kafka
def test_another_program_in_the_group_of_the_judges_needs_a_person(on_kafka: Program) -> None:
    on_kafka.good("topics", "create", "--partitions", 1)
    prefix = on_kafka.place.prefix
    stranger = Consumer(
        {
            "bootstrap.servers": on_kafka.place.servers,
            "client.id": "stranger",
            "group.id": f"{prefix}.judge",
        }
    )
    stranger.subscribe([f"{prefix}.{FINGERPRINTS}"])

    def has_joined() -> bool:
        stranger.poll(0.1)
        return bool(stranger.assignment())

    until(has_joined, "the stranger is in the group")
    told = status(on_kafka, code=1)
    stranger.close()
    assert [one["what"].partition(" (")[0] for one in told["wrong"]] == ["stranger"]
    assert "is no judge" in told["wrong"][0]["what"]
    assert status(on_kafka)["wrong"] == []


def test_a_gap_is_found_by_reading_the_log(on_folder: Program) -> None:
    on_folder.good("topics", "create", "--partitions", 1)
    on_folder.feed(40)
    on_folder.judge(40)
    on_folder.feed(40, seed=2)
    with on_folder.place.open() as log:
        log.set_group_offsets({0: 45})  # a commit that no frame covers
        with on_folder.serve("--roles", "fingerprint") as service:
            service.until(lambda: log.source_offsets() == {0: 80}, "all is read")
            assert service.end() == 0
    found = status(on_folder, "--gaps", code=1)
    assert found["gaps"] == {"0": 40}
    assert any("source rewind" in wrong["todo"] for wrong in found["wrong"])
