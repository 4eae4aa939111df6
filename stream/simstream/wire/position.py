"""Encodes and decodes positions: how far publishing is, written in the verdicts' transaction."""

from __future__ import annotations

import msgspec

from simstream.errors import WrongLog

VERSIONS = (1, 2)
"""The formats that this version reads."""


class Position(msgspec.Struct, frozen=True):
    """The next frame and ordinal of one log, and a digest of all pages accepted before."""

    log_id: str
    """The unique id of the topic `fingerprints`."""
    frame: int
    """The offset of the next frame."""
    ordinal: int
    """The ordinal of the next page."""
    digest: str
    """16 hex digits over all pages accepted before."""
    policy: str
    """The policy's id."""
    version: int = 1
    """2 if there is a `schema_id`, else 1."""
    schema_id: int | msgspec.UnsetType = msgspec.UNSET
    """The id of the schema of the verdicts in a schema registry; plain JSON has none."""
    recipe: str | msgspec.UnsetType = msgspec.UNSET
    """The log's recipe, also when the log has no frame any more. Earlier versions wrote none."""

    @property
    def published_schema(self) -> int | None:
        """The id of the schema of the verdicts; None for plain JSON."""
        return None if self.schema_id is msgspec.UNSET else self.schema_id


_decoder = msgspec.json.Decoder(Position)


def with_schema(position: Position, schema_id: int | None) -> Position:
    """Return the position of verdicts with this schema. An earlier version of simstream refuses to go on there."""
    if schema_id is None:
        return position
    return msgspec.structs.replace(position, schema_id=schema_id, version=VERSIONS[-1])


def encode(position: Position) -> bytes:
    """Return the record's value: the same bytes for the same position."""
    return msgspec.json.encode(position)


def decode(data: bytes) -> Position:
    """Return the position. Raises WrongLog if this version cannot read it."""
    try:
        position = _decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise WrongLog(
            f"the published position cannot be read ({str(error)[:100]})",
            "start the version of simstream that wrote it",
        ) from error
    if position.version not in VERSIONS:
        raise WrongLog(
            f"the published position has format {position.version}, this version reads {VERSIONS[-1]}",
            "start the version of simstream that wrote it",
        )
    return position
