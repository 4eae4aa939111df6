"""The type of HTML that came as text. It needs no other module, as extraction processes are small."""

from __future__ import annotations


class Utf8Html(bytes):
    """HTML that came as text, in valid UTF-8. Unlike bytes as fetched it has no character set to be found."""
