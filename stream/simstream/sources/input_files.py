"""Finds the files that inputs name, and the kind of each file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from enum import Enum, auto
from typing import BinaryIO, Final, NamedTuple

from simstream.errors import InputMissing, UsageError
from simstream.model import MAX_ID_BYTES
from simstream.sources.lines import COMPRESSIONS
from simstream.wire.identity import shown_id

STDIN: Final = "-"
HTML: Final = (".html", ".htm", ".xhtml")
TEXT: Final = ".txt"
JSONL: Final = (".jsonl", ".ndjson", ".json")
CSV: Final = ".csv"
ARCHIVES: Final = (".warc", ".arc")
"""Also with `.lz4`, besides what other files are packed by."""
PARQUET: Final = (".parquet", ".pq")
_LZ4: Final = ".lz4"
_LINE_ROOM: Final = 24
_ACCEPTED: Final = (
    f"name {', '.join(JSONL)}, {CSV}, {', '.join(ARCHIVES)} (also with {', '.join(COMPRESSIONS)}), "
    f"{', '.join(PARQUET)}, {', '.join(HTML)}, {TEXT}, a folder or -"
)


class FileKind(Enum):
    """What is read in a file."""

    HTML = auto()
    TEXT = auto()
    JSONL = auto()
    CSV = auto()
    ARCHIVE = auto()
    PARQUET = auto()


class InputFile(NamedTuple):
    """`bytes`: its size as it lies on disk, 0 for stdin."""

    path: str
    kind: FileKind
    bytes: int


def files_of(inputs: Sequence[str]) -> list[InputFile]:
    """All files, in order; of a folder its HTML files, or where it has none its text files, in byte order of their
    relative paths.

    Raises InputMissing, and UsageError for a file of no known kind.
    """
    files: list[InputFile] = []
    for path in inputs:
        if path == STDIN:
            files.append(InputFile(STDIN, FileKind.JSONL, 0))
        elif os.path.isdir(path):
            files.extend(_folder(path))
        else:
            files.append(_named(path))
    return files


def shown_path(path: str) -> str:
    r"""Return the path as valid text: bytes that are not UTF-8 become `\xNN`."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def path_id(path: str) -> bytes:
    """Return what names pages without an id of their own: the path, shortened where no line number would fit."""
    shown = shown_path(path).encode()
    return shown if len(shown) <= MAX_ID_BYTES - _LINE_ROOM else shown_id(shown).encode()


def place(path: str, offset: int) -> str:
    """Where in a file the record of this offset is, in words."""
    words: dict[FileKind | None, str] = {FileKind.ARCHIVE: "record", FileKind.PARQUET: "row"}
    kind = _kind(path.lower())
    return path if kind in (FileKind.HTML, FileKind.TEXT) else f"{path}, {words.get(kind, 'line')} {offset + 1}"


def opened(path: str) -> BinaryIO:
    """The file, unbuffered. Raises InputMissing."""
    try:
        return open(path, "rb", buffering=0)
    except OSError as error:
        raise _missing(path, error) from error


def _missing(path: str, error: OSError) -> InputMissing:
    what = f"{shown_path(path)} cannot be read ({error.strerror})"
    return InputMissing(what, "check the path and its permissions")


def _named(path: str) -> InputFile:
    try:
        size = os.stat(path).st_size
    except OSError as error:
        raise _missing(path, error) from error
    if not os.access(path, os.R_OK):
        raise InputMissing(f"{shown_path(path)} cannot be read", "check its permissions")
    kind = _kind(path.lower())
    if kind is None:
        raise UsageError(f"{shown_path(path)} is no kind of file that is read", _ACCEPTED)
    return InputFile(path, kind, size)


def _kind(name: str) -> FileKind | None:
    for endings, kind in ((HTML, FileKind.HTML), ((TEXT,), FileKind.TEXT), (PARQUET, FileKind.PARQUET)):
        if name.endswith(endings):
            return kind
    for ending in COMPRESSIONS:
        name = name.removesuffix(ending)
    if name.endswith(JSONL):
        return FileKind.JSONL
    if name.endswith(CSV):
        return FileKind.CSV
    return FileKind.ARCHIVE if name.removesuffix(_LZ4).endswith(ARCHIVES) else None


def _folder(folder: str) -> list[InputFile]:
    def refuse(error: OSError) -> None:
        raise _missing(os.fsdecode(error.filename), error) from error

    pages: list[str] = []
    texts: list[str] = []
    for parent, _, names in os.walk(folder, onerror=refuse):
        for name in names:
            path = os.path.join(parent, name)
            found = pages if name.lower().endswith(HTML) else texts
            if name.lower().endswith((*HTML, TEXT)) and os.path.isfile(path):
                found.append(os.path.relpath(path, folder))
    if not pages and not texts:
        what = f"{shown_path(folder)} has no {', '.join(HTML)} or {TEXT} file"
        raise InputMissing(what, "name files of other kinds themselves")
    return [_named(os.path.join(folder, path)) for path in sorted(pages or texts, key=os.fsencode)]
