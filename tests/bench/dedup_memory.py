"""`python -m tests.bench.dedup_memory`: what `dedup` needs for each page of a Parquet file: memory, time and disk.

Pages are made up: 40 words of a vocabulary, and an address of usual length as id. A part of them are near
duplicates of an earlier page, and a part exact copies under ids of their own. `dedup` runs in a process of its own,
which notes its memory while it judges. With `--words 250 --vocabulary 300` all pages have nearly the same words:
thousands are within the distance, and only the sketch tells them apart.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from simstream.telemetry.process_memory import held, peak

WORDS, BATCH = 40, 10_000
VOCABULARY = np.array([f"{a}{b}{c}" for a in "bdfgklmnprst" for b in ("al", "en", "ir", "ou") for c in "aeioxyz"])


class Made(NamedTuple):
    """Texts. `kinds`: 0 for one of its own, 1 for an edited earlier one, 2 for a copy. `groups`: the number of the
    page that it goes back to, or its own."""

    texts: list[str]
    kinds: NDArray[np.int8]
    groups: NDArray[np.int64]


def made_pages(
    count: int,
    length: int,
    vocabulary: int,
    near: float = 0.13,
    copies: float = 0.07,
    half: float = 0.0,
    seed: int = 1,
) -> Iterator[Made]:
    """Yield pages, batch by batch; one in a hundred is remembered, for others to be like.

    `half`: so many pages share half of their words with an earlier one, and are pages of their own.

    `length`: the words of a page; `vocabulary`: how many different words there are.
    """
    rng = np.random.default_rng(seed)
    known, known_groups = np.empty((0, length), np.int64), np.empty(0, np.int64)
    words = VOCABULARY[:vocabulary].tolist()
    for first in range(0, count, BATCH):
        chosen = rng.integers(0, len(words), (min(BATCH, count - first), length))
        kinds, groups = np.zeros(len(chosen), np.int8), np.arange(first, first + len(chosen))
        if len(known):
            kind = rng.random(len(chosen))
            like = np.flatnonzero(kind < near + copies)
            taken = rng.integers(0, len(known), len(like))
            chosen[like], groups[like] = known[taken], known_groups[taken]
            edited = like[kind[like] < near]
            chosen[edited, rng.integers(0, length, len(edited))] = rng.integers(0, len(words), len(edited))
            kinds[like], kinds[edited] = 2, 1
            if half:
                some = np.flatnonzero((kind >= near + copies) & (kind < near + copies + half))
                chosen[some, : length // 2] = known[rng.integers(0, len(known), len(some)), : length // 2]
        some = max(1, len(chosen) // 100)
        known = np.concatenate([known, chosen[:some]])
        known_groups = np.concatenate([known_groups, groups[:some]])
        yield Made([" ".join([words[at] for at in row]) for row in chosen.tolist()], kinds, groups)


def write_pages(path: Path, count: int, length: int, vocabulary: int) -> None:
    """Write made pages as a Parquet file."""
    schema = pa.schema([("id", pa.string()), ("text", pa.string())])
    number = 0
    with pq.ParquetWriter(path, schema, compression="zstd") as out:
        for texts, _, _ in made_pages(count, length, vocabulary):
            names = [
                f"https://site-{n % 9973}.example/{n:012}/a-page.html" for n in range(number, number + len(texts))
            ]
            out.write_table(pa.table([names, texts], schema))
            number += len(texts)


def memory() -> dict[str, int]:
    """Return the bytes of this process in memory: its own, mapped from files, and at the highest."""
    return {**dict(held()), "highest": peak()}


def judge(arguments: list[str], every: int) -> None:
    """Run `dedup`, and print notes of its memory as JSON: one each `every` pages, and one at the end."""
    from simstream.cli.main import invoke
    from simstream.deduper.state import SavedState

    real, following = SavedState.judge, [every]

    def noted(state: SavedState, *given: object) -> object:
        verdicts = real(state, *given)  # type: ignore[arg-type]
        if state.judged >= following[0]:
            following[0] += every
            parts = state.resolver.nbytes()
            print(json.dumps({"pages": state.judged, **memory(), "parts": parts}), flush=True)
        return verdicts

    SavedState.judge = noted  # type: ignore[assignment,method-assign]
    code = invoke(arguments)
    used = os.times()
    print(json.dumps({"pages": -1, **memory(), "cpu": used.user + used.system}), flush=True)
    raise SystemExit(code)


def size_of(folder: Path) -> int:
    """Return the bytes that a folder takes on the disk, without files that have no name."""
    try:
        return sum(path.stat().st_blocks * 512 for path in folder.rglob("*"))
    except OSError:
        return 0  # a file has gone meanwhile


def run(pages: Path, options: list[str], every: int) -> None:
    """Run `dedup` in a process of its own, and print what each page needed."""
    with tempfile.TemporaryDirectory(dir=pages.parent) as folder:
        place = Path(folder)
        state = ["--state", str(place / "state")] if "--state" in options else []
        rest = [option for option in options if option != "--state"]
        arguments = ["dedup", str(pages), "-o", str(place / "verdicts.parquet"), *state, *rest]
        command = [sys.executable, "-m", "tests.bench.dedup_memory", "--judge", json.dumps(arguments)]
        began, notes, disk = time.perf_counter(), list[dict[str, Any]](), 0
        with subprocess.Popen([*command, "--every", str(every)], stdout=subprocess.PIPE, text=True) as process:
            for line in process.stdout or ():
                notes.append(json.loads(line))
                disk = max(disk, size_of(place / "state"))
                own, mapped = (notes[-1][kind] / 1e6 for kind in ("own", "mapped"))
                seconds = time.perf_counter() - began
                print(
                    f"{notes[-1]['pages']:>14,} pages, own {own:,.0f} MB, mapped {mapped:,.0f} MB, {seconds:.0f} s"
                )
        if process.returncode:
            raise SystemExit(process.returncode)
        *notes, end = notes
        print(f"{notes[-1]['pages']:,} pages {' '.join(options)}: {time.perf_counter() - began:.1f} s", end="")
        print(f", {end['cpu']:.1f} s of CPU, state {disk / notes[-1]['pages']:.0f} bytes of the disk a page")
        report(notes, end)


def report(notes: list[dict[str, Any]], end: dict[str, Any]) -> None:
    """Print the bytes a page, from a fifth of the pages on: before, buffers fill that do not grow any more."""
    first, last = notes[len(notes) // 5], notes[-1]
    more = max(1, last["pages"] - first["pages"])
    own, mapped = ((last[kind] - first[kind]) / more for kind in ("own", "mapped"))
    print(f"  from {first['pages']:,} pages on: own {own:.1f}, mapped {mapped:.1f} bytes a page")
    print(f"  at the end own {end['own'] / 1e6:,.0f} MB; most, mapped included, {end['highest'] / 1e6:,.0f} MB")
    for name, size in [*last["parts"].items(), ("all", sum(last["parts"].values()))]:
        print(f"  {name:<22}{size / last['pages']:>8.2f} bytes a page")


def main() -> None:
    """Run it; other options, such as `--state` or `--distance 8`, are those of `dedup`."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.dedup_memory", description=__doc__)
    parser.add_argument("--pages", type=int, default=2_000_000)
    parser.add_argument("--words", type=int, default=WORDS, help="words of a page")
    parser.add_argument("--vocabulary", type=int, default=len(VOCABULARY), help="different words of all pages")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()), help="where made pages stay")
    parser.add_argument("--every", type=int, help="note the memory after so many pages")
    parser.add_argument("--judge", help=argparse.SUPPRESS)
    asked, options = parser.parse_known_args()
    every = asked.every or max(1, asked.pages // 20)
    if asked.judge:
        judge(json.loads(asked.judge), every)
        return
    made = asked.pages, asked.words, asked.vocabulary
    pages = asked.folder / f"made-{'-'.join(map(str, made))}.parquet"
    if not pages.exists():
        write_pages(pages, *made)
    run(pages, options, every)


if __name__ == "__main__":
    main()
