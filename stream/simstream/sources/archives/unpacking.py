"""Unpacks compressed archives piece by piece, and goes on behind damage."""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Final, NamedTuple, Protocol

from simstream.files.zstandard import zstd
from simstream.sources.lines import DAMAGE, unpacked

_STEP_BYTES: Final = 1 << 14
_PIECE_BYTES: Final = 1 << 16
_PLAIN_BYTES: Final = 1 << 18
_BACK_BYTES: Final = 1 << 15
"""Damage is noticed late: the search for the next member begins so many bytes before it. With more, a hostile file
could cost far more time than its size."""
_MAX_DICTIONARY_BYTES: Final = 16 << 20
_GZIP: Final = b"\x1f\x8b\x08"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_TRAINED: Final = b"\x37\xa4\x30\xec"
"""A trained dictionary begins so; any other one is raw content."""
_LZ4: Final = b"\x04\x22\x4d\x18"
_XZ: Final = b"\xfd7zXZ\0"
_SKIPPABLE: Final = b"\x5d\x2a\x4d\x18"
"""The first frame of a `.warc.zst` whose frames share a dictionary."""


class ArchiveBreak(NamedTuple):
    """A place with missing or wrong bytes: where about, and why."""

    at: int
    why: str
    fresh: bool
    """Whether its member gave no bytes yet."""
    is_end: bool = False
    """Whether the file ends there too early: the bytes before it are then as they were written."""


class MemberBegin:
    """Marks the start of a compressed member. Most packed web archives have one member for each record."""


class _ArchiveMember(Protocol):
    @property
    def eof(self) -> bool: ...

    def step(self, packed: bytes) -> tuple[bytes, int]:
        """Return the unpacked bytes, bounded, and how many of these bytes were taken.

        A negative number gives so many bytes of an earlier step back.
        """


def pieces(handle: io.RawIOBase, path: str) -> Iterator[bytes | ArchiveBreak | MemberBegin]:
    """Yield the file's unpacked bytes. Its first bytes tell the format, else the ending of `path`.

    Never raises for damage. Pieces have at most 256 KB, which bounds memory.
    """
    held = _ForwardWindow(handle)
    kind = _kind(held.slice(0, _PIECE_BYTES), path.lower())
    if kind == "gzip":
        yield from _members(held, 0, _GZIP, _GzipMember)
    elif kind == "zstd":
        yield from _zstd(held)
    elif kind == "plain":
        yield from _plain(held)
    else:
        yield from _whole(held, kind)


def _kind(head: bytes, path: str) -> str:
    kinds = {_GZIP: "gzip", _ZSTD: "zstd", _SKIPPABLE: "zstd", _LZ4: "lz4", _XZ: "xz"}
    for magic, kind in kinds.items():
        if head.startswith(magic):
            return kind
    if head.startswith((b"WARC/", b"filedesc:")):
        return "plain"
    endings = {".gz": "gzip", ".zst": "zstd"}  # the beginning is damaged
    named = next((kind for ending, kind in endings.items() if path.endswith(ending)), "")
    if named or b"\nWARC/" in head:
        return named or "plain"
    return next((kinds[magic] for magic in (_GZIP, _ZSTD) if magic in head), "plain")


class _ForwardWindow(io.RawIOBase):
    """A window on a file that only moves forward. It holds the bytes that may be asked for again."""

    def __init__(self, handle: io.RawIOBase) -> None:
        self._handle = handle
        self._data = bytearray()
        self._base = self._read_to = 0
        self.error: OSError | None = None

    def slice(self, at: int, count: int) -> bytes:
        """Return `count` bytes from the file's byte `at` on; fewer only at its end, or if the disk fails."""
        while self._base + len(self._data) < at + count:
            more = self._read(_PIECE_BYTES)
            if not more:
                break
            self._data += more
        return bytes(memoryview(self._data)[at - self._base : at - self._base + count])

    def next_piece(self) -> bytes:
        """Return and forget the bytes that are held, else the next ones, without a copy.

        Returns none at the end, or if the disk fails.
        """
        piece = bytes(self._data) or self._read(_PLAIN_BYTES)
        self._data.clear()
        self._base += len(piece)
        return piece

    def _read(self, count: int) -> bytes:
        try:
            return self._handle.read(count) or b""
        except OSError as error:
            self.error = error
            return b""

    def forget(self, before: int) -> None:
        """Forget the bytes before this place."""
        if before > self._base:
            del self._data[: before - self._base]
            self._base = before

    def find(self, what: bytes, at: int) -> tuple[int | None, bool]:
        """Return where `what` comes next, and whether only zeros come before it (or before the end)."""
        zeros = True
        while part := self.slice(at, _PIECE_BYTES):
            found = part.find(what)
            zeros = zeros and not part[: found if found >= 0 else len(part)].strip(b"\0")
            if found >= 0:
                return at + found, zeros
            if len(part) < _PIECE_BYTES:
                break
            at += len(part) - len(what) + 1
            self.forget(at)
        return None, zeros

    def tell(self) -> int:
        return self._read_to

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self.slice(self._read_to, len(buffer))
        buffer[: len(data)] = data
        self._read_to += len(data)
        self.forget(self._read_to)
        return len(data)


def _plain(held: _ForwardWindow) -> Iterator[bytes | ArchiveBreak]:
    at = 0
    while piece := held.next_piece():
        yield piece
        at += len(piece)
    if held.error is not None:
        yield ArchiveBreak(at, str(held.error.strerror), fresh=False)


def _whole(held: _ForwardWindow, kind: str) -> Iterator[bytes | ArchiveBreak]:
    """Unpack a format in which nothing can be found again after damage."""
    try:
        if kind == "lz4":
            yield from _lz4(held)
        else:
            yield from iter(partial(unpacked(held, "x.xz").read1, _PIECE_BYTES), b"")
    except DAMAGE as error:
        yield ArchiveBreak(held.tell(), str(error), fresh=False, is_end=isinstance(error, EOFError))


def _lz4(held: _ForwardWindow) -> Iterator[bytes]:
    """Unpack LZ4. A read that meets damage loses its bytes; a second reader, a piece behind, reads them singly."""
    from fastwarc.stream_io import Lz4Reader

    copy = bytearray()

    def first(count: int) -> bytes:
        data = held.read(count) or b""
        copy.extend(data)
        return data

    def again(count: int) -> bytes:
        data = bytes(copy[:count])
        del copy[:count]
        return data

    ahead, behind = (Lz4Reader(SimpleNamespace(read=read, tell=held.tell)).read for read in (first, again))
    try:
        while piece := ahead(_PIECE_BYTES):
            yield piece
            behind(_PIECE_BYTES)
    except DAMAGE:
        yield from iter(partial(behind, 1), b"")
        raise


def _members(
    held: _ForwardWindow, at: int, magic: bytes, make: Callable[[], _ArchiveMember]
) -> Iterator[bytes | ArchiveBreak | MemberBegin]:
    """Unpack members one after another. After a damaged member, look for the next one."""
    while held.slice(at, 1):
        if held.slice(at, len(magic)) != magic:
            found, zeros = held.find(magic, at)
            if not zeros:
                yield ArchiveBreak(at, "bytes that belong to no compressed member", fresh=True)
            if found is None:
                break
            at = found
        begin, fresh, member, why, is_end = at, True, make(), "", False
        yield MemberBegin()
        while not member.eof and not why:
            packed = held.slice(at, _STEP_BYTES)
            try:
                data, taken = member.step(packed)
            except DAMAGE as error:
                why = str(error)
                break
            at += taken
            held.forget(at - _BACK_BYTES)
            if data:
                fresh = False
                yield data
            elif not packed:
                why, is_end = "the file breaks off", True
        if why:
            yield ArchiveBreak(at, why, fresh, is_end)
            found, _ = held.find(magic, max(begin + 1, at - _BACK_BYTES))
            if found is None:
                break
            at = found
    if held.error is not None:
        yield ArchiveBreak(at, str(held.error.strerror), fresh=False)


class _GzipMember:
    """Unpacks one member of gzip. Its checksum is verified with its last bytes."""

    def __init__(self) -> None:
        self._unpacker = zlib.decompressobj(31)

    @property
    def eof(self) -> bool:
        return self._unpacker.eof

    def step(self, packed: bytes) -> tuple[bytes, int]:
        data = self._unpacker.decompress(packed, _PIECE_BYTES)
        # At the end `unconsumed_tail` still holds the rest of the step before the last.
        rest = self._unpacker.unused_data if self._unpacker.eof else self._unpacker.unconsumed_tail
        return data, len(packed) - len(rest)


def _zstd(held: _ForwardWindow) -> Iterator[bytes | ArchiveBreak | MemberBegin]:
    """Unpack frames of Zstandard. A first frame that is skippable holds the dictionary of all others."""
    at, words = 0, None
    if held.slice(0, 4) == _SKIPPABLE:
        size = int.from_bytes(held.slice(4, 4), "little")
        at = 8 + size
        try:
            if size > _MAX_DICTIONARY_BYTES:
                raise OSError(f"it has {size} bytes")
            words = _dictionary(held.slice(8, size), size)
            zstd.ZstdDecompressor(words)  # refuses what `ZstdDict` has taken unread
        except (OSError, MemoryError, ValueError, zstd.ZstdError) as error:
            yield ArchiveBreak(8, f"the dictionary cannot be read: {error}", fresh=True)
            return
    yield from _members(held, at, _ZSTD, lambda: _ZstdFrame(words))


def _dictionary(words: bytes, size: int) -> zstd.ZstdDict | None:
    if len(words) < size:
        raise OSError("the file ends within it")
    if words.startswith(_ZSTD):
        unpacker = zstd.ZstdDecompressor()
        words = unpacker.decompress(words, _MAX_DICTIONARY_BYTES)
        if not unpacker.eof:
            raise OSError(f"it breaks off or has more than {_MAX_DICTIONARY_BYTES} bytes")
    return zstd.ZstdDict(words, is_raw=not words.startswith(_TRAINED)) if words else None


class _ZstdFrame:
    """One frame of Zstandard."""

    def __init__(self, words: zstd.ZstdDict | None) -> None:
        self._unpacker = zstd.ZstdDecompressor(words)

    @property
    def eof(self) -> bool:
        return self._unpacker.eof

    def step(self, packed: bytes) -> tuple[bytes, int]:
        # Input that an earlier step took and did not need is given back at the end of the frame.
        packed = packed if self._unpacker.needs_input else b""
        data = self._unpacker.decompress(packed, _PIECE_BYTES)
        return data, len(packed) - len(self._unpacker.unused_data)
