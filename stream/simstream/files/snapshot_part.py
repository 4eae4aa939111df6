"""Defines the types of a snapshot's parts and facts, before they are bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

import msgspec
from numpy.typing import NDArray

from simstream.errors import SettingsError, StateDamaged
from simstream.files.failures import START_OVER

Facts = TypeVar("Facts", bound=msgspec.Struct)

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

    def facts_as(self, kind: type[Facts]) -> Facts:
        """Return its facts as a struct of this type. Raises StateDamaged if they do not fit."""
        try:
            return msgspec.convert(dict(self.facts), kind)
        except (msgspec.ValidationError, SettingsError) as error:
            raise StateDamaged(f"the facts of {self.name} do not fit ({error})", START_OVER) from error
