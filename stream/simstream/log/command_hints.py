"""Writes command lines for errors about a log, ready to be copied into a shell."""

from __future__ import annotations

import shlex

from simstream.log.options import MATCHES, PAGES, POSITIONS, TABLE, LogOptions

USUAL_SHARDS = 8
"""The number of shards that the command for a missing topic of answers proposes, unless the settings name one."""

LOST_POSITION = "; if positions had records, publish under another prefix: simstream replay --to"
"""What such a command cannot mend: without its position, no judge goes on where verdicts were published."""


def remedy_for_missing(address: str, options: LogOptions, topic: str) -> str:
    """Return what to do about a missing topic of a log; `address` is the value of `--log`.

    It is the command that creates the topic, with all others. `pages_topic` is never created, and the news page
    creates its table itself.
    """
    if topic == TABLE:
        return "start the news page again: it creates the topic, and reads everything again"
    if topic == PAGES and options.pages_topic is not None:
        return (
            "name an existing topic with pages_topic, or create it with your own tools: simstream never creates it"
        )
    shards = f" --shards {options.shards or USUAL_SHARDS}" if topic == MATCHES else ""
    if shards and options.matches != MATCHES:
        shards += f" --matches {options.matches}"
    rest = LOST_POSITION if topic == POSITIONS else ""
    return f"create it with: simstream topics create {where(address, options)}{shards}{rest}"


def where(address: str, options: LogOptions, config: str | None = None) -> str:
    """Return the flags that name a log, and the settings file if one was named."""
    flags = f"--log {shlex.quote(address)}"
    if options.prefix != LogOptions().prefix:
        flags += f" --prefix {options.prefix}"
    if options.publish_to is not None:
        flags += f" --publish-to {options.publish_to}"
    flags += "".join(f" --{topic}-topic {name}" for topic, name in options.own_names.items())
    return flags if config is None else f"{flags} --config {shlex.quote(config)}"
