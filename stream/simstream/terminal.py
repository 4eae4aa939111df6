"""Removes control characters from text that is shown on a terminal."""

from __future__ import annotations

_BIDI = (*range(0x202A, 0x202F), *range(0x2066, 0x206A))
_CONTROLS = dict.fromkeys((*range(32), *range(127, 160), *_BIDI), "\N{REPLACEMENT CHARACTER}")


def printable(text: str) -> str:
    """The text without control characters (C0, DEL, C1, changes of direction), also without ends of lines."""
    return text.translate(_CONTROLS)
