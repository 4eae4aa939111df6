"""Most pages are unreadable: the service says so once, and stops if it is told to."""

from __future__ import annotations

import pytest

from simstream.errors import SimstreamError
from simstream.roles.fingerprint.unreadable_share import RATIO_PAGES, WARN_PAGES, UnreadableShare


def test_most_pages_unreadable_is_said_once_with_the_last_reason(caplog: pytest.LogCaptureFixture) -> None:
    share = UnreadableShare(0)
    share.count(WARN_PAGES, ["no text at body.content"] * (WARN_PAGES - 1))
    assert not caplog.records
    share.count(1, ["no text at \x1b[31mbody"])
    share.count(RATIO_PAGES, ["again"] * RATIO_PAGES)
    [said] = caplog.messages
    assert "20 of 21 pages are unreadable, the last because: no text at �[31mbody; see all with" in said


def test_half_of_the_pages_are_no_reason_for_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    share = UnreadableShare(0.51)
    for _ in range(3 * RATIO_PAGES):
        share.count(2, ["no text"])
    assert not caplog.records


@pytest.mark.parametrize(("stop_ratio", "bad"), [(0.5, 500), (0.5, 601), (0.601, 601), (1.0, 1000)])
def test_the_stop_ratio_of_a_thousand_pages_stops_the_service(stop_ratio: float, bad: int) -> None:
    share = UnreadableShare(stop_ratio)
    share.count(RATIO_PAGES - 1, ["no text"] * (bad - 1))
    with pytest.raises(SimstreamError, match=f"{bad} of the last 1000 pages are unreadable"):
        share.count(1, ["no text"])


def test_a_page_less_than_the_stop_ratio_does_not_stop_the_service() -> None:
    UnreadableShare(1.0).count(RATIO_PAGES, ["no text"] * (RATIO_PAGES - 1))
