"""A JSONL file without its near duplicates, however long it is: only the judge's state stays in memory.

    python examples/jsonl_unique.py pages.jsonl unique.jsonl

The first page of each group is kept. `simstream dedup --keep` uses all cores, and finds more by a wider distance.
"""

from __future__ import annotations

import json
import sys
from itertools import islice
from pathlib import Path

from simstream import Deduper

AT_ONCE = 500
"""Pages that are held in memory."""


def main(source: str, target: str) -> None:
    read = kept = 0
    with (
        Deduper() as deduper,
        Path(source).open(encoding="utf-8") as lines,
        Path(target).open("w", encoding="utf-8") as out,
    ):
        pages = filter(str.strip, lines)  # a blank line is no page
        while batch := list(islice(pages, AT_ONCE)):
            verdicts = deduper.judge([json.loads(line) for line in batch])
            chosen = [line for line, verdict in zip(batch, verdicts, strict=True) if verdict.verdict == "new"]
            out.writelines(chosen)
            read, kept = read + len(batch), kept + len(chosen)
    print(f"{kept} of {read} pages kept")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
