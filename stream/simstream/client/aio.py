"""AsyncClient: the client for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Self

from msgspec import structs

from simstream.client.connecting import connect_async
from simstream.client.pages import Submitted
from simstream.client.room import RoomPlace
from simstream.client.sync import IN_FLIGHT, TIMEOUT
from simstream.client.traffic import Traffic, check_limits, checked_seconds, log_of, settings_of
from simstream.errors import ClientClosed
from simstream.log import absolute_address
from simstream.log.base import Log
from simstream.model import Verdict
from simstream.processors import call_in_daemon


class AsyncClient:
    """A sender of pages to a running service, for asyncio. It never blocks the loop.

    It connects and closes in `async with`, and opens once. Everything else is as in `Client`.

    Args:
        log: `kafka://HOST:PORT,…`, or the directory of a local log. In a directory the client must be the only
            writer of pages. A relative one stays where it is when the program changes its working directory.
        prefix: The prefix of the service's topics.
        pages_topic: The full name of the topic of pages, if it is your own.
        publish_to: The prefix of the verdicts, if it is not `prefix`.
        verdicts_topic: The full name of the topic of verdicts, in the place of `publish_to`.
        config: A settings file.
        in_flight: How many pages may wait for their verdicts at once.
        timeout: Seconds for connecting, and for each verdict.

    Raises:
        SettingsError: A setting is unknown or out of its range.
        UsageError: `in_flight` or `timeout` is no number above 0, or `in_flight` is no whole one. All other errors
            of Client come when it connects.

    Examples:
        >>> import asyncio
        >>> from simstream import AsyncClient
        >>> async def verdict_on(page: dict[str, str]) -> str:
        ...     async with AsyncClient("kafka://127.0.0.1:9092") as client:
        ...         return (await client.judge(page)).verdict
        >>> asyncio.run(verdict_on({"url": "https://a.example/1", "text": "Too short."}))
        'too_short'
    """

    def __init__(
        self,
        log: str | Path | None = None,
        prefix: str | None = None,
        *,
        pages_topic: str | None = None,
        publish_to: str | None = None,
        verdicts_topic: str | None = None,
        config: str | None = None,
        in_flight: int = IN_FLIGHT,
        timeout: float = TIMEOUT,
    ) -> None:
        check_limits(in_flight, timeout)
        settings = settings_of(
            config,
            log=log,
            prefix=prefix,
            pages_topic=pages_topic,
            publish_to=publish_to,
            verdicts_topic=verdicts_topic,
        )
        self._log: Log | None = log_of(settings, timeout)
        self._open_log = partial(log_of, structs.replace(settings, log=absolute_address(settings.log)), timeout)
        self._in_flight = in_flight
        self._timeout = timeout
        self._opening = asyncio.Lock()
        self._traffic: Traffic | None = None
        self._is_closed = False

    async def open(self) -> None:
        """Connect, once; `async with` does it for you.

        Raises:
            TopicMissing: The service's topics do not exist.
            BrokerUnreachable: No broker answered within `timeout`.
            NotAdmitted: The brokers refuse this client: TLS or SASL.
            NotPermitted: An access control list forbids writing `pages` or reading `verdicts`.
            LogLocked: Another process writes to the pages of this directory.
            ClientClosed: The client was closed.

        Examples:
            >>> async def connect() -> None:
            ...     client = AsyncClient("kafka://127.0.0.1:9092")
            ...     await client.open()
            ...     await client.close()
            >>> asyncio.run(connect())
        """
        async with self._opening:
            if self._is_closed:
                raise ClientClosed("the client was closed", "make another one")
            if self._traffic is None:
                log, self._log = self._log or self._open_log(), None  # an attempt that fails closes its log
                connection = await connect_async(log, self._timeout)
                self._traffic = Traffic(log, connection, self._in_flight, self._timeout)

    async def submit(
        self,
        page: Submitted,
        *,
        wait: float = TIMEOUT,
        timeout: float | None = None,
        headers: Mapping[str, str | bytes] = MappingProxyType({}),
    ) -> asyncio.Future[Verdict]:
        """Send a page as soon as there is room and return a future of its verdict; see `Client.submit`.

        Args:
            page: A RawPage, or a mapping with the fields of a page.
            wait: Seconds to wait while `in_flight` pages are on their way.
            timeout: Seconds until the future gives up, by default the client's.
            headers: Further headers of the page; see `Client.submit`.

        Raises:
            ClientFull: `in_flight` pages are on their way, and none made room within `wait` seconds.
            UsageError: The page has neither id nor URL, or a field that JSON cannot hold; or another process made
                the client.
            ClientClosed: The client is not open.

        Examples:
            >>> async def verdicts_on(pages: list[dict[str, str]]) -> list[str]:
            ...     async with AsyncClient("kafka://127.0.0.1:9092") as client:
            ...         futures = [await client.submit(page) for page in pages]
            ...         return [verdict.verdict for verdict in await asyncio.gather(*futures)]
            >>> asyncio.run(verdicts_on([{"id": "a", "text": "Too short."}, {"id": "b", "text": "Short, too."}]))
            ['too_short', 'too_short']
        """
        traffic, place, seconds = self._opened(), RoomPlace(), checked_seconds("wait", wait)
        try:
            traffic.enter(place)
            try:
                if place.given is not None:
                    await asyncio.wait_for(asyncio.wrap_future(place.given), seconds)
            except TimeoutError:
                raise traffic.make_full_error(seconds) from None
            return asyncio.wrap_future(traffic.send(place, page, timeout, headers))
        except BaseException:
            traffic.room.withdraw(place)
            raise

    async def judge(
        self,
        page: Submitted,
        *,
        wait: float = TIMEOUT,
        timeout: float | None = None,
        headers: Mapping[str, str | bytes] = MappingProxyType({}),
    ) -> Verdict:
        """Send a page and return its verdict.

        Args:
            page: A RawPage, or a mapping with the fields of a page.
            wait: Seconds to wait while `in_flight` pages are on their way.
            timeout: Seconds to wait for the verdict, by default the client's.
            headers: Further headers of the page; see `Client.submit`.

        Raises:
            ClientFull: `in_flight` pages are on their way, and none made room within `wait` seconds.
            UsageError: The page has neither id nor URL, or a field that JSON cannot hold; or another process made
                the client.
            VerdictLate: No verdict came within `timeout` seconds; the page may still be judged.
            RecordTooLarge: The topic does not admit a record of this size.
            BrokerUnreachable: No broker answered in time.
            DeliveryFailed: The page was not written.
            ClientClosed: The client is not open, or was closed before the verdict came.

        Examples:
            >>> async def ask() -> str:
            ...     async with AsyncClient("kafka://127.0.0.1:9092") as client:
            ...         return (await client.judge({"id": "a", "text": "Too short."})).id
            >>> asyncio.run(ask())
            'a'
        """
        return await (await self.submit(page, wait=wait, timeout=timeout, headers=headers))

    @property
    def ended(self) -> bool:
        """Whether an error has ended the client for good: close it, and open another one.

        Examples:
            >>> AsyncClient("kafka://127.0.0.1:9092").ended
            False
        """
        return self._traffic is not None and self._traffic.ended

    async def close(self) -> None:
        """Write what was submitted, within 10 s, and end the futures without a verdict with ClientClosed.

        It may be called twice, and before `open`. In a forked process it does nothing.

        Examples:
            >>> asyncio.run(AsyncClient("kafka://127.0.0.1:9092").close())
        """
        if self._traffic is not None:
            self._is_closed = True
            await asyncio.wrap_future(call_in_daemon(self._traffic.close, "simstream-close"))

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _opened(self) -> Traffic:
        if self._traffic is None:
            raise ClientClosed("the client is not open", "use it in `async with`, or await open() first")
        return self._traffic
