"""Web archives as tests write them: records by hand, and ways to pack and to damage them."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable

from simstream.files.zstandard import zstd

TEXT = "The baker of {0} opens at {0} before dawn and sells {0} loaves of bread to whoever comes. "


def body(number: int) -> bytes:
    """A page of its own: HTML that can be told from that of every other number."""
    return b"<html><p>" + TEXT.format(f"w{number}").encode() * 3 + b"</html>"


def answer(
    payload: bytes, media: bytes = b"text/html; charset=utf-8", status: int = 200, more: bytes = b""
) -> bytes:
    """An answer over HTTP; `more`: further lines of its header."""
    return b"HTTP/1.1 %d OK\r\nContent-Type: %s\r\n%s\r\n%s" % (status, media, more, payload)


def warc(
    block: bytes,
    number: int,
    kind: bytes = b"response",
    length: int | None = None,
    media: bytes = b"application/http",
) -> bytes:
    """One record of a WARC; `length`: what it says of itself, where that is wrong."""
    return (
        b"WARC/1.0\r\nWARC-Type: %s\r\nWARC-Target-URI: http://site.example/%d\r\n"
        b"WARC-Date: 2026-01-02T03:04:05Z\r\nWARC-Record-ID: <urn:uuid:%d>\r\nContent-Type: %s\r\n"
        b"Content-Length: %d\r\n\r\n%s\r\n\r\n"
    ) % (kind, number, number, media, len(block) if length is None else length, block)


def arc(block: bytes, number: int, length: int | None = None) -> bytes:
    """One record of an ARC."""
    said = len(block) if length is None else length
    return b"http://site.example/%d 10.0.0.1 20260102030405 text/html %d\n%s\n" % (number, said, block)


def pages(numbers: Iterable[int], record: Callable[[bytes, int], bytes] = warc) -> list[bytes]:
    """Whole records of pages, one for each number."""
    return [record(answer(body(number)), number) for number in numbers]


def _joined(records: Iterable[bytes]) -> bytes:
    return b"".join(records)


def _gzip(records: Iterable[bytes]) -> bytes:
    return b"".join(gzip.compress(record, mtime=0) for record in records)


def _zstd(records: Iterable[bytes]) -> bytes:
    options = {zstd.CompressionParameter.checksum_flag: 1}
    return b"".join(zstd.compress(record, options=options) for record in records)


def _one_gzip(records: Iterable[bytes]) -> bytes:
    return gzip.compress(b"".join(records), mtime=0)


PACKINGS: dict[str, Callable[[Iterable[bytes]], bytes]] = {
    "plain": _joined,
    "gzip": _gzip,
    "zstd": _zstd,
    "gzip of one member": _one_gzip,
}
"""Ways to pack records."""
