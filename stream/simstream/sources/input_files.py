"""Finds the files that inputs name, and the kind of each file."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum, auto
from glob import glob
from typing import BinaryIO, Final, NamedTuple, cast

from simstream.errors import InputMissing, StoreError, UsageError
from simstream.model import MAX_ID_BYTES
from simstream.sources.addresses import is_pattern, is_web, local_path, protocol_of, public_address
from simstream.sources.lines import COMPRESSIONS
from simstream.sources.ranges import RemoteFile
from simstream.sources.stores import StoredFile, listed
from simstream.sources.web_files import WebFile
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
_NAMED_ENDINGS: Final = 4
FEEDS: Final = (".xml", ".rss", ".atom", "/rss", "/feed", "/atom")
FEED_ADVICE: Final = "an RSS or Atom feed is read by: simstream feed --rss ADDRESS"
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
    """One file. `path`: a local path, an address, or `-`. `bytes`: its size, 0 for stdin and pipes.

    `has_ranges` is false for a web server that gives nothing but the whole file. Bytes behind `end` are not read.
    """

    path: str
    kind: FileKind
    bytes: int
    has_ranges: bool = True
    end: int | None = None

    @property
    def is_remote(self) -> bool:
        """Whether the path is an address."""
        return protocol_of(self.path) != ""

    @property
    def name(self) -> str:
        """The path whose ending tells how the file is packed, without secrets of an address."""
        return shown_path(self.path) if self.is_remote else self.path

    @property
    def is_regular(self) -> bool:
        """Whether the file has a size and can be read twice."""
        return self.path != STDIN and (self.is_remote or os.path.isfile(self.path))

    @property
    def can_wait(self) -> bool:
        """Whether whoever reads the file may pause for as long as it takes: no connection must stay open."""
        return self.is_regular and self.has_ranges


Inputs = Sequence[str | InputFile]
"""What a user names; or files that `files_of` has found, which are not looked for again."""
Say = Callable[[str], None]
"""Hears a sentence for the person who waits."""


def refuse_single_pass(files: Sequence[InputFile], why: str) -> None:
    """Raise UsageError if one of the files cannot be read again; `why` says who does so."""
    for file in files:
        if not file.is_regular:
            what = f"{why}, and {shown_path(file.path)} is no regular file"
            raise UsageError(what, "save it to a file first")


def files_of(inputs: Inputs, say: Say = lambda sentence: None) -> list[InputFile]:
    """Return all files in order.

    A pattern such as `*.parquet` gives all files of such a name. A folder gives its HTML files, or if it has none,
    its text files. These are in byte order of their paths. `say` hears what a folder has besides. Raises
    InputMissing; UsageError for a file of an unknown kind; and for addresses StoreError and Unavailable.
    """
    files: list[InputFile] = []
    for named in inputs:
        if isinstance(named, InputFile):
            files.append(named)
        elif named == STDIN:
            files.append(InputFile(STDIN, FileKind.JSONL, 0))
        elif protocol_of(path := local_path(named)):
            files.extend(_stored(path, say))
        else:
            files.extend(_local(path, say))
    remote = {shown_path(file.path): file.path for file in files if file.is_remote}
    for file in files:
        if file.is_remote and remote[shown := shown_path(file.path)] != file.path:
            raise UsageError(f"two inputs have the name {shown}", "download one of them, and name the copy")
    return files


def local_folders(inputs: Sequence[str]) -> list[str]:
    """Return the local folders that inputs name, by a path, a `file://` address or a pattern."""
    paths = [path for path in map(local_path, inputs) if not protocol_of(path)]
    return [name for path in paths for name in _names_of(path) if os.path.isdir(name)]


def shown_path(path: str) -> str:
    r"""Return the path as valid text, without secrets: bytes that are not UTF-8 become `\xNN`."""
    return os.fsencode(public_address(path) if protocol_of(path) else path).decode("utf-8", "backslashreplace")


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
    """Open the file of this path or address, unbuffered. Raises InputMissing and StoreError."""
    if protocol_of(path):
        reader = WebFile(path) if is_web(path) else StoredFile(path)
        return cast(BinaryIO, RemoteFile(reader, shown_path(path)))
    try:
        return open(path, "rb", buffering=0)
    except OSError as error:
        raise _missing(path, error) from error


@contextmanager
def opened_at_rest(path: str) -> Iterator[BinaryIO]:
    """Return the file, open. If it is elsewhere, raise StoreError at the end if it has changed meanwhile."""
    with opened(path) as handle:
        yield handle
        if isinstance(handle, RemoteFile) and handle.stamp() != handle.first_stamp:
            raise StoreError(f"{shown_path(path)} changed while it was read", "run it again over a file at rest")


def _missing(path: str, error: OSError) -> InputMissing:
    what = f"{shown_path(path)} cannot be read ({error.strerror})"
    return InputMissing(what, "check the path and its permissions")


def _local(path: str, say: Say) -> list[InputFile]:
    if os.path.isdir(path):
        return _folder(path, say)
    if not is_pattern(path) or os.path.lexists(path):
        return [_named(path)]
    if not (found := _names_of(path)):
        raise InputMissing(f"{shown_path(path)} names no file", "check the path")
    return [file for name in found for file in _local(name, say)]


def _names_of(path: str) -> list[str]:
    """Return all that a pattern names, in byte order; of any other path, the path itself."""
    if not is_pattern(path) or os.path.lexists(path):
        return [path]
    return sorted(glob(path, recursive=True), key=os.fsencode)


def _stored(address: str, say: Say) -> list[InputFile]:
    if is_web(address):
        reader = WebFile(address)
        reader.close()
        return [_known(address, reader.size)._replace(has_ranges=reader.has_ranges)]
    sizes = dict(listed(address))
    paths = list(sizes) if is_pattern(address) or address in sizes else _pages_of(list(sizes), address, say)
    return [_known(path, sizes[path]) for path in paths]


def _named(path: str) -> InputFile:
    try:
        size = os.stat(path).st_size
    except OSError as error:
        raise _missing(path, error) from error
    if not os.access(path, os.R_OK):
        raise InputMissing(f"{shown_path(path)} cannot be read", "check its permissions")
    return _known(path, size)


def _known(path: str, size: int) -> InputFile:
    kind = _kind(shown_path(path).lower())
    if kind is None:
        advice = FEED_ADVICE if shown_path(path).lower().endswith(FEEDS) else _ACCEPTED
        raise UsageError(f"{shown_path(path)} has an ending that is not read", advice)
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


def _folder(folder: str, say: Say) -> list[InputFile]:
    def refuse(error: OSError) -> None:
        raise _missing(os.fsdecode(error.filename), error) from error

    found: list[str] = []
    others: list[str] = []
    for parent, folders, names in os.walk(folder, onerror=refuse):
        for name in names:
            path = os.path.join(parent, name)
            (found if os.path.isfile(path) else others).append(os.path.relpath(path, folder))
        links = (os.path.join(parent, name) for name in folders)
        others += [os.path.relpath(path, folder) for path in links if os.path.islink(path)]
    if others:
        shown = ", ".join(map(shown_path, sorted(others, key=os.fsencode)[:_NAMED_ENDINGS]))
        more = " and more" if len(others) > _NAMED_ENDINGS else ""
        say(f"{shown_path(folder)}: links to folders, and what is no file, are left out ({shown}{more})")
    pages = sorted(_pages_of(found, folder, say), key=os.fsencode)
    return [_named(os.path.join(folder, path)) for path in pages]


def _pages_of(paths: Sequence[str], folder: str, say: Say) -> list[str]:
    """Return the HTML files of a folder, or if it has none, its text files. Raises InputMissing without either."""
    pages = [path for path in paths if path.lower().endswith(HTML)]
    if not pages:
        pages = [path for path in paths if path.lower().endswith(TEXT)]
    if not pages:
        what = f"{shown_path(folder)} has no {', '.join(HTML)} or {TEXT} file"
        raise InputMissing(what, "name the files if they are of another kind")
    if len(pages) < len(paths):
        say(_left_out(set(paths).difference(pages), folder))
    return pages


def _left_out(paths: set[str], folder: str) -> str:
    """Return a sentence about files of a folder that are not read, with their most frequent endings."""
    endings = Counter(os.path.splitext(shown_path(path))[1].lower() or "no ending" for path in sorted(paths))
    names = [f"{count:,} {ending}" for ending, count in endings.most_common(_NAMED_ENDINGS)]
    more = " and others" if len(endings) > _NAMED_ENDINGS else ""
    return f"{shown_path(folder)}: other files are left out ({', '.join(names)}{more})"
