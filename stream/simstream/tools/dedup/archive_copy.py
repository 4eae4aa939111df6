"""Copies records of WARC files byte for byte, compressed as they are: `dedup --keep`."""

from __future__ import annotations

from array import array
from typing import BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from simstream.errors import InputError, UsageError
from simstream.model import Record
from simstream.sources.archives.raw_records import IrregularArchive, raw_records
from simstream.sources.input_files import Inputs, files_of, opened, shown_path
from simstream.sources.noted_lines import changed_while_judged, file_stamp, opened_unchanged
from simstream.sources.record_notes import RecordNotes
from simstream.sources.repeated_names import hash64

_PLAIN: Final = (".warc", ".warc.wet")
_PACKED: Final = (".warc.gz", ".warc.wet.gz")
_STEP_BYTES: Final = 1 << 20


class ArchiveCopier(RecordNotes):
    """Copies records of `inputs`, which are WARC files, all plain or all with a gzip member for each record.

    Memory: 16 bytes a page. Raises UsageError if an input is another archive, or if `path` does not end as the
    inputs do.
    """

    compresses: Final = False

    def __init__(self, inputs: Inputs, path: str) -> None:
        super().__init__()
        self._files = [file.path for file in files_of(inputs)]
        self._packed = shown_path(self._files[0]).lower().endswith(_PACKED)
        endings = _PACKED if self._packed else _PLAIN
        for name in self._files:
            if not shown_path(name).lower().endswith(endings):
                what = f"--keep cannot copy records of {shown_path(name)}"
                todo = f"name only files that end in {' or '.join(_PLAIN)}, or only in {' or '.join(_PACKED)}"
                raise UsageError(what, todo)
        if not path.lower().endswith(endings):
            what = f"--keep copies records of {shown_path(self._files[0])} as they are, but {path} ends otherwise"
            raise UsageError(what, f"name a file that ends in {endings[0]}")
        self._stamps = [self._checked(name) for name in self._files]
        self._place = array("q")
        """Of each page, the file's number and the record's number in it. The hashes are those of URLs."""
        self._file, self._last = 0, -1

    def _hash_of(self, record: Record) -> int:
        return _hash_of(dict(record.headers).get("url", b""))

    def _note_place(self, topic: str, offset: int) -> None:
        while topic != shown_path(self._files[self._file]) or offset <= self._last:
            self._file, self._last = self._file + 1, -1
        self._last = offset
        self._place.append(self._file << 40 | offset)

    def copy(self, numbers: NDArray[np.int64], out: BinaryIO) -> None:
        """Write the records of these pages, ascending and numbered from 0 over all inputs.

        Raises InputError if a file has changed since this object was made, or has no whole record at a place. The
        records before that place are written, and those of all other files.
        """
        places, first_error = np.asarray(self._place, np.int64)[numbers], None
        for file in range(len(self._files)):
            low, high = np.searchsorted(places, [file << 40, (file + 1) << 40])
            try:
                self._copy_file(file, numbers[low:high], out)
            except InputError as error:
                first_error = first_error or error
        if first_error:
            raise first_error

    def _copy_file(self, file: int, numbers: NDArray[np.int64], out: BinaryIO) -> None:
        """Write the records of these pages, which are of this file. Raises InputError."""
        path, stamp, wanted = self._files[file], self._stamps[file], iter(numbers.tolist())
        page = next(wanted, None)
        if page is None:
            return
        with opened_unchanged(path, stamp) as handle:
            try:
                for number, record in enumerate(raw_records(handle, self._packed)):
                    if self._place[page] != file << 40 | number:
                        continue
                    if _hash_of(record.url) != self._hashes[page]:
                        raise IrregularArchive(record.begin)
                    _copy_bytes(handle, record.begin, record.end, out)
                    page = next(wanted, None)
                    if page is None:
                        break
            except IrregularArchive as error:
                raise _irregular(path, error.at) from error
            if page is not None:
                raise changed_while_judged(path)

    def _checked(self, path: str) -> tuple[object, ...]:
        """Return the stamp of a file. Raises UsageError if its first record cannot be copied."""
        with opened(path) as handle:
            try:
                next(raw_records(handle, self._packed), None)
            except IrregularArchive as error:
                own = " in a gzip member of its own" if self._packed else ""
                what = f"{shown_path(path)} does not begin with a record{own}"
                raise UsageError(what, "repack it with a tool for WARC, or leave out --keep") from error
            return file_stamp(handle)


def _hash_of(url: bytes) -> int:
    """Return a hash of a URL up to its first space: a folded line of a header is read in more than one way."""
    return hash64(b"".join(url.split()[:1]))


def _copy_bytes(handle: BinaryIO, begin: int, end: int, out: BinaryIO) -> None:
    handle.seek(begin)
    while begin < end and (part := handle.read(min(_STEP_BYTES, end - begin))):
        out.write(part)
        begin += len(part)


def _irregular(path: str, at: int) -> InputError:
    what = f"{shown_path(path)} has no whole record at byte {at:,}; kept records before it are copied"
    return InputError(what, "get the file again, or repack it with a tool for WARC")
