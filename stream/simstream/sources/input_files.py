"""Finds the files that inputs name, and the kind of each file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from enum import Enum, auto
from typing import BinaryIO, Final, NamedTuple

from simstream.errors import InputMissing, UsageError
from simstream.model import MAX_ID_BYTES
from simstream.sources.lines import COMPRESSIONS
from simstream.wire.identity_hash import replace_bad_id

STDIN: Final = "-"
HTML: Final = (".html", ".htm", ".xhtml")
TEXT: Final = ".txt"
JSONL: Final = (".jsonl", ".ndjson", ".json")
CSV: Final = ".csv"
ARCHIVES: Final = (".warc", ".warc.wet", ".arc")
"""Archives may also have `.lz4`, not only the compressions of other files."""
PARQUET: Final = (".parquet", ".pq")
_LZ4: Final = ".lz4"
_LINE_ROOM: Final = 24
_ACCEPTED: Final = (
    f"name {', '.join(JSONL)}, {CSV}, {', '.join(ARCHIVES)} (also with {', '.join(COMPRESSIONS)}, archives also "
    f"with {_LZ4}), "
    f"{', '.join(PARQUET)}, {', '.join(HTML)}, {TEXT}, a folder or -"
)


class FileKind(Enum):
    """The format of a file."""

    HTML = auto()
    TEXT = auto()
    JSONL = auto()
    CSV = auto()
    ARCHIVE = auto()
    PARQUET = auto()


class InputFile(NamedTuple):
    """`bytes`: its size on disk, 0 for stdin."""

    path: str
    kind: FileKind
    bytes: int


def files_of(inputs: Sequence[str]) -> list[InputFile]:
    """Return all files in order. A folder gives its HTML files, or if it has none, its text files.

    The files of a folder are in byte order of their relative paths. Raises InputMissing, and UsageError for a file
    of an unknown kind.
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
    """Return the name for pages without an id: the path, shortened if a line number would not fit."""
    shown = shown_path(path).encode()
    return shown if len(shown) <= MAX_ID_BYTES - _LINE_ROOM else replace_bad_id(shown).encode()


def place(path: str, offset: int) -> str:
    """Return in words where in a file the record of this offset is."""
    words: dict[FileKind | None, str] = {FileKind.ARCHIVE: "record", FileKind.PARQUET: "row"}
    kind = _kind(path.lower())
    return path if kind in (FileKind.HTML, FileKind.TEXT) else f"{path}, {words.get(kind, 'line')} {offset + 1}"


def opened(path: str) -> BinaryIO:
    """Open the file, unbuffered. Raises InputMissing."""
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
        raise UsageError(f"{shown_path(path)} has an ending that is not read", _ACCEPTED)
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
        raise InputMissing(what, "name the files if they are of another kind")
    return [_named(os.path.join(folder, path)) for path in sorted(pages or texts, key=os.fsencode)]
