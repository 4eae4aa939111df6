"""Writes the output files of commands beside their place, and renames them once they are whole."""

from __future__ import annotations

import errno
import fcntl
import gzip
import io
import lzma
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from glob import escape, glob
from pathlib import Path
from typing import Any, BinaryIO, cast

import msgspec

from simstream.cli.checked_writer import CheckedWriter
from simstream.cli.progress import say
from simstream.errors import InputChanged, InputError, NotPut, OutputError, SimstreamError, UsageError
from simstream.files.file_system import FileSystem
from simstream.files.zstandard import zstd
from simstream.sources.addresses import is_pattern, is_web, local_path, protocol_of, public_address
from simstream.sources.lines import COMPRESSIONS
from simstream.sources.stores import check_writable, put
from simstream.terminal import json_for, printable_json

_PART, _FOLDER = ".part", "simstream-"
"""The ending of an output until it is whole, and how the temporary folder of an output for a store begins."""
_STDOUT = ("-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")
_DESCRIPTOR = re.compile(r"/dev/stderr|(/dev|/proc/[^/]+)/fd/\d+")
_BUFFER_BYTES = 1 << 18
_GZIP_LEVEL = 6
"""The level of the tool gzip. The defaults for .xz and .zst are already those of their tools."""


class _TerminalWriter(io.BufferedWriter):
    """Writes lines of JSON, one or more at a time, that cannot steer a terminal."""

    def write(self, lines: Any) -> int:
        super().write(printable_json(bytes(lines)))
        return len(lines)


@contextmanager
def written(path: str, inputs: Sequence[str], *, compressed: bool = True) -> Iterator[BinaryIO]:
    """Return a file to write to; it becomes `path` at the end.

    `-` and `/dev/stdout` are stdout. Devices and pipes are written directly. A link stays, and the file that it
    names is replaced. The file of an address lies in a temporary file until it is whole. The file is compressed if
    its name ends in .gz, .xz or .zst, unless `compressed` is False. After an InputError (but not InputChanged), or
    NotPut of another output, the file keeps what was written. After any other error `path` is unchanged.
    Raises UsageError if `path` cannot be written, is an input, or another command writes it, OutputError if the
    system accepts no more bytes, and NotPut if the store does not take the whole file, or Ctrl-C comes. Then the
    temporary file stays. Once this has ended without an error, the file survives a power cut.
    """
    path = local_path(path)
    if path != "-":
        refuse_input(path, inputs)
    if path in _STDOUT:
        kind = _TerminalWriter if sys.stdout.isatty() else io.BufferedWriter
        with kind(CheckedWriter(sys.stdout.buffer, "-")) as out:
            yield cast(BinaryIO, out)
        return
    if _DESCRIPTOR.fullmatch(path) and os.path.isfile(path):  # it would lose what it has, and what still comes
        raise UsageError(f"{path} is an open file", "name the file, or use - for stdout")
    if protocol_of(path):
        with _stored(path, compressed=compressed) as out:
            yield out
        return
    with _written_beside(path, compressed=compressed) as out:
        yield out


@contextmanager
def _written_beside(path: str, *, compressed: bool, durable: bool = True) -> Iterator[BinaryIO]:
    """Return a file on the disk to write to, as `written` says. Without `durable` a power cut may lose it."""
    whole, beside, keep = _target(path), _beside(path), False
    with _opened(beside, path) as handle:  # the lock lasts until the file has its name
        try:
            with _packed(handle, path, path.lower() if compressed else "") as out:
                try:
                    yield out
                    keep = True
                except (InputError, NotPut) as error:
                    keep = not isinstance(error, InputChanged)
                    raise
        except NotPut:
            raise
        except OutputError:
            keep = False
            raise
        finally:
            if beside != path and keep:
                _give_name(handle, beside, whole, path, durable=durable)
            elif beside != path:
                os.unlink(beside)


def _give_name(handle: BinaryIO, beside: str, whole: str, path: str, *, durable: bool) -> None:
    """Rename an output once the disk has it. Else remove it and raise OutputError: a file system over a network may
    say only now that it is full."""
    if not durable:
        os.replace(beside, whole)
        return
    try:
        CheckedWriter(handle, path).sync()
    except BaseException:
        os.unlink(beside)
        raise
    os.replace(beside, whole)
    with suppress(OSError):  # a file system that syncs no folders
        FileSystem().sync_folder(Path(whole).parent)


@contextmanager
def _stored(address: str, *, compressed: bool) -> Iterator[BinaryIO]:
    """Return a temporary file, which is put to the address at the end as `written` says."""
    shown = public_address(address)
    if is_web(address) or is_pattern(address) or address.endswith("/"):
        raise UsageError(f"{shown} cannot be written", "name a file in a store, such as s3://bucket/file.parquet")
    check_writable(address)
    name = os.path.basename(shown)
    _name_leftovers(name)
    folder = tempfile.mkdtemp(prefix=_FOLDER)
    whole = os.path.join(folder, name)
    others = ""
    try:
        with _written_beside(whole, compressed=compressed, durable=False) as out:
            yield out
    except NotPut as error:
        others = f"{error.what}; "
        raise
    except OutputError as error:
        raise OutputError(f"{shown} cannot be made: {error.what}", "free space there, or set TMPDIR") from error
    finally:
        try:
            if os.path.exists(whole):
                put(whole, address)
        except BaseException as error:  # also Ctrl-C: the file took the whole run to make
            folder = ""
            why = error.what if isinstance(error, SimstreamError) else f"{shown} is not written ({_cause(error)})"
            raise NotPut(f"{others}{why}; the whole file is {whole}", "copy it there yourself") from error
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _name_leftovers(name: str) -> None:
    """Name what a killed command left of an output for a store: its file, unfinished or whole."""
    place = os.path.join(escape(tempfile.gettempdir()), _FOLDER + "*", escape(name))
    whole = "is whole, but its command was killed, or still uploads it: copy it there, or remove it"
    for pattern, what in (
        (place + _PART, "is of a killed command, or of one that still runs: remove it if none runs"),
        (place, whole),
    ):
        if found := [path for path in glob(pattern) if os.path.isfile(path)]:
            say(f"{found[0]} {what}")


def _cause(error: BaseException) -> str:
    return "interrupted" if isinstance(error, KeyboardInterrupt) else str(error) or type(error).__name__


def print_json(value: object) -> None:
    """Print a value as one line of JSON."""
    sys.stdout.buffer.write(json_for(sys.stdout, msgspec.json.encode(value)) + b"\n")
    sys.stdout.flush()


def refuse_input(path: str, inputs: Sequence[str]) -> None:
    """Raise UsageError if the output is one of the inputs. Give the files of a folder, not its name."""
    if protocol_of(path := local_path(path)):
        if public_address(path) in map(public_address, inputs):
            raise UsageError(f"{public_address(path)} is an input, too", "give the output another name")
        return
    for place in {path, _beside(path)}:
        if os.path.exists(place) and any(os.path.exists(name) and os.path.samefile(name, place) for name in inputs):
            raise UsageError(f"{path} is an input, too", "give the output another name")


def refuse_compressed(path: str, reader: str) -> None:
    """Raise UsageError if an output would be compressed for its name, but its readers take a file as it is."""
    for ending in COMPRESSIONS:
        if path.lower().endswith(ending):
            what = f"{public_address(path)} names a compressed file, which {reader} cannot read"
            raise UsageError(what, f"leave out {ending}")


def refuse_missing_folder(path: str) -> None:
    """Raise UsageError if an output cannot be written for want of its folder."""
    if protocol_of(path := local_path(path)):
        return
    folder = os.path.dirname(_target(path))
    if folder and not os.path.exists(folder):
        raise UsageError(f"{path} cannot be written ({os.strerror(errno.ENOENT)})", f"make the folder {folder}")


def places_of(path: str) -> set[str]:
    """Return the real paths of all files that `written` makes for an output."""
    if protocol_of(path := local_path(path)):
        return {public_address(path)}
    return {"-"} if path in _STDOUT else {os.path.realpath(path), os.path.realpath(_beside(path))}


def _beside(path: str) -> str:
    """Return the path of an output until it is whole. A device or pipe keeps its own path."""
    return path if os.path.exists(path) and not os.path.isfile(path) else _target(path) + _PART


def _target(path: str) -> str:
    """Return the path of the file that a link names, and any other path unchanged."""
    return os.path.realpath(path) if os.path.islink(path) else path


@contextmanager
def _packed(handle: BinaryIO, path: str, name: str) -> Iterator[BinaryIO]:
    """Return a file that compresses its bytes into `handle`, as the ending of `name` says. Errors name `path`."""
    with ExitStack() as stack:
        plain = stack.enter_context(io.BufferedWriter(CheckedWriter(handle, path), _BUFFER_BYTES))
        out: AbstractContextManager[object] = nullcontext(plain)
        if name.endswith(".gz"):
            out = gzip.GzipFile("", "wb", _GZIP_LEVEL, plain, mtime=0)
        elif name.endswith(".xz"):
            out = lzma.LZMAFile(plain, "wb")  # noqa: SIM115  # closed by the stack
        elif name.endswith(".zst"):
            out = zstd.ZstdFile(plain, "wb")
        yield cast(BinaryIO, stack.enter_context(out))


def _opened(beside: str, path: str) -> BinaryIO:
    """Open an empty file for an output. Raises UsageError if it cannot, or if another command writes the output."""
    try:
        return open(path, "wb", buffering=0) if beside == path else _locked(beside)
    except BlockingIOError as error:
        raise UsageError(f"another command writes {path}", "wait for its end, or name another file") from error
    except OSError as error:
        refuse_missing_folder(path)
        what = f"{path} cannot be written ({error.strerror})"
        raise UsageError(what, "give the output another name") from error


def _locked(path: str, tries: int = 5) -> BinaryIO:
    """Open a file, lock it until it is closed, and empty it. Raises BlockingIOError if another process holds it."""
    with ExitStack() as stack:
        file = stack.enter_context(open(path, "wb", buffering=0, opener=_without_emptying))
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise
        except OSError:  # a file system without locks
            pass
        with suppress(FileNotFoundError):
            # The last try is for a file system whose numbers of files are not to be relied on.
            if os.fstat(file.fileno()).st_ino == os.stat(path).st_ino or not tries:
                file.truncate()
                stack.pop_all()
                return file
    return _locked(path, tries - 1)  # the command that held it has just renamed or removed it


def _without_emptying(path: str, flags: int) -> int:
    return os.open(path, flags & ~os.O_TRUNC, 0o666)
