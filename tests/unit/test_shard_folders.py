"""The state folders of shards that a matcher gave back: what they take, when they go, and when they are useless."""

from __future__ import annotations

import errno
import logging
import math
import os
import shutil
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from simstream.errors import BrokerUnreachable, WrongPolicy
from simstream.files import checksum
from simstream.files.file_system import FileSystem
from simstream.files.folder import StateFolder
from simstream.files.manifest import IN_ORDER, NEWEST
from simstream.judge.policy import Policy
from simstream.log.base import Log
from simstream.log.local.log import LocalLog
from simstream.log.options import FINGERPRINTS
from simstream.roles.match import role
from simstream.roles.match.shard_folders import UNFIT, ShardFolders
from tests.role_threads import PATIENCE_S
from tests.states import save_again
from tests.unit.test_judge_role import append_frames, judging, policy, until
from tests.unit.test_shard_worker import FRAMES, SHARDS, judge_all, log, matching, role_and_worker

__all__ = ["log", "policy"]


@pytest.fixture
def shards(log: Log, policy: Policy, tmp_path: Path) -> Path:
    """The folder of all shards of a matcher that has judged the log and ended."""
    judge_all(log, policy, tmp_path / "state")
    return tmp_path / "state" / "shards"


def age(folder: Path, days: int) -> None:
    """Let the snapshots of a folder be so old."""
    for path in map(folder.joinpath, IN_ORDER):
        if path.exists():
            os.utime(path, (time.time() - 86_400 * days,) * 2)


def other_facts(**facts: Any) -> Callable[[Path], None]:
    return lambda folder: save_again(folder, lambda _, known: known.update(facts))


def other_format(folder: Path) -> None:
    body = bytearray((folder / NEWEST).read_bytes()[: -checksum.SIZE_BYTES])
    body[8:12] = struct.pack("<I", 99)
    (folder / NEWEST).write_bytes(bytes(body) + checksum.of_bytes(bytes(body)))


USELESS = {
    "another policy": other_facts(policy="00000000"),
    "another log": other_facts(log_id="another"),
    "another cut": other_facts(tables=9),
    "another format": other_format,
}


@pytest.mark.parametrize("change", USELESS.values(), ids=USELESS)
def test_a_useless_state_of_a_shard_that_comes_back_is_set_aside(
    shards: Path,
    log: Log,
    policy: Policy,
    change: Callable[[Path], None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    stale = shards / "3-of-4"
    change(stale)
    age(stale, 7)
    (shards / f"3-of-4{UNFIT}").mkdir()  # of an earlier time
    with caplog.at_level(logging.WARNING), matching(log, policy, shards.parent):
        pass
    assert (shards / f"3-of-4{UNFIT}" / NEWEST).exists()
    [said] = [record.getMessage() for record in caplog.records]
    assert said.startswith(f"{stale} has a state of another log, policy or version")
    with StateFolder(stale) as folder:
        assert folder.snapshots[0].manifest.facts["frame"] == FRAMES


def test_a_state_that_does_not_fit_is_refused_by_its_path_if_no_later_one_fits(
    shards: Path, log: Log, policy: Policy
) -> None:
    """The settings may be wrong: nothing is set aside."""
    before = sorted(shards.iterdir())
    for folder in before:
        other_facts(policy="00000000")(folder)
    with pytest.raises(AssertionError) as raised, matching(log, policy, shards.parent):
        pass
    assert isinstance(raised.value.__cause__, WrongPolicy)
    assert raised.value.__cause__.what.startswith(f"{shards}{os.sep}")
    assert sorted(shards.iterdir()) == before


def test_a_shard_that_comes_back_takes_up_its_state(shards: Path, log: Log, policy: Policy) -> None:
    age(shards / "3-of-4", 365)
    files = set((shards / "3-of-4").glob("*.sealed"))
    with matching(log, policy, shards.parent):
        assert files <= set((shards / "3-of-4").glob("*.sealed"))


def test_the_oldest_state_that_was_given_back_makes_room_on_a_full_disk(
    shards: Path, log: Log, policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    oldest, other = shards / "9-of-16", shards / f"5-of-16{UNFIT}"
    for days, folder in enumerate((other, oldest), 1):
        shutil.copytree(shards / "0-of-4", folder)
        age(folder, days)
    write = FileSystem.write

    def write_if_there_is_room(self: FileSystem, descriptor: int, data: memoryview) -> None:
        if list(oldest.glob("*.sealed")):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(self, descriptor, data)

    monkeypatch.setattr(FileSystem, "write", write_if_there_is_room)
    monkeypatch.setattr(role, "RETRY_S", PATIENCE_S)  # a slow machine may tell late of a try before the removal
    ages = {folder: (folder / NEWEST).stat().st_mtime_ns for folder in shards.glob(f"*-of-{SHARDS}")}
    with matching(log, policy, shards.parent) as context, judging(log, policy):
        append_frames(log, policy, FRAMES, FRAMES + 1)
        for folder, at_ns in ages.items():
            until(lambda at=folder / NEWEST, ns=at_ns: at.stat().st_mtime_ns > ns, f"{folder} has a new snapshot")  # type: ignore[misc]
        size = sum(file.stat().st_size for file in other.iterdir())
        assert context.metrics.registry.get_sample_value("simstream_shards_given_back_bytes") == size
    assert {file.name for file in oldest.iterdir()} == {"lock"}
    with StateFolder(other) as opened:
        assert opened.load() is not None


@pytest.mark.parametrize("why", ["the log is cut", "no broker answers", "another process uses it"])
def test_a_full_disk_removes_no_state_that_may_be_needed(
    shards: Path, log: Log, policy: Policy, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    matcher, worker, _ = role_and_worker(log, policy)
    folders = ShardFolders(shards, "matches", log.topic(FINGERPRINTS).id, policy)
    for number in range(1, SHARDS):
        age(shards / f"{number}-of-{SHARDS}", number)

    def left() -> int:
        matcher._room_made, worker.snapshots.full_at = -math.inf, time.monotonic()
        matcher._look_after_folders(folders, SHARDS)
        return len(folders.given_back([0], SHARDS))

    def low_watermarks(_: LocalLog, topic: str) -> dict[int, int]:
        if why == "no broker answers":
            raise BrokerUnreachable(why, "")
        return {0: 1}

    assert left() == 2, "the oldest goes"
    if why == "another process uses it":
        with StateFolder(shards / "2-of-4"):
            assert left() == 1, "the older one is in use"
            assert (shards / "2-of-4" / NEWEST).exists()
            assert left() == 1
    else:
        monkeypatch.setattr(LocalLog, "low_watermarks", low_watermarks)
        assert left() == 2
