"""What comes due in a page store, of all its chunks together."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from simstream.judge.pages.due_times import DUE
from simstream.judge.pages.store import PageStore


def due_pages(
    pages: PageStore, after: int | None, until: int
) -> tuple[NDArray[np.int64], NDArray[np.uint32], NDArray[np.uint32], NDArray[np.int64]]:
    """Return times, numbers, rows and ordinals (n,) of all that `due_by_chunk` yields, by time and ordinal."""
    found = [*pages.due_by_chunk(after, until)]
    due = np.concatenate([np.empty(0, DUE), *(entries for _, entries in found)])
    colds = np.concatenate([np.empty(0, np.uint32), *(numbers for numbers, _ in found)])
    order = np.lexsort((due["ordinal"], due["time"]))
    return due["time"][order], colds[order], due["row"][order], due["ordinal"][order]
