"""Writes command lines for errors about a log, ready to be copied into a shell."""

from __future__ import annotations

import shlex

from simstream.log.base import MATCHES, LogOptions

USUAL_SHARDS = 8
"""The number of shards that the command for a missing topic of answers proposes."""


def how_to_create(address: str, options: LogOptions, topic: str) -> str:
    """Return the command that creates a topic of a log, with all others; `address` is the value of `--log`."""
    shards = f" --shards {USUAL_SHARDS}" if topic == MATCHES else ""
    if shards and options.matches != MATCHES:
        shards += f" --matches {options.matches}"
    return f"simstream topics create {where(address, options.prefix, options.publish_to)}{shards}"


def where(address: str, prefix: str, publish_to: str | None = None, config: str | None = None) -> str:
    """Return the flags that name a log, and the settings file if one was named."""
    flags = f"--log {shlex.quote(address)}"
    if prefix != LogOptions().prefix:
        flags += f" --prefix {prefix}"
    if publish_to is not None:
        flags += f" --publish-to {publish_to}"
    return flags if config is None else f"{flags} --config {shlex.quote(config)}"
