"""The outbox: in order, bounded, and an error of the publisher reaches the judge."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Sequence

import pytest

from stream.errors import DiskFull, TakenOver
from stream.log.base import Outgoing, Publisher
from stream.roles.outbox import LIMIT, Batch, Outbox


class Slow(Publisher):
    """Publishes what it may: a real publisher, but for the place where it puts things."""

    def __init__(self) -> None:
        self.may = threading.Semaphore(0)
        self.published: list[bytes] = []
        self.tries = 0
        self.error: Exception | None = None

    def committed(self) -> bytes | None:
        return None

    def start(self) -> bytes | None:
        return None

    def publish(self, verdicts: Sequence[Outgoing], position: bytes) -> None:
        self.may.acquire()
        self.tries += 1
        if self.error is not None:
            raise self.error
        self.published.append(position)

    @property
    def results(self) -> dict[str, int]:
        return {"committed": len(self.published)}

    def close(self) -> None: ...


def batch(number: int) -> Batch:
    return Batch([], b"%d" % number, Counter(), {}, {})


def test_batches_are_published_in_order_and_told_after_their_commit() -> None:
    publisher, told = Slow(), []
    publisher.may.release(100)
    with Outbox(publisher, lambda done: told.append((done.position, list(publisher.published)))) as outbox:
        for number in range(20):
            outbox.put(batch(number))
        outbox.finish()
    assert publisher.published == [b"%d" % number for number in range(20)]
    assert all(position == published[-1] for position, published in told)


def test_a_full_outbox_makes_the_judge_wait_and_says_how_long() -> None:
    publisher, waits = Slow(), []

    def waiting(full: Outbox) -> None:
        waits.append(full.busy_s)
        publisher.may.release(1)

    with Outbox(publisher, lambda done: None, waiting) as outbox:
        for number in range(LIMIT + 1):
            outbox.put(batch(number))
        outbox.put(batch(LIMIT + 1))
        assert waits
        assert waits[0] >= 0.2
        publisher.may.release(100)
        outbox.finish()
        assert outbox.busy_s == 0
    assert len(publisher.published) == LIMIT + 2


def test_a_full_disk_is_waited_for_and_the_same_batch_published_once_there_is_room(monkeypatch) -> None:
    monkeypatch.setattr("stream.roles.outbox.PAUSE_S", 0.01)
    publisher = Slow()
    publisher.error = DiskFull("no room", "make some")
    publisher.may.release(3)
    with Outbox(publisher, lambda done: None, give_up_s=60) as outbox:
        outbox.put(batch(7))
        while publisher.tries < 3:
            time.sleep(0.001)
        publisher.error = None
        publisher.may.release(100)
        outbox.finish()
    assert publisher.published == [b"7"]


def test_a_disk_that_stays_full_ends_the_judge(monkeypatch) -> None:
    monkeypatch.setattr("stream.roles.outbox.PAUSE_S", 0.01)
    publisher = Slow()
    publisher.error = DiskFull("no room", "make some")
    publisher.may.release(1000)
    with Outbox(publisher, lambda done: None, give_up_s=0.05) as outbox:
        outbox.put(batch(7))
        with pytest.raises(DiskFull):
            outbox.finish()


@pytest.mark.parametrize("call", ["check", "put", "finish"])
def test_an_error_of_the_publisher_is_raised_by_the_next_call(call: str) -> None:
    publisher = Slow()
    publisher.error = TakenOver("another judge publishes now", "stop")
    with Outbox(publisher, lambda done: None) as outbox:
        outbox.put(batch(1))
        publisher.may.release(1)
        outbox._thread.join(5)
        calls = {"check": outbox.check, "put": lambda: outbox.put(batch(2)), "finish": outbox.finish}
        with pytest.raises(TakenOver):
            calls[call]()


def test_what_is_queued_is_not_published_after_the_judge_failed() -> None:
    publisher = Slow()

    def fail() -> None:
        with Outbox(publisher, lambda done: None) as outbox:
            outbox.put(batch(1))
            outbox.put(batch(2))
            threading.Timer(0.3, publisher.may.release, [100]).start()
            raise ValueError("the judge failed")

    with pytest.raises(ValueError):
        fail()
    assert b"2" not in publisher.published


def test_finish_waits_for_the_last_commit() -> None:
    publisher = Slow()
    with Outbox(publisher, lambda done: None) as outbox:
        outbox.put(batch(1))
        threading.Timer(0.2, publisher.may.release, [1]).start()
        outbox.finish()
        assert publisher.published == [b"1"]
