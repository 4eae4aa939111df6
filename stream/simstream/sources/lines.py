"""Reads the lines of a file that may be compressed, long or damaged, in bounded memory."""

from __future__ import annotations

import codecs
import fcntl
import io
import lzma
import os
import select
import stat
import sys
import zlib
from collections.abc import Callable, Iterator
from typing import IO

from simstream.errors import InputError
from simstream.files.zstandard import zstd
from simstream.interrupts import BEAT_S

COMPRESSIONS = (".gz", ".xz", ".zst")
DAMAGE = (EOFError, OSError, zlib.error, lzma.LZMAError, zstd.ZstdError)
"""The errors of reading from a damaged file."""
BLANK_RUN = 1000
"""After so many blank lines in a row, `pass_blank_lines` is worth its copy of the buffer."""
_ZSTD = (b"\x28\xb5\x2f\xfd", *(bytes([0x50 + kind]) + b"\x2a\x4d\x18" for kind in range(16)))
"""The first bytes of a frame, and of one that is skipped."""
_OTHER_FORMATS = {b"\x1f\x8b": ".gz", b"\xfd7zXZ": ".xz", _ZSTD[0]: ".zst", b"WARC/": ".warc"}
_MAGIC_BYTES = 5
"""No magic is longer."""
_BUFFER_BYTES = 1 << 18
_STEP_BYTES = 1024
"""Bytes that are unpacked at once, so that damage costs few of the lines before it."""
_MAX_XZ_MEMORY_BYTES = 128 << 20
"""`xz -9` needs half of it; five bytes of a file may ask for 4 GB. Zstandard itself refuses more than this."""


class WrongEnding(OSError):
    """A file has the ending of a compressed file, but not its first bytes."""


class CountedFile(io.RawIOBase):
    """A file that counts the bytes that were read. Closing a reader on top of it does not close the file.

    With `end`, it ends behind so many bytes.

    Ctrl-C ends each wait for a pipe or a terminal (see BEAT_S).
    """

    def __init__(self, handle: IO[bytes], end: int | None = None) -> None:
        self._handle, self._end = handle, end
        self._poll = _poll_of(handle)
        self.taken = 0

    def seekable(self) -> bool:
        return self._handle.seekable()

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._handle.seek(offset, whence)

    def tell(self) -> int:
        return self._handle.tell()

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """Return at most `size` bytes, by one read; none only at the end."""
        if size < 0:
            return self.readall()
        if self._end is not None:
            size = max(0, min(size, self._end - self.taken))
        while self._poll is not None and not self._poll.poll(BEAT_S * 1000):
            pass  # each turn lets a signal's handler run
        # Of a pipe, what it has, so that pages come as they are written.
        data = self._handle.read1(size) if isinstance(self._handle, io.BufferedReader) else self._handle.read(size)
        self.taken += len(data)
        return data

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # its reader gives no other buffer
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


def _poll_of(handle: IO[bytes]) -> select.poll | None:
    """Return what waits for a pipe, a socket or a terminal; None for what answers each read at once."""
    raw = handle.raw if isinstance(handle, io.BufferedReader) else handle
    if not isinstance(raw, io.FileIO) or stat.S_ISREG(os.fstat(raw.fileno()).st_mode):
        return None
    if fcntl.fcntl(raw.fileno(), fcntl.F_GETFL) & os.O_ACCMODE == os.O_WRONLY:
        return None  # standard input may be any descriptor; reading this one is an error
    poll = select.poll()
    poll.register(raw.fileno(), select.POLLIN)
    return poll


def standard_input() -> CountedFile:
    """Return standard input. Closing it leaves the stream itself open."""
    return CountedFile(sys.stdin.buffer)


def unpacked(handle: io.RawIOBase, path: str) -> io.BufferedReader:
    """Return the content of `handle`, unpacked as the ending of `path` says."""
    packed: io.BufferedReader = io.BufferedReader(handle, _BUFFER_BYTES)
    path = path.lower()
    if path.endswith(".gz"):
        return io.BufferedReader(_CompressedStreams(packed, ZlibDecompressor, (b"\x1f\x8b",), b"\0"), _BUFFER_BYTES)
    if path.endswith(".xz"):
        return io.BufferedReader(_CompressedStreams(packed, _xz, (b"\xfd7zXZ", b"]\0\0"), b"\0"), _BUFFER_BYTES)
    if path.endswith(".zst"):
        return io.BufferedReader(_CompressedStreams(packed, zstd.ZstdDecompressor, _ZSTD), _BUFFER_BYTES)
    return packed


def lines(
    stream: io.BufferedReader, path: str, max_bytes: int, *, ends: bool = False
) -> Iterator[tuple[int, bytes]]:
    """Yield the number (from 1) and the bytes of each line that is not blank; with `ends`, also its line end.

    A line longer than `max_bytes` comes as its first `max_bytes + 1` bytes or one more, so that its length shows.
    Drops a byte-order mark before the first line. Raises InputError if the file breaks off or is damaged; the
    error names the last whole line.
    """
    number = blank = 0
    try:
        while line := stream.readline(max_bytes + 2):
            number += 1
            if not line.endswith(b"\n") and len(line) == max_bytes + 2:
                _pass_over(stream, max_bytes)
            if number == 1:
                refuse_other_format(line, path)
                line = line.removeprefix(codecs.BOM_UTF8)
            bare = line.removesuffix(b"\n").removesuffix(b"\r")
            if bare and not bare.isspace():
                blank = 0
                yield number, line if ends else bare
            elif (blank := blank + 1) % BLANK_RUN == 0:
                number += pass_blank_lines(stream)
    except DAMAGE as error:
        raise cut_off(path, number, error) from error


def refuse_other_format(begin: bytes, path: str) -> None:
    """Raise InputError for UTF-16, and for a packed file or a web archive whose name does not say so."""
    if begin.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise InputError(f"{path} is UTF-16", "convert it to UTF-8, for example by `iconv -f UTF-16 -t UTF-8`")
    ending = next((ending for magic, ending in _OTHER_FORMATS.items() if begin.startswith(magic)), None)
    if ending is not None and not path.lower().endswith(COMPRESSIONS):
        named = f"{os.path.splitext(path)[0]}.warc" if ending == ".warc" else path + ending
        todo = "unpack it, or give a file" if path == "-" else f"rename it to {named}"
        raise InputError(f"{path} is a {ending} file, and its name does not say so", todo)


def pass_blank_lines(stream: io.BufferedReader) -> int:
    """Read past the blank lines that are whole in the buffer of `stream`; return how many.

    Cost: a copy of the buffer, and 1 ns a byte.
    """
    held = stream.peek()
    space = held[: len(held) - len(held.lstrip())]
    end = space.rfind(b"\n") + 1
    stream.read(end)
    return space.count(b"\n")


def cut_off(
    path: str, line: int, error: BaseException, kept: str = "; the pages up to that line were read"
) -> InputError:
    """Return the error for a file whose reading failed after a line. `kept` says what became of its beginning."""
    if isinstance(error, WrongEnding):
        return InputError(f"{path} does not begin as its ending says", "rename the file, or get the file again")
    what = f"{path} is damaged or cut off after line {line} ({error})"
    return InputError(what, f"get the file again{kept}")


def _pass_over(stream: io.BufferedReader, step: int) -> None:
    while (part := stream.readline(max(step, 4096))) and not part.endswith(b"\n"):
        pass


def _xz() -> lzma.LZMADecompressor:
    return lzma.LZMADecompressor(memlimit=_MAX_XZ_MEMORY_BYTES)


class ZlibDecompressor:
    """Unpacks one member of a gzip file; with window 15 one stream of zlib, with -15 of bare deflate.

    (`gzip.GzipFile` loses up to a whole buffer before damage.)
    """

    def __init__(self, window: int = 31) -> None:
        self._unpacker = zlib.decompressobj(window)
        self._has_more = False

    @property
    def needs_input(self) -> bool:
        return not self._has_more

    @property
    def eof(self) -> bool:
        return self._unpacker.eof

    @property
    def unused_data(self) -> bytes:
        return self._unpacker.unused_data

    def decompress(self, data: bytes | memoryview, max_length: int = -1) -> bytes:
        """Return at most `max_length` bytes, as `lzma.LZMADecompressor` does."""
        out = self._unpacker.decompress(self._unpacker.unconsumed_tail + data, max(0, max_length))
        self._has_more = bool(self._unpacker.unconsumed_tail) or len(out) == max_length
        return out


Decompressor = lzma.LZMADecompressor | zstd.ZstdDecompressor | ZlibDecompressor
"""Unpacks one stream, member or frame in steps."""


class _CompressedStreams(io.RawIOBase):
    """Members of gzip, streams of xz, or frames of Zstandard, one after another in bounded memory.

    It unpacks in small steps: an error loses only what its own step has unpacked. A stream that breaks off is an
    error, not an end. Between streams it skips `padding`. Raises WrongEnding if nothing can be unpacked and the
    file begins with none of `magics`.
    """

    def __init__(
        self,
        handle: io.BufferedReader,
        make: Callable[[], Decompressor],
        magics: tuple[bytes, ...],
        padding: bytes = b"",
    ) -> None:
        self._handle, self._make, self._magics, self._padding = handle, make, magics, padding
        self._unpacker = make()
        self._inside = self._begun = self._has_output = False
        self._packed = self._head = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # its reader gives no other buffer
        while True:
            packed = b""
            if self._unpacker.needs_input:
                packed = self._packed or self._handle.read1(_STEP_BYTES)
                self._packed = b""
                if not packed and not self._inside:
                    return 0
                if not packed:
                    raise EOFError("a compressed stream breaks off")
                if self._begun and not self._inside:
                    packed = packed.lstrip(self._padding)
            if data := self._step(packed, len(buffer)):
                buffer[: len(data)] = data
                return len(data)

    def _step(self, packed: bytes, most: int) -> bytes:
        if not packed and self._unpacker.needs_input:
            return b""
        self._begun = self._inside = True
        if len(self._head) < _MAGIC_BYTES:
            self._head += packed[:_MAGIC_BYTES]
        try:
            data = self._unpacker.decompress(packed, most)
        except DAMAGE as error:
            if self._has_output or self._head.startswith(self._magics):
                raise
            raise WrongEnding(f"not the first bytes of its ending: {error}") from error
        self._has_output |= bool(data)
        if self._unpacker.eof:
            self._packed = self._unpacker.unused_data
            self._unpacker = self._make()
            self._inside = False
        return data
