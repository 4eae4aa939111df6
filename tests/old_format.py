"""Frames as earlier and later versions write them."""

from __future__ import annotations

import struct
from dataclasses import replace

import mmh3
import numpy as np

from simstream.model import FingerprintColumns
from simstream.wire import frame as frames


def as_format_1(header: frames.FrameHeader, columns: FingerprintColumns) -> bytes:
    """A frame of format 1: the same columns, under identities by MurmurHash3."""
    identities = b"".join(mmh3.hash_bytes(name.encode(), 0, True) for name in columns.id_list())
    old = replace(columns, identity=np.frombuffer(identities, np.uint64).reshape(-1, 2))
    return as_format(1, frames.encode(header, old))


def as_format(number: int, encoded: bytes, body: bytes | None = None) -> bytes:
    """A whole frame as a version with this format writes it; by default with the same body."""
    (flags,) = struct.unpack_from("<H", encoded, 6)
    body = encoded[16:] if body is None else body
    seed = number << 16 | flags if number > 1 else 0
    return struct.pack("<4sHHQ", b"smfr", number, flags, frames.checksum(body, seed)) + body
