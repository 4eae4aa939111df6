"""Bench: the four schemes of the paper side by side, by size of the corpus: time of a query, and memory.

    python -m tests.bench.schemes [--most 24] [--svg docs/pictures/schemes.svg]

For k = 3: a scan; a set of the corpus that is probed with all 43,744 variants of a query; a table of all 43,744
variants of the corpus; permuted tables. Random fingerprints; half of the queries lie at a distance of 0 to 3 from
one of them, and half are random. All answers are compared with the scan's before a clock starts. CPU of a thread.

Source: Manku, Jain, Das Sarma: Detecting Near-Duplicates for Web Crawling (2007), section 3.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from itertools import combinations
from math import comb
from pathlib import Path
from time import thread_time
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from simstream.index.answers import HitBuffers
from simstream.index.keys import frozen
from simstream.index.packed import TableBuild, build
from simstream.index.plan import SCAN, Plan, choose
from simstream.model import U64
from tests.bench.bench_index import queries
from tests.bench.measure import line, title
from tests.bench.scheme_kernels import insert, probe_variants, search, vary

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DISTANCE = 3
VARIANTS = 1 + sum(comb(64, bits) for bits in range(1, DISTANCE + 1))
"""A fingerprint and the 43,744 others within the distance."""
STORED_BYTES = 12
"""A variant and the number of the fingerprint that it is of."""
ALL_STORED_UP_TO = 1 << 10
"""Fingerprints whose variants are all stored: half a gigabyte, and 500 bytes to sort each."""
MIN_S = 0.1
TURNS = 5
QUERIES = 1 << 16
ROOM = 1 << 18

Answer = tuple[NDArray[np.int64], U64]
"""The numbers of the queries (h,) and the fingerprints (h,) of all matches, in any order."""


class SearchScheme(Protocol):
    """One way to find everything within the distance in a corpus, which it was made of."""

    def find(self, asked: U64) -> Answer: ...

    def nbytes(self) -> int: ...


class TableScheme:
    """A scan or permuted tables, as the index builds them."""

    def __init__(self, column: U64, plan: Plan) -> None:
        self._column, self._tables = column, build(column, TableBuild(plan, DISTANCE), lambda: None)
        self._hits = HitBuffers()

    def find(self, asked: U64) -> Answer:
        """As `SearchScheme.find`."""
        owners, values, at, asked = [], [], 0, frozen(asked, np.uint64)
        while at < len(asked):
            following, count = self._tables.find(asked, at, self._hits)
            owners.append((self._hits.tags[:count] >> np.uint64(8)).astype(np.int64))
            values.append(self._column[self._hits.places[:count].astype(np.int64)])
            if following < len(asked):
                self._hits.fit(following - at)
            at = following
        return np.concatenate(owners), np.concatenate(values)

    def nbytes(self) -> int:
        """Of tables and directories; the column itself is in none of them but of the scan."""
        return sum(array.nbytes for array in self._tables.arrays().values())


class ProbedSet:
    """The corpus in a hash set at most half full, probed with every variant of a query."""

    def __init__(self, column: U64) -> None:
        self._masks = masks()
        self._slots: U64 = np.zeros(1 << (2 * len(column) - 1).bit_length(), np.uint64)
        insert(column, self._slots)

    def find(self, asked: U64) -> Answer:
        """As `SearchScheme.find`."""
        return _answer(lambda owners, values: probe_variants(asked, self._masks, self._slots, owners, values))

    def nbytes(self) -> int:
        """Of the set."""
        return self._slots.nbytes


class StoredVariants:
    """Every variant of the corpus in a sorted array, looked up with the query alone."""

    def __init__(self, column: U64) -> None:
        self._column = column
        variants: U64 = np.empty(len(column) * VARIANTS, np.uint64)
        vary(column, masks(), variants)
        order = np.argsort(variants)
        self._variants = variants[order]
        self._sources = (order // VARIANTS).astype(np.uint32)

    def find(self, asked: U64) -> Answer:
        """As `SearchScheme.find`."""
        return _answer(
            lambda owners, values: search(asked, self._variants, self._sources, self._column, owners, values)
        )

    def nbytes(self) -> int:
        """Of variants and sources."""
        return self._variants.nbytes + self._sources.nbytes


class SchemeName(NamedTuple):
    """What a scheme is called, and how the picture shows it."""

    text: str
    short: str


NAMES = {
    "scan": SchemeName("scan of all", "scan"),
    "probe": SchemeName("set, probed with 43,744 variants", "probe all variants"),
    "stored": SchemeName("table of all variants", "store all variants"),
    "tables": SchemeName("permuted tables (simstream)", "permuted tables"),
}


class SchemeResult(NamedTuple):
    """One scheme at one size; `us` None where it was not run, for want of memory."""

    scheme: str
    size: int
    us: float | None
    nbytes: int


def masks() -> U64:
    """The difference of a fingerprint to itself and to all others within the distance."""
    sets = [bits for count in range(DISTANCE + 1) for bits in combinations(range(64), count)]
    return np.array([sum(1 << bit for bit in bits) for bits in sets], np.uint64)


def schemes(column: U64) -> dict[str, Callable[[], SearchScheme]]:
    """What makes each scheme of a distinct ascending corpus; all that fit into memory."""
    found: dict[str, Callable[[], SearchScheme]] = {
        "scan": lambda: TableScheme(column, SCAN),
        "probe": lambda: ProbedSet(column),
        "tables": lambda: TableScheme(column, choose(DISTANCE, len(column))),
    }
    if len(column) <= ALL_STORED_UP_TO:
        found["stored"] = lambda: StoredVariants(column)
    return found


def measure(size: int) -> list[SchemeResult]:
    """Measure all schemes over `size` random fingerprints, after a comparison of their answers."""
    rng = np.random.default_rng(size)
    column: U64 = np.unique(rng.integers(1, 1 << 64, size, np.uint64))
    asked = np.concatenate(
        [queries(column, QUERIES // 2, DISTANCE), rng.integers(1, 1 << 64, QUERIES // 2, np.uint64)]
    )
    asked = np.sort(asked)
    checked = asked[:: QUERIES // 64]
    expected = pairs(TableScheme(column, SCAN).find(checked))
    assert len(expected) >= len(checked) // 4, "no query has a match: nothing would be compared"
    rows = []
    for name, make in schemes(column).items():
        scheme = make()
        assert pairs(scheme.find(checked)) == expected, f"{name} answers otherwise than the scan"
        rows.append(SchemeResult(name, size, _us(scheme, asked), scheme.nbytes()))
        del scheme
    if size > ALL_STORED_UP_TO:
        rows.append(SchemeResult("stored", size, None, size * VARIANTS * STORED_BYTES))
    return rows


def _us(scheme: SearchScheme, asked: U64) -> float:
    """Microseconds of CPU a query: the best of some turns over as many queries as take about MIN_S."""
    part, spent = asked[:0], 0.0
    while spent < MIN_S and len(part) < len(asked):
        part = asked[:: max(1, len(asked) // max(16, 4 * len(part)))]
        spent = _seconds(scheme, part)
    return min(_seconds(scheme, part) for _ in range(TURNS)) / len(part) * 1e6


def _seconds(scheme: SearchScheme, part: U64) -> float:
    began = thread_time()
    scheme.find(part)
    return thread_time() - began


def _answer(find: Callable[[Any, Any], int]) -> Answer:
    owners, values = np.empty(ROOM, np.int64), np.empty(ROOM, np.uint64)
    count = find(owners, values)
    assert count <= ROOM, "more matches than there is room for"
    return owners[:count], values[:count]


def pairs(answer: Answer) -> list[tuple[int, int]]:
    """An answer to be compared with another."""
    return sorted(zip(answer[0].tolist(), answer[1].tolist(), strict=True))


def draw(rows: Sequence[SchemeResult]) -> str:
    """The picture as SVG: the time of a query and memory, by size of the corpus."""
    from simstream.evaluate.figures import COLOURS, MARKS, as_svg

    def paint(figure: Figure) -> None:
        left, right = figure.subplots(1, 2)
        for at, name in enumerate(NAMES):
            own = [row for row in rows if row.scheme == name]
            style: dict[str, Any] = {"color": COLOURS[at], "marker": MARKS[at], "markersize": 4.5, "linewidth": 1.8}
            timed = [row for row in own if row.us is not None]
            left.plot([row.size for row in timed], [row.us for row in timed], label=NAMES[name].text, **style)
            right.plot([row.size for row in timed], [row.nbytes for row in timed], **style)
            if len(timed) < len(own):
                rest = own[len(timed) - 1 :]
                style |= {"marker": "", "linestyle": (0, (3, 2))}
                right.plot([row.size for row in rest], [row.nbytes for row in rest], **style)
        _axes(
            left,
            "time of a query, on one core",
            {0.1: "0.1 µs", 1: "1 µs", 10: "10 µs", 100: "100 µs", 1e3: "1 ms", 1e4: "10 ms"},
        )
        _axes(
            right, "memory (dashed: computed)", {1 << 10: "1 KB", 1 << 20: "1 MB", 1 << 30: "1 GB", 1 << 40: "1 TB"}
        )
        figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False)

    return as_svg("schemes", (8.8, 4.1), paint)


def _axes(axes: Axes, name: str, ticks: dict[float, str]) -> None:
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_title(name)
    axes.set_xticks([1 << 10, 1 << 14, 1 << 18, 1 << 22], ["1,024", "16,384", "262,144", "4.2 M"])
    axes.set_yticks(list(ticks), list(ticks.values()))
    axes.minorticks_off()
    axes.set_xlabel("fingerprints in the corpus")


def run(most: int, svg: Path | None) -> None:
    """All sizes from 2^8 to 2^`most`, and the picture."""
    title(
        "schemes", f"k = {DISTANCE}, random fingerprints, answers compared with the scan's first, CPU of one thread"
    )
    rows = []
    for bits in range(8, most + 1, 2):
        for row in measure(1 << bits):
            rows.append(row)
            time = "not run" if row.us is None else f"{row.us:12,.2f} us a query"
            line(f"{row.size:>12,}  {NAMES[row.scheme].text:<34} {time:>22} {row.nbytes:>20,} bytes")
    if svg is not None:
        svg.write_text(draw(rows), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=24, help="the largest corpus has 2^MOST fingerprints")
    parser.add_argument("--svg", type=Path, help="draw the picture there")
    options = parser.parse_args()
    run(options.most, options.svg)


if __name__ == "__main__":
    main()
