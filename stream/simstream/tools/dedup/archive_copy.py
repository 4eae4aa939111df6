"""Copies records of web archives, byte for byte where the file allows it: `dedup --keep`."""

from __future__ import annotations

import gzip
import os
import zlib
from array import array
from collections.abc import Callable, Mapping
from io import BytesIO
from typing import BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from simstream.errors import InputChanged, InputError, UsageError
from simstream.files.zstandard import zstd
from simstream.model import Record
from simstream.sources.archives.framing import ArchiveRecord
from simstream.sources.archives.pages import ArchiveCounts, ArchivePages, framer_of
from simstream.sources.archives.raw_records import IrregularArchive, RawRecord, raw_records
from simstream.sources.input_files import Inputs, files_of, opened, shown_path
from simstream.sources.lines import CountedFile
from simstream.sources.noted_lines import RecordNotes, changed_while_judged, file_stamp, opened_unchanged
from simstream.sources.page_origins import hash64

_WARC: Final = (".warc", ".warc.wet")
_ARC: Final = (".arc",)
_PLAIN: Final = ""
_GZIP: Final = ".gz"
_PACKERS: Final[Mapping[str, Callable[[bytes], bytes]]] = {
    _PLAIN: bytes,
    _GZIP: lambda data: gzip.compress(data, 6, mtime=0),
    ".zst": lambda data: zstd.compress(data, options={zstd.CompressionParameter.checksum_flag: 1}),
}
"""What packs a record as a member of its own, by the copy's last ending."""
_MAX_HEADER_BYTES: Final = 1 << 18
_HASHED_BYTES: Final = 4096


class ArchiveCopier(RecordNotes):
    """Copies records of `inputs`, which are all WARC or all ARC files, to a file named `path`.

    The bytes of a WARC are copied as they are if it and `path` are both plain, or both have a gzip member for each
    record. Other records, and records behind damage, are packed anew, each as a member of its own. Pages have at
    most `limit` bytes. Memory: 16 bytes a page, and a record. Raises UsageError if an input or `path` does not
    fit.
    """

    compresses: Final = False

    def __init__(self, inputs: Inputs, path: str, limit: int) -> None:
        super().__init__()
        self._limit = limit
        self._max_bytes = 2 * limit + _MAX_HEADER_BYTES
        self._files = [file.path for file in files_of(inputs)]
        self._is_arc, _ = _format(self._files[0])
        for name in self._files:
            if _format(name)[0] != self._is_arc:
                what = "the inputs are WARC and ARC files, but --keep writes one format"
                raise UsageError(what, "name inputs of one format, and the others with --against")
        endings = _ARC if self._is_arc else _WARC
        fitting = (end for end in _PACKERS if path.lower().endswith(tuple(one + end for one in endings)))
        if (ending := next(fitting, None)) is None:
            wanted = f"{endings[0]}, {endings[0]}.gz or {endings[0]}.zst"
            what = (
                f"--keep writes {'ARC' if self._is_arc else 'WARC'}, as the inputs are, and {path} ends otherwise"
            )
            raise UsageError(what, f"name a file that ends in {wanted}")
        self._ending = ending
        self._stamps = [_stamp(name) for name in self._files]
        self._place = array("q")
        """Of each page, the file's number and the record's number in it."""
        self._file, self._last = 0, -1

    def _hash_of(self, record: Record) -> int:
        """Return a hash of what is judged: the URL, and the length, the beginning and the end of the page."""
        url, value = dict(record.headers).get("url", b""), record.value or b""
        return hash64(b"%s\0%d\0%s%s" % (url, len(value), value[:_HASHED_BYTES], value[-_HASHED_BYTES:]))

    def _note_place(self, topic: str, offset: int) -> None:
        while topic != shown_path(self._files[self._file]) or offset <= self._last:
            self._file, self._last = self._file + 1, -1
        self._last = offset
        self._place.append(self._file << 40 | offset)

    def copy(self, numbers: NDArray[np.int64], out: BinaryIO) -> None:
        """Write the records of these pages, ascending and numbered from 0 over all inputs.

        Raises InputChanged if a file has changed since this object was made, and InputError for a damaged one,
        after the records of all other files.
        """
        places, first_error = np.asarray(self._place, np.int64)[numbers], None
        for file in range(len(self._files)):
            low, high = np.searchsorted(places, [file << 40, (file + 1) << 40])
            try:
                if self._is_arc and file == 0:
                    self._copy_version(out)
                self._copy_file(file, numbers[low:high].tolist(), out)
            except InputChanged:
                raise
            except InputError as error:
                first_error = first_error or error
        if first_error:
            raise first_error

    def _copy_version(self, out: BinaryIO) -> None:
        """Write the first record of the first ARC, which says which version of the format this is. Those of other
        inputs are left out."""
        with opened_unchanged(self._files[0], self._stamps[0]) as handle:
            framer = framer_of(CountedFile(handle), self._files[0], self._limit)
            first = next(iter(framer), None)
            if first is not None and first.fields.get("warc-type") == b"warcinfo" and first.is_whole:
                out.write(_PACKERS[self._ending](self._content(framer.header, first)))

    def _copy_file(self, file: int, numbers: list[int], out: BinaryIO) -> None:
        """Write the records of these pages, which are of this file. Raises InputChanged and InputError."""
        if not numbers:
            return
        path = self._files[file]
        is_arc, ending = _format(path)
        with opened_unchanged(path, self._stamps[file]) as handle:
            if not is_arc and ending == self._ending in (_PLAIN, _GZIP):
                numbers = self._copy_raw(handle, numbers, out)
            if numbers:
                handle.seek(0)
                self._pack_anew(CountedFile(handle), path, numbers, out)

    def _copy_raw(self, handle: BinaryIO, numbers: list[int], out: BinaryIO) -> list[int]:
        """Copy the bytes of these pages' records, up to the first irregular one. Returns the other pages.

        Bytes that are not read as the page itself are not copied: `raw_records` is simpler than the framer.
        """
        done = 0
        try:
            for number, record in enumerate(raw_records(handle, self._ending == _GZIP)):
                if not self._is_at(numbers[done], number):
                    continue
                raw = self._bytes_of(handle, record)
                if not self._is_page(self._unpacked(raw), numbers[done]):
                    break
                out.write(raw)
                done += 1
                if done == len(numbers):
                    break
        except IrregularArchive:
            pass
        return numbers[done:]

    def _pack_anew(self, handle: CountedFile, path: str, numbers: list[int], out: BinaryIO) -> None:
        """Pack the records of these pages as the judge read them. Raises InputChanged."""
        wanted = iter(numbers)
        page = next(wanted, None)
        framer = framer_of(handle, path, self._limit)
        for record in framer:
            if page is None:
                return
            if self._is_at(page, record.number - 1):
                content = self._content(framer.header, record)
                if not record.is_whole or not self._is_page(content, page):
                    raise changed_while_judged(path)
                out.write(_PACKERS[self._ending](content))
                page = next(wanted, None)
        if page is not None:
            raise changed_while_judged(path)

    def _is_at(self, page: int, record: int) -> bool:
        """Return whether this is the page's record in its file, by its number from 0."""
        return self._place[page] & ((1 << 40) - 1) == record

    def _content(self, header: bytes, record: ArchiveRecord) -> bytes:
        return header + record.block + (b"\n" if self._is_arc else b"\r\n\r\n")

    def _bytes_of(self, handle: BinaryIO, record: RawRecord) -> bytes:
        """Return a record's bytes in the file; only as many as a page that is kept can have."""
        handle.seek(record.begin)
        return handle.read(min(record.end - record.begin, self._max_bytes))

    def _unpacked(self, raw: bytes) -> bytes:
        """Return a record's bytes; only as many as a page that is kept can have."""
        return zlib.decompressobj(31).decompress(raw, self._max_bytes) if self._ending == _GZIP else raw

    def _is_page(self, content: bytes, page: int) -> bool:
        """Return whether these bytes are one whole record, and that of this page."""
        counts = ArchiveCounts()
        pages = ArchivePages(CountedFile(BytesIO(content)), "record", self._limit, counts)
        found = list(pages)
        is_one = len(found) == counts.records == 1 and not pages.damage.places
        return is_one and self._hash_of(found[0]) == self._hashes[page]


def _format(path: str) -> tuple[bool, str]:
    """Return whether an archive is an ARC by its name, and the ending of its compression."""
    name = shown_path(path).lower()
    bare, ending = (name, _PLAIN) if name.endswith(_ARC + _WARC) else os.path.splitext(name)
    return bare.endswith(_ARC), ending


def _stamp(path: str) -> tuple[object, ...]:
    with opened(path) as handle:
        return file_stamp(handle)
