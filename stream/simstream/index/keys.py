"""Holds the keys of entries and queries in columns, and the limits of a match."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simstream.errors import SettingsError
from simstream.index.plan import MAX_DISTANCE
from simstream.kernels.index.confirm import MatchQueries
from simstream.model import U64, MatchLimits

Flags = NDArray[np.bool_] | NDArray[np.uint8]
NO_FLAGS: NDArray[np.uint8] = np.empty(0, np.uint8)
"""The column `short` if no page counts as short: empty, for a block of any size."""
NO_FLAGS.flags.writeable = False
MAX_WORDS = 64
"""The widest sketch, in words of 64 bits."""
MAX_FURTHER = 3
"""The most draws after the fingerprint."""


class KeyColumns(NamedTuple):
    """Keys in columns. `short` is empty if no page counts as short.

    The first columns of `sketches` are the further fingerprints, if the recipe has any, and the others the sketch.
    """

    fingerprints: U64  # (n,)
    sketches: U64  # (n, S)
    short: NDArray[np.uint8]  # (n,) 0 or 1, or (0,)

    def draw(self, number: int) -> U64:
        """Return one draw of each key, 0 for the fingerprints; contiguous and read-only."""
        return self.fingerprints if number == 0 else frozen(self.sketches[:, number - 1], np.uint64)

    def at(self, places: NDArray[Any] | slice) -> KeyColumns:
        """Return the keys at these places."""
        return KeyColumns(
            frozen(self.fingerprints[places], np.uint64),
            frozen(self.sketches[places], np.uint64),
            frozen(self.short[places], np.uint8) if len(self.short) else self.short,
        )


@dataclass(frozen=True, slots=True)
class MatchRule:
    """The rule for a match of two keys; `short` is the limit of a pair with a short page.

    It is at least as strict as the other limits. If None, no page counts as short; the `short` columns are ignored.
    The draws of a key are its fingerprint and the first `further_draws` of its `sketch_words` S. The distance of
    two keys is that of their closest draws. The first `further_fingerprints` columns are not part of the sketch.
    Without other columns there is no sketch, and agreements are ignored. Raises SettingsError for numbers out of
    range.
    """

    sketch_words: int
    limits: MatchLimits
    short: MatchLimits | None = None
    further_draws: int = 0
    further_fingerprints: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.further_fingerprints <= self.further_draws <= min(MAX_FURTHER, self.sketch_words):
            raise SettingsError(
                f"`further_draws` is {self.further_draws}, `further_fingerprints` {self.further_fingerprints}, "
                f"`sketch_words` {self.sketch_words}",
                f"keep further_fingerprints <= further_draws <= {MAX_FURTHER}, and at most sketch_words",
            )
        _check(self.sketch_words - self.further_fingerprints, self.limits)
        if self.short is not None:
            _check_short(self.sketch_words - self.further_fingerprints, self.limits, self.short)

    @property
    def has_sketch(self) -> bool:
        """Whether agreements mean anything."""
        return self.sketch_words > self.further_fingerprints

    def shaped(self, fingerprints: U64, sketches: U64, short: Flags | None) -> KeyColumns:
        """Return keys as the kernels read them: contiguous, and read-only so that each kernel compiles once.

        Raises ValueError if the shapes do not fit together.
        """
        fingerprints, sketches = frozen(fingerprints, np.uint64), frozen(sketches, np.uint64)
        if fingerprints.ndim != 1 or sketches.shape != (len(fingerprints), self.sketch_words):
            raise ValueError(f"sketches are {sketches.shape}, not {(len(fingerprints), self.sketch_words)}")
        if self.short is None:
            return KeyColumns(fingerprints, sketches, NO_FLAGS)
        flags = frozen(np.zeros(len(fingerprints), np.uint8) if short is None else short, np.uint8)
        if flags.shape != fingerprints.shape:
            raise ValueError(f"short is {flags.shape}, not {fingerprints.shape}")
        return KeyColumns(fingerprints, sketches, flags)

    def wanted(self, queries: KeyColumns, block: slice, by_all: bool = True) -> MatchQueries:
        """Return what the kernel needs to confirm the candidates of a block of queries.

        Without `by_all` the queries are asked by one draw alone, which then counts all its candidates.
        """
        least = self.limits.agreement if self.has_sketch else 0
        strict = self.short or self.limits
        strict_agreement = strict.agreement if self.has_sketch else 0
        own = queries.sketches[block], self.further_draws, self.further_fingerprints, queries.short[block]
        counted = self.limits.distance if by_all else -1
        return MatchQueries(*own, counted, least, strict.distance, strict_agreement)


def frozen(array: NDArray[Any], dtype: Any) -> NDArray[Any]:
    """Return the array, or a copy of this type, as a read-only view that is contiguous and aligned.

    numba compiles a kernel separately for writable and for read-only arrays; mapped files are read-only.
    """
    plain = type(array) is np.ndarray and array.dtype == dtype and array.flags.c_contiguous and array.flags.aligned
    if plain and not array.flags.writeable:
        return array
    view = (array if plain else np.require(array, dtype, ["C", "A", "E"])).view()
    view.flags.writeable = False
    return view


def _check(sketch_words: int, limits: MatchLimits) -> None:
    if not 0 <= limits.distance <= MAX_DISTANCE:
        raise SettingsError(
            f"distance {limits.distance} is out of range", f"give a distance from 0 to {MAX_DISTANCE}"
        )
    agreement, bits = limits.agreement, 64 * sketch_words
    if not 0 <= sketch_words <= MAX_WORDS or agreement < 0 or (sketch_words and agreement > bits):
        raise SettingsError(
            f"an agreement of {agreement} bits does not fit a sketch of {bits}",
            "give at most as many bits as the sketch has",
        )


def _check_short(sketch_words: int, limits: MatchLimits, short: MatchLimits) -> None:
    _check(sketch_words, short)
    if short.distance > limits.distance or (sketch_words and short.agreement < limits.agreement):
        raise SettingsError(
            f"a distance of {short.distance} and {short.agreement} bits for short pages is less strict than "
            f"{limits.distance} and {limits.agreement}",
            "give limits for short pages that are at least as strict",
        )
