"""What Python's codecs know of charsets. It imports no numpy and no kernel, as extraction processes are small."""

from __future__ import annotations

import codecs
from functools import cache
from importlib import import_module
from typing import Final

EAST_ASIAN_CODECS: Final = ("gb18030", "big5hkscs", "cp949", "cp932", "euc_jp")
"""Python's names of these charsets. Bytes below 128 are ASCII in each."""


@cache
def single_byte_characters(codec: str) -> str | None:
    """Return the characters of the 256 bytes of a charset of single bytes; None for another codec.

    A byte without a character has U+FFFD. Raises LookupError for a codec that Python lacks.
    """
    try:
        module = import_module(f"encodings.{codecs.lookup(codec).name.replace('-', '_')}")
    except ImportError:
        return None
    table = getattr(module, "decoding_table", None)
    return table.replace("\ufffe", "\ufffd") if isinstance(table, str) and len(table) == 256 else None
