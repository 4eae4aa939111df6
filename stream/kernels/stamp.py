"""A number that changes when the source of any kernel on the way to a fingerprint does.

numba's cache looks at the source file of a function alone: what was compiled with an older version of a function
in another file is taken as current. Therefore only functions that call nothing outside of their file are cached
by themselves, and the outermost ones, which hold this number in a closure: that is part of the cache's key.
"""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path
from typing import Final

_FILES = ("fingerprint", "fold", "hashing", "simhash", "sketch", "tokenize", "trie", "words")


def _stamp() -> int:
    digest = blake2b(digest_size=7)
    for name in _FILES:
        digest.update((Path(__file__).parent / f"{name}.py").read_bytes())
    return int.from_bytes(digest.digest(), "little")


FINGERPRINT_SOURCES: Final = _stamp()
