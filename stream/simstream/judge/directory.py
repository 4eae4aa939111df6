"""Finds the row of a page's current version by its identity: the directory."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, pow
from typing import Final

import numpy as np
from numpy.typing import NDArray

from simstream import memory
from simstream.errors import StateDamaged
from simstream.files.failures import START_OVER
from simstream.files.snapshot_part import Fact, SnapshotPart
from simstream.hash_secret import Secret, make_secret, new_secret, secret_hex
from simstream.kernels.judge import directory as kernels
from simstream.kernels.judge.directory import ADDRESS, COUNT, DEPTH, HOMES, LIMIT, SLOTS
from simstream.model import U64

MAX_ROW: Final = (1 << kernels.ROW_BITS) - 2
MAX_LOAD = 0.9
"""Above this load an addition moves long runs of slots."""
GROWTH = 1.08
"""How much larger a full partition gets. It costs some 3 ns a slot, and about 60 ns a page in all."""
MIN_LOAD = 0.4
"""A partition with fewer slots in use than this share of its homes is made smaller."""
MAX_PARTITION_SLOTS = 1 << 17
"""A partition is cut in two at a number of slots between half of this and this."""
MAX_DEPTH = 16
MIN_HOMES = 384
SLOT = np.dtype(np.uint64)
PLACED: Final = "partitions by secret"
"""The array of a part that lists the partitions. Without a secret it was called `partitions`. So a version without
secrets refuses a part with one."""
TAIL_SLOTS = 128
"""Slots behind the last home. At a load of .9 some 60 are enough in nearly all partitions; others get more."""
SLOTS_A_PAGE = 512
"""Memory comes in pages of 4,096 bytes; the rest of the last page lengthens the tail."""


class PageDirectory:
    """Identities (128 bits, as two uint64) and the rows (below 2^31 - 1) that have them.

    It has 33 bits of each identity, so `candidates` are nearly always the one row or none. The caller checks in the
    page store whether it is the same page. `secret` decides which bits; by default it is new, and snapshots contain
    it. No verdict depends on it.

    A slot takes 8 bytes, and partitions are .83 to .9 full. Each partition grows by itself (about .2 ms), and
    their sizes differ on purpose. So memory follows the pages evenly, and no batch waits for more than a few of
    them.
    """

    def __init__(self, secret: Secret | None = None) -> None:
        self._secret = secret or new_secret()
        self._count = 0
        self._slots: list[U64] = []
        self._prefixes: list[int] = []
        self._partitions = np.zeros((0, 6), np.int64)
        self._spread = np.zeros(1, np.int32)
        self._append(0, 0, MIN_HOMES, _room(MIN_HOMES))

    def __len__(self) -> int:
        return self._count

    def candidates(self, identities: U64) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
        """Return rows whose slots agree with identities (n, 2): identity i has `rows[starts[i]:starts[i + 1]]`,
        ascending.

        Cost: about one cache miss each; the misses overlap within a batch.
        """
        identities = _pairs(identities)
        n = len(identities)
        starts, rows = np.zeros(n + 1, np.int64), np.empty(n + 16, np.uint32)
        done = kernels.find(identities, 0, self._spread, self._partitions, starts, rows, self._secret)
        while done < n:
            rows = np.concatenate([rows, np.empty_like(rows)])
            done = kernels.find(identities, done, self._spread, self._partitions, starts, rows, self._secret)
        return starts, rows[: starts[n]]

    def add(self, identities: U64, rows: NDArray[np.uint32]) -> None:
        """Add n rows under their identities (n, 2). Raises ValueError if one exists already; then it adds none."""
        identities, rows = _pairs(identities), _rows(identities, rows)
        done = 0
        while done < len(rows):
            before = done
            done = int(kernels.add(identities, rows, done, self._spread, self._partitions, self._secret))
            if done < 0:
                self._remove(identities, rows, before)
                raise ValueError(f"row {rows[~done]} is in the directory already")
            if done < len(rows):
                self._widen(int(kernels.which(identities, done, self._spread, self._secret)))
        self._count += len(rows)

    def remove(self, identities: U64, rows: NDArray[np.uint32]) -> None:
        """Remove n rows under their identities. Raises ValueError if one does not exist; then it removes none."""
        identities, rows = _pairs(identities), _rows(identities, rows)
        self._remove(identities, rows, len(rows))
        self._count -= len(rows)
        table = self._partitions
        wide = (table[:, COUNT] < table[:, HOMES] * MIN_LOAD) & (table[:, HOMES] > MIN_HOMES)
        for which in np.flatnonzero(wide).tolist():
            self._replace(which, self._homes(which, int(table[which, COUNT])))

    def keep(self, state: NDArray[np.uint8], wanted: int, beat: Callable[[], None]) -> int:
        """Remove all rows whose `state` lacks the bit `wanted`, and return how many. Calls `beat` once a partition.

        It needs no identities. Cost: some 3 ns for each existing row.
        """
        before = self._count
        for which, slots in enumerate(self._slots):
            removed = int(kernels.clear_others(slots, state, wanted))
            if removed:
                _, homes, _, count, *_ = self._partitions[which].tolist()
                narrow = count - removed < homes * MIN_LOAD and homes > MIN_HOMES
                self._replace(which, self._homes(which, count - removed) if narrow else homes)
                self._count -= removed
            beat()
        return before - self._count

    def nbytes(self) -> int:
        """Return the bytes of memory that the directory takes."""
        return sum(slots.nbytes for slots in self._slots) + self._partitions.nbytes + self._spread.nbytes

    def part(self) -> SnapshotPart:
        """Return the directory as a changing part of a snapshot. The arrays are the directory's own."""
        arrays: dict[str, NDArray[np.uint64] | NDArray[np.int64]] = {
            f"slots-{i}": slots for i, slots in enumerate(self._slots)
        }
        prefixes = np.array(self._prefixes, np.int64)
        arrays[PLACED] = np.column_stack([prefixes, self._partitions[:, [DEPTH, HOMES, COUNT]]])
        facts: dict[str, Fact] = {"count": self._count, "secret": secret_hex(self._secret)}
        return SnapshotPart("directory", "directory", facts, arrays, changes=True)

    def restore(self, part: SnapshotPart) -> None:
        """Take over what `part` returned. Raises StateDamaged for a part that is not whole. Cost: 2 ns a page."""
        fresh = PageDirectory(_secret_of(part))
        fresh._drop()
        table = part.arrays.get(PLACED)
        if table is None or table.ndim != 2 or table.shape[1] != 4 or not len(table):
            raise _damaged("its table of partitions is missing or of a wrong shape")
        for i, (prefix, depth, homes, count) in enumerate(table.tolist()):
            slots = part.arrays.get(f"slots-{i}")
            if slots is None or slots.dtype != np.uint64 or slots.ndim != 1:
                raise _damaged(f"partition {i} is missing or of a wrong shape")
            if not (0 <= depth <= MAX_DEPTH and 0 <= prefix < 1 << depth and 0 < homes < slots.size):
                raise _damaged(f"partition {i} has impossible sizes")
            own = memory.copied(slots)
            if kernels.in_order(own, prefix, depth, homes) != count:
                raise _damaged(f"partition {i} is not in order")
            fresh._append(prefix, depth, homes, own, count)
        fresh._count = int(fresh._partitions[:, COUNT].sum())
        if part.facts.get("count") != fresh._count or not fresh._map():
            raise _damaged("its partitions are not all of it")
        self.__dict__.update(fresh.__dict__)

    def _remove(self, identities: U64, rows: NDArray[np.uint32], end: int) -> None:
        missing = int(kernels.remove(identities, rows, end, self._spread, self._partitions, self._secret))
        if missing >= 0:
            raise ValueError(f"row {rows[missing]} is not in the directory under this identity")

    def _widen(self, which: int) -> None:
        """Make room in a partition: a longer tail, more homes, or two partitions of it."""
        _, homes, depth, count, limit, slots = self._partitions[which].tolist()
        if count < limit:
            self._replace(which, homes, 2 * (slots - homes))
        elif count < _split_at(self._prefixes[which], depth) or depth == MAX_DEPTH:
            self._replace(which, ceil(homes * GROWTH))
        else:
            self._split(which)

    def _replace(self, which: int, homes: int, tail: int = TAIL_SLOTS) -> None:
        prefix, depth = self._prefixes[which], int(self._partitions[which, DEPTH])
        self._put(which, homes, *_laid_out(self._slots[which], prefix, depth, homes, tail))

    def _split(self, which: int) -> None:
        """Cut a partition in two by the next bit of the hash."""
        whole, depth = self._slots[which], int(self._partitions[which, DEPTH]) + 1
        first = 2 * self._prefixes[which]
        self._prefixes[which] = first
        self._partitions[which, DEPTH] = depth
        half = int(self._partitions[which, COUNT]) // 2
        homes = self._homes(which, half)
        self._put(which, homes, *_laid_out(whole, first, depth, homes, TAIL_SLOTS))
        homes = _first_homes(first + 1, half)
        self._append(first + 1, depth, homes, *_laid_out(whole, first + 1, depth, homes, TAIL_SLOTS))
        self._map_last()

    def _homes(self, which: int, count: int) -> int:
        return _first_homes(self._prefixes[which], count)

    def _put(self, which: int, homes: int, slots: U64, count: int) -> None:
        self._slots[which] = slots
        row = self._partitions[which]
        row[ADDRESS], row[HOMES], row[SLOTS] = slots.ctypes.data, homes, slots.size
        row[COUNT], row[LIMIT] = count, int(homes * MAX_LOAD)

    def _append(self, prefix: int, depth: int, homes: int, slots: U64, count: int = 0) -> None:
        self._partitions = np.concatenate([self._partitions, np.zeros((1, 6), np.int64)])
        self._partitions[-1, DEPTH] = depth
        self._prefixes.append(prefix)
        self._slots.append(slots)
        self._put(len(self._slots) - 1, homes, slots, count)

    def _drop(self) -> None:
        self._slots, self._prefixes = [], []
        self._partitions = np.zeros((0, 6), np.int64)

    def _map_last(self) -> None:
        """Write the last partition, which was cut off from another one, for its prefixes of the greatest depth."""
        prefix, depth = self._prefixes[-1], int(self._partitions[-1, DEPTH])
        if len(self._spread) < 1 << depth:
            self._spread = np.repeat(self._spread, 2)
        width = len(self._spread) >> depth
        self._spread[prefix * width : (prefix + 1) * width] = len(self._prefixes) - 1

    def _map(self) -> bool:
        """Write for each prefix of the greatest depth its partition; return whether each prefix has exactly one."""
        deepest = int(self._partitions[:, DEPTH].max())
        self._spread = np.full(1 << deepest, -1, np.int32)
        for which, (prefix, depth) in enumerate(
            zip(self._prefixes, self._partitions[:, DEPTH].tolist(), strict=True)
        ):
            span = self._spread[prefix << (deepest - depth) : (prefix + 1) << (deepest - depth)]
            if (span != -1).any():
                return False
            span[:] = which
        return bool((self._spread != -1).all())


def has_secret(part: SnapshotPart) -> bool:
    """Whether a part contains slots; a part of an upgraded state contains only a count."""
    return "secret" in part.facts or PLACED in part.arrays


def _secret_of(part: SnapshotPart) -> Secret:
    try:
        return make_secret(bytes.fromhex(str(part.facts.get("secret"))))
    except ValueError as error:
        raise _damaged(f"its secret cannot be read ({error})") from error


def _pairs(identities: U64) -> U64:
    if identities.ndim != 2 or identities.shape[1] != 2 or identities.dtype != np.uint64:
        raise ValueError(f"identities are uint64 (n, 2), not {identities.dtype} {identities.shape}")
    return np.ascontiguousarray(identities)


def _rows(identities: U64, rows: NDArray[np.uint32]) -> NDArray[np.uint32]:
    if rows.shape != (len(identities),) or (rows.size and int(rows.max()) > MAX_ROW):
        raise ValueError(f"a row for each identity, at most {MAX_ROW}")
    return np.ascontiguousarray(rows, np.uint32)


def _room(homes: int, tail: int = TAIL_SLOTS) -> U64:
    return memory.zeros(-(-(homes + tail) // SLOTS_A_PAGE) * SLOTS_A_PAGE, SLOT)


def _laid_out(source: U64, prefix: int, depth: int, homes: int, tail: int) -> tuple[U64, int]:
    """Lay out the slots of `source` with this prefix over `homes` homes, with as long a tail as they need; return
    how many."""
    while True:
        target = _room(homes, tail)
        count = int(kernels.lay_out(source, prefix, depth, homes, target))
        if count >= 0:
            return target, count
        tail *= 2


def _spread_out(prefix: int, by: float) -> float:
    """Return a number in [0, 1) for each prefix, evenly spread over any run of prefixes."""
    return (prefix + 1) * by % 1.0


def _split_at(prefix: int, depth: int) -> int:
    return int(MAX_PARTITION_SLOTS * pow(2, -_spread_out(prefix + depth, 0.6180339887498949)))


def _first_homes(prefix: int, count: int) -> int:
    """Return the homes for a partition of `count` slots, so that neighbours do not grow at the same time."""
    load = MAX_LOAD / pow(GROWTH, 1 - _spread_out(prefix, 0.41421356237309515))
    return max(MIN_HOMES, ceil(count / min(load, MAX_LOAD - 0.01)))


def _damaged(what: str) -> StateDamaged:
    return StateDamaged(
        f"the directory of the state is damaged: {what}",
        START_OVER,
    )
