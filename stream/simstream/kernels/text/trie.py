"""The dictionary as a double-array trie: every word with its weight, one step a character.

A node is a slot. From slot s the character with code k leads to slot t = base of s + k if check of t is s. Frequent
characters of the dictionary get low codes, so that their slots lie close together. Source of the method: J. Aoe,
"An efficient digital search algorithm by using a double-array structure", 1989.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simstream.kernels.jit import kernel, lean_helper, lean_kernel

NO_WORD = -1e30
"""The value in `log_frequency` of a slot that ends no word."""
CODE_POINTS = 0x110000
MAX_TRIES = 200
"""Free slots to try for a node's first child, before it goes where nearly all slots are free."""


NODE = np.dtype([("base", np.int32), ("check", np.int32), ("log_frequency", np.float64)])
"""A slot: where its children are, or 0; its parent's slot, or -1 where it is free; log f - log total, or NO_WORD
where no word ends. They lie side by side, as a step reads all three, and the trie is larger than the cache."""

Points = NDArray[np.uint32]
I32 = NDArray[np.int32]
I64 = NDArray[np.int64]
F64 = NDArray[np.float64]
Nodes = NDArray[np.void]


class Trie(NamedTuple):
    """A double array over characters; the root is slot 0.

    Every possible `nodes[s].base + code` lies inside the array, so the walk needs no bounds check.
    """

    nodes: Nodes  # (slots,) of NODE
    code: NDArray[np.uint16]  # (0x110000,) by code point; 0 where no word has the character
    split: NDArray[np.uint8]  # (slots,) 1 where a word ends that was taken out; (0,) where none was
    log_total: float


@lean_helper
def walk(points: Points, start: int, end: int, nodes: Nodes, code: NDArray[np.uint16]) -> int:
    """Do what `find` does for kernels with the trie's arrays in local variables: unpacking costs more than a short
    walk."""
    slot = 0
    for at in range(start, end):
        label = code[points[at]] if points[at] < CODE_POINTS else 0
        below = nodes[slot].base + label
        if label == 0 or nodes[below].check != slot:
            return -1
        slot = below
    return slot if nodes[slot].log_frequency > NO_WORD else -1


@kernel
def find(points: Points, start: int, end: int, trie: Trie) -> int:
    """Return the slot of exactly the word `points[start:end]`, or -1. Cost: a step a character, until one fails."""
    return walk(points, start, end, trie.nodes, trie.code)


@lean_helper
def is_split(points: Points, start: int, end: int, trie: Trie) -> bool:
    """Whether the word `points[start:end]` was removed from the dictionary. Assumes that some word was removed."""
    nodes, code = trie.nodes, trie.code
    slot = 0
    for at in range(start, end):
        label = code[points[at]]
        below = nodes[slot].base + label
        if label == 0 or nodes[below].check != slot:
            return False
        slot = below
    return bool(trie.split[slot] != 0)


def slots_of(flat: Points, ends: I64, trie: Trie) -> I32:
    """Return the slot of each word, int32 (words,), -1 if it is no word; word i is `flat[ends[i-1]:ends[i]]`.

    For building tables. Cost: about 0.1 us a character; nothing is compiled for it.
    """
    slots = _ends_of_walks(flat, ends, trie)
    slots[trie.nodes["log_frequency"][slots] <= NO_WORD] = -1
    return slots


def _ends_of_walks(flat: Points, ends: I64, trie: Trie) -> I32:
    """Return the slot to which each word leads, int32 (words,); 0, the root, if the trie ends before the word."""
    starts = np.concatenate([np.zeros(1, np.int64), ends])[:-1]
    slots, words, depth = np.zeros(len(ends), np.int32), np.flatnonzero(ends > starts), 0
    while len(words):
        label = trie.code[flat[starts[words] + depth]]
        below = trie.nodes["base"][slots[words]] + label
        inside = (label != 0) & (trie.nodes["check"][below] == slots[words])
        slots[words] = np.where(inside, below, 0)
        depth += 1
        words = words[inside & (ends[words] - starts[words] > depth)]
    return slots


def build(
    flat: Points,
    ends: NDArray[np.int64],
    weight: NDArray[np.float64],
    log_total: float,
    split: NDArray[np.bool_] | None = None,
) -> Trie:
    """Build the double array of words that are distinct, not empty and sorted by code points.

    Word i is `flat[ends[i-1]:ends[i]]`. Its `log_frequency` is `weight[i]`, NO_WORD for a removed word. `split[i]`
    says that it was removed at some time. Raises ValueError if the dictionary has more than 65,535 different
    characters. Cost: linear in the characters, about 0.1 s for a million.
    """
    code, highest = _codes(flat)
    starts = np.concatenate([np.zeros(1, np.int64), ends])
    labels = code[flat].astype(np.int32)
    slots = len(flat) + 4 * highest + 64
    queue = _NodeQueue(*np.zeros((4, len(labels) + 1), np.int32), *np.empty((2, highest + 1), np.int64))
    while True:
        free = _free_slots(slots)
        top = _place_all(labels, starts, weight, highest, free, queue)
        if top >= 0:
            size = top + highest + 1
            marks = np.zeros(0 if split is None or not split.any() else size, np.uint8)
            nodes = np.empty(size, NODE)
            nodes["base"], nodes["check"] = free.base[:size], free.check[:size]
            nodes["log_frequency"] = free.log_frequency[:size]
            trie = Trie(nodes, code, marks, log_total)
            if split is not None and len(marks) > 0:
                marks[_ends_of_walks(flat, ends, trie)[split]] = 1
            return trie
        slots *= 2


def _codes(flat: Points) -> tuple[NDArray[np.uint16], int]:
    """Return the code of each code point, by falling frequency and then by code point, and the highest code."""
    counts = np.bincount(flat, minlength=CODE_POINTS)
    order = np.argsort(-counts, kind="stable")[: int(np.count_nonzero(counts))]
    if len(order) > 0xFFFF:
        raise ValueError(f"{len(order)} different characters: a dictionary can have 65535")
    code = np.zeros(CODE_POINTS, np.uint16)
    code[order] = np.arange(1, len(order) + 1)
    return code, len(order)


class _PlacedSlots(NamedTuple):
    """The slots of a trie that is being built, and the ring of the free ones; slot 0, the root, is its anchor."""

    base: I32
    check: I32
    log_frequency: F64
    after: I32
    before: I32


class _NodeQueue(NamedTuple):
    """The nodes of a trie that is being built, level by level, each with the words that share it; and room for the
    children of one node."""

    slot: I32
    low: I32
    high: I32
    depth: I32
    label: I64
    child: I64


def _free_slots(slots: int) -> _PlacedSlots:
    numbers = np.arange(slots, dtype=np.int32)
    none = np.full(slots, -1, np.int32)
    return _PlacedSlots(
        np.zeros(slots, np.int32), none, np.full(slots, NO_WORD), np.roll(numbers, -1), np.roll(numbers, 1)
    )


@lean_helper
def _children(labels: I32, starts: I64, low: int, high: int, depth: int, label: I64, child: I64) -> int:
    """Write the label of each child of the node that words [low, high) share, and where its words begin.

    Returns the number of children; `child[count]` is `high`. Words that end at the node come first.
    """
    count = 0
    for word in range(low, high):
        at = starts[word] + depth
        if at == starts[word + 1]:
            continue
        if count == 0 or labels[at] != label[count - 1]:
            label[count] = labels[at]
            child[count] = word
            count += 1
    child[count] = high
    return count


@lean_helper
def _fits(check: I32, label: I64, count: int, base: int) -> bool:
    for child in range(1, count):  # noqa: SIM110 - kernels have no generators
        if check[base + label[child]] != -1:
            return False
    return True


@lean_helper
def _find_base(check: I32, after: I32, label: I64, count: int, cursor: int, frontier: int) -> tuple[int, int]:
    """Return a base whose slots for all labels are free, and the free slot tried last.

    It makes a few tries along the free slots from `cursor` (`after[s]` is the next one behind s), then tries every
    base from `frontier` on. Frequent characters have low codes, so most slots behind the greatest base are free,
    and the second search is short.
    """
    slot = cursor
    for _ in range(MAX_TRIES):
        base = slot - label[0]
        if base >= 1 and check[slot] == -1 and _fits(check, label, count, base):
            return base, slot
        slot = after[slot]
        if slot == 0 or slot - label[0] > frontier:
            break
    base = frontier
    while check[base + label[0]] != -1 or not _fits(check, label, count, base):
        base += 1
    return base, slot


@lean_helper
def _take(check: I32, after: I32, before: I32, slot: int, parent: int) -> None:
    check[slot] = parent
    after[before[slot]] = after[slot]
    before[after[slot]] = before[slot]


@lean_kernel
def _place_all(labels: I32, starts: I64, weight: F64, highest: int, slots: _PlacedSlots, nodes: _NodeQueue) -> int:
    """Place the nodes level by level, and return the highest slot in use; -1 if there are too few slots.

    Nodes with one child, by far the most, fill the holes from the front. Nodes with several children try a few
    places from a cursor that moves on, which bounds the search.
    """
    base, check, log_frequency, after, before = slots
    node_slot, node_low, node_high, node_depth, label, child = nodes
    node_high[0] = len(starts) - 1
    check[0] = 0
    head, tail, top = 0, 1, 0
    cursor, frontier = 1, 1
    while head < tail:
        parent = node_slot[head]
        low, high, depth = node_low[head], node_high[head], node_depth[head]
        head += 1
        if depth > 0 and starts[low + 1] - starts[low] == depth:
            log_frequency[parent] = weight[low]
        count = _children(labels, starts, low, high, depth, label, child)
        if count == 0:
            continue
        begin = after[0] if count == 1 or check[cursor] != -1 else cursor
        if top + 3 * highest + 3 > len(base):  # the slots that the search may read
            return -1
        found, tried = _find_base(check, after, label, count, begin, frontier)
        frontier = max(frontier, found)
        if count > 1:
            cursor = tried
        base[parent] = found
        for at in range(count):
            slot = found + label[at]
            _take(check, after, before, slot, parent)
            top = max(top, slot)
            node_slot[tail] = slot
            node_low[tail], node_high[tail] = child[at], child[at + 1]
            node_depth[tail] = depth + 1
            tail += 1
    return top
