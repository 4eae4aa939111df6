"""Turns records of an archive into pages, and counts the records that are no pages."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from simstream.amounts import say_count, say_pages
from simstream.model import Record
from simstream.sources.archives.byte_buffer import ArchiveFlow
from simstream.sources.archives.framing import ArchiveDamage, ArchiveRecord, RecordFramer
from simstream.sources.archives.http import HttpResponse, response
from simstream.sources.archives.unpacking import pieces
from simstream.sources.input_files import path_id, shown_path
from simstream.sources.lines import CountedFile
from simstream.wire.page import NO_TIME

_HTML: Final = (b"text/html", b"application/xhtml+xml", b"application/vnd.wap.xhtml+xml")
_PLAIN: Final = b"text/plain"
_FETCHED: Final = re.compile(rb"(?:https?|ftps?|file|gopher|gemini):", re.I)
_LOOKS_HTML: Final = re.compile(
    rb"\s*<(?:!doctype html|html|head|body|title|meta|script|table|div|p|h1|a|br)[\s>/]", re.I
)
_HEAD_ROOM: Final = 1 << 17
_MAX_KINDS: Final = 100
_SHOWN: Final = 60


@dataclass(slots=True)
class ArchiveCounts:
    """The numbers of all records in archives, and of records that are not pages, by type."""

    files: int = 0
    records: int = 0
    pages: int = 0
    passed: Counter[str] = field(default_factory=Counter)

    def passed_over(self, kind: bytes) -> None:
        name = kind.decode("ascii", "replace")[:_SHOWN] or "no type"
        self._pass_over(name, 1)

    def add(self, others: ArchiveCounts) -> None:
        """Add the numbers of other archives."""
        self.files += others.files
        self.records += others.records
        self.pages += others.pages
        for name, count in others.passed.items():
            self._pass_over(name, count)

    def _pass_over(self, name: str, count: int) -> None:
        self.passed[name if name in self.passed or len(self.passed) < _MAX_KINDS else "others"] += count

    def __str__(self) -> str:
        kinds = self.passed.most_common()
        shown = ", ".join(f"{count:,} {name}" for name, count in kinds[:8])
        more = sum(count for _, count in kinds[8:])
        rest = f" and {more:,} others" if more else ""
        over = f"; skipped: {shown}{rest}" if kinds else ""
        files = "a web archive" if self.files == 1 else f"{self.files:,} web archives"
        return f"{say_pages(self.pages)} in {say_count(self.records, 'record')} of {files}{over}"


class ArchivePages:
    """Yields the pages of a WARC or ARC, compressed or not: HTTP answers, `resource` and `conversion` records.

    A record's offset is its number among all records of the file, from 0. Its key is the URL, else `PATH:NUMBER`.
    Its value is the HTML or text as it was fetched, with the headers of such a page. A damaged record has the
    header `damaged`. Memory: about 2 * `limit` for any file.
    """

    def __init__(self, handle: CountedFile, path: str, limit: int, tally: ArchiveCounts) -> None:
        self._path = path_id(path)
        self._topic = shown_path(path)
        self._limit = limit
        self._tally = tally
        self._framer = framer_of(handle, path, limit)
        self.pages = 0

    @property
    def damage(self) -> ArchiveDamage:
        return self._framer.damage

    def __iter__(self) -> Iterator[Record]:
        self._tally.files += 1
        for record in self._framer:
            self._tally.records += 1
            kind = record.fields.get("warc-type", b"").lower()
            if kind in (b"response", b"resource", b"conversion"):
                made = self._page(record, kind)
                if made is not None:
                    self.pages += 1
                    self._tally.pages += 1
                    yield made
            else:
                self._tally.passed_over(kind)

    def _page(self, record: ArchiveRecord, kind: bytes) -> Record | None:
        url = record.fields.get("warc-target-uri", b"").removeprefix(b"<").removesuffix(b">")
        media = record.fields.get("content-type", b"")
        if url.lower().startswith(b"dns:"):
            self._tally.passed_over(b"dns")
            return None
        if kind == b"resource" and not _FETCHED.match(url):
            self._tally.passed_over(b"resource")
            return None
        answer = HttpResponse(None, media, record.block[: self._limit + 1])
        if kind == b"response":
            answer = response(record.block, self._limit)
            if answer.status is None and not _type(media).startswith(b"application/http"):
                answer = answer._replace(media=media)
        as_page = self._media(answer, record)
        return None if as_page is None else self._made(record, url, as_page, answer)

    def _media(self, answer: HttpResponse, record: ArchiveRecord) -> bytes | None:
        """Return the page's content type; None if the record is not a page."""
        kind = _type(answer.media) or _type(record.fields.get("warc-identified-payload-type", b""))
        if kind == _PLAIN:
            return answer.media or _PLAIN
        if kind in _HTML:
            return _HTML[0] + answer.media[len(_type(answer.media)) :]
        untold = not kind or (kind == b"no-type" and record.arc)
        if untold and (_LOOKS_HTML.match(answer.body, 0, 1024) or record.damage):  # a cut header has lost its type
            return _HTML[0]
        self._tally.passed_over(kind)
        return None

    def _made(self, record: ArchiveRecord, url: bytes, media: bytes, answer: HttpResponse) -> Record:
        body = answer.body
        headers = [("content-type", media)]
        if url:
            headers.append(("url", url))
        if date := record.fields.get("warc-date"):
            headers.append(("time", date))
        if answer.status is not None:
            headers.append(("status", b"%d" % answer.status))
        if record.damage:
            headers.append(("damaged", record.damage.encode()))
        elif record.length > len(record.block):
            body = record.block[: self._limit + 1]  # too large, even before it is unpacked
        key = url or self._path + b":%d" % record.number
        return Record(self._topic, 0, record.number - 1, key, body, tuple(headers), NO_TIME)


def framer_of(handle: CountedFile, path: str, limit: int) -> RecordFramer:
    """Return the framer of an archive whose pages have at most `limit` bytes."""
    return RecordFramer(ArchiveFlow(pieces(handle, path)), 2 * limit + _HEAD_ROOM, lambda: handle.taken)


def _type(media: bytes) -> bytes:
    return media.split(b";", 1)[0].strip().lower()
