"""Encodes and decodes the bytes of a local topic: groups of records, each with a checksum.

    file   = magic (8) topic id (16) group*
    group  = header (40) body
    header = magic, body length, records, partition, flags, append time, body CRC-32, header CRC-32
    record = partition, timestamp, length of headers, key and value; then headers (msgpack), key, value

A group exists as a whole or not at all. Bytes that a killed writer left fail their length or checksum: they are the
*torn tail*. A power cut may lose any bytes that were not yet on the disk, so loose groups behind them belong to the
torn tail, too. If a valid group behind them is not loose, the file is damaged.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple

import msgspec

FILE_MAGIC = b"simlog\x00\x01"
FILE_HEADER = len(FILE_MAGIC) + 16
GROUP_MAGIC = b"\xf5grp"
MIXED = 0xFFFFFFFF
"""The partition of a group that has records of several partitions."""
POSITION = -1
"""The partition under which positions are counted."""
HAS_POSITION = 1
"""Flag: the last record of the group is the position, a record of the topic `positions`."""
LOOSE = 2
"""Flag of a loose group: the groups before it were not known to be on the disk when it was written."""

_HEADER = Struct("<4sIIIIqI")
_CHECK = Struct("<I")
HEADER_SIZE = _HEADER.size + _CHECK.size
_RECORD = Struct("<Iqiii")
_headers_decoder = msgspec.msgpack.Decoder(tuple[tuple[str, bytes], ...])
_headers_encoder = msgspec.msgpack.Encoder()

Headers = Sequence[tuple[str, bytes]]


class StoredRecord(NamedTuple):
    """One record as it is stored. Its offset is the number of its partition's records before it."""

    partition: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]


class GroupHeader(NamedTuple):
    """The header of a group; `size` counts the bytes of the body alone."""

    size: int
    records: int
    partition: int
    flags: int
    time: int
    body_crc: int


def encode_record(
    partition: int, timestamp: int, key: bytes | None, value: bytes | None, headers: Headers
) -> bytes:
    """Return the bytes of one record inside a group."""
    head = _headers_encoder.encode(headers) if headers else b""
    sizes = (len(head), -1 if key is None else len(key), -1 if value is None else len(value))
    return b"".join((_RECORD.pack(partition, timestamp, *sizes), head, key or b"", value or b""))


def encode_group(records: Sequence[bytes], partition: int, flags: int, time: int) -> bytes:
    """Return the bytes of a group of encoded records."""
    body = b"".join(records)
    header = _HEADER.pack(GROUP_MAGIC, len(body), len(records), partition, flags, time, zlib.crc32(body))
    return b"".join((header, _CHECK.pack(zlib.crc32(header)), body))


def decode_header(data: bytes | memoryview, at: int) -> GroupHeader | None:
    """Return the header at `at`; None if no whole and sound header stands there."""
    if len(data) - at < HEADER_SIZE:
        return None
    magic, *fields = _HEADER.unpack_from(data, at)
    (check,) = _CHECK.unpack_from(data, at + _HEADER.size)
    if magic != GROUP_MAGIC or zlib.crc32(data[at : at + _HEADER.size]) != check:
        return None
    return GroupHeader(*fields)


def body_is_sound(header: GroupHeader, body: bytes | memoryview) -> bool:
    """Whether the body has the length and the checksum that its header says."""
    return len(body) == header.size and zlib.crc32(body) == header.body_crc


def decode_body(header: GroupHeader, body: bytes) -> list[StoredRecord]:
    """Return the records of a sound body."""
    entries, at = [], 0
    for _ in range(header.records):
        partition, timestamp, head_size, key_size, value_size = _RECORD.unpack_from(body, at)
        at += _RECORD.size
        headers = _headers_decoder.decode(body[at : at + head_size]) if head_size else ()
        at += head_size
        key = value = None
        if key_size >= 0:
            key = body[at : at + key_size]
            at += key_size
        if value_size >= 0:
            value = body[at : at + value_size]
            at += value_size
        entries.append(StoredRecord(partition, timestamp, key, value, headers))
    return entries


def partitions_in(header: GroupHeader, body: bytes | memoryview) -> list[int]:
    """Return the partition of each record of a MIXED body, POSITION for a position. Does not decode the records."""
    out, at = [], 0
    for _ in range(header.records):
        partition, _, head_size, key_size, value_size = _RECORD.unpack_from(body, at)
        at += _RECORD.size + head_size + max(key_size, 0) + max(value_size, 0)
        out.append(partition)
    if header.flags & HAS_POSITION:
        out[-1] = POSITION
    return out


def find_header(data: bytes | memoryview, start: int) -> int | None:
    """Return the place of the next sound header from `start` on."""
    raw = bytes(data[start:])
    found = raw.find(GROUP_MAGIC)
    while found >= 0:
        if decode_header(raw, found) is not None:
            return start + found
        found = raw.find(GROUP_MAGIC, found + 1)
    return None
