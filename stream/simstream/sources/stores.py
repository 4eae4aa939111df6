"""Files in object stores by fsspec (extra `lake`): listed, read in ranges, and put there whole."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from simstream.errors import InputMissing, SimstreamError, StoreError, Unavailable, UsageError
from simstream.sources.addresses import is_pattern, protocol_of, public_address, public_text

_PACKAGES: Final = {
    "s3": "'simstream[lake]'",
    "s3a": "'simstream[lake]'",
    "gs": "'simstream[lake]' gcsfs",
    "gcs": "'simstream[lake]' gcsfs",
    "hf": "'simstream[lake]' huggingface_hub",
    "abfs": "'simstream[lake]' adlfs",
    "az": "'simstream[lake]' adlfs",
}
"""What to install for each protocol; the file systems of others come with fsspec, or it names their package."""
_WITH_BUCKETS: Final = ("s3", "s3a", "gs", "gcs")
_PERMISSIONS: Final = "check the address and the credentials in the store's own variables or files"


def file_system(address: str) -> tuple[Any, str]:
    """Return the file system of an address, without a cache of listings, and the file's path in it.

    Raises Unavailable if a package is missing, UsageError for an unknown protocol.
    """
    protocol = protocol_of(address)
    packages = _PACKAGES.get(protocol, "'simstream[lake]'")
    try:
        import fsspec

        kind = fsspec.get_filesystem_class(protocol)
        with _named(address):
            system = kind(**kind._get_kwargs_from_urls(address), use_listings_cache=False)
    except ImportError as error:
        cause = error.__cause__ if isinstance(error.__cause__, ImportError) else error
        missing = (cause.name or "a package").partition(".")[0]
        raise Unavailable(
            f"{protocol}:// needs {missing}, which is not installed", f"run pip install {packages}"
        ) from error
    except ValueError as error:
        what = f"{public_address(address)} has an unknown protocol, {protocol}://"
        raise UsageError(what, "name s3://, gs://, hf://, https://, file:// or a local path") from error
    with _named(address):
        return system, str(system._strip_protocol(address))


def listed(address: str) -> list[tuple[str, int]]:
    """Return address and size of the file, of all files of a folder, or of all that a pattern means.

    In byte order of their addresses. Raises InputMissing if there is none, StoreError if the store fails, and
    UsageError for a folder or pattern whose address names a server, user or repository: listed names do not.
    """
    system, path = file_system(address)
    protocol = protocol_of(address)
    with _named(address):
        if not is_pattern(address):
            info = system.info(path)
            if info["type"] != "directory":
                return [(address, int(info["size"]))]
        if protocol not in _WITH_BUCKETS and type(system)._get_kwargs_from_urls(address):
            what = f"{public_address(address)} is a folder or a pattern, which {protocol}:// does not read"
            raise UsageError(what, "name each file")
        found = (system.glob if is_pattern(address) else system.find)(path, detail=True)
    files = [(f"{protocol}://{name.lstrip('/')}", info) for name, info in found.items() if info["type"] == "file"]
    if not files:
        raise InputMissing(f"{public_address(address)} names no file", "check the address")
    return sorted(((name, int(info["size"])) for name, info in files), key=lambda file: file[0].encode())


class StoredFile:
    """One file in a store, as a `RemoteFile` reads it. Raises InputMissing if it is missing or refused.

    Another `stamp` means another content.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self._system, self._path = file_system(address)
        with _named(address):
            info = self._system.info(self._path)
            self.size = int(info["size"])
        self.first_stamp = _stamp_of(info)

    def read(self, begin: int, end: int) -> bytes:
        """Return the bytes from `begin` up to `end`. Raises StoreError."""
        with _named(self._address, f"broke off at byte {begin:,}"):
            return bytes(self._system.cat_file(self._path, start=begin, end=end))

    def stamp(self) -> tuple[object, ...]:
        """Return the facts of the file in its store now: size, ETag, date. Raises StoreError."""
        with _named(self._address, "changed or vanished while it was read"):
            info = self._system.info(self._path)
        return _stamp_of(info)

    def close(self) -> None:
        """Do nothing: the file system keeps its connections."""


def check_writable(address: str) -> None:
    """Raise InputMissing if the store refuses an address or has no such bucket, UsageError if a folder has it."""
    system, path = file_system(address)
    bucket = path.partition("/")[0]
    if protocol_of(address) in _WITH_BUCKETS:
        with _named(f"{protocol_of(address)}://{bucket}"), suppress(PermissionError):
            system.info(bucket)
    with _named(address), suppress(FileNotFoundError):
        if system.info(path)["type"] == "directory":
            raise UsageError(f"{public_address(address)} is a folder", "name a file in it")


def put(local: str, address: str) -> None:
    """Copy a local file to an address. It is there whole at the end, or not at all. Raises StoreError."""
    system, path = file_system(address)
    with _named(address, "cannot be written"):
        system.put_file(local, path)


def _stamp_of(info: dict[str, Any]) -> tuple[object, ...]:
    return tuple(sorted((name, str(value)) for name, value in info.items()))


@contextmanager
def _named(address: str, failure: str = "") -> Iterator[None]:
    """Turn each error of a file system into one of ours. `failure`: what it means for a file that was there."""
    shown = public_address(address)
    try:
        yield
    except SimstreamError:
        raise
    except Exception as error:  # a file system is a plug-in, and raises what its client library raises
        why = public_text(str(error).strip().partition("\n")[0])[:200] or type(error).__name__
        if failure:
            raise StoreError(
                f"{shown} {failure} ({why})", "run it again; or check network and credentials"
            ) from error
        if isinstance(error, FileNotFoundError):
            raise InputMissing(f"{shown} does not exist", "check the address") from error
        raise InputMissing(f"{shown} cannot be read ({why})", _PERMISSIONS) from error
