"""The type of HTML that came as text. It needs no other module, as extraction processes are small."""

from __future__ import annotations


class Utf8Html(bytes):
    """HTML that came as text, in valid UTF-8: no character set is looked for. A slice of it is plain bytes."""
