"""Yields the pages of a batch one by one, as the resolver takes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from simstream.judge.numbers import Ordinal
from simstream.model import REASONS, FingerprintColumns, PageSource


class AcceptedPage(msgspec.Struct, frozen=True, gc=False):
    """One page to be judged; `sketch` is the column `sketch` as one integer; see `model.lookup_values`."""

    id: str
    url: str | None
    identity: bytes
    kind: int
    reason: str
    time: int
    ordinal: Ordinal
    fingerprint: int
    sketch: int
    short: bool
    source: PageSource


def accepted_pages(
    columns: FingerprintColumns,
    time: NDArray[np.int64],
    short: NDArray[np.bool_],
    ordinal: Ordinal,
    sources: Sequence[PageSource],
) -> Iterator[AcceptedPage]:
    """Return n pages with accepted times (n,) and flags `short` (n,), numbered from `ordinal` on."""
    identities, sketches = columns.identity.tobytes(), columns.sketch.tobytes()
    width = 8 * columns.sketch.shape[1]
    rows = zip(
        columns.id_list(),
        columns.url_list(),
        columns.kind.tolist(),
        columns.reason.tolist(),
        time.tolist(),
        columns.fingerprint.tolist(),
        short.tolist(),
        sources,
        strict=True,
    )
    for i, (page_id, url, kind, reason, ms, fingerprint, is_short, source) in enumerate(rows):
        identity = identities[16 * i : 16 * i + 16]
        sketch = int.from_bytes(sketches[width * i : width * (i + 1)], "little")
        yield AcceptedPage(
            page_id,
            url,
            identity,
            kind,
            REASONS[reason],
            ms,
            Ordinal(ordinal + i),
            fingerprint,
            sketch,
            is_short,
            source,
        )


def ids_of(columns: FingerprintColumns, chosen: NDArray[np.bool_]) -> tuple[bytes, NDArray[np.uint32]]:
    """Return the ids of some pages, one after another, and where each ends."""
    starts = np.concatenate((np.zeros(1, np.uint32), columns.id_ends[:-1]))
    spans = zip(starts[chosen].tolist(), columns.id_ends[chosen].tolist(), strict=True)
    sizes = (columns.id_ends - starts)[chosen]
    return b"".join(columns.ids[start:end] for start, end in spans), np.cumsum(sizes, dtype=np.uint32)
