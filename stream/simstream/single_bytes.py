"""Charsets of single bytes. The module needs no other, as extraction processes are small."""

from __future__ import annotations

import codecs
from functools import cache
from importlib import import_module


@cache
def single_byte_characters(codec: str) -> str | None:
    """Return the characters of the 256 bytes in a charset of single bytes, U+FFFD where there is none; None for any
    other codec."""
    try:
        module = import_module(f"encodings.{codecs.lookup(codec).name.replace('-', '_')}")
    except ImportError:
        return None
    table = getattr(module, "decoding_table", None)
    return table.replace("\ufffe", "\ufffd") if isinstance(table, str) and len(table) == 256 else None
