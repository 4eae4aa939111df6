"""Why two texts match, or why they do not: how far they are apart, and which rule decides.

python examples/explain_pair.py one.txt other.txt
"""

from __future__ import annotations

import sys
from pathlib import Path

from simstream import Deduper

RULES = {
    "distance": "too many bits differ",
    "sketch": "the pages are close, but their sketches agree too little",
    "short": "short texts must agree better",
}


def explain(one: str, other: str) -> str:
    """Return a sentence on two texts under the default recipe."""
    with Deduper() as deduper:
        [verdict] = deduper.judge([{"id": "one", "text": one}])
        explained = deduper.explain({"id": "other", "text": other})
        limit = deduper.policy.distance
    if verdict.reason or explained.page.reason:
        return f"no match: a text cannot be compared ({verdict.reason or explained.page.reason})"
    if not explained.candidates:
        return "no match: they differ in more than 16 bits of 64"
    [near] = explained.candidates
    apart = f"{near.distance} bits apart (at most {limit}), similarity {near.similarity}"
    if near.accepted:
        return f"a match: {apart}"
    return f"no match: {apart}; {RULES.get(str(near.rejected_by), near.rejected_by)}"


def main(one: str, other: str) -> None:
    print(explain(Path(one).read_text(encoding="utf-8"), Path(other).read_text(encoding="utf-8")))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
