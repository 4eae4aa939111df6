"""The client for threads."""

from __future__ import annotations

from concurrent.futures import Future

from simstream.client.pages import Submitted
from simstream.client.traffic import Traffic, log_of
from simstream.closing import Closing
from simstream.model import Verdict

IN_FLIGHT = 1_000
TIMEOUT = 30.0


class Client(Closing):
    """Submits pages to a running service and hands back their verdicts. Safe between threads; one is enough for a
    process, made where it is used: it does not survive a fork.

        with Client("kafka://127.0.0.1:9092") as client:
            future = client.submit({"url": "https://a.example/1", "text": "…"})
            print(future.result().verdict)

    `log` is `kafka://HOST:PORT,…` or a directory; in a directory the client is the only writer of pages. `prefix`
    is the topics' prefix. What is left out, TLS and SASL too, comes from SIMSTREAM_* variables and the settings
    file, as for every command. `in_flight` limits the pages on their way; `timeout` is in seconds, for connecting
    and for each verdict.

    A verdict belongs to the very record that was submitted, not to an earlier version of the page or to one that
    somebody else sent. Where brokers have access control lists, a client needs what `feed` and `reader` need.
    Raises SettingsError, UsageError, TopicMissing, BrokerUnreachable, NotAdmitted, NotPermitted, LogLocked.
    """

    def __init__(
        self,
        log: str | None = None,
        prefix: str | None = None,
        *,
        config: str | None = None,
        in_flight: int = IN_FLIGHT,
        timeout: float = TIMEOUT,
    ) -> None:
        self._traffic = Traffic(log_of(log, prefix, config, timeout), in_flight, timeout)

    def submit(self, page: Submitted, *, wait: float = TIMEOUT, timeout: float | None = None) -> Future[Verdict]:
        """Send a page; its verdict is the future's result. Blocks for up to `wait` seconds while too many are on
        their way, and then raises ClientFull. Raises UsageError for a page without id and URL, ClientClosed.

        The future raises VerdictLate after `timeout` seconds (the page may still be judged), ClientClosed, and
        where the page was not written RecordTooLarge, BrokerUnreachable, DeliveryFailed. For a callback:
        `future.add_done_callback`; it runs in the client's own thread, so it must be quick, and a `submit` in it
        does not wait.
        """
        seconds = 0.0 if self._traffic.is_own_thread() else wait
        place = self._traffic.enter()
        try:
            place.result(seconds)
        except TimeoutError:
            self._traffic.withdraw(place)
            raise self._traffic.full(seconds) from None
        except BaseException:
            self._traffic.withdraw(place)
            raise
        return self._traffic.send(page, timeout)

    def close(self) -> None:
        """Write what was submitted (10 s at most); futures without a verdict end with ClientClosed."""
        self._traffic.close()
