"""Connects a client to its log within a fixed time, even if no broker answers."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import NamedTuple

from simstream.errors import BrokerUnreachable
from simstream.log.base import PAGES, VERDICTS, Appender, Log, Reader


class ServiceConnection(NamedTuple):
    """An open connection: the full name of `pages`, a reader at the end of `verdicts`, an appender of `pages`."""

    pages: str
    verdicts: Reader
    appender: Appender


def connect(log: Log, seconds: float) -> ServiceConnection:
    """Return a connection. A connection that is ready after `seconds` is closed again.

    Raises BrokerUnreachable after `seconds`, TopicMissing, NotAdmitted, NotPermitted. On a local log raises
    LogLocked if another process writes to `pages`.
    """
    made: Future[ServiceConnection] = Future()
    threading.Thread(target=_connect, args=(log, made), name="simstream-connect", daemon=True).start()
    try:
        return made.result(min(seconds, threading.TIMEOUT_MAX))
    except TimeoutError:
        made.add_done_callback(_close)
        raise BrokerUnreachable(
            f"the log did not answer within {seconds:g} s",
            "check that the broker runs, and that its address is right",
        ) from None


def _connect(log: Log, made: Future[ServiceConnection]) -> None:
    try:
        name = log.topic(PAGES).name
        verdicts = log.open_reader(VERDICTS, "end")
        try:
            made.set_result(ServiceConnection(name, verdicts, log.open_appender(PAGES)))
        except BaseException:
            verdicts.close()
            raise
    except BaseException as error:  # noqa: BLE001  # carried over to the thread that asked, whatever it is
        made.set_exception(error)


def _close(made: Future[ServiceConnection]) -> None:
    """Close a connection that the caller no longer waits for."""
    if made.exception() is None:
        made.result().appender.discard()
        made.result().verdicts.close()
