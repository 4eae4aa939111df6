"""Encodes and decodes positions: how far publishing is, written in the verdicts' transaction."""

from __future__ import annotations

import msgspec

from simstream.errors import WrongLog


class Position(msgspec.Struct, frozen=True):
    """The next frame and ordinal of one log, and a digest of all pages accepted before.

    `frame` is the offset of the next frame to read, `digest` has 16 hex digits, `policy` is the policy's id.
    """

    log_id: str
    frame: int
    ordinal: int
    digest: str
    policy: str
    version: int = 1


_decoder = msgspec.json.Decoder(Position)


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
    if position.version != 1:
        raise WrongLog(
            f"the published position has format {position.version}, this version reads 1",
            "start the version of simstream that wrote it",
        )
    return position
