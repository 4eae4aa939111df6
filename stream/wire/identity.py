"""Identities of pages, and how an id that cannot be written as it is gets shown."""

from __future__ import annotations

import codecs

import mmh3

SHOWN_ID_BYTES = 1024
_Utf8 = codecs.getincrementaldecoder("utf-8")


def identity_of(raw_id: bytes) -> bytes:
    """The 16 bytes that two versions of one page have in common: mmh3 x64 128 of the raw id, seed 0."""
    return mmh3.hash_bytes(raw_id, 0, True)


def shown_id(raw_id: bytes) -> str:
    """A stand-in for an id that is too long or is not UTF-8.

    Its first 1,024 bytes (cut at a character, invalid bytes as U+FFFD), `~`, and the identity in 32 hex
    digits, so that two such ids stay apart.
    """
    whole = len(raw_id) <= SHOWN_ID_BYTES
    head = _Utf8("replace").decode(raw_id[:SHOWN_ID_BYTES], final=whole)
    return f"{head}~{identity_of(raw_id).hex()}"
