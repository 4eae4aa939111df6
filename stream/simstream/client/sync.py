"""Client: the client for threads."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path
from types import MappingProxyType

from simstream.client.connecting import connect
from simstream.client.pages import Submitted
from simstream.client.room import RoomPlace
from simstream.client.traffic import Traffic, check_limits, checked_seconds, log_of, settings_of
from simstream.closing import Closing
from simstream.model import Verdict
from simstream.processors import is_of_result

IN_FLIGHT = 1_000
TIMEOUT = 30.0


class Client(Closing):
    """A sender of pages to a running service, which brings each page its own verdict.

    Threads may share a client. One client is enough for a process. A client does not survive a fork: make one in
    each process.

    Arguments that are None come from SIMSTREAM_* variables and the settings file, TLS and SASL too, as for every
    command. A verdict belongs to the very record that was submitted, never to an earlier version of the page. With
    access control lists a client needs what `feed` and `reader` need.

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
        UsageError: `in_flight` or `timeout` is no number above 0, or `in_flight` is no whole one.
        TopicMissing: The service's topics do not exist.
        BrokerUnreachable: No broker answered within `timeout`.
        NotAdmitted: The brokers refuse this client: TLS or SASL.
        NotPermitted: An access control list forbids writing `pages` or reading `verdicts`.
        LogLocked: Another process writes to the pages of this directory.

    Examples:
        >>> from simstream import Client
        >>> with Client("kafka://127.0.0.1:9092") as client:
        ...     future = client.submit({"url": "https://a.example/1", "text": "Too short."})
        ...     verdict = future.result()
        >>> verdict.verdict, verdict.reason
        ('too_short', 'few_words')
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
        opened = log_of(settings, timeout)
        self._traffic = Traffic(opened, connect(opened, timeout), in_flight, timeout)

    def submit(
        self,
        page: Submitted,
        *,
        wait: float = TIMEOUT,
        timeout: float | None = None,
        headers: Mapping[str, str | bytes] = MappingProxyType({}),
    ) -> Future[Verdict]:
        """Send a page and return a future of its verdict.

        For a callback use `future.add_done_callback`. It runs in the client's own thread: it must be quick, and a
        `submit` in it does not wait. Cost: some 20 us; pages travel in batches.

        Args:
            page: A RawPage, or a mapping with `id`, `url`, `title`, `text` or `html`, `time`, `status`.
            wait: Seconds to wait while `in_flight` pages are on their way.
            timeout: Seconds until the future gives up, by default the client's.
            headers: Further headers of the page, such as `traceparent`. Those that the service's setting
                `verdict_headers` names go on to the verdict's record.

        Returns:
            A future of the verdict. It raises VerdictLate after `timeout` seconds; the page may still be judged.
            For a page that was not written it raises RecordTooLarge, BrokerUnreachable, DeliveryFailed or
            ClientClosed.

        Raises:
            ClientFull: `in_flight` pages are on their way, and none made room within `wait` seconds.
            UsageError: The page has neither id nor URL, or a field that JSON cannot hold; or a header is not text;
                or `wait` or `timeout` is no number; or another process made the client.
            ClientClosed: The client was closed.
            SimstreamError: The error that has ended the client, such as TopicRecreated; see `ended`.

        Examples:
            >>> with Client("kafka://127.0.0.1:9092") as client:
            ...     pages = [{"id": str(number), "text": "Too short."} for number in range(3)]
            ...     futures = [client.submit(page) for page in pages]
            ...     [future.result().verdict for future in futures]
            ['too_short', 'too_short', 'too_short']
        """
        seconds = 0.0 if self._traffic.is_own_thread() else checked_seconds("wait", wait)
        place = RoomPlace()
        try:
            try:
                self._traffic.enter(place)
                if place.given is not None:
                    place.given.result(min(seconds, threading.TIMEOUT_MAX))
                return self._traffic.send(place, page, timeout, headers)
            except BaseException as error:
                self._traffic.room.withdraw(place)
                if isinstance(error, TimeoutError) and is_of_result(error):
                    raise self._traffic.make_full_error(seconds) from None
                raise
        except BaseException:
            self._traffic.room.withdraw(place)  # the error of a signal's handler may have come before the other one
            raise

    @property
    def ended(self) -> bool:
        """Whether an error has ended the client for good: close it, and open another one.

        Examples:
            >>> with Client("kafka://127.0.0.1:9092") as client:
            ...     client.ended
            False
        """
        return self._traffic.ended

    def close(self) -> None:
        """Write what was submitted, within 10 s, and end the futures without a verdict with ClientClosed.

        It may be called twice. In a forked process it does nothing.

        Examples:
            >>> client = Client("kafka://127.0.0.1:9092")
            >>> client.close()
        """
        self._traffic.close()
