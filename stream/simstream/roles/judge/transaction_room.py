"""Decides how many bytes of verdicts one transaction takes."""

from __future__ import annotations

from collections.abc import Sequence

TARGET_S = 1.0
"""Seconds that a transaction should take at most: a tenth of the broker's limit."""
MIN_BYTES = 64 << 10
MAX_BYTES = 4 << 20
"""The room at the start: about 7,400 verdicts of 565 bytes. A larger frame passes alone."""
SHRINK = 4


class TransactionRoom:
    """Grows while transactions are quick, follows the broker's rate down, and shrinks at once after a failure.

    It changes no verdict: a reader sees the same records, in more or fewer transactions.
    """

    def __init__(self) -> None:
        self.bytes = 1 << 20

    def count_fitting(self, sizes: Sequence[int]) -> int:
        """Return how many of the first frames fit; `sizes` are their bytes. At least one, if there is any."""
        total = 0
        for number, size in enumerate(sizes):
            total += size
            if total > self.bytes:
                return max(1, number)
        return len(sizes)

    def note_commit(self, size: int, seconds: float) -> None:
        """Note that a transaction of `size` bytes was committed after `seconds`."""
        if seconds > TARGET_S:
            self._set(min(self.bytes, int(size * TARGET_S / seconds)))
        elif seconds < TARGET_S / 2 and size > self.bytes // 2:
            self._set(2 * self.bytes)

    def note_timeout(self, size: int) -> None:
        """Note that a transaction of `size` bytes reached its time limit."""
        self._set(min(self.bytes, size) // SHRINK)

    def _set(self, size: int) -> None:
        self.bytes = min(MAX_BYTES, max(MIN_BYTES, size))
