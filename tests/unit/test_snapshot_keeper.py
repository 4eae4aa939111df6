"""SnapshotKeeper: snapshots beside the judge's work, never ahead of what is published, and what a start loads."""

from __future__ import annotations

import errno
import logging
import math
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simstream.errors import StateDamaged, StateFull, StateLocked, WrongLog, WrongPolicy
from simstream.files import sealed
from simstream.files.blocks import BLOCK_BYTES
from simstream.files.file_system import FileSystem
from simstream.files.manifest import ManifestFile
from simstream.files.sealed import SealedFile
from simstream.files.snapshot_part import Fact, SnapshotPart
from simstream.judge.acceptor import LogPlace
from simstream.roles.context import RoleContext
from simstream.roles.judge import bit_rot
from simstream.roles.judge import snapshots as module
from simstream.roles.judge.snapshots import LoadStoppedError, SnapshotKeeper, stoppable
from simstream.settings import Settings
from simstream.telemetry import health
from simstream.telemetry.metrics import Metrics
from simstream.wire.position import Position
from tests.manual_clock import ManualClock

LOG = "the log"
ALWAYS = Settings(snapshot_pages=1)


class CountedPages:
    """A judge's state that is no more than how many frames it has seen."""

    def __init__(self) -> None:
        self.frames = np.zeros(100, np.int64)
        self.frame = 0
        self.on_files: list[str] = []
        self.beats = 0

    def beat(self) -> None:
        self.beats += 1

    def judge(self, frames: int) -> CountedPages:
        for _ in range(frames):
            self.frames[self.frame % 100] = self.frame
            self.frame += 1
        return self

    def parts(self) -> list[SnapshotPart]:
        sealed = SnapshotPart(f"seen-{self.frame}", "seen", {}, {"frame": np.array([self.frame])})
        return [SnapshotPart("frames", "frames", {}, {"frames": self.frames}, changes=True), sealed]

    def facts(self, log_id: str) -> dict[str, Fact]:
        return {"log_id": log_id, "frame": self.frame, "ordinal": 10 * self.frame}

    def restore(self, parts: Sequence[SnapshotPart], facts: Mapping[str, Any], log_id: str) -> None:
        if facts["log_id"] != log_id:
            raise WrongLog("the state was made from another log", "choose another folder")
        self.frames = next(part for part in parts if part.name == "frames").arrays["frames"]
        self.frame = facts["frame"]

    def read_from_disk(self, files: FileSystem, found: Iterable[SealedFile]) -> None:
        self.on_files += [each.name for each in found]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "state"


@contextmanager
def keeping(
    folder: Path, state: CountedPages, settings: Settings = ALWAYS, files: FileSystem | None = None, log: str = LOG
) -> Iterator[SnapshotKeeper]:
    with SnapshotKeeper(str(folder), state, log, RoleContext(settings), files) as keeper:
        yield keeper


def turn(keeper: SnapshotKeeper, state: CountedPages, published: int) -> None:
    keeper.turn(state.frame, 10 * state.frame, published)


def until(keeper: SnapshotKeeper, state: CountedPages, published: int, condition: Callable[[], object]) -> None:
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end
        turn(keeper, state, published)
        time.sleep(0.002)


def published(frame: int) -> Position:
    return Position(LOG, frame, 10 * frame, "0" * 16, "policy")


def saved(folder: Path, *frames: int) -> None:
    """Snapshots at these frames, of which the folder keeps the last two."""
    state = CountedPages()
    with keeping(folder, state) as keeper:
        for frame in frames:
            state.judge(frame - state.frame)
            keeper.finish(frame, 10 * frame, frame)


def loaded(folder: Path, at: int, log_begins: int = 0) -> int | None:
    """The frame of the snapshot that is taken up, None for none."""
    state = CountedPages()
    with keeping(folder, state) as keeper:
        if not keeper.load(published(at), log_begins):
            return None
        assert list(state.frames[: state.frame]) == list(range(state.frame))
        return state.frame


def test_a_snapshot_is_put_in_place_once_its_frame_is_published(folder: Path) -> None:
    state = CountedPages().judge(5)
    with keeping(folder, state) as keeper:
        turn(keeper, state, 0)
        assert keeper.wanted == 5
        state.judge(3)
        end = time.monotonic() + 0.3
        while time.monotonic() < end:
            turn(keeper, state, 4)
        assert keeper.wanted == 5
        assert not (folder / "manifest").exists()
        until(keeper, state, 5, lambda: keeper.wanted != 5)
        assert (folder / "manifest").exists()
        assert state.on_files == ["seen-5"]
    assert loaded(folder, 5) == 5


def test_a_snapshot_is_the_state_at_its_time(folder: Path) -> None:
    state = CountedPages().judge(5)
    with keeping(folder, state) as keeper:
        turn(keeper, state, 0)
        state.judge(40)
        state.frames[:] = -1
        until(keeper, state, 5, lambda: keeper.wanted != 5)
    assert loaded(folder, 60) == 5


def test_the_judge_goes_on_while_a_snapshot_is_written(folder: Path) -> None:
    class HeldFsyncFiles(FileSystem):
        may = threading.Event()

        def fsync(self, descriptor: int) -> None:
            assert self.may.wait(20)
            super().fsync(descriptor)

    files, state = HeldFsyncFiles(), CountedPages().judge(5)
    with keeping(folder, state, files=files) as keeper:
        for _ in range(50):
            turn(keeper, state.judge(1), state.frame)
        assert keeper.wanted == 6
        assert keeper.why == ""
        files.may.set()
        until(keeper, state, state.frame, lambda: keeper.wanted != 6)


def test_snapshots_come_by_pages_or_by_time_and_only_where_something_came(folder: Path) -> None:
    by_pages = Settings(snapshot_pages=100)
    state = CountedPages().judge(9)
    with keeping(folder, state, by_pages) as keeper:
        turn(keeper, state, 9)
        assert keeper.wanted == 0
        turn(keeper, state.judge(1), 9)
        assert keeper.wanted == 10
    by_time = Settings(snapshot_every="1ms")
    with keeping(folder, CountedPages(), by_time) as keeper:
        time.sleep(0.01)
        keeper.turn(0, 0, 0)
        assert keeper.wanted == 0
        keeper.turn(1, 0, 0)
        assert keeper.wanted == 1


class ShiftedTime:
    """The module `time`, with clocks that stand still until the test moves them."""

    time = staticmethod(time.time)

    def __init__(self) -> None:
        self.now = 1_000.0

    def monotonic(self) -> float:
        return self.now

    perf_counter = monotonic


class SlowlyCopiedPages(CountedPages):
    """A state whose parts take 50 ms to be copied."""

    def __init__(self, clock: ShiftedTime) -> None:
        super().__init__()
        self._clock = clock

    def parts(self) -> list[SnapshotPart]:
        self._clock.now += 0.05
        more = SnapshotPart("more", "more", {}, {"a": np.zeros(3), "b": np.zeros(3)}, changes=True)
        return [*super().parts(), more]


def test_copies_take_at_most_a_twentieth_of_the_time_and_give_signs_of_life(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ShiftedTime()
    monkeypatch.setattr(module, "time", clock)
    state = SlowlyCopiedPages(clock).judge(5)
    with keeping(folder, state) as keeper:
        turn(keeper, state, 5)
        assert keeper.wanted == 5
        assert state.beats >= 3, "one for each array that is compared"
        until(keeper, state, 5, lambda: keeper.wanted == 0)
        state.judge(3)
        for _ in range(9):
            clock.now += 0.1
            turn(keeper, state, 8)
            assert keeper.wanted == 0
        clock.now += 0.15
        turn(keeper, state, 8)
        assert keeper.wanted == 8


def test_a_clean_stop_takes_a_last_one_where_it_is_published(folder: Path) -> None:
    state = CountedPages().judge(5)
    with keeping(folder, state, Settings()) as keeper:
        keeper.finish(5, 50, 4)
        assert keeper.wanted == 0, "none is written in vain"
    assert loaded(folder, 9) is None
    with keeping(folder, state, Settings()) as keeper:
        keeper.finish(5, 50, 5)
    assert loaded(folder, 9) == 5


def test_the_log_says_in_which_folder_a_snapshot_is(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "simstream.judge")
    saved(folder, 3)
    assert f"took a snapshot of frame 3, ordinal 30, in {folder}" in caplog.messages


def test_a_clean_stop_first_finishes_a_snapshot_under_way(folder: Path) -> None:
    state = CountedPages().judge(5)
    with keeping(folder, state) as keeper:
        turn(keeper, state, 0)
        state.judge(2)
        keeper.finish(7, 70, 7)
    assert loaded(folder, 9) == 7
    assert loaded(folder, 6) == 5


def test_the_newest_at_or_behind_the_published_position_is_loaded(folder: Path) -> None:
    saved(folder, 3, 5, 8)
    assert loaded(folder, 9) == 8
    assert loaded(folder, 8) == 8
    assert loaded(folder, 7) == 5


def test_a_snapshot_of_frames_that_the_log_has_lost_is_set_aside_before_others_take_their_place(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    saved(folder, 5, 8)
    assert loaded(folder, 7) == 5
    assert "the snapshot of frame 8 is kept aside" in caplog.text
    assert (folder / "damaged" / "manifest").exists()
    assert loaded(folder, 9) == 5


def checked(folder: Path, log_begins: int = 0) -> WrongLog:
    """Load a state that the log does not lead on to the published position of frame 9, and return the error."""
    with keeping(folder, CountedPages()) as keeper:
        keeper.load(published(9), log_begins)
        with pytest.raises(WrongLog, match="at frame 9 the log has") as caught:
            keeper.check(LogPlace(9, 90, "1" * 16), published(9))
    return caught.value


def test_a_state_that_does_not_lead_to_the_published_position_is_set_aside(folder: Path) -> None:
    saved(folder, 5, 8)
    for other in (5, None):
        error = checked(folder)
        assert f"the state in {folder} does not belong to this log" in error.what
        assert error.todo.startswith("start again")
        assert (folder / "damaged" / "manifest").exists()
        assert loaded(folder, 9) == other
    assert checked(folder).todo.startswith("restore the topic fingerprints"), "no state can be to blame"


def test_a_state_beyond_a_position_that_went_back_is_not_to_blame(folder: Path) -> None:
    saved(folder, 5, 8)
    with keeping(folder, CountedPages()) as keeper:
        keeper.load(published(9), 0)
        with pytest.raises(WrongLog, match="up to frame 9, but the position published now is frame 7") as caught:
            keeper.check(LogPlace(9, 90, "0" * 16), published(7))
        assert caught.value.todo.startswith("start again: it goes on from a state at or behind frame 7")
        assert not keeper.disowned
    assert loaded(folder, 9) == 8


def test_the_last_state_that_reaches_a_cut_log_stays(folder: Path) -> None:
    saved(folder, 5, 8)
    assert checked(folder, log_begins=5).todo.startswith("start again")
    for _ in range(2):
        assert checked(folder, log_begins=5).todo.startswith("keep the folder, as the log begins at frame 5")
    assert loaded(folder, 9, log_begins=5) == 5
    with pytest.raises(WrongLog) as caught:
        loaded(folder, 4, log_begins=3)
    assert caught.value.todo.startswith("keep the folder, as the log begins at frame 3")


@pytest.mark.parametrize("belongs", [False, True])
def test_the_previous_snapshot_stays_until_the_newest_is_known_to_belong_to_the_log(
    folder: Path, belongs: bool
) -> None:
    saved(folder, 5, 8)
    state = CountedPages()
    with keeping(folder, state) as keeper:
        keeper.load(published(20), 0)
        for frame in (12, 14):
            if belongs:
                keeper.check(LogPlace(frame, 10 * frame, "0" * 16), published(frame))
            state.judge(frame - state.frame)
            keeper.finish(frame, 10 * frame, frame)
    assert loaded(folder, 20) == 14
    assert loaded(folder, 13) == (12 if belongs else 5)


class LargePages(CountedPages):
    """A state of several pieces, sealed and in blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.frames = np.arange(4 * BLOCK_BYTES // 8)

    def parts(self) -> list[SnapshotPart]:
        return [*super().parts(), SnapshotPart("large", "seen", {}, {"large": np.zeros(4 << 20, np.uint8)})]


class SlowDisk(FileSystem):
    """Takes more than three minutes for each piece, by this clock, and asks then whether the service is live."""

    def __init__(self, clock: ManualClock, live: Callable[[], tuple[bool, str]]) -> None:
        self._clock, self._live = clock, live
        self.answers: list[tuple[bool, str]] = []

    def pread_into(self, descriptor: int, target: memoryview, offset: int) -> int:
        if len(target) >= BLOCK_BYTES:
            self._clock.now += 200
            self.answers.append(self._live())
        return super().pread_into(descriptor, target, offset)


def test_a_judge_is_live_while_a_slow_disk_gives_it_a_large_state(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = LargePages().judge(5)
    with keeping(folder, state) as keeper:
        keeper.finish(5, 50, 5)
    clock, context = ManualClock(), RoleContext(ALWAYS)
    monkeypatch.setattr(health, "time", clock)
    monkeypatch.setattr(sealed, "_WINDOW_BYTES", 1 << 20)
    context.health.expect("judge", ALWAYS.give_up_s)
    files = SlowDisk(clock, context.health.live)
    with SnapshotKeeper(str(folder), LargePages(), LOG, context, files) as keeper:
        assert keeper.load(published(5), 0, partial(context.health.beat, "judge"))
    assert files.answers == 8 * [(True, "live")]


def test_a_state_is_read_no_further_once_its_role_is_asked_to_end(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, stop, clock, context = LargePages().judge(5), threading.Event(), ManualClock(), RoleContext(ALWAYS)
    with keeping(folder, state) as keeper:
        keeper.finish(5, 50, 5)
    monkeypatch.setattr(sealed, "_WINDOW_BYTES", 1 << 20)
    files = SlowDisk(clock, lambda: (stop.set() is None, "asked to end"))
    beat = stoppable(partial(context.health.beat, "judge"), stop)
    context.health.expect("judge")
    with SnapshotKeeper(str(folder), LargePages(), LOG, context, files) as keeper, pytest.raises(LoadStoppedError):
        keeper.load(published(5), 0, beat)
    assert len(files.answers) == 1


def test_all_ahead_of_the_published_position_is_refused_with_both(folder: Path) -> None:
    saved(folder, 5, 8)
    with pytest.raises(WrongLog, match=r"at frame 8 and 5, verdicts are published up to frame 4"):
        loaded(folder, 4)
    with keeping(folder, CountedPages()) as keeper, pytest.raises(WrongLog) as caught:
        keeper.load(None, 0)
    assert "at frame 8 and 5, but the topic `positions` is empty" in caught.value.what
    assert caught.value.todo.startswith("restore that topic"), "without the folder no judge could go on"


def test_a_log_that_begins_behind_the_snapshot_is_refused_with_both(folder: Path) -> None:
    saved(folder, 5, 8)
    assert loaded(folder, 9, log_begins=8) == 8
    with pytest.raises(WrongLog, match=r"begins at frame 9, the state in .* is at frame 8"):
        loaded(folder, 9, log_begins=9)


def test_the_state_of_another_log_is_refused_with_any_frames(folder: Path) -> None:
    saved(folder, 5, 8)
    for frame in (2, 6, 9):
        with keeping(folder, CountedPages(), log="another") as keeper, pytest.raises(WrongLog, match="another log"):
            keeper.load(published(frame), 0)


class OtherPolicyPages(CountedPages):
    """A state of a judge or shard with another policy."""

    def restore(self, parts: Sequence[SnapshotPart], facts: Mapping[str, Any], log_id: str) -> None:
        raise WrongPolicy("the state has policy a, this judge has policy b", "use the same distance")


def test_a_state_of_another_policy_is_refused_with_its_folder(folder: Path) -> None:
    """A matcher has several, of which one may be another's."""
    saved(folder, 5)
    with keeping(folder, OtherPolicyPages()) as keeper, pytest.raises(WrongPolicy) as caught:
        keeper.load(published(5), 0)
    assert caught.value.what == f"cannot use the state in {folder}: the state has policy a, this judge has policy b"
    assert caught.value.todo == "use the same distance"


def test_a_folder_is_for_one(folder: Path) -> None:
    with (
        keeping(folder, CountedPages()),
        pytest.raises(StateLocked, match=str(os.getpid())),
        keeping(folder, CountedPages()),
    ):
        pass


class FullDisk(FileSystem):
    """No room as long as it is so."""

    full = True
    tries = 0

    def write_some(self, descriptor: int, data: memoryview) -> int:
        if self.full:
            self.tries += 1
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().write_some(descriptor, data)


def test_a_full_disk_makes_unready_and_is_tried_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RETRY_S", 0.01)
    saved(folder, 3)
    state, files = CountedPages().judge(5), FullDisk()
    with keeping(folder, state, files=files) as keeper:
        until(keeper, state, 5, lambda: files.tries > 3)
        until(keeper, state, 5, lambda: keeper.why)
        assert "cannot write a snapshot" in keeper.why
        files.full = False
        until(keeper, state, 5, lambda: keeper.wanted == 0)
        assert keeper.why == ""
    assert loaded(folder, 9) == 5
    assert loaded(folder, 4) == 3


def test_a_disk_that_stays_full_ends_the_judge_and_leaves_the_snapshots(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RETRY_S", 0.01)
    saved(folder, 3)
    state, files = CountedPages().judge(5), FullDisk()
    patient = Settings(snapshot_pages=1, give_up_after="50ms")
    with keeping(folder, state, patient, files) as keeper, pytest.raises(StateFull):
        until(keeper, state, 5, lambda: False)
    assert loaded(folder, 9) == 3


def test_a_disk_that_was_full_long_ago_ends_no_judge_when_it_is_full_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RETRY_S", 0.01)
    clock, later = time.monotonic, 0.0
    monkeypatch.setattr(time, "monotonic", lambda: clock() + later)
    state, files = CountedPages(), FullDisk()
    with keeping(folder, state, Settings(snapshot_pages=1, give_up_after="60s"), files) as keeper:
        for _ in range(2):
            files.full = True
            state.judge(1)
            until(keeper, state, state.frame, lambda: keeper.why)
            files.full = False
            until(keeper, state, state.frame, lambda: keeper.kept == state.frame)
            later += 100.0


def test_a_full_disk_at_the_end_is_no_error(folder: Path) -> None:
    state = CountedPages().judge(5)
    with keeping(folder, state, files=FullDisk()) as keeper:
        keeper.finish(5, 50, 5)
    assert loaded(folder, 9) is None


def test_a_failing_commit_is_tried_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class StuckRenameFiles(FileSystem):
        stuck = True

        def rename(self, old: Path, new: Path) -> None:
            if self.stuck and new.name == "manifest":
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            super().rename(old, new)

    monkeypatch.setattr(module, "RETRY_S", 0.01)
    state, files = CountedPages().judge(5), StuckRenameFiles()
    with keeping(folder, state, files=files) as keeper:
        until(keeper, state, 5, lambda: keeper.why)
        files.stuck = False
        until(keeper, state, 5, lambda: keeper.wanted == 0)
    assert loaded(folder, 5) == 5


def test_a_folder_that_is_gone_is_judged_anew(folder: Path) -> None:
    saved(folder, 3)
    shutil.rmtree(folder)
    assert loaded(folder, 9) is None


@pytest.mark.parametrize("log_begins", [0, 2])
def test_a_folder_that_is_removed_under_a_judge_ends_it_and_only_a_whole_log_gives_the_state_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch, log_begins: int
) -> None:
    monkeypatch.setattr(bit_rot, "REST_S", 0.01)
    state = CountedPages().judge(3)
    with keeping(folder, state) as keeper:
        keeper.finish(3, 30, 3)
        shutil.rmtree(folder)
        with pytest.raises(StateDamaged, match="it is missing") as caught:
            until(keeper, state, 3, lambda: False)
    assert "delete it (unless it is the state of a log that was cut)" in caught.value.todo
    if log_begins:
        with pytest.raises(WrongLog, match="no state reaches that far: give the folder of this role's last state"):
            loaded(folder, 9, log_begins)
    else:
        assert loaded(folder, 9) is None


def test_the_age_of_the_snapshot_is_a_metric(folder: Path) -> None:
    context = RoleContext(ALWAYS)
    state = CountedPages().judge(5)
    with SnapshotKeeper(str(folder), state, LOG, context) as keeper:
        assert math.isnan(context.metrics.registry.get_sample_value("simstream_snapshot_age_seconds") or 0)
        keeper.finish(5, 50, 5)
        assert 0 <= (context.metrics.registry.get_sample_value("simstream_snapshot_age_seconds") or 0) < 60


def test_the_age_of_a_snapshot_keeps_to_it_if_the_clock_is_set_back(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context, now = RoleContext(ALWAYS), time.time()
    read = context.metrics.registry.get_sample_value
    state = CountedPages().judge(5)
    with SnapshotKeeper(str(folder), state, LOG, context) as keeper:
        keeper.finish(5, 50, 5)
        age = read("simstream_snapshot_age_seconds") or 0
        monkeypatch.setattr(time, "time", lambda: now - 3600)
        assert (read("simstream_snapshot_age_seconds") or 0) > age
        monkeypatch.setattr(time, "time", lambda: now + 3600)
        assert age < (read("simstream_snapshot_age_seconds") or 0) < 60


def turn_over(path: Path, at: int = -1) -> None:
    """Let a byte of a file be another one."""
    with path.open("r+b") as file:
        file.seek(at, os.SEEK_END if at < 0 else os.SEEK_SET)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 1]))


def newest(folder: Path) -> dict[str, Path]:
    """Files that only the newest snapshot, of frame 6, needs."""
    return {
        "manifest": folder / "manifest",
        "sealed": next(folder.glob("seen-6.*.sealed")),
        "blocks": max(folder.glob("blocks-*.sealed"), key=lambda path: path.stat().st_mtime_ns),
    }


@pytest.mark.parametrize("what", ["manifest", "sealed", "blocks"])
@pytest.mark.parametrize("gone", [False, True])
def test_where_the_newest_snapshot_is_damaged_the_one_before_goes_on(
    folder: Path, caplog: pytest.LogCaptureFixture, what: str, gone: bool
) -> None:
    saved(folder, 3, 6)
    bad = newest(folder)[what]
    if gone and what != "manifest":
        bad.unlink()
    else:
        turn_over(bad)
    state = CountedPages()
    context = RoleContext(ALWAYS)
    with SnapshotKeeper(str(folder), state, LOG, context) as keeper:
        assert keeper.load(published(7), log_begins=2)
        assert state.frame == 3
        assert "is damaged" in caplog.text
        assert "goes on from frame 3" in caplog.text
        aside = {path.name for path in (folder / "damaged").iterdir()}
        assert "manifest" in aside
        assert context.metrics.registry.get_sample_value("simstream_state_damaged_files") == len(aside) > 1
        state.judge(4)
        keeper.finish(7, 70, 7)
    assert loaded(folder, 7) == 7
    assert {path.name for path in (folder / "damaged").iterdir()} == aside


def test_where_the_older_snapshot_is_damaged_the_newest_goes_on(folder: Path) -> None:
    saved(folder, 3, 6)
    turn_over(folder / "manifest.previous")
    assert loaded(folder, 7, log_begins=5) == 6
    assert (folder / "damaged" / "manifest.previous").exists()


def test_without_a_whole_snapshot_the_log_is_judged_again(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    saved(folder, 3, 6)
    turn_over(folder / "manifest")
    turn_over(next(folder.glob("seen-3.*.sealed")))
    assert loaded(folder, 7) is None
    assert "read again from its beginning" in caplog.text
    saved(folder, 8)
    assert loaded(folder, 8) == 8


def test_a_whole_snapshot_ahead_of_the_position_is_not_given_up_for_a_damaged_one(folder: Path) -> None:
    saved(folder, 3, 6)
    turn_over(next(folder.glob("seen-3.*.sealed")))
    with pytest.raises(StateDamaged):
        loaded(folder, 4)
    assert loaded(folder, 6) == 6


@pytest.mark.parametrize("also_the_older", [False, True])
def test_without_a_whole_snapshot_or_log_the_start_is_refused_and_no_file_changes(
    folder: Path, also_the_older: bool
) -> None:
    saved(folder, 3, 6)
    turn_over(newest(folder)["sealed"])
    if also_the_older:
        turn_over(folder / "manifest.previous")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(StateDamaged) as caught:
        loaded(folder, 7, log_begins=1 if also_the_older else 4)  # the log begins behind the older one
    assert "delete it (unless it is the state of a log that was cut)" in caught.value.todo
    after = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert after == before | {"suspect": b""}


def test_a_file_found_damaged_in_use_is_verified_at_the_next_start(folder: Path) -> None:
    """Chunks of pages are verified when they are read; here the fake's parts are such."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module.PageStore, "KINDS", frozenset({"seen"}))
        saved(folder, 3, 6)
        turn_over(newest(folder)["sealed"], at=64)
        keeper = SnapshotKeeper(str(folder), CountedPages(), LOG, RoleContext(ALWAYS))
        assert keeper.load(published(6), 0)
        keeper.__exit__(StateDamaged, StateDamaged("a record is damaged", ""), None)
        assert loaded(folder, 6) == 3
        assert not (folder / "suspect").exists()


class UnfitPages(CountedPages):
    """A state whose parts do not fit together, which shows only when it is taken up."""

    def restore(self, parts: Sequence[SnapshotPart], facts: Mapping[str, Any], log_id: str) -> None:
        raise StateDamaged("counts do not agree", "delete it")


def test_a_snapshot_that_does_not_fit_together_ends_one_run_only(folder: Path) -> None:
    saved(folder, 3, 6)
    with pytest.raises(StateDamaged, match="counts"), keeping(folder, UnfitPages()) as keeper:
        keeper.load(published(6), log_begins=2)
    assert loaded(folder, 6, log_begins=2) == 3


def test_a_file_damaged_under_a_running_judge_ends_it_by_name_and_the_next_start_goes_on(folder: Path) -> None:
    state = CountedPages().judge(3)
    context = RoleContext(ALWAYS)
    read = context.metrics.registry.get_sample_value
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bit_rot, "REST_S", 0.01)
        with SnapshotKeeper(str(folder), state, LOG, context) as keeper:
            keeper.finish(3, 30, 3)
            turn(keeper, state, 3)
            until(keeper, state, 3, lambda: read("simstream_state_verified_timestamp_seconds"))
            assert read("simstream_state_verified_bytes_total") >= 8
            turn_over(next(folder.glob("seen-3.*.sealed")), at=64)
            with pytest.raises(StateDamaged, match=r"seen-3.*checksum of its array"):
                until(keeper, state, 3, lambda: False)
    assert loaded(folder, 3) is None  # the log is judged again
    assert (folder / "damaged" / "manifest").exists()


def test_a_file_that_is_given_up_while_it_is_verified_is_no_damage(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    state, context = CountedPages(), RoleContext(ALWAYS)
    begun, given_up = threading.Event(), threading.Event()
    describe = bit_rot.manifest.describe_named

    def late(files: FileSystem, place: Path, file: ManifestFile, **how: Any) -> SealedFile:
        """Read the first file once it is given up."""
        if file.part == "seen-1":
            begun.set()
            assert given_up.wait(60)
        return describe(files, place, file, **how)

    def verified() -> float:
        return context.metrics.registry.get_sample_value("simstream_state_verified_bytes_total") or 0.0

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bit_rot, "REST_S", 0.0)
        patch.setattr(bit_rot.manifest, "describe_named", late)
        with SnapshotKeeper(str(folder), state, LOG, context) as keeper:
            for frame in range(1, 60):
                before = verified()
                state.judge(1)
                keeper.finish(frame, 10 * frame, frame)
                if frame == 1:
                    until(keeper, state, frame, begun.is_set)
                if frame == 5:
                    assert not list(folder.glob("seen-1.*"))
                    given_up.set()
                if frame >= 5:
                    until(keeper, state, frame, lambda before=before: verified() > before)
    assert "cannot be verified" not in caplog.text


def test_all_shards_of_a_process_share_one_rate_of_verifying(tmp_path: Path) -> None:
    class NotedWaits(threading.Event):
        def __init__(self) -> None:
            super().__init__()
            self.seconds: list[float] = []

        def wait(self, timeout: float | None = None) -> bool:
            self.seconds.append(timeout or 0.0)
            return False

    class IdleWatch(bit_rot.RotWatch):
        def _run(self) -> None:
            """Leave the verifying to the test."""

    def watching() -> IdleWatch:
        return IdleWatch(FileSystem(), tmp_path, list, Metrics(), logging.getLogger())

    with watching() as watch:
        watch._closed = noted = NotedWaits()
        watch._pace(bit_rot.MAX_BYTES_A_SECOND)
        with watching(), watching():
            watch._pace(bit_rot.MAX_BYTES_A_SECOND)
        watch._pace(bit_rot.MAX_BYTES_A_SECOND)
    assert noted.seconds == [1.0, 3.0, 1.0]


def test_verifying_is_slow_and_ends_with_the_judge(folder: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bit_rot, "MAX_BYTES_A_SECOND", 0.05)  # eight bytes take longer than CLOSE_S
        patch.setattr(bit_rot, "CLOSE_S", 60.0)
        state, context = CountedPages().judge(3), RoleContext(ALWAYS)
        read = context.metrics.registry.get_sample_value
        with SnapshotKeeper(str(folder), state, LOG, context) as keeper:
            keeper.finish(3, 30, 3)
            until(keeper, state, 3, lambda: read("simstream_state_verified_bytes_total"))
            began = time.monotonic()
        assert time.monotonic() - began < bit_rot.CLOSE_S
