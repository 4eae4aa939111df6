"""Holds the matches of a batch of queries in columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Matches:
    """All matches of the first `done` queries; query i has `starts[i]:starts[i + 1]`, ordered by entry."""

    done: int
    starts: NDArray[np.int64]  # (done + 1,)
    entry: NDArray[np.int64]
    distance: NDArray[np.uint8]
    agreement: NDArray[np.uint16]  # equal bits of the sketches; 0 without sketch
    short: NDArray[np.uint8]  # whether the entry's page is short; 0 if no page counts as short
    same: NDArray[np.uint8]  # whether fingerprints and sketch equal the query's
    bucket: NDArray[np.int64]  # the entry's bucket
    crowded: NDArray[np.bool_]
    """(done,) queries with too many matches or candidates; they have no matches here; see `Index.query_apart`."""
