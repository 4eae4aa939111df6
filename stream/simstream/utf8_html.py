"""The type of HTML that came as text. It needs no other module, as extraction processes are small."""

from __future__ import annotations


class Utf8Html(bytes):
    """HTML that came as text, in valid UTF-8. Unlike that of fetched bytes its character set is known. A
    slice of it is plain bytes, of which that is not known."""
