"""Connects a client to its log within a time that holds, whatever the log's own client does."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import NamedTuple

from stream.errors import BrokerUnreachable
from stream.log.base import PAGES, VERDICTS, Appender, Log, Reader


class Connection(NamedTuple):
    """What a client works with: the full name of `pages`, a reader at the end of `verdicts`, an appender."""

    pages: str
    verdicts: Reader
    appender: Appender


def connect(log: Log, seconds: float) -> Connection:
    """Return a connection. A connection that is ready too late is closed again.

    Raises BrokerUnreachable after `seconds`, TopicMissing, NotAdmitted, NotPermitted, and on a local log LogLocked
    where another process writes to `pages`."""
    made: Future[Connection] = Future()
    threading.Thread(target=_connect, args=(log, made), name="simstream-connect", daemon=True).start()
    try:
        return made.result(min(seconds, threading.TIMEOUT_MAX))
    except TimeoutError:
        made.add_done_callback(_close)
        raise BrokerUnreachable(
            f"the log did not answer within {seconds:g} s", "is the broker running, and is its address right?"
        ) from None


def _connect(log: Log, made: Future[Connection]) -> None:
    try:
        name = log.topic(PAGES).name
        verdicts = log.reader(VERDICTS, "end")
        try:
            made.set_result(Connection(name, verdicts, log.appender(PAGES)))
        except BaseException:
            verdicts.close()
            raise
    except BaseException as error:  # noqa: BLE001  # carried over to the thread that asked, whatever it is
        made.set_exception(error)


def _close(made: Future[Connection]) -> None:
    """Close what nobody waits for any more."""
    if made.exception() is None:
        made.result().appender.discard()
        made.result().verdicts.close()
