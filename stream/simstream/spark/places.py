"""Refuses inputs that a Spark job cannot read: standard input, and files in the folders that it replaces."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import PurePath
from urllib.parse import urlsplit

from simstream.errors import UsageError
from simstream.sources.addresses import local_path, protocol_of
from simstream.sources.input_files import STDIN, InputFile, shown_path


def check_inputs(files: Sequence[InputFile], output: str, folders: Sequence[str]) -> None:
    """Raise UsageError for standard input, or for a file in one of the `folders` below `output`.

    Spark empties these folders before its workers read the files. Local files are compared by their paths and by
    what links lead to, other files by their addresses.
    """
    replaced = [place for folder in folders for place in _places(f"{_local(output)}/{folder}")]
    for file in files:
        if file.path == STDIN:
            raise UsageError("standard input cannot be read by the workers of Spark", "save it to a file first")
        if any(place.is_relative_to(folder) for place in _places(file.path) for folder in replaced):
            what = f"{shown_path(file.path)} is an input, and lies in a folder that the run replaces"
            raise UsageError(what, "name another folder with -o")


def _local(output: str) -> str:
    """Return the local path that a `file:` address of Hadoop means, and any other path unchanged."""
    path = local_path(output)
    return path.removeprefix("file:") if path.startswith("file:/") else path


def _places(path: str) -> set[PurePath]:
    """Return the path and its real path; for an address, its parts.

    `s3a` is what Hadoop calls `s3`, and an address of HDFS may leave out its host.
    """
    if not protocol_of(path):
        return {PurePath(os.path.abspath(path)), PurePath(os.path.realpath(path))}
    protocol, host, rest = urlsplit(path)[:3]
    protocol = "s3" if protocol in ("s3a", "s3n") else protocol
    host = "" if protocol == "hdfs" else host.rpartition("@")[2]
    return {PurePath(f"{protocol}:", host, os.path.normpath(rest.lstrip("/")))}
