"""The outbox: in order, bounded, and an error of the publisher reaches the judge."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest

from simstream.errors import DiskFull, TakenOver, TransactionOutlived
from simstream.log.base import OutgoingVerdict, Publisher
from simstream.roles.judge.outbox import CommittedBatch, PendingFrame, VerdictOutbox
from simstream.roles.judge.transaction_room import MAX_BYTES, MIN_BYTES, SHRINK, TARGET_S, TransactionRoom
from tests.waiting import until

HALF = TransactionRoom().bytes // 2


class SlowPublisher(Publisher):
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

    def publish(self, verdicts: Sequence[OutgoingVerdict], position: bytes) -> None:
        self.may.acquire()
        self.tries += 1
        if self.error is not None:
            raise self.error
        self.published.append(position)

    @property
    def results(self) -> dict[str, int]:
        return {"committed": len(self.published)}

    def close(self) -> None: ...


def frame(number: int, verdict_bytes: int = 10) -> PendingFrame:
    verdicts = [OutgoingVerdict(b"%d" % number, b"x" * verdict_bytes, ())]
    return PendingFrame(verdicts, b"%d" % number, {"new": 1}, 1_000 + number, {500: 1}, number + 1)


def test_frames_are_published_in_order_and_told_after_their_commit() -> None:
    publisher, told = SlowPublisher(), []
    publisher.may.release(100)
    with VerdictOutbox(publisher, lambda done: told.append((done.frame, list(publisher.published)))) as outbox:
        for number in range(0, 20, 2):
            outbox.put([frame(number), frame(number + 1)])
        outbox.finish()
    positions = [int(position) for position in publisher.published]
    assert positions == sorted(set(positions))
    assert positions[-1] == 19
    assert all(b"%d" % (frame_after - 1) == published[-1] for frame_after, published in told)


def test_what_waits_while_a_transaction_is_under_way_goes_with_the_next_one() -> None:
    publisher, told = SlowPublisher(), []
    with VerdictOutbox(publisher, told.append) as outbox:
        outbox.put([frame(0)])
        until(lambda: outbox.busy_s, "a transaction is under way")
        for number in range(1, 300):
            outbox.put([frame(number)])
        publisher.may.release(2)
        outbox.finish()
    assert publisher.published == [b"0", b"299"]
    first, second = told
    assert (first.frame, second.frame) == (1, 300)
    assert second.kinds == {"new": 299}
    assert second.arrival_counts == {500: 299}
    assert second.appended == {1_000 + number: 1 for number in range(1, 300)}


def test_a_full_outbox_makes_the_judge_wait_and_says_how_long(monkeypatch) -> None:
    monkeypatch.setattr("simstream.roles.judge.outbox.MAX_BYTES", 1_000)
    publisher, waits = SlowPublisher(), []

    def waiting(full: VerdictOutbox) -> None:
        waits.append(full.busy_s)
        publisher.may.release(1)

    with VerdictOutbox(publisher, lambda done: None, waiting) as outbox:
        outbox.put([frame(0, 1_000)])
        until(lambda: outbox.busy_s, "the transaction has begun")
        outbox.put([frame(1)])
        assert waits
        assert waits[0] >= 0.15
        publisher.may.release(100)
        outbox.finish()
        assert outbox.busy_s == 0
    assert publisher.published[-1] == b"1"


def test_frames_without_verdicts_are_bounded_too(monkeypatch) -> None:
    monkeypatch.setattr("simstream.roles.judge.outbox.MAX_FRAMES", 3)
    publisher, waits = SlowPublisher(), []

    def waiting(full: VerdictOutbox) -> None:
        waits.append(1)
        publisher.may.release(1)

    with VerdictOutbox(publisher, lambda done: None, waiting) as outbox:
        for number in range(4):
            outbox.put([PendingFrame((), b"%d" % number, {}, 0, {}, number)])
        assert waits
        publisher.may.release(100)
        outbox.finish()


class NarrowPublisher(SlowPublisher):
    """Takes so many bytes a transaction; a larger one outlives its time."""

    def __init__(self, room: int) -> None:
        super().__init__()
        self.room = room
        self.values: list[bytes] = []
        self.sizes: list[int] = []

    def publish(self, verdicts: Sequence[OutgoingVerdict], position: bytes) -> None:
        size = sum(len(verdict.value) for verdict in verdicts)
        self.sizes.append(size)
        if size > self.room:
            raise TransactionOutlived("too much", "send less")
        self.published.append(position)
        self.values += [verdict.value for verdict in verdicts]


def test_a_transaction_that_outlived_its_time_is_split_between_frames() -> None:
    publisher, told = NarrowPublisher(200_000), list[CommittedBatch]()
    made = [frame(number, 40_000) for number in range(40)]
    with VerdictOutbox(publisher, told.append, give_up_s=60) as outbox:
        outbox.put(made)
        outbox.finish()
    assert max(publisher.sizes) > publisher.room  # it did outlive its time
    assert publisher.values == [verdict.value for each in made for verdict in each.verdicts]
    assert publisher.published[-1] == b"39"
    assert sum(done.kinds["new"] for done in told) == 40
    assert [done.frame for done in told] == sorted(done.frame for done in told)


def test_a_frame_that_alone_outlives_its_transaction_ends_the_judge_with_the_cause() -> None:
    publisher = NarrowPublisher(10)
    with VerdictOutbox(publisher, lambda done: None, give_up_s=0.05) as outbox:
        outbox.put([frame(0, 40_000)])
        with pytest.raises(TransactionOutlived):
            outbox.finish()


@pytest.mark.parametrize(
    ("sizes", "fitting"),
    [([], 0), ([0, 0], 2), ([HALF, HALF], 2), ([HALF, HALF, 1], 2), ([HALF, HALF + 1], 1), ([8 * HALF, 1], 1)],
)
def test_frames_fit_up_to_the_room_and_the_first_one_always_fits(sizes: list[int], fitting: int) -> None:
    assert TransactionRoom().count_fitting(sizes) == fitting


@pytest.mark.parametrize(
    ("size", "seconds", "room"),
    [
        (HALF + 1, TARGET_S / 4, 4 * HALF),
        (HALF, TARGET_S / 4, 2 * HALF),  # a small one says nothing of a larger one
        (2 * HALF, TARGET_S, 2 * HALF),
        (2 * HALF, 2 * TARGET_S, HALF),
        (8 * HALF, 2 * TARGET_S, 2 * HALF),  # a slow one makes no room
        (2 * HALF, 1000 * TARGET_S, MIN_BYTES),
    ],
)
def test_the_room_of_a_transaction_follows_the_brokers_rate(size: int, seconds: float, room: int) -> None:
    changing = TransactionRoom()
    changing.note_commit(size, seconds)
    assert changing.bytes == room


def test_after_a_timeout_the_room_is_a_part_of_what_was_sent() -> None:
    room = TransactionRoom()
    room.note_timeout(HALF)
    assert room.bytes == HALF // SHRINK
    room.bytes = MAX_BYTES
    room.note_timeout(8 * MAX_BYTES)
    assert room.bytes == MAX_BYTES // SHRINK


def test_a_first_frame_that_is_larger_than_the_room_is_published() -> None:
    publisher = SlowPublisher()
    publisher.may.release()
    with VerdictOutbox(publisher, lambda done: None) as outbox:
        outbox.put([frame(0, 4 * HALF)])
        outbox.finish()
    assert publisher.published == [b"0"]


def test_a_judge_waits_for_a_full_disk_and_publishes_the_same_batch_later(monkeypatch) -> None:
    monkeypatch.setattr("simstream.roles.judge.outbox.PAUSE_S", 0.01)
    publisher = SlowPublisher()
    publisher.error = DiskFull("no room", "make some")
    publisher.may.release(3)
    with VerdictOutbox(publisher, lambda done: None, give_up_s=60) as outbox:
        outbox.put([frame(7)])
        until(lambda: publisher.tries >= 3 and outbox.obstacle, "it is tried three times")
        assert outbox.obstacle == "no room"
        publisher.error = None
        publisher.may.release(100)
        outbox.finish()
        assert outbox.obstacle == ""
    assert publisher.published == [b"7"]


def test_a_disk_that_stays_full_ends_the_judge(monkeypatch) -> None:
    monkeypatch.setattr("simstream.roles.judge.outbox.PAUSE_S", 0.01)
    publisher = SlowPublisher()
    publisher.error = DiskFull("no room", "make some")
    publisher.may.release(1000)
    with VerdictOutbox(publisher, lambda done: None, give_up_s=0.05) as outbox:
        outbox.put([frame(7)])
        with pytest.raises(DiskFull):
            outbox.finish()


@pytest.mark.parametrize("call", ["check", "put", "finish"])
def test_an_error_of_the_publisher_is_raised_by_the_next_call(call: str) -> None:
    publisher = SlowPublisher()
    publisher.error = TakenOver("another judge publishes now", "stop")
    with VerdictOutbox(publisher, lambda done: None) as outbox:
        outbox.put([frame(1)])
        publisher.may.release(1)
        outbox._publishing.exception(60)
        calls = {"check": outbox.check, "put": lambda: outbox.put([frame(2)]), "finish": outbox.finish}
        with pytest.raises(TakenOver):
            calls[call]()


def test_queued_verdicts_are_not_published_after_the_judge_failed() -> None:
    publisher = SlowPublisher()

    def release(outbox: VerdictOutbox) -> None:
        try:
            until(lambda: outbox._failed, "the outbox hears that the judge failed")
        finally:
            publisher.may.release(100)

    def fail() -> None:
        with VerdictOutbox(publisher, lambda done: None) as outbox:
            outbox.put([frame(1)])
            until(lambda: outbox.busy_s, "a transaction is under way")
            outbox.put([frame(2)])
            threading.Thread(target=release, args=(outbox,)).start()
            raise ValueError("the judge failed")

    with pytest.raises(ValueError, match="the judge failed"):
        fail()
    assert publisher.published == [b"1"]  # the transaction that was under way is waited for


def test_finish_waits_for_the_last_commit() -> None:
    publisher = SlowPublisher()
    with VerdictOutbox(publisher, lambda done: None) as outbox:
        outbox.put([frame(1)])
        threading.Timer(0.2, publisher.may.release, [1]).start()
        outbox.finish()
        assert publisher.published == [b"1"]
