"""A file elsewhere as an open file: reads ranges of bytes, and never takes a shorter answer for the whole."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Final

from simstream.errors import StoreError

if TYPE_CHECKING:
    from simstream.sources.stores import StoredFile
    from simstream.sources.web_files import WebFile

_MIN_BYTES: Final = 1 << 16
_MAX_BYTES: Final = 8 << 20
"""The least and the most bytes of one request. A reader that goes straight on gets ever larger ranges."""


class RemoteFile(io.RawIOBase):
    """A file that a `reader` has by ranges. `name` is for messages. Memory: one range, at most 8 MB."""

    def __init__(self, reader: StoredFile | WebFile, name: str) -> None:
        self._reader, self._shown = reader, name
        self.first_stamp = reader.first_stamp
        self._begin, self._held = 0, b""
        """The last range, and where it begins."""
        self._at, self._step = 0, _MIN_BYTES

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        begin = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._reader.size}[whence]
        self._at = max(0, begin + offset)
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Fill the buffer, unless the file ends. Raises StoreError."""
        wanted = max(0, min(len(buffer), self._reader.size - self._at))
        filled = 0
        while filled < wanted:
            piece = self._piece(wanted - filled)
            buffer[filled : filled + len(piece)] = piece
            filled += len(piece)
            self._at += len(piece)
        return filled

    def _piece(self, count: int) -> bytes:
        """Return at least one and at most `count` of the next bytes."""
        within = self._at - self._begin
        if not 0 <= within < len(self._held):
            straight_on = within == len(self._held)
            self._step = min(2 * self._step, _MAX_BYTES) if straight_on else _MIN_BYTES
            end = min(self._reader.size, self._at + max(min(count, _MAX_BYTES), self._step))
            self._held = self._reader.read(self._at, end)
            self._begin, within = self._at, 0
            if len(self._held) != end - self._at:
                what = f"{self._shown} broke off: {len(self._held):,} of {end - self._at:,} bytes came"
                raise StoreError(what, "run it again; the file itself may be whole")
        return self._held[within : within + count]

    def stamp(self) -> tuple[object, ...]:
        """Return what changes whenever the file does. Raises StoreError."""
        return self._reader.stamp()

    def close(self) -> None:
        if not self.closed:
            self._reader.close()
        super().close()
