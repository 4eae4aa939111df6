"""A bounded buffer over pieces of bytes, in which lines and blocks are taken, looked at and put back."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from itertools import chain
from typing import IO, Final

from stream.sources.archives.packed import Break

_PIECE_BYTES: Final = 1 << 16
_LINE_ENDS: Final = re.compile(rb"[\r\n]*")


class BrokenOff(Exception):
    """More bytes were asked for than there are before a break. Nothing of them was taken."""

    def __init__(self, where: Break) -> None:
        super().__init__(where)
        self.where = where


class Flow:
    """Memory is what is asked for at once, and a piece."""

    def __init__(self, pieces: Iterator[bytes | Break]) -> None:
        self._pieces: Iterator[bytes | Break] = pieces
        self._held = bytearray()

    @property
    def waiting(self) -> int:
        """How many bytes were read and not taken."""
        return len(self._held)

    def peek(self, count: int) -> bytes:
        """The next bytes, which stay; fewer than `count` only at the end. Raises BrokenOff."""
        while len(self._held) < count and self._more():
            pass
        return bytes(self._held[:count])

    def take(self, count: int) -> bytes:
        """The next bytes; fewer than `count` only at the end. Raises BrokenOff."""
        data = self.peek(count)
        del self._held[: len(data)]
        return data

    def peek_line(self, limit: int) -> bytes:
        """The next line with its end, which stays; of a long one `limit` bytes. Raises BrokenOff."""
        seen = 0
        while (end := self._held.find(b"\n", seen, limit)) < 0:
            seen = len(self._held)
            if seen >= limit or not self._more():
                return bytes(self._held[:limit])
        return bytes(self._held[: end + 1])

    def line(self, limit: int) -> bytes:
        """The next line as `peek_line` shows it. Raises BrokenOff."""
        line = self.peek_line(limit)
        del self._held[: len(line)]
        return line

    def pass_line_ends(self) -> None:
        """Take all line ends that come next. Raises BrokenOff behind the last of them."""
        while self._held or self._more():
            found = _LINE_ENDS.match(self._held)
            del self._held[: found.end() if found else 0]
            if self._held:
                return

    def put_back(self, data: bytes) -> None:
        """These bytes come next."""
        self._held[:0] = data

    def replay(self, data: IO[bytes]) -> None:
        """Let the content of this file come next, from its beginning."""
        data.seek(0)
        again = iter(partial(data.read, _PIECE_BYTES), b"")
        self._pieces = chain(again, [self.drop()], self._pieces)

    def drop(self) -> bytes:
        """Take all that was read before a break."""
        data = bytes(self._held)
        self._held.clear()
        return data

    def _more(self) -> bool:
        piece = next(self._pieces, None)
        if isinstance(piece, Break):
            raise BrokenOff(piece)
        if piece is None:
            return False
        self._held += piece
        return True
