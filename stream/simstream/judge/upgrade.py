"""Converts the parts of a state of an earlier format to the current format."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from simstream.files.header import FORMAT
from simstream.files.snapshot_part import SnapshotPart
from simstream.judge.pages.chunk import damaged_store
from simstream.judge.pages.record import RecordLayout
from simstream.judge.pages.store import PageStore
from simstream.kernels.judge import page_records as kernels
from simstream.model import U64
from simstream.wire.identity_hash import identity_of

Arrays = Mapping[str, NDArray[Any]]


def upgraded(parts: Iterable[SnapshotPart], number: int) -> list[SnapshotPart]:
    """Return the parts of a state of format `number`, at least `header.MIN_FORMAT`, in the current format.

    Arrays of pages are computed on access, chunk by chunk, so the upgrade holds no second state in memory.
    """
    found = list(parts)
    for step in range(number, FORMAT):
        found = [_STEPS[step](part) for part in found]
    return found


def _from_1(part: SnapshotPart) -> SnapshotPart:
    """Replace the MurmurHash3 identities by the current ones. The first start fills the directory again."""
    if part.kind in PageStore.KINDS and "records" in part.arrays:
        return part._replace(arrays=_RehashedPages(part.name, part.arrays))
    if part.kind == "directory":
        return part._replace(facts={"count": part.facts.get("count")}, arrays={})
    return part


class _RehashedPages(Mapping[str, NDArray[Any]]):
    """The arrays of a chunk of pages, with identities computed again from the ids. Keeps no array."""

    def __init__(self, name: str, arrays: Arrays) -> None:
        self._name = name
        self._arrays = arrays

    def __getitem__(self, name: str) -> NDArray[Any]:
        if name != "records":
            return self._arrays[name]
        return _under_new_identities(self._name, self._arrays["records"].copy(), self._arrays["ids"].copy())

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)


def _under_new_identities(name: str, words: U64, ids: NDArray[np.uint8]) -> U64:
    """Return records (n, 9 + S) with identities computed from their ids, and matching checksums.

    Changes `words` in place. Cost: 1 us a record. Raises StateDamaged.
    """
    if kernels.damaged(words) >= 0 or kernels.damaged_id(words, ids) >= 0:
        raise damaged_store(f"a record or an id of {name} does not agree with its checksum")
    records = words.reshape(-1).view(RecordLayout(words.shape[1] - kernels.PLAIN).dtype)
    starts, raw = records["id_start"].tolist(), ids.tobytes()
    lengths = records["id_length"].tolist()
    made = b"".join(identity_of(raw[at : at + size]) for at, size in zip(starts, lengths, strict=True))
    records["identity"] = np.frombuffer(made, np.uint64).reshape(-1, 2)
    kernels.seal(words, 0, len(words), ids)
    return words


_STEPS: Final[Mapping[int, Callable[[SnapshotPart], SnapshotPart]]] = {1: _from_1}
"""Upgrades a part from each format to the next."""
