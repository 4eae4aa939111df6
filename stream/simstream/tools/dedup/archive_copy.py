"""Copies records of WARC files byte for byte, compressed as they are: `dedup --keep`."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from simstream.errors import InputError, UsageError
from simstream.model import Record
from simstream.sources.archives.raw_records import IrregularArchive, raw_records
from simstream.sources.input_files import files_of, opened, shown_path
from simstream.sources.noted_lines import changed_while_judged, file_stamp
from simstream.sources.repeated_names import hash64

_PLAIN: Final = (".warc", ".warc.wet")
_PACKED: Final = (".warc.gz", ".warc.wet.gz")
_STEP_BYTES: Final = 1 << 20


class ArchiveCopy:
    """Copies records of `inputs`, which are WARC files, all plain or all with a gzip member for each record.

    Memory: 16 bytes a page. Raises UsageError if an input is another archive, or if `path` does not end as the
    inputs do.
    """

    compresses: Final = False

    def __init__(self, inputs: Sequence[str], path: str) -> None:
        self._files = [file.path for file in files_of(inputs)]
        self._packed = self._files[0].lower().endswith(_PACKED)
        endings = _PACKED if self._packed else _PLAIN
        for name in self._files:
            if not name.lower().endswith(endings):
                what = f"records of {shown_path(name)} cannot be copied to one file with those of the first input"
                raise UsageError(what, f"name only files that end in {' or '.join(_PLAIN)}, or only {_PACKED[0]}")
        if not path.lower().endswith(endings):
            what = f"--keep copies records of {shown_path(self._files[0])} as they are, but {path} ends otherwise"
            raise UsageError(what, f"name a file that ends in {endings[0]}")
        self._stamps = [self._checked(name) for name in self._files]
        self._place, self._url = array("q"), array("Q")
        """Of each page, the file's number and the record's number in it; and the hash of its URL."""
        self._file, self._last = 0, -1

    def noted(self, records: Iterable[Record]) -> Iterator[Record]:
        """Yield the records unchanged."""
        for record in records:
            while record.topic != shown_path(self._files[self._file]) or record.offset <= self._last:
                self._file, self._last = self._file + 1, -1
            self._last = record.offset
            self._place.append(self._file << 40 | record.offset)
            self._url.append(hash64(dict(record.headers).get("url", b"")))
            yield record

    def copy(self, numbers: NDArray[np.int64], out: BinaryIO) -> None:
        """Write the records of these pages, ascending and numbered from 0 over all inputs.

        Raises InputError if a file has changed since this object was made, or has no whole record at a place. The
        records before are written.
        """
        wanted = ((self._place[number], self._url[number]) for number in numbers.tolist())
        following = next(wanted, None)
        for file, (path, stamp) in enumerate(zip(self._files, self._stamps, strict=True)):
            if following is None or following[0] >> 40 != file:
                continue
            with opened(path) as handle:
                if file_stamp(handle) != stamp:
                    raise changed_while_judged(path)
                try:
                    for number, record in enumerate(raw_records(handle, self._packed)):
                        if following is None or following[0] != file << 40 | number:
                            continue
                        if hash64(record.url) != following[1]:
                            raise IrregularArchive(record.begin)
                        _copy_bytes(handle, record.begin, record.end, out)
                        following = next(wanted, None)
                except IrregularArchive as error:
                    raise _irregular(path, error.at) from error
                except BrokenPipeError:
                    raise  # of the output
                except OSError as error:
                    raise InputError(
                        f"reading {shown_path(path)} failed ({error.strerror})", "check the disk"
                    ) from error
                if file_stamp(handle) != stamp:
                    raise changed_while_judged(path)
            if following is not None and following[0] >> 40 == file:
                raise changed_while_judged(path)

    def _checked(self, path: str) -> tuple[int, ...]:
        """Return the stamp of a file. Raises UsageError if its first record cannot be copied."""
        with opened(path) as handle:
            try:
                next(raw_records(handle, self._packed), None)
            except IrregularArchive as error:
                what = (
                    f"{shown_path(path)} does not begin with a record"
                    + " in a gzip member of its own" * self._packed
                )
                raise UsageError(what, "repack it with a tool for WARC, or leave out --keep") from error
            return file_stamp(handle)


def _copy_bytes(handle: BinaryIO, begin: int, end: int, out: BinaryIO) -> None:
    handle.seek(begin)
    while begin < end and (part := handle.read(min(_STEP_BYTES, end - begin))):
        out.write(part)
        begin += len(part)


def _irregular(path: str, at: int) -> InputError:
    what = f"{shown_path(path)} has no whole record at byte {at:,}; kept records before it are copied"
    return InputError(what, "get the file again, or repack it with a tool for WARC")
