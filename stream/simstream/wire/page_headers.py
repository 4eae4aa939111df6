"""Chooses the headers of a page that go on to its verdict, and packs them for a frame's header.

Packed, they are MessagePack: the names, then for each page with headers its offset, counted from the frame's
start, and its pairs of (number of the name, value). A frame whose pages have none says nothing about them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from simstream.errors import SettingsError

Headers = tuple[tuple[str, bytes], ...]
VERDICT: Final = "verdict"
"""The verdict's own header: its kind."""
FORMAT: Final = "simstream-format"
"""The header of verdicts and dead letters with FORMAT_NUMBER."""
FORMAT_NUMBER: Final = b"1"
"""The number of the format of these records: docs/reference/records.md says what may change without another one."""
MAX_NAMES: Final = 16
"""The most headers that go on."""
MAX_NAME_CHARACTERS: Final = 64
MAX_BYTES: Final = 2048
"""The most bytes of the values of one page; a value that does not fit is left out."""
PAIR_BYTES: Final = 8
"""The bytes that a value takes in a frame besides itself, at most."""
NO_HEADERS: Final = msgspec.Raw(b"\xc0")
_OWN = "simstream"
_Packed = tuple[tuple[str, ...], tuple[tuple[int, tuple[tuple[int, bytes], ...]], ...]]
_decode = msgspec.msgpack.Decoder(_Packed).decode


def parse_names(text: str) -> tuple[str, ...]:
    """Return the names in the setting `verdict_headers`, which commas separate. Raises SettingsError."""
    names: dict[str, str] = {}
    for name in filter(None, map(str.strip, text.split(","))):
        names.setdefault(name.lower(), name)
    for name in names.values():
        if name.lower() == VERDICT or name.lower().startswith(_OWN):
            raise SettingsError(f"verdict_headers names {name!r}, a header of the service itself", "leave it out")
        if len(name) > MAX_NAME_CHARACTERS or not name.isprintable():
            raise SettingsError(
                f"verdict_headers names {name[:80]!r}",
                f"give names of at most {MAX_NAME_CHARACTERS} printable characters, separated by commas",
            )
    if len(names) > MAX_NAMES:
        raise SettingsError(f"verdict_headers has {len(names)} names", f"give at most {MAX_NAMES}")
    return tuple(names.values())


class HeaderChoice:
    """Chooses headers by their names, in upper or lower case."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = {name.lower(): name for name in names}

    def choose(self, headers: Headers) -> tuple[Headers, int]:
        """Return the headers that go on, in the order of the setting, and how many were left out for their size.

        If a name comes twice, the last counts. Cost: linear in the number of headers.
        """
        names = self._names
        found = {known: value for name, value in headers if (known := names.get(name.lower())) is not None}
        if not found:
            return (), 0
        chosen, room = [], MAX_BYTES
        for name in names.values():
            value = found.get(name)
            if value is not None and len(value) <= room:
                chosen.append((name, value))
                room -= len(value)
        return tuple(chosen), len(found) - len(chosen)


def pack(pages: Mapping[int, Headers], start: int) -> msgspec.Raw:
    """Return the headers of pages, by their offset, for a frame that begins at offset `start`."""
    if not pages:
        return NO_HEADERS
    numbers: dict[str, int] = {}
    rows = [
        (offset - start, [(numbers.setdefault(name, len(numbers)), value) for name, value in headers])
        for offset, headers in pages.items()
    ]
    return msgspec.Raw(msgspec.msgpack.encode((list(numbers), rows)))


def unpack(packed: msgspec.Raw, start: int) -> Mapping[int, Headers]:
    """Return the headers of a frame's pages by their offset; pages without headers are left out.

    Whether a frame counts never depends on its headers. So headers that cannot be read, or break the limits, are as
    if they were absent.
    """
    if packed == NO_HEADERS:
        return {}
    try:
        names, rows = _decode(packed)
        pages = {start + delta: tuple((names[at], value) for at, value in pairs) for delta, pairs in rows}
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, IndexError):
        return {}
    return {offset: headers for offset, headers in pages.items() if _is_allowed(headers)}


def _is_allowed(headers: Headers) -> bool:
    names = {name for name, _ in headers}
    return (
        len(names) == len(headers) <= MAX_NAMES
        and not names & {VERDICT, FORMAT}
        and sum(len(value) for _, value in headers) <= MAX_BYTES
        and all(len(name) <= MAX_NAME_CHARACTERS for name in names)
    )
