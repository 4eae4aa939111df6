"""Which processes work on a log, as the log knows them, for `simstream status`."""

from __future__ import annotations

from typing import NamedTuple


class GroupMember(NamedTuple):
    """A process with a role. `name` says where it runs, as far as the log knows."""

    name: str
    elected: bool


class LogMembers(NamedTuple):
    """The members of a log's groups. One that was killed counts for some seconds more."""

    fingerprinters: tuple[str, ...]
    judges: tuple[GroupMember, ...]
    """On a local log the elected one alone: nobody knows who waits for a lock."""
    publisher: str | None
    """Who began to publish last, whether it lives or not; None where the log does not say."""
