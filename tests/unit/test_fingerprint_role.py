"""The fingerprinter's role over a local log: what it holds at once."""

from __future__ import annotations

import errno
import itertools
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from msgspec import structs

from simstream.errors import DiskFull, NotPermitted, WrongRecipe
from simstream.log import open_log
from simstream.log.base import Appender, Log, PartitionStart, PollResult
from simstream.log.local.log import LocalLog
from simstream.log.local.page_consumer import LocalPageConsumer
from simstream.log.local.topic_file import LogFiles
from simstream.log.local.writing import LocalAppender
from simstream.log.options import DEAD_LETTERS, FINGERPRINTS, PAGES, LogOptions
from simstream.model import FingerprintColumns, Page, Record
from simstream.roles.context import RoleContext
from simstream.roles.fingerprint.absent_fields import AbsentFields
from simstream.roles.fingerprint.role import MAX_BYTES, MAX_SENT_BYTES, FingerprintRole, SentBatch
from simstream.roles.fingerprint.schema_wait import SchemaWait
from simstream.roles.fingerprint.share_gatherer import ShareGatherer
from simstream.roles.fingerprint.shares import ShareMaker
from simstream.roles.supervisor import RoleSupervisor
from simstream.setting_groups import FrameSettings
from simstream.settings import Settings, default_cache
from simstream.telemetry.health import ServiceHealth
from simstream.telemetry.metrics import Metrics
from simstream.text.fingerprinter import Fingerprinter
from simstream.text.recipe import preset
from simstream.wire import frame as frames
from simstream.wire.page import PageLimits
from tests.role_threads import running
from tests.waiting import until

PARTITIONS = 8
AT_ONCE = 20
COUNT = 800
POLL_BYTES = 16 << 20
RECIPE = replace(preset("default"), extract="main")
"""Other processes extract HTML, so other pages do not wait for it."""
SLOW_HTML, SLOW_S = "<p>a page that takes its time", 2.0
POLLS = 20
"""So many polls are seen while something takes long."""


class SlowFingerprinter(Fingerprinter):
    """Takes its time over every batch, and notes how many pages were read but not yet fingerprinted."""

    def watch(self, metrics: Metrics) -> None:
        self.metrics, self.done, self.most = metrics, 0, 0

    def columns(self, pages: Sequence[Page]) -> FingerprintColumns:
        self.most = max(self.most, int(self.metrics.pages._value.get()) - self.done)
        time.sleep(0.01)
        self.done += len(pages)
        return super().columns(pages)


class FingerprinterScene(NamedTuple):
    """A log with pages, and what a fingerprinter's role over the log needs."""

    log: Log
    fingerprinter: Any
    context: RoleContext


@contextmanager
def over(
    folder: Path,
    pages: Sequence[bytes],
    settings: Settings | None = None,
    kind: type[Fingerprinter] = Fingerprinter,
    partitions: int = 1,
    headers: Sequence[tuple[str, bytes]] = (),
) -> Iterator[FingerprinterScene]:
    """A log in a folder with these pages, and a fingerprinter of this kind."""
    with (
        open_log(str(folder), LogOptions(max_record_bytes=8 << 20)) as log,
        kind(RECIPE, default_cache(), workers=0) as fingerprinter,
    ):
        log.create_topics(partitions)
        with log.open_appender(PAGES) as appender:
            for number, page in enumerate(pages):
                appender.append(page, b"%d" % number, headers)
        yield FingerprinterScene(log, fingerprinter, RoleContext(settings or Settings()))


def run_over(
    folder: Path,
    frame: FrameSettings,
    pages: list[bytes],
    partitions: int,
    kind: type[SlowFingerprinter] = SlowFingerprinter,
    threads: int = 1,
    role: type[FingerprintRole] = FingerprintRole,
    headers: Sequence[tuple[str, bytes]] = (),
) -> SlowFingerprinter:
    """One fingerprinter over a backlog, until it has seen all of it."""
    with over(folder, pages, Settings(frame=frame, threads=threads), kind, partitions, headers) as scene:
        slow: SlowFingerprinter = scene.fingerprinter
        slow.watch(scene.context.metrics)
        with running(role(*scene).run, scene.context):
            until(lambda: slow.done >= len(pages), "every page is read")
    assert slow.done == len(pages)
    return slow


def test_a_backlog_in_many_partitions_is_not_read_ahead_of_the_work(tmp_path: Path) -> None:
    pages = [b'{"text":"short"}'] * COUNT
    slow = run_over(tmp_path / "log", FrameSettings(max_pages=AT_ONCE), pages, PARTITIONS)
    assert slow.most <= 3 * AT_ONCE  # one batch at work and one that waits, and one poll more


def test_a_backlog_of_large_pages_is_bounded_in_bytes(tmp_path: Path) -> None:
    large = 4 << 20
    pages = [b'{"text":"%s"}' % (b"x" * large)] * 60
    slow = run_over(tmp_path / "log", FrameSettings(), pages, 1)
    assert slow.most <= (MAX_BYTES + 2 * POLL_BYTES) // large + 2


def test_headers_count_in_what_is_held_in_bytes(tmp_path: Path) -> None:
    headers = [("crawl-http", b"x" * (1 << 20))]
    slow = run_over(tmp_path / "log", FrameSettings(), [b'{"text":"short"}'] * 200, 1, headers=headers)
    assert slow.most <= (MAX_BYTES + 2 * POLL_BYTES) // (1 << 20) + 2


def test_dead_letters_that_are_not_acknowledged_make_it_unready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = LocalAppender.acknowledged
    with over(tmp_path / "log", [b"{"]) as scene:
        monkeypatch.setattr(
            LocalAppender,
            "acknowledged",
            lambda appender: 0 if appender._name.endswith(DEAD_LETTERS) else real(appender),
        )
        role, health = FingerprintRole(*scene), scene.context.health
        with running(role.run, scene.context):
            try:
                until(lambda: role._sent, "the frame is sent")
                role._committed_at = -1e9
                until(lambda: "dead letters are not acknowledged" in health.ready()[1], "it is unready")
            finally:
                monkeypatch.undo()


class StuckFingerprinter(SlowFingerprinter):
    """Takes long over one page, and says when it begins and ends."""

    release: Callable[[], object] | None = None
    """Whether the page may end; without it the page takes SLOW_S."""

    def columns(self, pages: Sequence[Page]) -> FingerprintColumns:
        if any(page.raw == SLOW_HTML for page in pages):
            self.began = time.monotonic()
            until(self.release or (lambda: time.monotonic() > self.began + SLOW_S), "the slow page may end")
            self.ended = time.monotonic()
        return super().columns(pages)


def test_the_consumer_is_polled_and_finished_pages_are_committed_while_one_page_takes_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("simstream.roles.fingerprint.role.KEEP_EVERY_S", 0.1)
    monkeypatch.setattr("simstream.roles.fingerprint.role.COMMIT_EVERY_S", 0.0)
    polled: list[float] = []
    commits: list[tuple[float, dict[int, int]]] = []
    poll, commit = LocalPageConsumer.poll, LocalPageConsumer.commit

    def noted(self: LocalPageConsumer, limit: int, timeout: float) -> PollResult:
        polled.append(time.monotonic())
        return poll(self, limit, timeout)

    def noted_commit(self: LocalPageConsumer, offsets: dict[int, int]) -> None:
        commits.append((time.monotonic(), dict(offsets)))
        commit(self, offsets)

    monkeypatch.setattr(LocalPageConsumer, "poll", noted)
    monkeypatch.setattr(LocalPageConsumer, "commit", noted_commit)

    class PolledFingerprinter(StuckFingerprinter):
        def release(self) -> bool:
            """Return whether the role has polled often meanwhile, and committed the pages before."""
            polls = sum(moment > self.began for moment in polled)
            return polls >= POLLS and any(offsets.get(0) == 5 for _, offsets in commits)

    pages = [b'{"text":"short"}'] * 5 + [b'{"html":"%s"}' % SLOW_HTML.encode()] + [b'{"text":"short"}'] * 60
    slow = run_over(tmp_path / "log", FrameSettings(max_pages=5), pages, 1, PolledFingerprinter)
    assert isinstance(slow, PolledFingerprinter)
    moments = [slow.began, *(moment for moment in polled if slow.began < moment < slow.ended), slow.ended]
    assert median(after - before for before, after in itertools.pairwise(moments)) < SLOW_S / 2
    assert any(moment < slow.ended and offsets.get(0) == 5 for moment, offsets in commits)


def test_the_loop_rests_while_the_oldest_batch_is_slow_and_later_ones_are_done(tmp_path: Path) -> None:
    class TurnCounter(FingerprintRole):
        turns = 0

        def _begin(self, pool: ThreadPoolExecutor) -> None:
            type(self).turns += 1
            super()._begin(pool)

    pages = [b'{"html":"%s"}' % SLOW_HTML.encode()] + [b'{"html":"<p>quick"}'] * 200
    run_over(
        tmp_path / "log", FrameSettings(max_pages=5), pages, 1, StuckFingerprinter, threads=2, role=TurnCounter
    )
    assert TurnCounter.turns < 2_000  # a loop that does not rest turns some 100,000 times a second


def test_a_slow_page_does_not_delay_a_stop_and_earlier_pages_are_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits: list[dict[int, int]] = []
    stopped, ended = threading.Event(), threading.Event()

    class HeldFingerprinter(StuckFingerprinter):
        release = staticmethod(stopped.is_set)

        def columns(self, pages: Sequence[Page]) -> FingerprintColumns:
            made = super().columns(pages)
            if hasattr(self, "ended"):
                ended.set()
            return made

    monkeypatch.setattr(LocalPageConsumer, "commit", lambda self, offsets: commits.append(dict(offsets)))
    monkeypatch.setattr("simstream.roles.fingerprint.role.COMMIT_EVERY_S", 3600.0)
    settings = Settings(frame=FrameSettings(max_pages=5), threads=1, stop_timeout="500ms")
    pages = [b'{"text":"short"}'] * 5 + [b'{"html":"%s"}' % SLOW_HTML.encode()]
    with over(tmp_path / "log", pages, settings, HeldFingerprinter) as scene:
        stuck, context = scene.fingerprinter, scene.context
        stuck.watch(context.metrics)
        with running(FingerprintRole(*scene).run, context) as thread:
            try:
                until(lambda: hasattr(stuck, "began"), "it is stuck")
            finally:
                context.stop.set()
                thread.join(60)
                stopped_before = not thread.is_alive()
                stopped.set()
        assert ended.wait(60)  # its thread may not outlive the pool
    assert stopped_before
    assert commits == [{0: 5}]


def test_while_the_log_has_no_room_the_consumer_is_polled_and_health_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("simstream.roles.fingerprint.role.KEEP_EVERY_S", 0.1)
    polled: list[float] = []
    said: list[tuple[float, str]] = []
    poll, append, ready = LocalPageConsumer.poll, LocalAppender.append, ServiceHealth.ready

    def noted(self: LocalPageConsumer, limit: int, timeout: float) -> PollResult:
        polled.append(time.monotonic())
        return poll(self, limit, timeout)

    def slow(self: LocalAppender, *arguments: Any, **more: Any) -> int:
        """As one whose queue stays full until the consumer has been polled often."""
        before = len(polled)

        def is_polled() -> bool:
            self.waiting()
            said.append((time.monotonic(), ready(health[0])[1]))
            return len(polled) >= before + POLLS

        if self.waiting is not Appender.waiting:
            until(is_polled, "the consumer is polled while the queue is full", every=0.02)
        return append(self, *arguments, **more)

    health: list[ServiceHealth] = []
    begin = ServiceHealth.expect

    def expect(self: ServiceHealth, role: str, patience_s: float = 0.0) -> None:
        health.append(self)
        begin(self, role, patience_s)

    monkeypatch.setattr(ServiceHealth, "expect", expect)
    monkeypatch.setattr(LocalPageConsumer, "poll", noted)
    monkeypatch.setattr(LocalAppender, "append", slow)
    run_over(tmp_path / "log", FrameSettings(), [b'{"text":"short"}'], 1)
    assert {why for _, why in said} == {"fingerprint: the log takes no frames: its queue is full"}
    begun, ended = said[0][0], said[-1][0]
    moments = [begun, *(moment for moment in polled if begun < moment < ended), ended]
    assert len(moments) >= POLLS
    assert median(after - before for before, after in itertools.pairwise(moments)) < 0.5


def test_unacknowledged_frames_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simstream.roles.fingerprint.role.MAX_SENT_BYTES", 20_000)
    sent: list[int] = []
    append, acknowledged = LocalAppender.append, LocalAppender.acknowledged
    held = threading.Event()

    def noted(self: LocalAppender, value: bytes | None, *arguments: Any, **more: Any) -> int:
        if more.get("partition") == 0 and not arguments:  # a frame
            sent.append(len(value or b""))
        return append(self, value, *arguments, **more)

    def late(self: LocalAppender) -> int:
        return acknowledged(self) if held.is_set() else 0

    monkeypatch.setattr(LocalAppender, "append", noted)
    monkeypatch.setattr(LocalAppender, "acknowledged", late)
    most: list[int] = []

    def release() -> None:
        """Once the bound is reached, wait for what goes beyond the bound."""
        until(lambda: sum(sent) >= 20_000, "so many bytes are sent")
        time.sleep(1)
        most.append(sum(sent))
        held.set()

    releasing = threading.Thread(target=release)
    releasing.start()
    run_over(tmp_path / "log", FrameSettings(max_pages=AT_ONCE), [b'{"text":"short"}'] * COUNT, 1)
    releasing.join()
    assert 20_000 <= most[0] < 40_000  # what is worked on may still go beyond it
    assert sum(sent) > 2 * most[0]


def test_pages_that_a_rebalance_makes_read_again_are_counted_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began = threading.Event()

    class LostBatchFingerprinter(Fingerprinter):
        """Takes its time over the first batch, which meanwhile belongs to nobody any more."""

        def columns(self, pages: Sequence[Page]) -> FingerprintColumns:
            if not began.is_set():
                began.set()
                moved.wait(60)
            return super().columns(pages)

    poll, moved = LocalPageConsumer.poll, threading.Event()

    def noted(self: LocalPageConsumer, limit: int, timeout: float) -> PollResult:
        if began.is_set() and not moved.is_set():
            self.restart()
            moved.set()
        return poll(self, limit, timeout)

    monkeypatch.setattr(LocalPageConsumer, "poll", noted)
    bad = 4
    settings = Settings(frame=FrameSettings(max_pages=bad + 1), threads=1)
    pages = [b"{"] * bad + [b'{"html":"<p>so that another thread makes the batch"}']
    with over(tmp_path / "log", pages, settings, LostBatchFingerprinter) as scene:
        sample = scene.context.metrics.registry.get_sample_value
        with running(FingerprintRole(*scene).run, scene.context):
            until(lambda: scene.log.source_offsets() == {0: bad + 1}, "every page is committed")
    assert moved.is_set()
    assert sample("simstream_pages_consumed_total") == 2 * (bad + 1)  # they were read again
    assert sample("simstream_dead_letters_total", {"reason": "bad_json"}) == bad
    assert sample("simstream_frame_latency_seconds_count") == bad + 1


CONSUMER: Any = SimpleNamespace(lag=dict, positions=lambda: {0: 6})
"""Has given the page at offset 5."""


@contextmanager
def holding_a_page(tmp_path: Path, schemas: Any = None) -> Iterator[FingerprintRole]:
    """A fingerprinter that has read a page of partition 0 and not yet sent it."""
    with over(tmp_path / "log", []) as scene:
        role, limits = FingerprintRole(*scene), PageLimits()
        role._schemas = schemas or SchemaWait(None, scene.context.metrics, 60.0)
        role._absent = AbsentFields(limits)
        role._maker = ShareMaker(scene.fingerprinter, "pages", "id", limits, FrameSettings())
        role._gatherer = ShareGatherer(role._maker, 2_000)
        page = Record("pages", 0, 5, b"k", b'{"text": "short"}')
        role._take(CONSUMER, PollResult([page], [PartitionStart(0, 5, False)]))
        yield role


def test_nothing_of_a_partition_that_went_is_sent_or_committed(tmp_path: Path) -> None:
    with holding_a_page(tmp_path) as role:
        role._commits = {0: 5}
        role._sent.append(SentBatch([(role._flows[0], 5)], 0, 0, 0, {}))
        role._take(CONSUMER, PollResult(stopped=[0]))
        role._acknowledge(0, 0)
        assert (role._flows, role._commits, role._gatherer.take_all()) == ({}, {}, [])


def test_pages_that_wait_for_a_schema_are_dropped_when_their_partition_starts_again_or_goes(tmp_path: Path) -> None:
    dropped: list[int] = []
    holder: Any = SimpleNamespace(drop=dropped.append, admit=lambda _: (), partitions={0})
    with holding_a_page(tmp_path, holder) as role:
        assert dropped == [0]
        role._take(CONSUMER, PollResult(started=[PartitionStart(0, 3, False)]))
        role._take(CONSUMER, PollResult(stopped=[0]))
        assert dropped == [0, 0, 0]


def test_what_a_failure_left_unsent_takes_no_room(tmp_path: Path) -> None:
    with holding_a_page(tmp_path) as role:
        role._bytes_sent = MAX_SENT_BYTES
        assert not role._has_room()
        role._forget()
        assert role._has_room()


@pytest.mark.parametrize("waits_for_schema", [False, True])
def test_no_hole_passes_a_page_that_waits_to_be_sent(tmp_path: Path, waits_for_schema: bool) -> None:
    holder: Any = SimpleNamespace(drop=lambda _: None, admit=lambda _: (), partitions={0})
    out: Any = None  # nothing is appended
    with holding_a_page(tmp_path, holder if waits_for_schema else None) as role:
        role._pass_holes(CONSUMER, out, 0.0)
        assert not role._sent


def test_a_stop_in_the_first_turn_waits_until_its_pages_are_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    send = FingerprintRole._send

    def stopped(self: FingerprintRole, out: Appender, dead: Appender) -> None:
        """The stop comes when pages are sent and not yet committed."""
        send(self, out, dead)
        self._context.stop.set()
        time.sleep(0.5)

    monkeypatch.setattr(FingerprintRole, "_send", stopped)
    with over(tmp_path / "log", [b'{"text":"short"}'] * 3, Settings(threads=1)) as scene:
        supervisor = RoleSupervisor(scene.context, {"fingerprint": FingerprintRole(*scene).run})
        supervisor.start()
        supervisor.wait()
        assert scene.log.source_offsets() == {0: 3}


@pytest.mark.parametrize("has_partitions", [True, False])
def test_a_failure_that_left_nothing_in_work_does_not_make_it_unready_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_partitions: bool
) -> None:
    """Nor does it end, at the next failure, a member that has lost its partitions meanwhile."""
    if not has_partitions:
        monkeypatch.setattr(LocalPageConsumer, "positions", lambda _: {})
    monkeypatch.setattr("simstream.roles.fingerprint.role.HOLE_S", 1e9)
    with over(tmp_path / "log", []) as scene:
        role, health = FingerprintRole(*scene), scene.context.health
        role._failing_since = time.monotonic()
        with running(role.run, scene.context):
            until(lambda: "takes no frames" in health.ready()[1], "it is unready")
            monkeypatch.setattr("simstream.roles.fingerprint.role.HOLE_S", 0.5)
            until(lambda: health.ready()[0], "it is ready again")
    assert role._failing_since is None


def test_it_commits_nothing_to_a_log_that_another_recipe_began_after_its_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append, commit = LocalAppender.append, LocalPageConsumer.commit

    def after_another(self: LocalAppender, value: bytes, **given: Any) -> int:
        """Another fingerprinter, which also found the log empty, is the first to write a frame."""
        monkeypatch.setattr(LocalAppender, "append", append)
        frame = frames.decode(value)
        append(self, frames.encode(structs.replace(frame.header, recipe="00000000"), frame.columns), **given)
        return append(self, value, **given)

    with over(tmp_path / "log", [b'{"text":"short"}']) as scene:

        def commit_and_end(self: LocalPageConsumer, offsets: Mapping[int, int]) -> None:
            commit(self, offsets)
            scene.context.stop.set()

        monkeypatch.setattr(LocalAppender, "append", after_another)
        monkeypatch.setattr(LocalPageConsumer, "commit", commit_and_end)
        with pytest.raises(WrongRecipe, match="began under recipe 00000000"):
            FingerprintRole(*scene).run()
        assert scene.log.source_offsets() == {}


def test_its_appenders_are_closed_after_an_error_that_lasts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: LocalAppender) -> int:
        raise NotPermitted("Write is not permitted", "permit it")

    with over(tmp_path / "log", []) as scene:
        monkeypatch.setattr(LocalAppender, "acknowledged", refuse)
        with pytest.raises(NotPermitted):
            FingerprintRole(*scene).run()
        for topic in (FINGERPRINTS, DEAD_LETTERS):
            scene.log.open_appender(topic).discard()


class NoRoomForCommits(LogFiles):
    """A disk without room for the file of commits, at the first `failures` tries."""

    def __init__(self, failures: float) -> None:
        self.failures = failures
        self.proceed = threading.Event()
        self.tries = 0

    def create(self, path: Path) -> int:
        if ".source.json." not in path.name:
            return super().create(path)
        self.tries += 1
        if self.tries == self.failures:
            self.proceed.wait(60)
        if self.tries <= self.failures:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().create(path)


def fingerprinted_without_room(folder: Path, files: NoRoomForCommits, give_up: str) -> tuple[LocalLog, RoleContext]:
    """A log of two pages, and the settings of a role over it."""
    log, context = LocalLog(folder, LogOptions(), files), RoleContext(Settings(threads=1, give_up_after=give_up))
    log.create_topics(1)
    with log.open_appender(PAGES) as appender:
        for _ in range(2):
            appender.append(b'{"text":"short"}')
    return log, context


def test_without_room_for_a_commit_it_is_unready_and_commits_once_there_is_room(tmp_path: Path) -> None:
    files = NoRoomForCommits(failures=3)
    log, context = fingerprinted_without_room(tmp_path / "log", files, "5m")
    with Fingerprinter(RECIPE, default_cache(), workers=0) as fingerprinter:
        role = FingerprintRole(log, fingerprinter, context)
        thread = threading.Thread(target=role.run)
        thread.start()
        try:
            until(lambda: "takes no commit" in context.health.ready()[1], "it is unready")
            assert "no room to write" in context.health.ready()[1]
            assert log.source_offsets() == {}
            files.proceed.set()
            until(lambda: log.source_offsets() == {0: 2}, "the pages are committed")
            until(lambda: context.health.ready()[0], "it is ready")
        finally:
            files.proceed.set()
            context.stop.set()
            thread.join()
    assert files.tries == 4
    assert context.metrics.registry.get_sample_value("simstream_pages_consumed_total") == 2  # none is read again


def test_without_room_for_a_commit_it_gives_up_after_a_time(tmp_path: Path) -> None:
    files = NoRoomForCommits(failures=float("inf"))
    log, context = fingerprinted_without_room(tmp_path / "log", files, "1s")
    with (
        Fingerprinter(RECIPE, default_cache(), workers=0) as fingerprinter,
        pytest.raises(DiskFull, match="no room to write"),
    ):
        FingerprintRole(log, fingerprinter, context).run()
    assert files.tries > 1
