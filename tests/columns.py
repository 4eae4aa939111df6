"""Pages as the columns of a frame."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from simstream.model import FingerprintColumns

_TYPES = {
    "offset": np.int64,
    "kind": np.uint8,
    "reason": np.uint8,
    "time": np.int64,
    "identity": np.uint64,
    "fingerprint": np.uint64,
    "sketch": np.uint64,
    "words": np.uint32,
}


def page_columns(ids: Sequence[bytes], **given: ArrayLike) -> FingerprintColumns:
    """Return pages with these ids and no URLs. A number stands for all pages; what is not given is 0.

    Without `offset` the offsets count from 0, and without `sketch` there is none.
    """
    n = len(ids)
    ends = np.cumsum([len(one) for one in ids], dtype=np.uint32)
    values = {"offset": np.arange(n), "identity": np.zeros((n, 2)), "sketch": np.zeros((n, 0))} | given
    arrays = {name: np.asarray(values.get(name, 0), dtype) for name, dtype in _TYPES.items()}
    full = {name: np.full(n, array) if array.ndim == 0 else array for name, array in arrays.items()}
    return FingerprintColumns(**full, id_ends=ends, url_ends=np.zeros(n, np.uint32), ids=b"".join(ids), urls=b"")
