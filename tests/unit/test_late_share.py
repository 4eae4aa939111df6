"""Pages that are older than the window: the judge asks once an hour whether their time is in seconds."""

from __future__ import annotations

import pytest

from simstream.roles.judge import late_share as module
from simstream.roles.judge.late_share import LATE_PAGES, RATIO_PAGES, WARN_EVERY_S, LateShare
from simstream.wire.page import FIRST_LIKELY_MS
from tests.manual_clock import ManualClock

NOW_MS = 1_795_997_524_000


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> ManualClock:
    clock = ManualClock()
    monkeypatch.setattr(module, "time", clock)
    return clock


def test_more_than_a_tenth_of_late_pages_is_said_at_most_once_an_hour(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    share = LateShare()
    for said in (1, 1, 1, 2):
        if said == 2:
            clock.now += WARN_EVERY_S
        share.count(10 * LATE_PAGES - 1, LATE_PAGES)
        share.check(NOW_MS)
        assert len(caplog.messages) == said


def test_a_tenth_of_late_pages_is_no_reason_for_a_warning(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    share = LateShare()
    for pages, late in ((RATIO_PAGES, RATIO_PAGES // 10), (LATE_PAGES - 1, LATE_PAGES - 1)):
        share.count(pages, late)
        share.check(NOW_MS)
    assert not caplog.records


def test_times_that_are_all_in_seconds_are_said_although_no_page_is_late(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    share = LateShare()
    share.check(None)
    share.check(FIRST_LIKELY_MS)
    assert not caplog.records
    share.check(NOW_MS // 1000)
    assert caplog.messages == [
        f"no page has a later time than {NOW_MS // 1000}: is `time` in seconds? It is milliseconds since 1970"
    ]
