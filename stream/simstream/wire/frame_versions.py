"""Decides which formats of frames are read, and converts earlier formats (layout: `wire/frame`).

The first 16 bytes of a frame (magic, format, flags, checksum of the rest) are the same in all future formats. So a
reader can tell a newer frame from a damaged one. Increase FORMAT for every change that an older reader would
misread. A new kind or reason of pages needs no new format: readers stop at an unknown kind or reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from simstream.errors import FrameFormat
from simstream.model import FingerprintColumns
from simstream.wire.identity_hash import identity_of

FORMAT: Final = 2
"""In format 1 identities are MurmurHash3, and the checksum does not cover format and flags. In format 2 identities
are BLAKE2b, and the checksum covers both."""


def seed(number: int, flags: int) -> int:
    """Return the seed of a frame's checksum: from format 2 on it covers format and flags."""
    return 0 if number == 1 else number << 16 | flags


def check(number: int) -> None:
    """Raise FrameFormat unless this version reads frames of this format. Call it once the checksum has agreed."""
    if number not in _UPGRADES:
        raise unknown(f"is of format {number}, this version reads formats 1 to {FORMAT}")


def unknown(what: str) -> FrameFormat:
    """Return the error for a whole frame that this version does not understand."""
    return FrameFormat(
        f"a frame of the log {what}; a newer simstream wrote it",
        "upgrade this process: readers of the log first, fingerprinters last (Upgrades in docs/operate/guide.md)",
    )


def upgrade_columns(number: int, columns: FingerprintColumns) -> FingerprintColumns:
    """Return a frame's pages in columns of the current format; `check` must have admitted the frame's format."""
    return _UPGRADES[number](columns)


def _identities_anew(columns: FingerprintColumns) -> FingerprintColumns:
    """Return the columns of format 1 with identities computed from the ids. Cost: .7 us a page."""
    ends = columns.id_ends.tolist()
    ids = [columns.ids[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    identity = np.frombuffer(b"".join(map(identity_of, ids)), np.uint64).reshape(-1, 2)
    return replace(columns, identity=identity)


_UPGRADES: Final[Mapping[int, Callable[[FingerprintColumns], FingerprintColumns]]] = {
    1: _identities_anew,
    FORMAT: lambda columns: columns,
}
