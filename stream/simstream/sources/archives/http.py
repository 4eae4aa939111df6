"""Parses an archived HTTP response: status, content type and decoded body."""

from __future__ import annotations

import contextlib
import io
import re
import zlib
from typing import Final, NamedTuple, Protocol

from simstream.files.zstandard import zstd

_HEAD: Final = re.compile(rb"\r?\n\r?\n")
_STATUS: Final = re.compile(rb"(?:HTTP/\d(?:\.\d)?|ICY)[ \t]+(\d{3})(?!\d)")
_CHUNK: Final = re.compile(rb"[ \t]*([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\n]{0,1000})?\r?\n")
_MAX_HEAD_BYTES: Final = 1 << 16
"""Header fields beyond so many bytes are not read."""
_STEP_BYTES: Final = 1 << 12
_GZIP_MEMBER: Final = b"\x1f\x8b"
_GZIP_WINDOW: Final = 31
_ZSTD_FRAME: Final = b"\x28\xb5\x2f\xfd"
_WINDOW: Final[dict[int, int]] = {zstd.DecompressionParameter.window_log_max: 23}
"""8 MB, which is what browsers allow."""
_MAX_ENCODINGS: Final = 4
"""At most so many encodings of one body are decoded."""
_MAX_FRAMES: Final = 1_000
"""At most so many members of gzip or frames of Zstandard in one body are decoded: a stranger's may all be empty."""


class _ReadableBody(Protocol):
    def read(self, size: int, /) -> bytes: ...


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
        return _inflated(body, limit, _GZIP_WINDOW) if body.startswith(_GZIP_MEMBER) else body
    if encoding == b"deflate":
        return _inflated(body, limit, 15) or _inflated(body, limit, -15) or body
    if encoding == b"br":
        return _brotli(body, limit) or body
    if encoding == b"zstd" and body.startswith(_ZSTD_FRAME):
        return _zstd(body, limit) or body
    return body


def _inflated(body: bytes, limit: int, window: int) -> bytes:
    out, rest, at = bytearray(), memoryview(body), 0
    with contextlib.suppress(zlib.error):
        for _ in range(_MAX_FRAMES):
            unpacker = zlib.decompressobj(window)
            while not unpacker.eof and len(out) <= limit:
                # In steps, to get the bytes before damage.
                packed: bytes | memoryview = unpacker.unconsumed_tail
                if not packed:
                    packed = rest[at : at + _STEP_BYTES]
                    at += len(packed)
                if not packed:
                    break
                out += unpacker.decompress(packed, limit + 1 - len(out))
            at -= len(unpacker.unused_data)
            if window != _GZIP_WINDOW or not body.startswith(_GZIP_MEMBER, at) or len(out) > limit:
                break
    return bytes(out)


def _brotli(body: bytes, limit: int) -> bytes:
    from fastwarc.stream_io import BrotliReader

    return _read(BrotliReader(io.BytesIO(body)), limit)


def _zstd(body: bytes, limit: int) -> bytes:
    out, rest, at = bytearray(), memoryview(body), 0
    with contextlib.suppress(zstd.ZstdError):
        for _ in range(_MAX_FRAMES):
            if not body.startswith(_ZSTD_FRAME, at) or len(out) > limit:
                break
            unpacker = zstd.ZstdDecompressor(options=_WINDOW)
            while not unpacker.eof and len(out) <= limit and (not unpacker.needs_input or at < len(body)):
                packed = rest[at : at + _STEP_BYTES] if unpacker.needs_input else b""
                at += len(packed)
                out += unpacker.decompress(packed, limit + 1 - len(out))
            at -= len(unpacker.unused_data)
    return bytes(out)


def _read(source: _ReadableBody, limit: int) -> bytes:
    out = bytearray()
    try:
        while len(out) <= limit and (data := source.read(min(1 << 16, limit + 1 - len(out)))):
            out += data
    except OSError:
        pass
    return bytes(out)
