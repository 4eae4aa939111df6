"""Pairing heaps in columns: the oldest live member of each cluster.

A node's `child` is its first child, and `sibling` its next sibling; 0 means none. The heap is ordered by age, and
no two ages in a heap are equal. `row` 0 marks a node whose member has left.

Source: Fredman, Sedgewick, Sleator, Tarjan: The pairing heap (1986); the two passes of its delete-min.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from simstream.kernels.jit import helper, kernel

U32 = NDArray[np.uint32]


@helper
def _meld(one, other, child, sibling, age):  # type: ignore[no-untyped-def]
    """Join two heaps that are not empty, and return the root."""
    if age[other] < age[one]:
        one, other = other, one
    sibling[other] = child[one]
    child[one] = other
    return one


@helper
def meld_all(first, child, sibling, age):  # type: ignore[no-untyped-def]
    """Join the heaps in a list of siblings, in pairs from left to right, then from right to left; 0 for none."""
    pairs = np.uint32(0)
    while first != 0:
        second = sibling[first]
        if second == 0:
            sibling[first] = pairs
            pairs = first
            break
        following = sibling[second]
        melded = _meld(first, second, child, sibling, age)
        sibling[melded] = pairs
        pairs = melded
        first = following
    root = np.uint32(0)
    while pairs != 0:
        following = sibling[pairs]
        sibling[pairs] = 0
        root = pairs if root == 0 else _meld(root, pairs, child, sibling, age)
        pairs = following
    return root


@kernel
def collect(root: int, child: U32, sibling: U32, most: int) -> U32:
    """Return all nodes of a heap, which has at most `most`. Cost: linear."""
    found = np.empty(most, np.uint32)
    stack = np.empty(most + 1, np.uint32)
    depth = 0
    if root != 0:
        stack[0] = root
        depth = 1
    count = 0
    while depth > 0 and count < most:
        depth -= 1
        node = stack[depth]
        found[count] = node
        count += 1
        if sibling[node] != 0:
            stack[depth] = sibling[node]
            depth += 1
        if child[node] != 0:
            stack[depth] = child[node]
            depth += 1
    return found[:count]
