"""Finds hosts whose pages take long to extract again and again, and sets their pages aside for a while."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

MAX_FAILURES: Final = 3
"""If this many pages of one host fail within WITHIN_S, the host rests."""
WITHIN_S: Final = 300.0
REST_S: Final = 60.0
MAX_HOSTS: Final = 10_000
"""Beyond this number the hosts with the oldest last failures are forgotten."""
MAX_HOST_CHARACTERS: Final = 253


@dataclass(slots=True)
class _HostRecord:
    failures: list[float]
    rests_until: float


class SlowHosts:
    """Remembers which hosts' pages failed, for at most MAX_HOSTS hosts. Thread-safe.

    `clock` gives seconds and never goes back. The clock decides which pages are set aside. That is allowed:
    extraction comes before the log, and verdicts are a function of the log.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._hosts: OrderedDict[str, _HostRecord] = OrderedDict()

    def rests(self, url: str | None) -> bool:
        """Whether to set pages of this URL's host aside now. Costs next to nothing while no host has failed."""
        if not self._hosts or not url:
            return False
        with self._lock:
            record = self._hosts.get(host_of(url))
            return record is not None and self._clock() < record.rests_until

    def failed(self, url: str | None) -> None:
        """Note that a page of this URL used up its time, or killed its process."""
        host = host_of(url) if url else ""
        if not host:
            return
        now = self._clock()
        with self._lock:
            record = self._hosts.setdefault(host, _HostRecord([], 0.0))
            recent = [when for when in record.failures if now - when < WITHIN_S]
            record.failures = [*recent[1 - MAX_FAILURES :], now]
            if len(record.failures) == MAX_FAILURES:
                record.rests_until = now + REST_S
            self._hosts.move_to_end(host)
            if len(self._hosts) > MAX_HOSTS:
                self._hosts.popitem(last=False)

    def __len__(self) -> int:
        return len(self._hosts)


def host_of(url: str) -> str:
    """Return the host of a URL, in lower case and without user and port; empty without one."""
    _, slashes, rest = url.partition("://")
    if not slashes:
        return ""
    for end in "/?#\\":
        rest = rest.partition(end)[0]
    host = rest.rpartition("@")[2]
    host = host.partition("]" if host.startswith("[") else ":")[0]
    return host.lower().rstrip(".")[:MAX_HOST_CHARACTERS]
