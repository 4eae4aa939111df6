"""Where records live: Kafka or a local directory, behind one interface (`base`)."""

from __future__ import annotations

from stream.errors import SettingsError
from stream.log.base import Log, LogOptions

KAFKA = "kafka://"


def open_log(address: str, options: LogOptions | None = None) -> Log:
    """The log at `address`: `kafka://HOST:PORT,...`, or the path of a directory.

    Nothing is read or connected yet. A local log never imports the Kafka client. Raises SettingsError.
    """
    options = options or LogOptions()
    if address.startswith(KAFKA):
        from stream.log.kafka import KafkaLog

        return KafkaLog(address.removeprefix(KAFKA), options)
    if not address or "://" in address:
        raise SettingsError(
            f"--log {address!r} is no place for a log", "give kafka://HOST:PORT or the path of a directory"
        )
    from stream.log.local import LocalLog

    return LocalLog(address, options)


__all__ = ["KAFKA", "Log", "LogOptions", "open_log"]
