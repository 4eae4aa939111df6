"""The bytes of a local topic: groups of records, each with a checksum.

    file   = magic (8) topic id (16) group*
    group  = header (40) body
    header = magic, body length, records, partition, flags, append time, body CRC-32, header CRC-32
    record = partition, timestamp, length of headers, key and value; then headers (msgpack), key, value

A group is there as a whole or not at all. Bytes that a killed writer left behind fail their length or checksum:
they are the *torn tail*. Loose groups behind them belong to the torn tail, too, since a power cut may lose any
bytes that were not yet on the disk. The same failure is damage if a valid group behind it is not loose.
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
"""In place of the partition where a group has records of several."""
POSITION = -1
"""Where records are counted by partition: the positions."""
HAS_POSITION = 1
"""Flag: the last record of the group is the position, a record of the topic `positions`."""
LOOSE = 2
"""Flag: when the group was written, the groups before it were not known to survive a power cut."""

_HEADER = Struct("<4sIIIIqI")
_CHECK = Struct("<I")
HEADER_SIZE = _HEADER.size + _CHECK.size
_RECORD = Struct("<Iqiii")
_headers_decoder = msgspec.msgpack.Decoder(tuple[tuple[str, bytes], ...])
_headers_encoder = msgspec.msgpack.Encoder()

Headers = Sequence[tuple[str, bytes]]


class StoredRecord(NamedTuple):
    """One record as it is stored; its offset follows from what stands before it."""

    partition: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]


class GroupHeader(NamedTuple):
    """What stands before a group's records; `size` counts the body alone."""

    size: int
    records: int
    partition: int
    flags: int
    time: int
    body_crc: int


def encode_record(
    partition: int, timestamp: int, key: bytes | None, value: bytes | None, headers: Headers
) -> bytes:
    """The bytes of one record inside a group."""
    head = _headers_encoder.encode(headers) if headers else b""
    sizes = (len(head), -1 if key is None else len(key), -1 if value is None else len(value))
    return b"".join((_RECORD.pack(partition, timestamp, *sizes), head, key or b"", value or b""))


def encode_group(records: Sequence[bytes], partition: int, flags: int, time: int) -> bytes:
    """The bytes of a group of encoded records."""
    body = b"".join(records)
    header = _HEADER.pack(GROUP_MAGIC, len(body), len(records), partition, flags, time, zlib.crc32(body))
    return b"".join((header, _CHECK.pack(zlib.crc32(header)), body))


def decode_header(data: bytes | memoryview, at: int) -> GroupHeader | None:
    """The header at `at`, None where none that is whole and sound stands there."""
    if len(data) - at < HEADER_SIZE:
        return None
    magic, *fields = _HEADER.unpack_from(data, at)
    (check,) = _CHECK.unpack_from(data, at + _HEADER.size)
    if magic != GROUP_MAGIC or zlib.crc32(data[at : at + _HEADER.size]) != check:
        return None
    return GroupHeader(*fields)


def body_is_sound(header: GroupHeader, body: bytes | memoryview) -> bool:
    """Whether the body is as long as its header says and has its checksum."""
    return len(body) == header.size and zlib.crc32(body) == header.body_crc


def decode_body(header: GroupHeader, body: bytes) -> list[StoredRecord]:
    """The records of a sound body."""
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
    """The partition of each record of a MIXED body, POSITION for a position, without decoding the records."""
    out, at = [], 0
    for _ in range(header.records):
        partition, _, head_size, key_size, value_size = _RECORD.unpack_from(body, at)
        at += _RECORD.size + head_size + max(key_size, 0) + max(value_size, 0)
        out.append(partition)
    if header.flags & HAS_POSITION:
        out[-1] = POSITION
    return out


def find_header(data: bytes | memoryview, start: int) -> int | None:
    """Where the next sound header stands, from `start` on."""
    raw = bytes(data[start:])
    found = raw.find(GROUP_MAGIC)
    while found >= 0:
        if decode_header(raw, found) is not None:
            return start + found
        found = raw.find(GROUP_MAGIC, found + 1)
    return None
