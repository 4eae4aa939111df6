"""Replaces or escapes control characters in text that is shown on a terminal."""

from __future__ import annotations

import re
from typing import TextIO

_BIDI = (*range(0x202A, 0x202F), *range(0x2066, 0x206A))
_CONTROLS = dict.fromkeys((*range(32), *range(127, 160), *_BIDI), "\N{REPLACEMENT CHARACTER}")


def printable(text: str) -> str:
    """Return the text with U+FFFD for control characters: C0 with line ends, DEL, C1, changes of direction."""
    return text.translate(_CONTROLS)


_STEERING = re.compile(rb"[\0-\x08\x0b\x0c\x0e-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80[\xaa-\xae]|\xe2\x81[\xa6-\xa9]")


def printable_json(lines: bytes) -> bytes:
    r"""Return lines of JSON with the same values, and `\u` for control characters and changes of direction."""
    return _STEERING.sub(lambda found: b"\\u%04x" % ord(found[0].decode()), lines)


def json_for(stream: TextIO, lines: bytes) -> bytes:
    """Return lines of JSON as they are written to this stream: `printable_json` if it is a terminal."""
    return printable_json(lines) if stream.isatty() else lines
