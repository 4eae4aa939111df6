"""Keeps learned patterns in a file: one JSON object, with the number of its format."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from simstream.errors import InputMissing, SettingsError
from simstream.tools.patterns.address import PageAddress
from simstream.tools.patterns.pattern import LearnedPattern, unique

FORMAT: Final = "simstream-patterns/1"
"""It changes when an older version would read a file wrong."""
MAX_FILE_BYTES: Final = 64 << 20
_TODO: Final = "give a file that `simstream patterns -o FILE` has written"


class PatternDocument(msgspec.Struct, frozen=True):
    """The content of the file."""

    format: str
    patterns: list[LearnedPattern]


class _LostShare(msgspec.Struct, frozen=True):
    """What the file has of a pattern besides: it follows from `originals`, but belongs to a whole file."""

    most_lost: float


class _LostShares(msgspec.Struct, frozen=True):
    patterns: list[_LostShare]


def to_json(patterns: Sequence[LearnedPattern]) -> bytes:
    """Return the content of a file with these patterns, in a fixed order."""
    entries = [msgspec.structs.asdict(one) | {"most_lost": round(one.most_lost, 4)} for one in unique(patterns)]
    data = msgspec.json.encode({"format": FORMAT, "patterns": entries})
    return msgspec.json.format(data, indent=1) + b"\n"


def from_json(data: bytes, name: str) -> list[LearnedPattern]:
    """Return the patterns of a file's content. Raises SettingsError, which names the file."""
    try:
        document = msgspec.json.decode(data, type=PatternDocument)
        msgspec.json.decode(data, type=_LostShares)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise SettingsError(f"{name} is no file of patterns ({str(error)[:100]})", _TODO) from error
    if document.format != FORMAT:
        raise SettingsError(
            f"{name} has the format {document.format[:40]!r}, not {FORMAT}", "learn the patterns again"
        )
    for entry in document.patterns:
        address = PageAddress.parse(entry.site)
        if address is None or address.site != entry.site or not entry.name or entry.originals < 1:
            raise SettingsError(
                f"{name} has a pattern that cannot be used, on the site {entry.site[:100]!r}", _TODO
            )
    return document.patterns


def read_patterns(path: str) -> list[LearnedPattern]:
    """Return the patterns of a file. Raises InputMissing and SettingsError."""
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise InputMissing(
            f"{path} cannot be read ({error.strerror})", "check the path and its permissions"
        ) from error
    if len(data) > MAX_FILE_BYTES:
        raise SettingsError(f"{path} is larger than {MAX_FILE_BYTES >> 20} MB", _TODO)
    return from_json(data, path)
