"""Defines the types of a snapshot's parts and facts, before they are bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from numpy.typing import NDArray

Fact = int | str | bool | None | list[Any] | dict[str, Any]
"""The small values that MessagePack can hold."""


class SnapshotPart(NamedTuple):
    """Arrays under a name, with facts about them.

    An immutable part is written once, under a name that no other part ever has. A part that `changes` is compared
    block by block at each snapshot, and only changed blocks are written.
    """

    name: str
    kind: str
    """The kind of part, which decides who can read it: "segment", "pages", "rows", …"""
    facts: Mapping[str, Fact]
    arrays: Mapping[str, NDArray[Any]]
    changes: bool = False
