"""Lines of a file that may be compressed, long or damaged, in bounded memory."""

from __future__ import annotations

import gzip
import io
import lzma
import zlib
from collections.abc import Iterator
from typing import BinaryIO

from stream.errors import InputError

COMPRESSIONS = (".gz", ".xz", ".zst")
_BOM = b"\xef\xbb\xbf"
_BUFFER_BYTES = 1 << 18
_ZSTD_STEP_BYTES = 1024
"""A block of a few bytes may unpack to 128 KB: in steps of this size a bomb gets no more than 32 MB at once."""


def unpacked(handle: BinaryIO, path: str) -> io.BufferedIOBase:
    """What `handle` holds, unpacked by the ending of `path`. Reading it may raise what `damages` names."""
    path = path.lower()
    if path.endswith(".gz"):
        return io.BufferedReader(gzip.GzipFile(fileobj=handle), _BUFFER_BYTES)
    if path.endswith(".xz"):
        return io.BufferedReader(lzma.LZMAFile(handle), _BUFFER_BYTES)
    if path.endswith(".zst"):
        return io.BufferedReader(_Zstd(handle), _BUFFER_BYTES)
    return io.BufferedReader(handle, _BUFFER_BYTES)  # type: ignore[type-var]


def lines(stream: io.BufferedIOBase, path: str, max_bytes: int) -> Iterator[tuple[int, bytes]]:
    """Number (from 1) and bytes of each line that is not blank, without its end.

    Of a line longer than `max_bytes` come its first `max_bytes + 1` bytes or one more, so that its length shows;
    the rest is passed over. A byte-order mark before the first line is dropped. Raises InputError where the file
    breaks off or is damaged, naming the last whole line.
    """
    number = 0
    try:
        while line := stream.readline(max_bytes + 2):
            number += 1
            if not line.endswith(b"\n") and len(line) == max_bytes + 2:
                _pass_over(stream, max_bytes)
            if number == 1:
                line = line.removeprefix(_BOM)
            line = line.removesuffix(b"\n").removesuffix(b"\r")
            if line and not line.isspace():
                yield number, line
    except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
        what = f"{path} is damaged or cut off after line {number} ({error})"
        raise InputError(what, "get the file again; the pages up to that line were read") from error


def _pass_over(stream: io.BufferedIOBase, step: int) -> None:
    while (part := stream.readline(max(step, 4096))) and not part.endswith(b"\n"):
        pass


class _Zstd(io.RawIOBase):
    """Frames of Zstandard one after another; a frame that breaks off is an error, not an end."""

    def __init__(self, handle: BinaryIO) -> None:
        import zstandard

        self._handle = handle
        self._unpacker = zstandard.ZstdDecompressor
        self._error = zstandard.ZstdError
        self._frame = self._unpacker().decompressobj()
        self._inside = False
        self._packed = self._ready = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._ready:
            if not self._packed:
                self._packed = self._handle.read(_ZSTD_STEP_BYTES)
            if not self._packed:
                if self._inside:
                    raise EOFError("a Zstandard frame breaks off")
                return 0
            self._step()
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count

    def _step(self) -> None:
        try:
            self._ready = self._frame.decompress(self._packed)
        except self._error as error:
            raise OSError(str(error)) from error
        self._packed = self._frame.unused_data if self._frame.eof else b""
        self._inside = not self._frame.eof
        if self._frame.eof:
            self._frame = self._unpacker().decompressobj()
