"""Finds the records of WARC and ARC files, also behind damage and wrong lengths."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import IO, Final

from simstream.sources.archives.byte_buffer import ArchiveBrokenOff, ArchiveFlow
from simstream.sources.archives.unpacking import ArchiveBreak

_HEAD_BYTES: Final = 1 << 16
_CHUNK_BYTES: Final = 1 << 18
_MAX_IN_MEMORY_BYTES: Final = 1 << 20
_MARK_BYTES: Final = 1 << 10
_WARC: Final = re.compile(rb"WARC/[01]\.\d{1,2}[ \t]*\r?\n\Z")
_HEAD_END: Final = re.compile(rb"\n(?:([ \t\r\v\f]{0,16}\n)|(?=WARC/[01]\.\d{1,2}[ \t]{0,16}\r?\n))")
"""The blank line after a header. A header without one ends before the next header."""
_HEAD_END_BYTES: Final = 32
"""No match of _HEAD_END has more bytes."""
_ARC_URL: Final = re.compile(rb"[A-Za-z][A-Za-z0-9+.-]{1,20}:[^\n]{0,8191}\Z")
_ARC_BEGIN: Final = re.compile(rb"[A-Za-z][A-Za-z0-9+.-]{0,20}(?::[^\n]*)?\Z")
_ARC_DATE: Final = re.compile(rb" (?:\d{1,3}(?:\.\d{1,3}){3}|[0-9A-Fa-f:]+|-) (\d{14}) ")
_ARC_LENGTH: Final = re.compile(rb"(\d{1,18})\r?\n\Z")
_WARC_WITHIN: Final = re.compile(rb"\n\r?\n(?=WARC/[01]\.\d{1,2}\r?\n)")
_ARC_WITHIN: Final = re.compile(rb"\n(?=[a-z]{3,8}:[^ \n]{1,2048} [0-9.]{7,15} \d{14} [^ \n]{1,80} \d{1,18}\r?\n)")
_HEADER_SIGN: Final = re.compile(rb"WARC/[01]\.|\d{14} ")
"""Every header's first line has one of these."""
_WRONG_LENGTH: Final = "its length is wrong"
_WITHIN_BYTES: Final = 1 << 12
"""No match of _WARC_WITHIN and _ARC_WITHIN looks at more bytes."""
_PATIENCE: Final = 128
"""How many wrong lengths may cost a whole block each."""
_LONG_PATIENCE: Final = 8
"""How many wrong lengths may cost a temporary file each."""


@dataclass(frozen=True, slots=True)
class ArchiveRecord:
    """One record. `fields` have names in lower case; a field of an ARC has the name of a WARC's."""

    number: int
    """Number among all records of the file, from 1."""
    fields: Mapping[str, bytes]
    block: bytes
    """The bytes after the header; only the beginning of a long block."""
    length: int
    """The length of the block that the header names."""
    arc: bool
    damage: str = ""
    """What is wrong with the record; empty if it is whole."""

    @property
    def is_whole(self) -> bool:
        """Whether `block` has all bytes of an undamaged record."""
        return not self.damage and len(self.block) == self.length


@dataclass(slots=True)
class ArchiveDamage:
    """The damage: how often it was found, and the first place in words."""

    places: int = 0
    first: str = ""

    def note(self, at: int, why: str) -> None:
        self.places += 1
        self.first = self.first or f"near byte {at:,}: {why}"


@dataclass(slots=True)
class RecordFramer:
    """Iterates over the records of `flow`. `where` returns the place in the file.

    Memory: blocks of up to `most` bytes, twice for a moment. A record with a wrong length has `damage`, but the
    records around it are found: the next header is looked for within its block, or after it. A length counts as
    wrong only if no record follows the block, since a page may hold bytes that look like a record. Until that is
    known, further bytes wait in a temporary file. After _LONG_PATIENCE wrong lengths of this kind, the next header
    counts at once in a block of more than `most` bytes. After _PATIENCE of any kind, it counts at once in each
    block. Else each wrong length might cost the rest of the file, or a whole block.

    A block that a break or the file's end cuts off may be such a page, too. So no header is looked for in it. But
    if each record is a compressed member of its own, the members after the block's first member are records.
    """

    flow: ArchiveFlow
    most: int
    where: Callable[[], int]
    damage: ArchiveDamage = field(default_factory=ArchiveDamage)
    header: bytes = b""
    """The last record's header as the file has it: of a WARC the lines up to the blank one, of an ARC one line."""
    _number: int = 0
    _lost: bool = False
    """Whether the next bytes are known to be damaged."""
    _alone: bool = False
    """Whether the last header began a compressed member. Then records probably have members of their own."""
    _patience: int = _PATIENCE
    _long_patience: int = _LONG_PATIENCE

    def __iter__(self) -> Iterator[ArchiveRecord]:
        while True:
            try:
                found = self._head()
            except ArchiveBrokenOff as broken:
                self._broken(broken, lost=self.flow.waiting > 0)
                continue
            if found is None:
                return
            fields, arc = found
            self._number += 1
            yield self._record(fields, arc)

    def _broken(self, broken: ArchiveBrokenOff, *, lost: bool) -> None:
        self.damage.note(broken.where.at, broken.where.why)
        self.flow.drop()
        self._lost = lost or not broken.where.fresh

    def _note(self, why: str) -> None:
        if not self._lost:
            self.damage.note(max(0, self.where() - self.flow.waiting), why)
        self._lost = True

    def _head(self) -> tuple[dict[str, bytes], bool] | None:
        """Take the next header, and tell whether it is an ARC's. None at the end. Raises ArchiveBrokenOff."""
        while True:
            self.flow.pass_line_ends()
            self._alone = self.flow.begins_member()
            line = self.flow.peek_line(_HEAD_BYTES)
            if not line:
                return None
            if found := _WARC.search(line):
                if found.start():
                    self._note("bytes that belong to no record")
                self.flow.take(len(line) - 1)
                fields = self._warc_fields(found[0])
                if fields is not None:
                    self._lost = False
                    return fields, False
                continue
            self.flow.take(len(line))
            if arc := _arc_fields(line):
                self.header = line
                self._lost = False
                return arc, True
            self._note("bytes that belong to no record")
            self.flow.pass_lines(_HEADER_SIGN)

    def _warc_fields(self, first: bytes) -> dict[str, bytes] | None:
        """Take the lines after the first one up to a blank one, and the line end before them.

        Returns None if they do not end with a blank line. Cost: linear in their bytes. Raises ArchiveBrokenOff.
        """
        end = self.flow.find(_HEAD_END, _HEAD_END_BYTES, _HEAD_BYTES)
        head = self.flow.take(min(self.flow.waiting, _HEAD_BYTES) if end is None else end.end())
        self.header = first + head[1:]
        if end is None or end[1] is None:
            self._note("a record's header breaks off")
            return None
        parts: dict[bytes, list[bytes]] = {}
        value: list[bytes] | None = None
        """The parts of the present field; None for a field that came before, and for a line without a name."""
        for line in head[1 : end.start()].split(b"\n"):
            if line.startswith((b" ", b"\t")):
                if value is not None:
                    value.append(line.strip())
                continue
            label, colon, text = line.partition(b":")
            name, value = label.strip().lower(), None
            if colon and name and name not in parts:
                value = parts[name] = [text.strip()]
        return {name.decode("latin-1"): b" ".join(value) for name, value in parts.items()}

    def _record(self, fields: dict[str, bytes], arc: bool) -> ArchiveRecord:
        text = fields.get("content-length", b"")
        if not text.isdigit() or len(text) > 18:
            self._note("a record without a length")
            return ArchiveRecord(self._number, fields, b"", 0, arc, "it has no length")
        length, damage, block, begin = int(text), "", b"", self.flow.at
        passed = _PassedBytes(_ARC_WITHIN if arc else _WARC_WITHIN)
        try:
            if (found := self._hasty_block(passed.pattern, length)) is not None:
                self._note(f"a record that should have {length:,} bytes: {_WRONG_LENGTH}")
                return ArchiveRecord(self._number, fields, found, length, arc, _WRONG_LENGTH)
            block = self.flow.take(min(length, self.most))
            whole = self._pass(passed, block, length - len(block))
            if not (whole and self._ends_well(arc)):
                if whole or self.flow.peek(1):
                    block, damage = self._resume(passed, block), _WRONG_LENGTH
                else:
                    damage = "it breaks off"
                    block = block[: self._resume_with_member(passed, block, begin) - begin]
        except ArchiveBrokenOff as broken:
            rest = self.flow.drop()
            ended = len(block) == min(length, self.most) and passed.count == length - len(block)
            ended = ended and _may_follow(rest, broken.where, arc)
            damage = "" if ended else "it breaks off"
            self._broken(broken, lost=not ended)
            if not ended and self._long_patience > 0:
                passed.keep(rest)
                self._resume_with_member(passed, block, begin)
            return ArchiveRecord(self._number, fields, block or rest[:length], length, arc, damage)
        if damage:
            self._note(f"a record that should have {length:,} bytes: {damage}")
        return ArchiveRecord(self._number, fields, block, length, arc, damage)

    def _hasty_block(self, pattern: re.Pattern[bytes], length: int) -> bytes | None:
        """Once the patience is used up, take the bytes before a place within the block that looks like a record.

        Returns None without such a place, and before. Cost: linear in the bytes that are taken. Raises
        ArchiveBrokenOff.
        """
        if self._patience > 0:
            return None
        within = self.flow.find(pattern, _WITHIN_BYTES, min(length, self.most))
        return self.flow.take(within.end())[: within.start()] if within else None

    def _resume(self, passed: _PassedBytes, block: bytes) -> bytes:
        """Go on at the first place that looks like a record. Returns the block's bytes before it."""
        seen = block if passed.count else block + self.flow.peek_line(_HEAD_BYTES)
        within = passed.pattern.search(seen)
        self._go_back(passed)
        if not within:
            return block
        self.flow.put_back(block[within.end() :])
        self.flow.take(max(0, within.end() - len(block)))
        return block[: within.start()]

    def _resume_with_member(self, passed: _PassedBytes, block: bytes, begin: int) -> int:
        """Go on at the first member after `begin`, where the block began. Returns its place.

        Without such a member, go on after all bytes that were read: a record there may be a part of a page.
        """
        end = self.flow.at
        if not self._alone or self.flow.next_member(begin) is None:
            return end
        self._go_back(passed)
        if self.flow.at == begin + len(block):
            self.flow.put_back(block)
        member = self.flow.next_member(self.flow.at)
        self.flow.pass_to(end if member is None else member)
        return self.flow.at

    def _go_back(self, passed: _PassedBytes) -> None:
        """Read the passed bytes again, from the first place on that looks like a record."""
        self._patience -= 1
        if passed.kept is not None:
            self._long_patience -= 1
            self.flow.replay(passed.kept)

    def _pass(self, passed: _PassedBytes, block: bytes, count: int) -> bool:
        """Pass over `count` bytes after a block's beginning. Returns False if they end early.

        Once a patience is used up, stops before the first place that looks like a record, and returns False.
        """
        patient = self._patience > 0 and self._long_patience > 0
        if count and passed.pattern.search(block):
            if not patient:
                return False
            passed.keep(b"")
        tail = block[-_MARK_BYTES:] if count else b""
        while count:
            chunk = self.flow.take(min(count, _CHUNK_BYTES))
            if not chunk:
                return False
            count -= len(chunk)
            passed.count += len(chunk)
            if passed.kept is not None:
                passed.keep(chunk)
                continue
            seen = tail + chunk
            if found := passed.pattern.search(seen):
                if not patient:
                    self.flow.put_back(seen[found.end() :])
                    return False
                passed.keep(seen[found.end() :])
            tail = seen[-_MARK_BYTES:]
        return True

    def _ends_well(self, arc: bool) -> bool:
        """Return whether the next bytes show that the block ended as it should. Raises ArchiveBrokenOff."""
        if not arc and self.flow.peek(4) == b"\r\n\r\n":
            return True  # the next bytes may be damaged, too
        # Nothing is taken: the places of bytes that are read again must stay right.
        ends = self.flow.line_ends(_HEAD_BYTES)
        line = self.flow.peek_line(_HEAD_BYTES, ends)
        if _WARC.match(line) or _arc_fields(line):
            return True
        is_cut = len(line) < _HEAD_BYTES and not line.endswith(b"\n")
        return not line or ends == _HEAD_BYTES or (is_cut and _begins_header(line, arc) and ends > 0)


@dataclass(slots=True)
class _PassedBytes:
    """The bytes after a block's beginning: their number, and the bytes from the first place like a record on."""

    pattern: re.Pattern[bytes]
    count: int = 0
    kept: IO[bytes] | None = None

    def keep(self, data: bytes) -> None:
        """Keep these bytes and all later ones."""
        if self.kept is None:
            self.kept = tempfile.SpooledTemporaryFile(_MAX_IN_MEMORY_BYTES)  # noqa: SIM115  # closed with the record
        self.kept.write(data)


def _may_follow(rest: bytes, where: ArchiveBreak, arc: bool) -> bool:
    """Return whether a whole record may end before these last bytes and a break."""
    line = rest.lstrip(b"\r\n")
    if line:
        return where.is_end and line != rest and _begins_header(line, arc)
    return where.fresh or where.is_end


def _begins_header(line: bytes, arc: bool) -> bool:
    """Return whether a header may begin with these bytes, the last ones of a file that breaks off."""
    return _ARC_BEGIN.match(line) is not None if arc else b"WARC/".startswith(line[:5])


def _arc_fields(line: bytes) -> dict[str, bytes] | None:
    """Return the fields of an ARC header line, or None for another line. Cost: linear in its length."""
    found, ending = _ARC_DATE.search(line), _ARC_LENGTH.search(line)
    if not (found and ending and found.end() <= ending.start() and _ARC_URL.match(url := line[: found.start()])):
        return None
    date, length, media = found[1], ending[1], line[found.end() : ending.start()]
    moment = b"%s-%s-%sT%s:%s:%sZ" % (date[:4], date[4:6], date[6:8], date[8:10], date[10:12], date[12:])
    kind = url.split(b":", 1)[0].lower()
    names = {b"filedesc": b"warcinfo", b"dns": b"dns"}
    return {
        "warc-type": names.get(kind, b"response"),
        "warc-target-uri": url,
        "warc-date": moment,
        "content-type": media.split(b" ", 1)[0],
        "content-length": length,
    }
