"""Hosts whose pages eat their time again and again rest for a while."""

from __future__ import annotations

import os
import signal

import pytest

from simstream.text.extraction import slow_hosts
from simstream.text.extraction.extract import extract_one
from simstream.text.extraction.pool import ExtractionPool
from simstream.text.extraction.slow_hosts import MAX_FAILURES, REST_S, WITHIN_S, SlowHosts, host_of
from tests.manual_clock import ManualClock
from tests.unit.test_extract import HTML, PAGE, SLOW


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def failed(slow: SlowHosts, host: str, times: int) -> None:
    for number in range(times):
        slow.failed(f"http://{host}/{number}")


def test_a_host_rests_after_some_failures_and_is_tried_again_later(clock: ManualClock) -> None:
    slow = SlowHosts(clock)
    failed(slow, "a.example", MAX_FAILURES - 1)
    assert not slow.rests("http://a.example/")
    failed(slow, "a.example", 1)
    assert slow.rests("https://A.example:8080/other?x")
    assert not slow.rests("http://b.example/")
    clock.now += REST_S
    assert not slow.rests("http://a.example/")
    failed(slow, "a.example", 1)
    assert slow.rests("http://a.example/"), "one more failure is enough while the others are remembered"


def test_failures_that_lie_far_apart_do_not_count_together(clock: ManualClock) -> None:
    slow = SlowHosts(clock)
    for _ in range(5 * MAX_FAILURES):
        failed(slow, "a.example", 1)
        assert not slow.rests("http://a.example/")
        clock.now += WITHIN_S / (MAX_FAILURES - 1)


def test_the_number_of_hosts_is_bounded_and_the_latest_are_kept(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slow_hosts, "MAX_HOSTS", 10)
    slow = SlowHosts(clock)
    failed(slow, "old.example", MAX_FAILURES)
    for number in range(100):
        failed(slow, f"{number}.example", 1)
    assert len(slow) == 10
    assert not slow.rests("http://old.example/")


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://a.example/b", "a.example"),
        ("HTTPS://user:word@A.Example:443?x#y", "a.example"),
        ("http://[2001:db8::1]:80/", "[2001:db8::1"),
        ("http://a.example.#", "a.example"),
        ("http://中文.example\\x", "中文.example"),
        ("a.example/b", ""),
        ("http://", ""),
        ("", ""),
        ("http://" + "a" * 9000, "a" * 253),
    ],
)
def test_the_host_of_a_url(url: str, host: str) -> None:
    assert host_of(url) == host


def test_pages_without_a_host_are_always_tried(clock: ManualClock) -> None:
    slow = SlowHosts(clock)
    for url in (None, "", "no url"):
        for _ in range(MAX_FAILURES):
            slow.failed(url)
        assert not slow.rests(url)


def test_pages_of_a_slow_host_are_set_aside_and_counted_and_others_are_not(clock: ManualClock) -> None:
    bad, good = "http://bad.example/1", "http://good.example/1"
    with ExtractionPool(1, timeout=0.1, clock=clock) as pool:
        found = pool.extract(
            [(SLOW, HTML)] * MAX_FAILURES + [(PAGE, HTML)] * 2, [bad] * (MAX_FAILURES + 1) + [good]
        )
        assert [one.reason for one in found] == ["extract_failed"] * (MAX_FAILURES + 1) + [""]
        assert pool.set_aside == 1
        assert "again and again" in found[MAX_FAILURES].detail
        assert pool.extract([(PAGE, HTML)] * 2, [bad, good])[1] == extract_one(PAGE, HTML)
        assert pool.set_aside == 2
        clock.now += REST_S
        assert pool.extract([(PAGE, HTML)], [bad]) == [extract_one(PAGE, HTML)]
        assert pool.set_aside == 2


def test_without_a_clock_no_page_is_set_aside() -> None:
    with ExtractionPool(1, timeout=0.1) as pool:
        pool.extract([(SLOW, HTML)] * MAX_FAILURES, ["http://bad.example/1"] * MAX_FAILURES)
        assert pool.extract([(PAGE, HTML)], ["http://bad.example/1"]) == [extract_one(PAGE, HTML)]


def test_a_process_that_somebody_kills_is_not_held_against_a_host(clock: ManualClock) -> None:
    with ExtractionPool(1, clock=clock) as pool:
        for _ in range(MAX_FAILURES):
            pool.extract([(PAGE, HTML)], ["http://a.example/"])
            os.kill(pool.pids()[0], signal.SIGKILL)
        assert pool.extract([(PAGE, HTML)], ["http://a.example/"]) == [extract_one(PAGE, HTML)]
        assert pool.set_aside == 0
