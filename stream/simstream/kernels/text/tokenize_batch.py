"""Tokenizes a batch and does nothing else, to measure what tokenizing costs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from simstream.kernels.jit import kernel
from simstream.kernels.text.fold import fold_utf8
from simstream.kernels.text.tokenize import HiddenMarkovModel, TokenizeScratch, cut
from simstream.kernels.text.trie import Trie


@kernel
def count_tokens(
    utf8: NDArray[np.uint8],
    offsets: NDArray[np.int64],
    fold: NDArray[np.uint32],
    trie: Trie,
    hmm: HiddenMarkovModel,
    points: NDArray[np.uint32],
    scratch: TokenizeScratch,
    ends: NDArray[np.int32],
    slots: NDArray[np.int32],
) -> int:
    """Decode, fold and cut n pages (page i is `utf8[offsets[i]:offsets[i + 1]]`), and return how many tokens.

    It is the first part of the fingerprint's kernel, up to the tokens. The last four arrays are working memory for
    the longest page.
    """
    total = 0
    for page in range(len(offsets) - 1):
        n = fold_utf8(utf8, offsets[page], offsets[page + 1], fold, points)
        total += cut(points, n, trie, hmm, True, scratch, ends, slots)
    return total
