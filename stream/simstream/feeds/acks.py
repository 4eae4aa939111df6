"""Acknowledges a record once its changes of the table have reached the brokers.

Faust by itself may commit an offset while the table's change is still on its way; a process that is killed between
the two would lose a card. Here both wait in the same list until the producer has been flushed.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final


class EventAcks:
    """Events that have been worked in and are not yet acknowledged; at most MAX_EVENTS of them."""

    EVERY: Final = 0.25
    """Seconds between two flushes."""
    MAX_EVENTS: Final = 1_000

    def __init__(self, app: Any) -> None:
        self._app = app
        self._events: list[Any] = []
        self._lock = asyncio.Lock()

    async def add(self, event: Any) -> None:
        """Take an event that has been worked in."""
        self._events.append(event)
        if len(self._events) >= self.MAX_EVENTS:
            await self.settle()

    async def last(self, *_: Any, **__: Any) -> None:
        """The same at the end of the app, while its producer still runs."""
        await self.settle()

    async def settle(self) -> None:
        """Flush, then acknowledge what had been worked in before."""
        async with self._lock:
            events, self._events = self._events, []
            if events:
                await self._app.producer.flush()
                for event in events:
                    event.ack()
