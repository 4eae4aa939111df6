"""Where records live: Kafka or a local directory, behind one interface (`base`)."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from simstream.errors import SettingsError
from simstream.kafka_settings import KAFKA, SERVERS, names_a_user
from simstream.log.base import Log
from simstream.log.options import MATCHES, LogOptions

if TYPE_CHECKING:
    from simstream.settings import Settings

_SCHEME = re.compile(r"(kafka|https?|file|tcp)s?:", re.IGNORECASE)
"""An address that begins like this is a URL, never a folder."""


def options_of(settings: Settings, patience: float, logs_silence: bool = True) -> LogOptions:
    """Return the options of the log that the settings name; `patience` is the seconds to wait for a broker."""
    return LogOptions(
        prefix=settings.prefix,
        client=settings.kafka,
        patience=patience,
        logs_silence=logs_silence,
        max_record_bytes=settings.max_record_bytes,
        matches=settings.matches,
        shards=settings.shards,
        publish_to=settings.publish_to,
        pages_topic=settings.pages_topic,
        fingerprints_topic=settings.fingerprints_topic,
        verdicts_topic=settings.verdicts_topic,
        dead_letters_topic=settings.dead_letters_topic,
    )


def setting_for_matchers(settings: Settings) -> str:
    """Return the setting that asks for an index on matchers, such as `shards is 16`; empty if none surely does."""
    if settings.shards is not None:
        return f"shards is {settings.shards}" if settings.shards else ""
    return f"matches is {settings.matches}" if settings.matches != MATCHES else ""


def judged_prefix(settings: Settings) -> str:
    """Return the prefix of verdicts, positions and the groups of judges. Raises SettingsError."""
    return options_of(settings, settings.give_up_s).judged_prefix


def open_log(address: str, options: LogOptions | None = None) -> Log:
    """Return the log at `address`: `kafka://HOST:PORT,...`, or the path of a directory.

    The call reads and connects nothing. A local log never imports the Kafka client. Raises SettingsError for an
    address that is a file, or neither form.
    """
    options = options or LogOptions()
    if address.startswith(KAFKA):
        from simstream.log.kafka.log import KafkaLog

        return KafkaLog(address.removeprefix(KAFKA), options)
    _check_folder(address)
    from simstream.log.local.log import LocalLog

    return LocalLog(address, options)


def absolute_address(address: str) -> str:
    """Return an address that `open_log` took, so that it holds in every working directory."""
    return address if address.startswith(KAFKA) else os.path.abspath(address)


def _check_folder(address: str) -> None:
    advice = "give kafka://HOST:PORT or the path of a directory"
    if names_a_user(address):
        raise SettingsError("the log names a user", advice)  # not shown: a password may stand before the @
    if not address or "://" in address or _SCHEME.match(address):
        raise SettingsError(f"the log {address!r} does not name a place for a log", advice)
    if os.path.isdir(address):
        return
    if SERVERS.fullmatch(address):
        raise SettingsError(f"the log {address!r} is not a directory", f"did you mean {KAFKA}{address}?")
    if os.path.exists(address):
        raise SettingsError(f"the log {address!r} is a file", advice)


__all__ = [
    "KAFKA",
    "Log",
    "LogOptions",
    "absolute_address",
    "judged_prefix",
    "open_log",
    "options_of",
    "setting_for_matchers",
]
