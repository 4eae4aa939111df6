"""Fingerprints with numpy: all Hamming distances of a list of texts, and each text's nearest other one.

python examples/hamming.py texts.txt        # a text a line
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from simstream import fingerprint


def distances(prints: NDArray[np.uint64]) -> NDArray[np.uint8]:
    """Return the distances (n, n) of n fingerprints, in bits. Cost: n * n bytes."""
    apart: NDArray[np.uint8] = np.bitwise_count(prints[:, None] ^ prints[None, :])
    return apart


def main(path: str) -> None:
    texts = Path(path).read_text(encoding="utf-8").removesuffix("\n").split("\n")
    prints = fingerprint(texts)
    known = np.flatnonzero(prints)  # 0: too few words to compare
    if len(known) < 2:
        sys.exit("fewer than two lines have enough words to compare")
    apart = distances(prints[known])
    np.fill_diagonal(apart, 65)
    for row, nearest in enumerate(apart.argmin(axis=1)):
        line, other = known[row] + 1, known[nearest] + 1
        print(f"line {line}: {prints[known[row]]:016x}, nearest is line {other}, {apart[row, nearest]} bits apart")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    try:
        main(sys.argv[1])
        sys.stdout.flush()
    except BrokenPipeError:  # the reader, such as `head`, has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
