"""Command lines that errors about a log name: they can be copied into a shell as they stand."""

from __future__ import annotations

import shlex

from stream.log.base import LogOptions


def how_to_create(address: str, prefix: str) -> str:
    """The command that makes the topics of a log; `address` is what `--log` takes."""
    command = f"simstream topics create --log {shlex.quote(address)}"
    return command if prefix == LogOptions().prefix else f"{command} --prefix {prefix}"
