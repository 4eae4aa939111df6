"""Connects a client to its log within a fixed time, even if no broker answers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import closing, contextmanager
from functools import partial
from typing import NamedTuple

from simstream.errors import BrokerUnreachable
from simstream.log.base import Appender, Log, Reader
from simstream.log.options import PAGES, VERDICTS
from simstream.processors import call_in_daemon, is_of_result


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
    with _begun(log) as made:
        try:
            return made.result(min(seconds, threading.TIMEOUT_MAX))
        except TimeoutError as error:
            if not is_of_result(error):
                raise
            raise _unreachable(seconds) from None


async def connect_async(log: Log, seconds: float) -> ServiceConnection:
    """Return a connection, as `connect` does, without blocking the loop. It may be cancelled."""
    with _begun(log) as made:
        try:
            return await asyncio.wait_for(asyncio.wrap_future(made), seconds)
        except TimeoutError:
            raise _unreachable(seconds) from None


@contextmanager
def _begun(log: Log) -> Iterator[Future[ServiceConnection]]:
    """Return a connection that is being made. After any error close it as soon as it is there, and then the log."""
    made = call_in_daemon(partial(_connect, log), "simstream-connect")
    try:
        yield made
    except BaseException:
        call_in_daemon(partial(_close, log, made), "simstream-connect")  # nobody waits for it
        raise


def _unreachable(seconds: float) -> BrokerUnreachable:
    what = f"the log did not answer within {seconds:g} s"
    return BrokerUnreachable(what, "check that the broker runs, and that its address is right")


def _connect(log: Log) -> ServiceConnection:
    name = log.topic(PAGES).name
    verdicts = log.open_reader(VERDICTS, "end")
    try:
        return ServiceConnection(name, verdicts, log.open_appender(PAGES))
    except BaseException:
        verdicts.close()
        raise


def _close(log: Log, made: Future[ServiceConnection]) -> None:
    with closing(log):
        if made.exception() is None:
            with closing(made.result().verdicts):
                made.result().appender.discard()
