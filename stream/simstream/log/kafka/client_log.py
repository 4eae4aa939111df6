"""Keeps what the Kafka client logs short."""

from __future__ import annotations

import logging
import re
import time

from confluent_kafka import KafkaError


class RareMessages(logging.Filter):
    """Lets each message of the client through once in half a minute: it repeats itself while a broker is away.

    Two messages are the same if they differ only in the client that says it and in how long it waited. It lets none
    through that only tells of a short wait: a new writer waits until the brokers have ended what the one before it
    left open, and for a coordinator that has just started. And it leaves out a guess about old brokers.
    """

    def __init__(self) -> None:
        super().__init__()
        self._last: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno <= logging.DEBUG:
            return True
        whole, now = record.getMessage(), time.monotonic()
        if any(wait in whole for wait in SHORT_WAITS):
            return False
        if WRONG_GUESS in whole:
            whole = whole.replace(WRONG_GUESS, "")
            record.msg, record.args = whole, ()
        message = _SPEAKER.sub("", whole).split(" after ")[0].split(" (after ")[0][:160]
        if now - self._last.get(message, -QUIET_S) < QUIET_S:
            return False
        if len(self._last) > 1000:
            self._last.clear()
        self._last[message] = now
        return True


SHORT_WAITS = (
    "another concurrent operation on the same transaction was ongoing: retrying",
    "Coordinator load in progress: retrying",
)
"""Parts of the messages that RareMessages leaves out."""
WRONG_GUESS = ": probably due to broker version < 0.10 (see api.version.request configuration)"
"""What the client guesses of a broker that is silent. No such broker would be served."""
_SPEAKER = re.compile(r"\[[^\]]*\] ?")
QUIET_S = 30.0
"""Seconds between two equal log lines of the client."""
logger = logging.getLogger(__name__)
logger.addHandler(logging.NullHandler())  # without one, the client's warnings would reach stderr
logger.addFilter(RareMessages())


def note_error(error: KafkaError) -> None:
    """Log an error of a client. Without this callback the next call would raise a fatal error."""
    logger.debug("Kafka client: %s", error.str())
