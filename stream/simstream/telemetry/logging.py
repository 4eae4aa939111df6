"""Writes log lines to stderr: one event a line, as text or as JSON; repeated faults only now and then."""

from __future__ import annotations

import logging
import sys
import threading
import time
from typing import Any, Literal

import msgspec

from simstream.terminal import json_for, printable

FIELDS = ("ordinal", "frame", "partition", "offset", "reason", "cluster", "pages", "alike")
"""What an event may say besides its sentence: `extra` of the logger, and fields of a JSON line."""
MAX_ALIKE = 20
"""Lines of one kind that are written in ALIKE_S; more lines are only counted."""
ALIKE_S = 60.0
MAX_KINDS = 1_000
_TEXT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
_TIME = "%s,%03dZ"
"""UTC, as in lines of JSON: services on several machines, and their topics, have one time."""


def log_to_stderr(kind: Literal["text", "json"], level: str) -> None:
    """Send the events of all loggers to stderr from now on.

    `level` is the least severe one that is sent: debug, info, warning or error. Other packages are a step quieter:
    their info is sent with debug, and their debug never. An HTTP client tells each request as info.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if kind == "json" else OneLineFormatter(_TEXT))
    handler.addFilter(RepetitionFilter())
    number = logging.getLevelNamesMapping()[level.upper()]
    others = logging.INFO if number == logging.DEBUG else max(number, logging.WARNING)
    logging.basicConfig(level=others, handlers=[handler], force=True)
    logging.getLogger("simstream").setLevel(number)


class OneLineFormatter(logging.Formatter):
    """Makes a line for a person. Its time is UTC. Line ends are escaped, and characters that would steer a terminal
    are replaced."""

    converter = staticmethod(time.gmtime)
    default_msec_format = _TIME

    def format(self, record: logging.LogRecord) -> str:
        return "\\n".join(map(printable, super().format(record).split("\n")))


class JsonFormatter(logging.Formatter):
    """Makes a line of JSON: `time` (ISO 8601, UTC), `level`, `logger`, `message`, the FIELDS that apply, and for a
    traceback `error`."""

    def format(self, record: logging.LogRecord) -> str:
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        event: dict[str, Any] = {
            "time": f"{seconds}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        event |= {name: getattr(record, name) for name in FIELDS if hasattr(record, name)}
        if record.exc_info:
            event["error"] = self.formatException(record.exc_info)
        for name, value in event.items():
            if isinstance(value, str):  # the name of a file need not be UTF-8
                event[name] = value.encode(errors="backslashreplace").decode()
        return json_for(sys.stderr, msgspec.json.encode(event)).decode()


class RepetitionFilter(logging.Filter):
    """Lets MAX_ALIKE events of one kind above debug through in ALIKE_S. The next says how many were left out.

    Events are of one kind if they have the same logger and the same sentence, with any numbers and names in it.
    """

    def __init__(self, most: int = MAX_ALIKE, seconds: float = ALIKE_S) -> None:
        super().__init__()
        self._most = most
        self._seconds = seconds
        self._kinds: dict[tuple[str, str], tuple[float, int]] = {}
        """For each kind, when its current span of time began, and how many events came since."""
        self._lock = threading.Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        """See logging.Filter. Debug events all pass: they are written only on request."""
        if record.levelno <= logging.DEBUG:
            return True
        now, kind = time.monotonic(), (record.name, str(record.msg))
        with self._lock:
            began, count = self._kinds.get(kind, (now, 0))
            left_out = 0
            if now - began >= self._seconds:
                began, count, left_out = now, 0, max(0, count - self._most)
            if kind not in self._kinds and len(self._kinds) >= MAX_KINDS:
                self._kinds.clear()
            self._kinds[kind] = began, count + 1
        if count >= self._most:
            return False
        if left_out:
            record.msg = f"{record.getMessage()} (and {left_out} more like it)"
            record.args = ()
            record.alike = left_out
        elif count == self._most - 1:
            record.msg = f"{record.getMessage()} (more lines like it are left out in this minute)"
            record.args = ()
        return True
