"""Notices that a client of librdkafka has forgotten all brokers.

A lone broker that was silent for longer than the cluster waits names no broker in its first answers, not even
itself. Since version 2.10 the client then forgets all brokers, and does not always go back to `bootstrap.servers`
(confluentinc/librdkafka, issue 5301). It stays without a broker for ever, and reports no error. Only its
statistics show it.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec


class _KnownBroker(msgspec.Struct):
    source: str


class _Statistics(msgspec.Struct):
    brokers: dict[str, _KnownBroker] = {}


_decoder = msgspec.json.Decoder(_Statistics)


class ClientWatch:
    """Watches one client, which must be polled: its statistics come with the polls.

    A client that is not polled keeps its statistics, some KiB each time, until it is.
    """

    INTERVAL_MS: Final = 2_000
    """Milliseconds between two looks."""
    MAX_EMPTY_LOOKS: Final = 2
    """A client that knows no broker in so many successive looks is replaced."""

    def __init__(self) -> None:
        self._empty_looks = 0
        self.settings: dict[str, Any] = {"statistics.interval.ms": self.INTERVAL_MS, "stats_cb": self._look}
        """Settings of the client to watch."""

    @property
    def has_lost_brokers(self) -> bool:
        """Whether the client has forgotten all brokers. Then replace it."""
        return self._empty_looks >= self.MAX_EMPTY_LOOKS

    def _look(self, statistics: str) -> None:
        """Note whether the client knows a broker.

        A group's coordinator (source `logical`) does not count: it cannot name brokers.
        """
        try:
            known = _decoder.decode(statistics).brokers.values()
        except msgspec.MsgspecError:  # the client writes a quote in `client.id` as it is
            return
        if any(broker.source in ("learned", "configured") for broker in known):
            self._empty_looks = 0
        else:
            self._empty_looks += 1
