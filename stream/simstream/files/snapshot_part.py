"""The types of a snapshot's parts and facts, before they are bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from numpy.typing import NDArray

Fact = int | str | bool | None | list[Any] | dict[str, Any]
"""What MessagePack can hold of small things."""


class SnapshotPart(NamedTuple):
    """Arrays under a name, and what is to be known of them.

    An immutable part is written once, under a name that is never used for anything else; a part that is not
    (`changes`) is looked through at each snapshot, block by block, and only what changed is written.
    """

    name: str
    kind: str
    """What made it and can read it: "segment", "pages", "rows", …"""
    facts: Mapping[str, Fact]
    arrays: Mapping[str, NDArray[Any]]
    changes: bool = False
