"""Connects a client to its log within a fixed time, even if no broker answers."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from contextlib import closing
from functools import partial
from typing import NamedTuple

from simstream.errors import BrokerUnreachable
from simstream.log.base import Appender, Log, Reader
from simstream.log.options import PAGES, VERDICTS
from simstream.processors import call_in_daemon


class ServiceConnection(NamedTuple):
    """An open connection: the full name of `pages`, a reader at the end of `verdicts`, an appender of `pages`."""

    pages: str
    verdicts: Reader
    appender: Appender


def connect(log: Log, seconds: float) -> ServiceConnection:
    """Return a connection. If the caller no longer waits for it, after `seconds` or Ctrl-C, it is closed again.

    Raises BrokerUnreachable after `seconds`, TopicMissing, NotAdmitted, NotPermitted. On a local log raises
    LogLocked if another process writes to `pages`.
    """
    made = _begin(log)
    try:
        return made.result(min(seconds, threading.TIMEOUT_MAX))
    except BaseException as error:
        _abandon(log, made)
        if isinstance(error, TimeoutError):
            raise _make_silence_error(seconds) from None
        raise


async def connect_async(log: Log, seconds: float) -> ServiceConnection:
    """Return a connection, as `connect` does, without blocking the loop. It may be cancelled."""
    made = _begin(log)
    try:
        return await asyncio.wait_for(asyncio.wrap_future(made), seconds)
    except BaseException as error:
        _abandon(log, made)
        if isinstance(error, TimeoutError):
            raise _make_silence_error(seconds) from None
        raise


def _begin(log: Log) -> Future[ServiceConnection]:
    return call_in_daemon(partial(_connect, log), "simstream-connect")


def _connect(log: Log) -> ServiceConnection:
    name = log.topic(PAGES).name
    verdicts = log.open_reader(VERDICTS, "end")
    try:
        return ServiceConnection(name, verdicts, log.open_appender(PAGES))
    except BaseException:
        verdicts.close()
        raise


def _abandon(log: Log, made: Future[ServiceConnection]) -> None:
    """Close a connection for which nobody waits, as soon as it is there, by a thread of its own; then the log."""
    call_in_daemon(partial(_close, log, made), "simstream-connect")


def _close(log: Log, made: Future[ServiceConnection]) -> None:
    with closing(log):
        if made.exception() is None:
            with closing(made.result().verdicts):
                made.result().appender.discard()


def _make_silence_error(seconds: float) -> BrokerUnreachable:
    return BrokerUnreachable(
        f"the log did not answer within {seconds:g} s", "check that the broker runs, and that its address is right"
    )
