"""Records of WARC and ARC one after another, found again behind damage and wrong lengths."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from stream.sources.archives.flow import BrokenOff, Flow

_HEAD_BYTES: Final = 1 << 16
_CHUNK_BYTES: Final = 1 << 18
_MARK_BYTES: Final = 1 << 10
_WARC: Final = re.compile(rb"WARC/[01]\.\d{1,2}[ \t]*\r?\n\Z")
_ARC: Final = re.compile(
    rb"([A-Za-z][A-Za-z0-9+.-]{1,20}:[^\n]{0,8191}?) (\d{1,3}(?:\.\d{1,3}){3}|[0-9A-Fa-f:]+|-) (\d{14}) "
    rb"([^\n]*?) ?(\d{1,18})\r?\n\Z"
)
_WARC_WITHIN: Final = re.compile(rb"\n\r?\n(?=WARC/[01]\.\d{1,2}\r?\n)")
_ARC_WITHIN: Final = re.compile(rb"\n(?=[a-z]{3,8}:[^ \n]{1,2048} [0-9.]{7,15} \d{14} [^ \n]{1,80} \d{1,18}\r?\n)")
_HOLDS_ARCHIVES: Final = (b"application/warc", b"application/octet-stream", b"application/gzip")


@dataclass(frozen=True, slots=True)
class ArchiveRecord:
    """One record as it stands. `fields` have names in lower case; an ARC's are called as a WARC's would be."""

    number: int
    """From 1, among all records of the file."""
    fields: Mapping[str, bytes]
    block: bytes
    """What follows the header; of a long block only its beginning."""
    length: int
    """How long the block is said to be."""
    arc: bool
    damage: str = ""
    """What is wrong with it; empty where it is whole."""


@dataclass(slots=True)
class Damage:
    """What was found: how often, and the first place in words."""

    places: int = 0
    first: str = ""

    def note(self, at: int, why: str) -> None:
        self.places += 1
        self.first = self.first or f"near byte {at:,}: {why}"


@dataclass(slots=True)
class Framer:
    """Iterates over the records of `flow`. `where` says how far in the file reading has come.

    Blocks are held up to `most` bytes, twice for a moment. A record whose length is wrong is `damage`d; the records
    around it are whole: within what it swallowed, or behind what it left, the next header is looked for. (So a
    block of more than `most` bytes that holds an archive as it is, and does not say so, is taken for damage.)
    """

    flow: Flow
    most: int
    where: Callable[[], int]
    damage: Damage = field(default_factory=Damage)
    _number: int = 0
    _lost: bool = False
    """What comes next is known to be damaged."""

    def __iter__(self) -> Iterator[ArchiveRecord]:
        while True:
            try:
                found = self._head()
            except BrokenOff as broken:
                self._broken(broken, lost=self.flow.waiting > 0)
                continue
            if found is None:
                return
            fields, arc = found
            self._number += 1
            yield self._record(fields, arc)

    def _broken(self, broken: BrokenOff, *, lost: bool) -> None:
        self.damage.note(broken.where.at, broken.where.why)
        self.flow.drop()
        self._lost = lost or not broken.where.fresh

    def _note(self, why: str) -> None:
        if not self._lost:
            self.damage.note(max(0, self.where() - self.flow.waiting), why)
        self._lost = True

    def _head(self) -> tuple[dict[str, bytes], bool] | None:
        """The next header, and whether it is an ARC's; None at the end. Raises BrokenOff."""
        while True:
            self.flow.pass_line_ends()
            line = self.flow.line(_HEAD_BYTES)
            if not line:
                return None
            if found := _WARC.search(line):
                if found.start():
                    self._note("bytes that belong to no record")
                fields = self._warc_fields()
                if fields is not None:
                    self._lost = False
                    return fields, False
            elif found := _ARC.match(line):
                self._lost = False
                return _arc_fields(found), True
            else:
                self._note("bytes that belong to no record")

    def _warc_fields(self) -> dict[str, bytes] | None:
        """The lines up to the blank one; None where they do not end as they should."""
        fields: dict[str, bytes] = {}
        name, room = "", _HEAD_BYTES
        while room > 0:
            if _WARC.match(self.flow.peek_line(_HEAD_BYTES)):
                break
            line = self.flow.line(_HEAD_BYTES)
            room -= len(line)
            if not line.endswith(b"\n"):
                break
            bare = line.strip()
            if not bare:
                return fields
            if line[:1] in b" \t":
                if name:
                    fields[name] += b" " + bare
                continue
            label, colon, value = bare.partition(b":")
            name = label.strip().lower().decode("latin-1") if colon else ""
            if name and name not in fields:
                fields[name] = value.strip()
            elif name:
                name = ""
        self._note("a record's header breaks off")
        return None

    def _record(self, fields: dict[str, bytes], arc: bool) -> ArchiveRecord:
        text = fields.get("content-length", b"")
        if not text.isdigit() or len(text) > 18:
            self._note("a record without a length")
            return ArchiveRecord(self._number, fields, b"", 0, arc, "it has no length")
        length, damage, block = int(text), "", b""
        try:
            block = self.flow.take(min(length, self.most))
            whole = self._passed(fields, block, length - len(block), arc)
            well = whole and self._ends_well(arc)
            if not well:
                damage = "its length is wrong" if whole else "it breaks off"
                seen = block + self.flow.peek_line(_HEAD_BYTES)
                within = (_ARC_WITHIN if arc else _WARC_WITHIN).search(seen)
                if within and within.start() < len(block):
                    self.flow.put_back(block[within.end() :])
                    self.flow.take(max(0, within.end() - len(block)))
                    block, damage = block[: within.start()], "its length is wrong"
        except BrokenOff as broken:
            ended = self.flow.waiting == 0 and broken.where.fresh and len(block) == min(length, self.most)
            damage = "" if ended else "it breaks off"
            rest = b"" if block else self.flow.drop()
            self._broken(broken, lost=not ended)
            return ArchiveRecord(self._number, fields, block or rest[:length], length, arc, damage)
        if damage:
            self._note(f"a record that should have {length:,} bytes: {damage}")
        return ArchiveRecord(self._number, fields, block, length, arc, damage)

    def _passed(self, fields: Mapping[str, bytes], block: bytes, count: int, arc: bool) -> bool:
        """Pass over what follows a block's beginning; False where it ends early, or holds another record."""
        pattern = _ARC_WITHIN if arc else _WARC_WITHIN
        look = not fields.get("content-type", b"").lower().startswith(_HOLDS_ARCHIVES)
        if count and look and pattern.search(block):
            return False
        tail = b""
        while count:
            chunk = self.flow.take(min(count, _CHUNK_BYTES))
            if not chunk:
                return False
            count -= len(chunk)
            seen = tail + chunk
            if look and (found := pattern.search(seen)):
                self.flow.put_back(seen[found.end() :])
                return False
            tail = seen[-_MARK_BYTES:]
        return True

    def _ends_well(self, arc: bool) -> bool:
        """Whether what follows shows that the block ended as it should. Raises BrokenOff."""
        if not arc and self.flow.peek(4) == b"\r\n\r\n":
            return True  # what comes next may be damaged itself
        self.flow.pass_line_ends()
        line = self.flow.peek_line(_HEAD_BYTES)
        return not line or _WARC.match(line) is not None or _ARC.match(line) is not None


def _arc_fields(found: re.Match[bytes]) -> dict[str, bytes]:
    url, _, date, media, length = found.groups()
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
