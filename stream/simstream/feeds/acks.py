"""Acknowledges a record once its changes of the table have reached the brokers.

Faust itself may commit an offset while the table's change is still on its way. A process that is killed between
both would lose a card. Here both wait in one list until the producer was flushed.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final


class EventAcks:
    """Events that were folded and are not yet acknowledged; at most MAX_EVENTS."""

    EVERY: Final = 0.25
    """Seconds between two flushes."""
    MAX_EVENTS: Final = 1_000

    def __init__(self, app: Any) -> None:
        self._app = app
        self._events: list[Any] = []
        self._lock = asyncio.Lock()

    async def add(self, event: Any) -> None:
        """Take an event that was folded."""
        self._events.append(event)
        if len(self._events) >= self.MAX_EVENTS:
            await self.settle()

    async def last(self, *_: Any, **__: Any) -> None:
        """Acknowledge at the end of the app, while its producer still runs."""
        await self.settle()

    async def settle(self) -> None:
        """Flush, then acknowledge the events that were folded before."""
        async with self._lock:
            events, self._events = self._events, []
            if events:
                await self._app.producer.flush()
                for event in events:
                    event.ack()
