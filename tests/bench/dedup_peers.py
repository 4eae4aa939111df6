"""`python -m tests.bench.dedup_peers`: one collection of made pages, through `dedup` and through MinHash programs.

Each gets the same Parquet files and all cores, and writes a collection with one page of each group, not always the
first. As the pages are made, it is known which are copies of an earlier one, which have one word changed, and which
share half of their words with an earlier one, which are no near duplicates. `--peers` names a Python that has the
other programs (`pip install text-dedup==0.4.0 'xxhash<4' datatrove==0.10.1 orjson nltk spacy`).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tests.bench.dedup_memory import VOCABULARY, WORDS, made_pages
from tests.bench.measure import line

FILES = 2
HALF = 0.1
"""The share of pages with half of the words of an earlier one."""
LOOK_S = 0.5
"""Seconds between two looks at memory and CPU. What a process does after the last look is not counted."""
DATATROVE = Path(__file__).with_name("peer_datatrove.py")


class Need(NamedTuple):
    """What a program needed: seconds, seconds of CPU, and the most bytes of its processes together."""

    seconds: float
    cpu: float
    memory: int


class Truth(NamedTuple):
    """Kind and group of each page, as `made_pages` gives them."""

    kinds: NDArray[np.int8]
    groups: NDArray[np.int64]


class Method(NamedTuple):
    """A program: its command, and the numbers of the pages that it kept. `module`: what its Python must have."""

    module: str
    command: list[str]
    kept: Callable[[], Iterable[str]]


def main() -> None:
    """Make the pages, run each program, and print what it needed and found."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.dedup_peers", description=__doc__)
    parser.add_argument("--pages", type=int, default=1_000_000)
    parser.add_argument("--words", type=int, default=WORDS, help="words of a page")
    parser.add_argument("--peers", help="a Python with the programs to compare with")
    parser.add_argument("--only", action="append", help="leave out the other programs")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        made = write_files(place / "pages", asked.pages, asked.words)
        line(
            f"{asked.pages:,} pages of {asked.words} words in {FILES} Parquet files: "
            f"{(made.kinds == 1).sum():,} edited from earlier ones, {(made.kinds == 2).sum():,} copies"
        )
        for name, method in methods(place, asked.peers or sys.executable).items():
            if asked.only and name not in asked.only:
                continue
            if not has(method):
                line(f"{name} is missing: give --peers PYTHON, which has {method.module}")
                continue
            need = run(method.command, place)
            report(name, need, made, np.fromiter(map(int, method.kept()), np.int64))


def write_files(folder: Path, count: int, words: int) -> Truth:
    """Write the pages, ids being numbers; return the truth about them."""
    folder.mkdir()
    schema = pa.schema([("id", pa.string()), ("text", pa.string())])
    writers = [pq.ParquetWriter(folder / f"{at}.parquet", schema, compression="zstd") for at in range(FILES)]
    kinds, groups, first = [], [], 0
    for made in made_pages(count, words, len(VOCABULARY), half=HALF):
        ids = [str(number) for number in range(first, first + len(made.texts))]
        writers[FILES * first // count].write_table(pa.table([ids, made.texts], schema))
        kinds.append(made.kinds)
        groups.append(made.groups)
        first += len(made.texts)
    for writer in writers:
        writer.close()
    return Truth(np.concatenate(kinds), np.concatenate(groups))


def methods(place: Path, python: str) -> dict[str, Method]:
    """Return the programs by name."""
    pages, kept, selected = place / "pages", place / "text-dedup", place / "datatrove"
    options = {"path": pages, "split": "train", "cache_dir": place / "cache", "output": kept, "column": "text"}
    options |= {"batch_size": 10_000, "num_proc": os.cpu_count(), "hash_func": "xxh3"}
    flags = [part for name, value in options.items() for part in (f"--{name}", str(value))]
    return {
        "simstream": own(pages, place / "simstream"),
        "simstream --distance 8": own(pages, place / "simstream-8", "--distance", "8"),
        "text-dedup": Method("text_dedup", [python, "-m", "text_dedup.minhash", *flags], lambda: ids_in(kept)),
        "datatrove": Method(
            "datatrove", [python, str(DATATROVE), str(pages), str(selected)], lambda: ids_in(selected / "kept")
        ),
    }


def own(pages: Path, place: Path, *options: str) -> Method:
    """Return `dedup` with these options."""
    kept = place.with_suffix(".parquet")
    files = [str(pages / "*.parquet"), "-o", str(place.with_suffix(".verdicts.parquet")), "--keep", str(kept)]
    command = [sys.executable, "-m", "simstream", "dedup", *files, *options]
    return Method("simstream", command, lambda: pq.read_table(kept, columns=["id"])["id"].to_pylist())


def has(method: Method) -> bool:
    """Return whether the Python of a program has it."""
    code = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({method.module!r}) is None)"
    return not subprocess.run([method.command[0], "-c", code], check=False).returncode


def run(command: list[str], place: Path) -> Need:
    """Run a program to its end, and watch its processes."""
    environment = {**os.environ, "HF_HOME": str(place / "hf"), "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "0"}
    began, most, cpu = time.perf_counter(), 0, dict[int, float]()
    out = place / "output"
    with (
        out.open("wb") as said,
        subprocess.Popen(
            command, env=environment, stdout=said, stderr=subprocess.STDOUT, start_new_session=True, cwd=place
        ) as process,
    ):
        while process.poll() is None:
            held = 0
            for pid, size, seconds in processes(process.pid):
                held, cpu[pid] = held + size, seconds
            most = max(most, held)
            time.sleep(LOOK_S)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}: {out.read_text()[-2_000:]}")
    return Need(time.perf_counter() - began, sum(cpu.values()), most)


def processes(session: int) -> Iterator[tuple[int, int, float]]:
    """Yield the processes of a session: number, bytes (what they share counts once), seconds of CPU."""
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and os.getsid(pid := int(folder.name)) == session:
                memory = (folder / "smaps_rollup").read_text().partition("\nPss:")[2].split(maxsplit=1)
                ticks = (folder / "stat").read_text().rpartition(")")[2].split()[11:13]
                yield pid, int(memory[0]) * 1024, sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
        except (OSError, IndexError):  # it has ended
            continue


def ids_in(folder: Path) -> Iterable[str]:
    """Yield the ids of the pages in a folder of Arrow streams, or of JSON lines."""
    for path in sorted(folder.glob("*.arrow")):
        with pa.memory_map(str(path)) as source:
            yield from pa.ipc.open_stream(source).read_all()["id"].to_pylist()
    for path in sorted(folder.glob("*.jsonl")):
        with path.open("rb") as lines:
            yield from (json.loads(one)["id"] for one in lines)


def report(name: str, need: Need, made: Truth, kept: NDArray[np.int64]) -> None:
    """Print a line. A group may keep any one of its pages: only a further one is a near duplicate not found."""
    groups = len(np.unique(made.groups))
    kept_groups = len(np.unique(made.groups[kept]))
    missed, lost = len(kept) - kept_groups, 1 - kept_groups / groups
    line(
        f"{name}: {need.seconds:,.0f} s, {need.cpu:,.0f} s of CPU, {need.memory / 1e6:,.0f} MB; missed {missed:,}, "
        f"at most {missed / (made.kinds == 1).sum():.2%} of the edited pages; lost {lost:.4%} of the texts"
    )


if __name__ == "__main__":
    main()
