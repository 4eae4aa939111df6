"""The obvious way to decode character references of HTML: `html.unescape`, as the standard has it."""

from __future__ import annotations

import html
import re

REFERENCE = re.compile(r"&(?:#([0-9]+);?|#[xX]([0-9a-fA-F]+);?|[A-Za-z0-9]{1,32};?)")


def unescape(page: str) -> bytes:
    """Decode a page to UTF-8."""
    return REFERENCE.sub(_meaning, page).encode()


def unescape_bytes(page: str) -> str:
    """Decode a page that has one character for each byte, as of Latin-1, and so has the result."""
    return REFERENCE.sub(lambda found: _meaning(found).encode().decode("latin-1"), page)


def _meaning(found: re.Match[str]) -> str:
    """`html.unescape` drops control characters and noncharacters. In the standard they are only parse errors."""
    decimal, hexadecimal = found.groups()
    return html.unescape(found[0]) or chr(int(decimal) if decimal else int(hexadecimal, 16))
