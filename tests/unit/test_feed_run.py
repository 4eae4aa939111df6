"""What `feed` costs a page while the log is slow to acknowledge."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from typing import cast

from simstream.log.base import Appender, Log
from simstream.model import Record
from simstream.tools.feed.feed import feed

AT_ONCE = 1_000
COUNT = 21_000


class LateAppender:
    """Acknowledges everything at the end, and nothing before."""

    def __init__(self) -> None:
        self.count = 0

    def append(self, *_: object, **__: object) -> int:
        self.count += 1
        return self.count

    def acknowledged(self) -> int:
        return 0

    def flush(self, timeout: float) -> int:
        return self.count

    def __enter__(self) -> LateAppender:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class LateLog:
    """A log whose appender is late."""

    def open_appender(self, topic: str) -> Appender:
        return cast(Appender, LateAppender())

    def topic(self, topic: str) -> object:
        return type("Info", (), {"name": topic})


def test_a_page_costs_no_more_while_very_many_wait_for_their_acknowledgement() -> None:
    times: list[float] = []

    def records() -> Iterator[Record]:
        for number in range(COUNT):
            if number % AT_ONCE == 0:
                times.append(time.thread_time())
            yield Record(topic="file", partition=0, offset=number, key=None, value=b"{}", headers=(), timestamp=0)

    assert feed(cast(Log, LateLog()), records(), 1 << 20, lambda _: None).sent == COUNT
    took = [end - begin for begin, end in itertools.pairwise(times)]
    assert min(took[-3:]) < 20 * min(took[:2])
