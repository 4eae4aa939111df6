"""Makes the secret of this process: it decides where hash tables place foreign keys, and no result."""

from __future__ import annotations

import os
from functools import cache
from typing import NamedTuple

import numpy as np


class Secret(NamedTuple):
    """128 random bits. Any value gives the same results; a value that strangers know lets them cost time."""

    first: np.uint64
    second: np.uint64


def make_secret(random: bytes) -> Secret:
    """Return the secret of 16 random bytes. Raises ValueError for any other length."""
    if len(random) != 16:
        raise ValueError(f"a secret has 16 bytes, not {len(random)}")
    first, second = np.frombuffer(random, "<u8").astype(np.uint64)
    return Secret(first, second)


def new_secret() -> Secret:
    """Draw a secret from the operating system."""
    return make_secret(os.urandom(16))


def secret_hex(secret: Secret) -> str:
    """Return the bytes of a secret in 32 hex digits."""
    return np.array(secret, "<u8").tobytes().hex()


process_secret = cache(new_secret)
"""Return the secret of this process, drawn at the first call."""
