"""Is this text in my corpus? The corpus is read once into a folder; then a question takes milliseconds.

python examples/match_corpus.py corpus state pages.jsonl     # build or extend the corpus
python examples/match_corpus.py ask state "the text"          # ask; nothing is stored
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from simstream import Deduper


def extend(state: str, pages: str) -> None:
    """Add the pages of a JSONL file to the corpus."""
    with Deduper(path=state) as deduper, Path(pages).open(encoding="utf-8") as lines:
        verdicts = deduper.judge(map(json.loads, lines))
        short = sum(verdict.verdict in ("too_short", "unreadable") for verdict in verdicts)
        print(f"{len(verdicts)} pages read, {short} of them too short or unreadable")


def ask(state: str, text: str) -> None:
    """Print the pages of the corpus that match the text, the closest first."""
    with Deduper(path=state) as deduper:
        matches = deduper.match(text)
    for match in matches[:10]:
        print(f"{match.id}: {match.distance} bits apart, similarity {match.similarity}")
    if not matches:
        print("no page of the corpus matches")


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[1] not in ("corpus", "ask"):
        sys.exit(__doc__)
    {"corpus": extend, "ask": ask}[sys.argv[1]](*sys.argv[2:])
