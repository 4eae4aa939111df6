"""Reads input files of every kind as records of pages.

A record's topic is its file, its partition 0, its offset the line - 1 (0 for HTML and text; for archives see
`archives.pages`), its timestamp NO_TIME: files have no time of their own, so a page that keeps NO_TIME had none
that could be read. Its key is the page's id, its URL, or what names it in its file (`PATH:LINE`, for HTML and text
the path as given), so that `wire.page.decode` and a broker agree on it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Self

import msgspec

from simstream.errors import InputError
from simstream.model import Record
from simstream.sources.archives.pages import ArchiveCounts
from simstream.sources.fields import FieldNames
from simstream.sources.file_pages import FilePages
from simstream.sources.input_files import Inputs, Say, files_of
from simstream.sources.read_ahead import ONE_BY_ONE, FilesAhead, ReadAhead

_MAX_DAMAGED_SHOWN = 20


class FileEnd(msgspec.Struct, frozen=True, array_like=True):
    """A file that was read to its end.

    `records` counts those of all files up to it. `archive` and `passed`: the fields of its ArchiveCounts.
    """

    records: int
    damage: str
    archive: tuple[int, int, int]
    passed: dict[str, int]


class PageReader:
    """Iterates over the records of all inputs, in their order; see `read_pages`."""

    def __init__(
        self,
        inputs: Inputs,
        max_record_bytes: int,
        fields: FieldNames,
        say: Say | None,
        *,
        forgiving: bool,
        ahead: ReadAhead,
    ) -> None:
        self._files = files_of(inputs, say or (lambda sentence: None))
        self._limit, self._fields = max_record_bytes, fields
        self._say = say
        self._forgiving = forgiving
        self._ahead = ahead
        self._tally = ArchiveCounts()
        self._damaged: list[str] = []
        self._done = self._passed_files = self._skipped = self._count = 0
        self._ended: Callable[[FileEnd], None] | None = None
        self._current: FilePages | None = None
        self._records = self._all()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Record:
        return next(self._records)

    @property
    def consumed(self) -> int:
        """The number of bytes on disk that were read; compare it with `size_of`."""
        return self._done + (0 if self._current is None else self._current.taken)

    def go_on(self, ends: Sequence[FileEnd], records: int, ended: Callable[[FileEnd], None]) -> None:
        """Skip the first `records` records. `ends`: the files that end within them.

        Call it before the first record. `ended` is called at the end of each further file.
        """
        for end in ends:
            self._note(ArchiveCounts(*end.archive, Counter(end.passed)), end.damage)
        self._count = ends[-1].records if ends else 0
        self._passed_files, self._skipped, self._ended = len(ends), records - self._count, ended
        self._done = sum(file.bytes for file in self._files[: len(ends)])

    def _all(self) -> Iterator[Record]:
        for pages, records in self._in_order():
            self._current = pages
            self._count += sum(1 for _ in islice(records, self._skipped))
            self._skipped = 0
            for record in records:
                self._count += 1
                yield record
            self._current = None
            self._done += pages.file.bytes
            self._note(pages.archive, pages.damage)
            if self._ended is not None:
                found = pages.archive
                told = found.files, found.records, found.pages
                self._ended(FileEnd(self._count, pages.damage, told, dict(found.passed)))
        if self._tally.files and self._say is not None:
            self._say(str(self._tally))
        if self._damaged and not self._forgiving:
            raise InputError(
                "; ".join(self._damaged),
                "get each damaged file again, since records behind the damage may be missing",
            )

    def _in_order(self) -> Iterator[tuple[FilePages, Iterator[Record]]]:
        each = (FilePages(file, self._limit, self._fields) for file in self._files[self._passed_files :])
        if self._ahead.files == 1:
            yield from ((pages, iter(pages)) for pages in each)
            return
        with FilesAhead(each, self._ahead) as files:
            yield from files

    def _note(self, archive: ArchiveCounts, damage: str) -> None:
        """Take over what came to light about a file."""
        self._tally.add(archive)
        if damage:
            if len(self._damaged) < _MAX_DAMAGED_SHOWN:
                self._damaged.append(damage)
            if self._forgiving and self._say is not None:
                self._say(damage)


def read_pages(
    inputs: Inputs,
    max_record_bytes: int = 1 << 20,
    fields: FieldNames | None = None,
    say: Say | None = None,
    *,
    forgiving: bool = False,
    ahead: ReadAhead = ONE_BY_ONE,
) -> PageReader:
    """Yield the pages of files, folders (see `input_files.files_of`) and `-`.

    A line or file longer than `max_record_bytes` is cut a little after that: `decode` calls it too large.
    `fields`: the names of a page's fields in JSONL, CSV and Parquet. Memory: constant, and the list of a folder's
    paths. Raises at once InputMissing or UsageError for an unreadable input and for a folder without pages. While
    iterating, raises InputError for a damaged input, StoreError for an address that breaks off or whose file has
    changed, and UsageError for a file whose pages lack a wanted field.

    A damaged web archive loses only its damaged records, and reading goes on. InputError comes after the last page
    of all inputs, unless `forgiving`. `say` hears what archives held, and then of the damage.

    With `ahead`, threads read several files at a time. Records, errors and their order are the same.
    """
    return PageReader(inputs, max_record_bytes, fields or FieldNames(), say, forgiving=forgiving, ahead=ahead)


def size_of(inputs: Inputs) -> int | None:
    """Return the bytes of all files that `read_pages` would read; None if one is standard input or a named pipe."""
    files = files_of(inputs)
    return sum(file.bytes for file in files) if all(file.is_regular for file in files) else None
