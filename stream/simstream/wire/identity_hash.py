"""Computes the identity of a page, a hash of its id, and shows a bad id (`wire/page` decides the id)."""

from __future__ import annotations

import codecs
from hashlib import blake2b

MAX_SHOWN_ID_BYTES = 1024
_Utf8 = codecs.getincrementaldecoder("utf-8")


def identity_of(raw_id: bytes) -> bytes:
    """Return the 16 bytes that all versions of one page share: BLAKE2b-128 of the raw id. About .6 us.

    There is no known way to find a second id with the same identity. With the MurmurHash3 of format 1 it takes
    seconds.
    """
    return blake2b(raw_id, digest_size=16).digest()


def replace_bad_id(raw_id: bytes, most: int = MAX_SHOWN_ID_BYTES) -> str:
    """Return a stand-in for an id that is too long or not UTF-8.

    It is the id's first `most` bytes (cut at a character, invalid bytes as U+FFFD), `~`, and the identity in 32 hex
    digits. So two such ids stay different.
    """
    head = _Utf8("replace").decode(raw_id[:most], final=len(raw_id) <= most)
    return f"{head}~{identity_of(raw_id).hex()}"
