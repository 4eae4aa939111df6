"""Reads lines and blocks from a stream of bytes, through a bounded buffer."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from functools import partial
from itertools import chain
from typing import IO, Final

from simstream.sources.archives.unpacking import ArchiveBreak, MemberBegin

_PIECE_BYTES: Final = 1 << 16
_LINE_ENDS: Final = re.compile(rb"[\r\n]*")
MAX_BEGINS: Final = 100_000
"""The number of places ahead that are remembered as beginnings of members."""


class ArchiveBrokenOff(Exception):
    """A break comes before the end of the requested bytes. No byte was taken."""

    def __init__(self, where: ArchiveBreak) -> None:
        super().__init__(where)
        self.where = where


class ArchiveFlow:
    """Memory: the bytes of one request, and a piece."""

    def __init__(self, pieces: Iterator[bytes | ArchiveBreak | MemberBegin]) -> None:
        self._pieces: Iterator[bytes | ArchiveBreak | MemberBegin] = pieces
        self._held = bytearray()
        self._begins: deque[int] = deque()
        self.at = 0
        """The place of the next byte, in unpacked bytes."""

    @property
    def waiting(self) -> int:
        """The number of bytes that were read and not taken."""
        return len(self._held)

    def peek(self, count: int) -> bytes:
        """Return the next bytes, not taken; fewer than `count` only at the end. Raises ArchiveBrokenOff."""
        while len(self._held) < count and self._more():
            pass
        return bytes(memoryview(self._held)[:count])

    def take(self, count: int) -> bytes:
        """Take the next bytes; fewer than `count` only at the end. Raises ArchiveBrokenOff."""
        data = self.peek(count)
        self._remove(len(data))
        return data

    def peek_line(self, limit: int, begin: int = 0) -> bytes:
        """Return the line from the next byte, or `begin` bytes later, with its end. Does not take it.

        Returns at most `limit` bytes. Raises ArchiveBrokenOff.
        """
        seen, last = begin, begin + limit
        while (end := self._held.find(b"\n", seen, last)) < 0:
            seen = len(self._held)
            if seen >= last or not self._more():
                return bytes(self._held[begin:last])
        return bytes(self._held[begin : end + 1])

    def find(self, pattern: re.Pattern[bytes], span: int, limit: int) -> re.Match[bytes] | None:
        """Return where a pattern first matches within the next `limit` bytes, which are not taken.

        A match has at most `span` bytes. Raises ArchiveBrokenOff.
        """
        seen = 0
        while (found := pattern.search(self._held, seen, limit)) is None:
            seen = max(0, len(self._held) - span)
            if len(self._held) >= limit or not self._more():
                break
        return found

    def line_ends(self, limit: int) -> int:
        """Return how many bytes that come next are line ends; at most `limit`. Raises ArchiveBrokenOff."""
        count = 0
        while (found := _LINE_ENDS.match(self._held, count, limit)) and (count := found.end()) < limit:
            if count < len(self._held) or not self._more():
                break
        return count

    def line(self, limit: int) -> bytes:
        """Take the next line, as `peek_line` returns it. Raises ArchiveBrokenOff."""
        line = self.peek_line(limit)
        self._remove(len(line))
        return line

    def pass_line_ends(self) -> None:
        """Take all line ends that come next. Raises ArchiveBrokenOff after the last one."""
        while self._held or self._more():
            found = _LINE_ENDS.match(self._held)
            self._remove(found.end() if found else 0)
            if self._held:
                return

    def pass_lines(self, stop: re.Pattern[bytes]) -> None:
        """Take the whole lines that were already read, up to one in which `stop` is found."""
        found = stop.search(self._held)
        self._remove(self._held.rfind(b"\n", 0, found.start() if found else len(self._held)) + 1)

    def put_back(self, data: bytes) -> None:
        """Put the last taken bytes back: they come next again."""
        self._held[:0] = data
        self.at -= len(data)

    def replay(self, data: IO[bytes]) -> None:
        """Put the last taken bytes back, which are the content of this file."""
        begin = self.at - data.tell()
        data.seek(0)
        again = iter(partial(data.read, _PIECE_BYTES), b"")
        self._pieces = chain(again, [self.drop()], self._pieces)
        self.at = begin

    def drop(self) -> bytes:
        """Take all that was read before a break."""
        data = bytes(self._held)
        self._remove(len(data))
        return data

    def begins_member(self) -> bool:
        """Return whether the next byte begins a compressed member. Forgets the members that began before it."""
        while self._begins and self._begins[0] < self.at:
            self._begins.popleft()
        return bool(self._begins) and self._begins[0] == self.at

    def next_member(self, at: int) -> int | None:
        """Return the first place from `at` on where a member is known to begin."""
        return next((begin for begin in self._begins if begin >= at), None)

    def pass_to(self, at: int) -> None:
        """Take all bytes before this place. Raises ArchiveBrokenOff."""
        while self.at < at and self.take(min(at - self.at, _PIECE_BYTES)):
            pass

    def _remove(self, count: int) -> None:
        del self._held[:count]
        self.at += count

    def _more(self) -> bool:
        piece = next(self._pieces, None)
        if isinstance(piece, ArchiveBreak):
            raise ArchiveBrokenOff(piece)
        if piece is None:
            return False
        if isinstance(piece, MemberBegin):
            place = self.at + len(self._held)
            if not self._begins or (place != self._begins[-1] and len(self._begins) < MAX_BEGINS):
                self._begins.append(place)
        else:
            self._held += piece
        return True
