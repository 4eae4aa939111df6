"""Loads the shipped table by which letters and their marks become one character (Unicode 14.0.0)."""

from __future__ import annotations

from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Final

import numpy as np

from simstream.interrupts import interrupts_held
from simstream.kernels.text.compose import JOINS, NEVER_COMPOSED, Composition, fold_page, room_for
from simstream.text.recipe import Normalization, Recipe
from simstream.text.unicode_tables import POINTS, fold_table

_PATH: Final = Path(__file__).parent / "tables" / "composition.npy"
_JAMO: Final = (*range(0x1161, 0x1176), *range(0x11A8, 0x11C3))
"""The vowels and final consonants of Hangul, which the kernel composes by arithmetic."""


@cache
def composition(normalization: Normalization) -> Composition:
    """Return the table of a normalization, made at the first call (about 10 ms and 2 MB). Do not write into it."""
    if normalization == "as-is":
        u16, u32 = np.uint16, np.uint32
        return Composition(
            *(np.empty(0, u16), np.empty(0, u16)), np.empty((0, 4), u32), np.empty(0, np.uint64), np.empty(0, u32)
        )
    with interrupts_held():  # numpy would put an error of its own in the place of one
        table = np.load(_PATH)
    pairs = {
        (first, second): point for point, _, first, second, is_composed in table.tolist() if is_composed and first
    }
    apart = {point: (first, second) for point, _, first, second, _ in table.tolist() if first}
    kinds = {
        point: mark | (0 if is_composed else NEVER_COMPOSED) for point, mark, _, _, is_composed in table.tolist()
    }
    for point in {
        *_JAMO,
        *(second for _, second in pairs),
        *(point for point, kind in kinds.items() if kind & 0xFF),
    }:
        kinds[point] = kinds.get(point, 0) | JOINS
    rows, parts = np.zeros(POINTS, np.uint16), np.zeros((len(kinds) + 1, 4), np.uint32)
    for row, point in enumerate(kinds, 1):
        rows[point] = row
        found = _all_parts(point, apart)
        if found != [point]:
            parts[row, : len(found)] = found
    ordered = sorted(pairs)
    return Composition(
        rows,
        np.array([0, *kinds.values()], np.uint16),
        parts,
        np.array([first << 32 | second for first, second in ordered], np.uint64),
        np.array([pairs[pair] for pair in ordered], np.uint32),
    )


def _all_parts(point: int, apart: dict[int, tuple[int, int]]) -> list[int]:
    first, second = apart.get(point, (0, 0))
    if not first:
        return [point]
    return [*_all_parts(first, apart), *([second] if second else [])]


def composition_digests(normalization: Normalization) -> tuple[str, ...]:
    """Return 16 hex digits over the shipped file, if the normalization reads it."""
    return () if normalization == "as-is" else (blake2b(_PATH.read_bytes(), digest_size=8).hexdigest(),)


def read_text(text: str, recipe: Recipe) -> str:
    """Return a text as the recipe's kernels read it: folded, and normalized. A line stays a line."""
    utf8 = np.frombuffer(bytearray(text.encode("utf-8", "surrogatepass")), np.uint8)
    points = np.empty(room_for(len(utf8)), np.uint32)
    found = composition(recipe.normalization)
    n = fold_page(utf8, 0, len(utf8), fold_table(recipe.script), found, points)
    return points[:n].tobytes().decode("utf-32-le")
