"""Names the processes that work on a log, as the log knows them, for `simstream status`."""

from __future__ import annotations

from typing import NamedTuple

import msgspec


class GroupMember(msgspec.Struct, frozen=True):
    """A process with a role. `name` says where it runs, if the log knows it."""

    name: str
    elected: bool


class ShardMember(msgspec.Struct, frozen=True):
    """A matcher: the shards that it owns now, and the copy of the index that they belong to."""

    name: str
    shards: tuple[int, ...]
    copy: int


class LogMembers(NamedTuple):
    """The members of a log's groups. A killed process counts for some seconds more."""

    fingerprinters: tuple[str, ...]
    judges: tuple[GroupMember, ...]
    """The judges. On a local log the elected judge alone: a lock does not say who waits for it."""
    publisher: str | None
    """The last process that began to publish, alive or not; None if the log does not say."""
    matchers: tuple[ShardMember, ...] = ()
    """The matchers, by copy. On a local log the owner alone, as with judges."""
    stranger: str | None = None
    """The elected member of the judges' group, if it is no judge: then no judge can publish."""
