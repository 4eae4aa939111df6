"""A fingerprinter without commits over a log that has its pages already says that it reads them again."""

from __future__ import annotations

from pathlib import Path

import pytest

from simstream.log.base import Log
from simstream.log.local.log import LocalLog
from simstream.log.local.page_consumer import commit_path
from simstream.log.options import FINGERPRINTS, PAGES
from simstream.roles.context import RoleContext
from simstream.roles.fingerprint import lost_commits
from simstream.roles.fingerprint.lost_commits import warn_of_lost_commits
from simstream.roles.fingerprint.role import FingerprintRole
from simstream.settings import Settings
from simstream.wire import frame as frames
from tests.role_threads import running
from tests.unit.test_fingerprint_role import FingerprinterScene, over
from tests.waiting import until

COUNT = 8


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was said since the last call."""
    found = [record.getMessage() for record in caplog.records if "no committed offsets" in record.getMessage()]
    caplog.clear()
    return found


def read_all(scene: FingerprinterScene) -> None:
    """Run a fingerprinter until all pages are committed."""
    context = RoleContext(Settings(threads=1))
    with running(FingerprintRole(scene.log, scene.fingerprinter, context).run, context):
        until(lambda: scene.log.source_offsets() == {0: COUNT}, "every page is committed")


def forget_commits(log: Log) -> None:
    """Do what a broker does once a group had no member for a week."""
    assert isinstance(log, LocalLog)
    commit_path(log._catalog).unlink()


def test_lost_commits_are_told_once_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(lost_commits, "MIN_PAGES", COUNT)
    with over(tmp_path / "log", [b'{"text":"short"}'] * COUNT) as scene:
        read_all(scene)
        assert told(caplog) == []  # the log was empty
        read_all(scene)
        assert told(caplog) == []  # the commits are there
        forget_commits(scene.log)
        read_all(scene)
        (line,) = told(caplog)
        assert f"at least {COUNT} pages of simstream.pages" in line
        assert "source rewind" in line


def test_many_pages_in_readable_frames_of_the_present_topic_are_told_and_no_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    many = lost_commits.MIN_PAGES

    def frame(topic_id: str, partition: int, to: int) -> bytes:
        header = frames.FrameHeader("0" * 8, "p", topic_id, partition, 0, to, 1)
        return frames.encode(header, frames.NO_PAGES)

    with over(tmp_path / "log", [], partitions=2) as scene:
        log = scene.log
        now = log.topic(PAGES).id
        with log.open_appender(FINGERPRINTS) as appender:
            appender.append(frame("another", 0, many), partition=0)
            appender.append(b"no frame", partition=0)
            appender.append(frame(now, 0, many - 1), partition=0)
            appender.append(frame(now, 0, many - 2), partition=0)
        warn_of_lost_commits(log)
        assert told(caplog) == []
        with log.open_appender(FINGERPRINTS) as appender:
            appender.append(frame(now, 1, 1), partition=0)
        warn_of_lost_commits(log)
        (line,) = told(caplog)
        assert f"at least {many} pages" in line
