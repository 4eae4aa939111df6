"""Decides how many bytes of verdicts a transaction takes."""

from __future__ import annotations

from collections.abc import Sequence

TARGET_S = 1.0
"""A transaction should take no longer, a tenth of what the broker allows it."""
MIN_BYTES = 64 << 10
MAX_BYTES = 4 << 20
"""About 7,400 verdicts of 565 bytes. A larger frame passes alone."""
SHRINK = 4


class TransactionRoom:
    """Grows while transactions are quick, follows the broker's rate down, and shrinks at once where one failed.

    It decides no verdict: a reader sees the same records, in more or fewer transactions.
    """

    def __init__(self) -> None:
        self.bytes = 1 << 20

    def fitting(self, sizes: Sequence[int]) -> int:
        """How many of the first frames, of so many bytes each, fit; at least one if there is any."""
        total = 0
        for number, size in enumerate(sizes):
            total += size
            if total > self.bytes:
                return max(1, number)
        return len(sizes)

    def took(self, size: int, seconds: float) -> None:
        """A transaction of `size` bytes was committed after so many seconds."""
        if seconds > TARGET_S:
            self._set(min(self.bytes, int(size * TARGET_S / seconds)))
        elif seconds < TARGET_S / 2 and size > self.bytes // 2:
            self._set(2 * self.bytes)

    def outlived(self, size: int) -> None:
        """A transaction of `size` bytes was ended by its own time."""
        self._set(min(self.bytes, size) // SHRINK)

    def _set(self, size: int) -> None:
        self.bytes = min(MAX_BYTES, max(MIN_BYTES, size))
