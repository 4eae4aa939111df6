"""Decodes character references of HTML, such as `&amp;` and `&#x6587;`, into UTF-8.

Source of the rules: the HTML standard (html.spec.whatwg.org, "character reference state" and the states after it),
as they hold in text. In the value of an attribute, other rules hold.
"""

from __future__ import annotations

from html.entities import html5
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simstream.kernels.html.element_names import FNV_BASIS, FNV_PRIME
from simstream.kernels.html.tags import Bytes, HtmlBytes
from simstream.kernels.jit import inlined, lean_helper
from simstream.kernels.text.utf8 import write_point

AMPERSAND: Final = 38
_HASH, _SEMICOLON, _NINE, _X, _ZERO = 35, 59, 57, 120, 48
_DIGIT, _HEX_LETTER, _OTHER_LETTER = 1, 2, 4
_NAME: Final = _DIGIT | _HEX_LETTER | _OTHER_LETTER
_BASIS: Final = np.uint64(FNV_BASIS)
_PRIME: Final = np.uint64(FNV_PRIME)
_PLACES: Final = 8192

_BARE: Final = 128
"""Marks a name that needs no semicolon."""
_NAMES: Final = {name[:-1]: text.encode() for name, text in html5.items() if name.endswith(";")}
_BARE_NAMES: Final = frozenset(name for name in html5 if not name.endswith(";"))
_LONGEST: Final = max(map(len, _NAMES))
_SHORTEST_BARE: Final = min(map(len, _BARE_NAMES))
_LONGEST_BARE: Final = max(map(len, _BARE_NAMES))

_MAX_POINT: Final = 0x10FFFF
_REPLACEMENT: Final = 0xFFFD
_WINDOWS: Final = np.array(
    [ord(bytes([byte]).decode("cp1252", "ignore") or chr(byte)) for byte in range(128, 160)], np.int64
)
"""The code points that the numbers 128..159 mean: Windows-1252 where it has one, else the number itself."""


class CharacterReferences(NamedTuple):
    """The named references: an open-addressing table by the hashes of names, probed linearly.

    An entry is one byte with the length of the name, plus 128 if the name needs no semicolon; the name without `&`
    and `;`; one byte with the length of the text; the text as UTF-8.
    """

    places: NDArray[np.int32]  # (2^p,), where the entry begins; 0 marks a free place
    entries: Bytes  # (n,), the entries one after the other; the first byte belongs to none


def _hashes(names: list[str]) -> list[int]:
    """Return FNV-1a of 64 bits over each name, as the kernel computes it."""
    letters = np.array([name.encode() for name in names]).view(np.uint8).reshape(len(names), -1).astype(np.uint64)
    values = np.full(len(names), _BASIS)
    for column in letters.T:
        values = np.where(column > 0, (values ^ column) * _PRIME, values)
    return ((values ^ values >> np.uint64(32)) % np.uint64(_PLACES)).tolist()


def _table() -> CharacterReferences:
    places, entries = [0] * _PLACES, bytearray(1)
    for (name, text), place in zip(_NAMES.items(), _hashes(list(_NAMES)), strict=True):
        while places[place]:
            place = (place + 1) % _PLACES
        places[place] = len(entries)
        entries.append(len(name) | (_BARE if name in _BARE_NAMES else 0))
        entries += name.encode()
        entries.append(len(text))
        entries += text
    return CharacterReferences(np.array(places, np.int32), np.frombuffer(bytes(entries), np.uint8))


REFERENCES: Final = _table()


def _growth() -> tuple[int, int]:
    """Return how many bytes a reference can grow by, and its length, for the reference that grows most per byte.

    No number grows: `&#0` and `&#x0` have at least 3 bytes and mean U+FFFD, a character of 3 bytes; a character of
    4 bytes takes at least `&#65536`.
    """
    grown, length = 0, 1
    for name, text in _NAMES.items():
        size = len(name) + (1 if name in _BARE_NAMES else 2)
        if (len(text) - size) * length > grown * size:
            grown, length = len(text) - size, size
    return grown, length


_GROWN, _LENGTH = _growth()


def room_for(size: int) -> int:
    """Return how many bytes the text of `size` bytes of HTML can take at most.

    Holds if every byte outside references takes at most one byte of text. `&nGt;` and `&nLt;` reach the limit:
    5 bytes become 6.
    """
    return size + size * _GROWN // _LENGTH


def _kinds() -> Bytes:
    """Return the kind of each byte as bits: a digit, a hexadecimal letter, another letter."""
    kinds = np.zeros(256, np.uint8)
    for byte in b"ghijklmnopqrstuvwxyzGHIJKLMNOPQRSTUVWXYZ":
        kinds[byte] = _OTHER_LETTER
    for byte in b"abcdefABCDEF":
        kinds[byte] = _HEX_LETTER
    for byte in b"0123456789":
        kinds[byte] = _DIGIT
    return kinds


_KINDS: Final = _kinds()


@lean_helper
def read_reference(
    html: HtmlBytes, at: int, end: int, references: CharacterReferences, text: Bytes, to: int
) -> tuple[int, int]:
    """Write the UTF-8 of the reference at `at`, its `&`, into `text` from `to`.

    If no reference begins at `at`, write the `&` itself. Return where reading goes on and where writing goes on.
    Reads no byte at or beyond `end`. `text` has room for `room_for(end - at)` bytes from `to`.

    As the standard has it, 0, surrogates and numbers above U+10FFFF become U+FFFD. All other control characters and
    noncharacters stay. Cost: 15 ns for a lone `&`, 20 ns for a number, 30 to 80 ns for a name. A name
    takes at most 33 bytes, and the first 6 may be read several times. A number takes all its digits, 2 ns each.
    """
    follower = html.bytes[np.uint64(at + 1)] if at + 1 < end else np.uint8(AMPERSAND)
    if follower == _HASH:
        after, point = _read_number(html, at + 2, end)
        if after:
            return after, write_point(text, to, point)
    elif _is_kind(follower, _NAME):
        after, entry = _read_name(html, at + 1, end, references)
        if entry:
            return after, _write_entry(text, to, references, entry)
    text[np.uint64(to)] = AMPERSAND
    return at + 1, to + 1


@inlined
def _is_kind(byte: np.uint8, kinds: int) -> bool:
    """Whether a byte has one of these kinds."""
    return bool(_KINDS[np.uint64(byte)] & kinds)


@lean_helper
def _read_number(html: HtmlBytes, at: int, end: int) -> tuple[int, int]:
    """Return where the number after `&#` ends, and its code point; an end of 0 says that there is no number."""
    base, digits, point = 10, _DIGIT, 0
    if at < end and html.bytes[np.uint64(at)] | np.uint8(32) == _X:
        base, digits = 16, _DIGIT | _HEX_LETTER
        at += 1
    start = at
    while at < end and _is_kind(html.bytes[np.uint64(at)], digits):
        byte = np.int64(html.bytes[np.uint64(at)])
        digit = byte - _ZERO if byte <= _NINE else (byte & 15) + 9
        point = min(point * base + digit, _MAX_POINT + 1)  # type: ignore[assignment]  # a long number stays too large
        at += 1
    if at == start:
        return 0, 0
    if at < end and html.bytes[np.uint64(at)] == _SEMICOLON:
        at += 1
    if 128 <= point < 160:
        point = _WINDOWS[np.uint64(point - 128)]
    elif point == 0 or point > _MAX_POINT or 0xD800 <= point < 0xE000:
        point = _REPLACEMENT
    return at, point


@lean_helper
def _read_name(html: HtmlBytes, start: int, end: int, references: CharacterReferences) -> tuple[int, int]:
    """Return where the longest reference ends whose name begins at `start`, and its entry.

    An entry of 0 says that there is none. Only a whole run of letters and digits can be a name with a semicolon; a
    name without one is short, and may be a part of the run.
    """
    at, limit, value = start, min(end, start + _LONGEST), _BASIS
    while at < limit and _is_kind(html.bytes[np.uint64(at)], _NAME):
        value = (value ^ np.uint64(html.bytes[np.uint64(at)])) * _PRIME
        at += 1
    if at < end and html.bytes[np.uint64(at)] == _SEMICOLON:
        entry = _entry_of(html, start, at - start, value, references)
        if entry:
            return at + 1, entry
    limit, value, after, longest = min(at, start + _LONGEST_BARE), _BASIS, start, 0
    for at in range(start, limit):
        value = (value ^ np.uint64(html.bytes[np.uint64(at)])) * _PRIME
        if at + 1 - start >= _SHORTEST_BARE:
            entry = _entry_of(html, start, at + 1 - start, value, references)
            if entry and references.entries[np.uint64(entry)] & _BARE:
                after, longest = at + 1, entry
    return after, longest


@lean_helper
def _entry_of(html: HtmlBytes, start: int, size: int, value: np.uint64, references: CharacterReferences) -> int:
    """Return the entry of the name with this place, size and hash; 0 if there is none."""
    mask = np.uint64(references.places.size - 1)
    place = (value ^ (value >> np.uint64(32))) & mask
    while references.places[place]:
        entry = np.int64(references.places[place])
        if references.entries[np.uint64(entry)] & (_BARE - 1) == size:
            i = 0
            while i < size and references.entries[np.uint64(entry + 1 + i)] == html.bytes[np.uint64(start + i)]:
                i += 1
            if i == size:
                return entry  # type: ignore[return-value]  # numba's int is this one
        place = (place + np.uint64(1)) & mask
    return 0


@lean_helper
def _write_entry(text: Bytes, to: int, references: CharacterReferences, entry: int) -> int:
    """Write the text of an entry; return where writing goes on."""
    at = entry + 1 + np.int64(references.entries[np.uint64(entry)] & (_BARE - 1))
    size = np.int64(references.entries[np.uint64(at)])
    for i in range(size):
        text[np.uint64(to + i)] = references.entries[np.uint64(at + 1 + i)]
    return to + size  # type: ignore[return-value]  # numba's int is this one
