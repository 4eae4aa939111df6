"""Bench: the directory and the page store, ns a page and bytes a page, the latter measured from the system too.

    python -m tests.bench.bench_pages [--size 1_000_000]

Pages come in batches of 1,000 with ids of 60 bytes. What is found is compared with what was put in before a clock
starts.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from simstream.files.file_system import FileSystem
from simstream.files.sealed import write
from simstream.judge.directory import PageDirectory
from simstream.judge.pages.store import PageStore
from simstream.model import U64
from tests.bench.measure import line, title

BATCH = 1_000
ASKED = 200_000
SKETCH_WORDS = 4


def resident() -> int:
    """Bytes of memory that the system counts as this process's own, without mapped files."""
    for entry in Path("/proc/self/status").read_text().splitlines():
        if entry.startswith("RssAnon"):
            return int(entry.split()[1]) * 1024
    return 0


def batches(count: int) -> Iterator[slice]:
    return (slice(at, min(at + BATCH, count)) for at in range(0, count, BATCH))


def timed(count: int, call: Callable[[slice], object]) -> tuple[float, float]:
    """ns a page over all batches, and the longest batch in ms."""
    longest = total = 0.0
    for batch in batches(count):
        began = perf_counter()
        call(batch)
        spent = perf_counter() - began
        total, longest = total + spent, max(longest, spent)
    return total / count * 1e9, longest * 1e3


def directory(keys: U64, rows: NDArray[np.uint32]) -> None:
    """Adding, finding and removing, at a size that grows by itself."""
    rng = np.random.default_rng(1)
    small = PageDirectory()
    small.add(keys[:BATCH], rows[:BATCH])
    small.candidates(keys[:1])
    small.remove(keys[:2], rows[:2])
    before = resident()
    known = PageDirectory()
    added, longest = timed(len(keys), lambda batch: known.add(keys[batch], rows[batch]))
    grown, taken = resident() - before, known.nbytes()
    starts, found = known.candidates(keys[: 10 * BATCH])
    assert (found[starts[:-1]] == rows[: 10 * BATCH]).all() or len(found) > 10 * BATCH
    asked = rng.integers(0, len(keys), ASKED)
    hits, strangers = keys[asked], rng.integers(0, 2**64, (ASKED, 2), dtype=np.uint64)
    hit, _ = timed(ASKED, lambda batch: known.candidates(hits[batch]))
    miss, _ = timed(ASKED, lambda batch: known.candidates(strangers[batch]))
    some = rng.permutation(len(keys))[: min(ASKED, len(keys))]
    gone, gone_rows = keys[some], rows[some]
    removed, _ = timed(len(some), lambda batch: known.remove(gone[batch], gone_rows[batch]))
    line(
        f"directory: add {added:.0f} ns with all growth (longest batch {longest:.1f} ms), find {hit:.0f} ns, "
        f"miss {miss:.0f} ns, remove {removed:.0f} ns"
    )
    line(f"directory: {taken / len(keys):.2f} bytes a page, {grown / len(keys):.2f} by the system")


def pages(keys: U64, rows: NDArray[np.uint32], folder: Path) -> None:
    """Appending, reading from memory and from disk, what comes due, compaction."""
    rng = np.random.default_rng(1)
    size = len(keys)
    store, files = PageStore(SKETCH_WORDS), FileSystem()
    sketches = rng.integers(0, 2**64, (BATCH, SKETCH_WORDS), dtype=np.uint64)
    ids = b"".join(b"https://example.org/%040d" % number for number in range(BATCH))
    id_ends = np.arange(1, BATCH + 1, dtype=np.uint32) * np.uint32(60)
    colds = np.empty(size, np.uint32)
    before = resident()

    def append(batch: slice) -> None:
        count = batch.stop - batch.start
        ordinals = np.arange(batch.start, batch.stop)
        colds[batch] = store.append(
            ordinals=ordinals,
            times=ordinals + rng.integers(0, 1000, count),
            identities=keys[batch],
            fingerprints=keys[batch, 0],
            sketches=sketches[:count],
            short=np.zeros(count, np.bool_),
            rows=rows[batch],
            ids=ids[: 60 * count],
            id_ends=id_ends[:count],
        )

    def save() -> None:
        for part in store.parts():
            if part.arrays and not part.changes:
                store.read_from_disk([write(files, folder / f"{part.name}.sealed", part)])

    append(slice(0, BATCH))
    store = PageStore(SKETCH_WORDS)
    spent, longest = 0.0, 0.0
    for start in range(0, size, 1_000 * BATCH):
        end = min(start + 1_000 * BATCH, size)
        each, long = timed(
            end - start, lambda batch, start=start: append(slice(start + batch.start, start + batch.stop))
        )
        spent, longest = spent + each * (end - start), max(longest, long)
        save()
    grown = resident() - before
    line(f"pages: append {spent / size:.0f} ns (longest batch {longest:.1f} ms, that which seals a chunk)")
    line(
        f"pages: {store.nbytes() / size:.2f} bytes of memory a page with {size % 65536:,} of them not on disk, "
        f"{grown / size:.2f} by the system"
    )
    asked = colds[rng.integers(0, size - size % 65536, 20_000)].tolist()
    for name, call in (("read", store.read), ("order", store.order)):
        began = perf_counter()
        for cold in asked:
            call(cold)
        line(f"pages: {name} from disk {(perf_counter() - began) / len(asked) * 1e6:.2f} us")
    recent = colds[-1000:].tolist()
    began = perf_counter()
    for cold in recent:
        store.read(cold)
    line(f"pages: read from memory {(perf_counter() - began) / len(recent) * 1e6:.2f} us")
    began, after, steps, longest = perf_counter(), None, 256, 0.0
    for step in range(1, steps + 1):
        one = perf_counter()
        list(store.due_by_chunk(after, after := size * step // steps))
        longest = max(longest, perf_counter() - one)
    each = (perf_counter() - began) / size * 1e9
    line(f"pages: due in {steps} steps {each:.0f} ns a page, longest {longest * 1e3:.1f} ms")
    compaction(store, colds, save)


def compaction(store: PageStore, colds: NDArray[np.uint32], save: Callable[[], None]) -> None:
    """Every second page leaves; all chunks are rewritten."""
    store.note_left(colds[::2].copy())
    colds = colds.copy()
    colds[::2] = 2**32 - 1
    longest, steps = 0.0, 0
    while True:
        began = perf_counter()
        moves = store.compact(lambda rows, numbers: colds[rows] == numbers)
        if moves is None:
            save()
            moves = store.compact(lambda rows, numbers: colds[rows] == numbers)
            if moves is None:
                break
        else:
            longest = max(longest, perf_counter() - began)
        colds[moves.rows] = moves.colds
        steps += 1
    line(f"pages: {steps} steps of compaction, the longest {longest * 1e3:.1f} ms")


def run(size: int = 1_000_000) -> None:
    """Both at one size."""
    title("pages", f"directory and page store, {size:,} pages")
    keys = np.random.default_rng(7).integers(0, 2**64, (size, 2), dtype=np.uint64)
    rows = np.arange(size, dtype=np.uint32)
    directory(keys, rows)
    with tempfile.TemporaryDirectory() as folder:
        pages(keys, rows, Path(folder))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=1_000_000)
    run(parser.parse_args().size)


if __name__ == "__main__":
    main()
