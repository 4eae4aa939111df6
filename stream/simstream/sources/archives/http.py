"""Parses an archived HTTP response: status, content type and decoded body."""

from __future__ import annotations

import contextlib
import io
import re
import zlib
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from simstream.files.zstandard import zstd
from simstream.sources.lines import Decompressor, ZlibDecompressor

_HEAD: Final = re.compile(rb"\r?\n\r?\n")
_STATUS: Final = re.compile(rb"(?:HTTP/\d(?:\.\d)?|ICY)[ \t]+(\d{3})(?!\d)")
_CHUNK: Final = re.compile(rb"[ \t]*([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\n]{0,1000})?\r?\n")
_MAX_HEAD_BYTES: Final = 1 << 16
"""Header fields beyond so many bytes are not read."""
_STEP_BYTES: Final = 1 << 12
_GZIP_MEMBER: Final = b"\x1f\x8b"
_ZSTD_FRAME: Final = b"\x28\xb5\x2f\xfd"
_WINDOW: Final[dict[int, int]] = {zstd.DecompressionParameter.window_log_max: 23}
"""8 MB, which is what browsers allow."""
_ZLIB: Final = partial(ZlibDecompressor, 15)
_DEFLATE: Final = partial(ZlibDecompressor, -15)
_ZSTD: Final = partial(zstd.ZstdDecompressor, options=_WINDOW)
_MAX_ENCODINGS: Final = 4
"""At most so many encodings of one body are decoded."""
_MAX_FRAMES: Final = 1_000
"""At most so many members of gzip or frames of Zstandard in one body are decoded: a stranger's may all be empty."""


class HttpResponse(NamedTuple):
    """An answer. `status` is None without a status line. `media` is the header's content type, or empty."""

    status: int | None
    media: bytes
    body: bytes


def response(block: bytes, limit: int) -> HttpResponse:
    """Return the answer in a block, with chunks and encodings decoded; at most `limit` + 1 bytes of its body.

    Many archives keep a decoded body under its original header: a body that does not look encoded is left
    unchanged. A body that breaks off counts up to there. Never raises. Memory: `limit`, and the windows of the
    encodings.
    """
    at, status = 0, _STATUS.match(block)
    if status is None:
        return HttpResponse(None, b"", block[: limit + 1])
    end = _HEAD.search(block, at)
    while end and status[1].startswith(b"1") and (final := _STATUS.match(block, end.end())):
        at, status = end.end(), final
        end = _HEAD.search(block, at)
    head_end, body = (end.start(), block[end.end() :]) if end else (len(block), b"")
    code, fields = int(status[1]), _fields(block[at : min(head_end, at + _MAX_HEAD_BYTES)])
    if b"chunked" in fields.get(b"transfer-encoding", b"").lower():
        body = _unchunked(body)
    encodings = [name.strip() for name in fields.get(b"content-encoding", b"").lower().split(b",")]
    for name in reversed(encodings[:_MAX_ENCODINGS]):
        body = _decoded(body, name, limit)
    return HttpResponse(code, fields.get(b"content-type", b""), body[: limit + 1])


def _fields(head: bytes) -> dict[bytes, bytes]:
    fields: dict[bytes, bytes] = {}
    for line in head.split(b"\n")[1:]:
        name, colon, value = line.partition(b":")
        if colon:
            fields.setdefault(name.strip().lower(), value.strip())
    return fields


def _unchunked(body: bytes) -> bytes:
    parts: list[bytes] = []
    at = 0
    while found := _CHUNK.match(body, at):
        size = int(found[1], 16)
        if size == 0:
            return b"".join(parts)
        parts.append(body[found.end() : found.end() + size])
        at = found.end() + size
        if body.startswith((b"\r\n", b"\n"), at):
            at = body.index(b"\n", at) + 1
        elif at < len(body):
            return body if len(parts) == 1 else b"".join(parts)
    return b"".join(parts) if parts else body


def _decoded(body: bytes, encoding: bytes, limit: int) -> bytes:
    if encoding in (b"gzip", b"x-gzip"):
        return _unpacked(body, limit, ZlibDecompressor, _GZIP_MEMBER) if body.startswith(_GZIP_MEMBER) else body
    if encoding == b"deflate":
        return _unpacked(body, limit, _ZLIB) or _unpacked(body, limit, _DEFLATE) or body
    if encoding == b"br":
        return _brotli(body, limit) or body
    if encoding == b"zstd" and body.startswith(_ZSTD_FRAME):
        return _unpacked(body, limit, _ZSTD, _ZSTD_FRAME) or body
    return body


def _unpacked(body: bytes, limit: int, make: Callable[[], Decompressor], magic: bytes = b"") -> bytes:
    """Return the content of the first stream, and of all directly behind it that begin with `magic`."""
    out, rest, at = bytearray(), memoryview(body), 0
    with contextlib.suppress(zlib.error, zstd.ZstdError):
        for _ in range(_MAX_FRAMES):
            unpacker = make()
            while not unpacker.eof and len(out) <= limit and (not unpacker.needs_input or at < len(body)):
                # In steps, to get the bytes before damage.
                packed = rest[at : at + _STEP_BYTES] if unpacker.needs_input else b""
                at += len(packed)
                out += unpacker.decompress(packed, limit + 1 - len(out))
            at -= len(unpacker.unused_data)
            if not magic or not body.startswith(magic, at) or len(out) > limit:
                break
    return bytes(out)


def _brotli(body: bytes, limit: int) -> bytes:
    from fastwarc.stream_io import BrotliReader

    source, out = BrotliReader(io.BytesIO(body)), bytearray()
    with contextlib.suppress(OSError):
        while len(out) <= limit and (data := source.read(min(1 << 16, limit + 1 - len(out)))):
            out += data
    return bytes(out)
