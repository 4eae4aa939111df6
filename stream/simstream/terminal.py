"""Replaces control characters in text that is shown on a terminal."""

from __future__ import annotations

_BIDI = (*range(0x202A, 0x202F), *range(0x2066, 0x206A))
_CONTROLS = dict.fromkeys((*range(32), *range(127, 160), *_BIDI), "\N{REPLACEMENT CHARACTER}")


def printable(text: str) -> str:
    """Return the text with U+FFFD for control characters: C0 with line ends, DEL, C1, changes of direction."""
    return text.translate(_CONTROLS)
