"""Which recipe fits my pages? Precision and recall of recipes on labelled pairs of texts.

    python examples/compare_recipes.py examples/text_pairs.jsonl default google2007

Each line of the file is `{"a": TEXT, "b": TEXT, "label": 1}`, with 1 for near duplicates and 0 for other pairs.
A recipe is a name or a file, such as my_recipe.toml; without any, default and google2007 are compared.
`simstream evaluate` measures much more, with confidence intervals, on whole corpora.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from simstream import Deduper, load_recipe


class LabelledPair(NamedTuple):
    """Two texts, and whether a person takes them for near duplicates."""

    a: str
    b: str
    label: bool


def matches(recipe: str, pairs: list[LabelledPair]) -> Iterator[bool]:
    """Yield for each pair whether the recipe takes its texts for near duplicates."""
    with Deduper(recipe=recipe) as deduper:
        for pair in pairs:
            [first] = deduper.judge([pair.a])
            near = deduper.explain(pair.b).candidates
            yield any(page.id == first.id and page.accepted for page in near)


def main(path: str, *recipes: str) -> None:
    read = (json.loads(line) for line in Path(path).read_bytes().splitlines())
    pairs = [LabelledPair(one["a"], one["b"], bool(one["label"])) for one in read]
    print(f"{'recipe':20} precision  recall")
    for recipe in recipes or ("default", "google2007"):
        told = list(matches(recipe, pairs))
        right = sum(said and pair.label for said, pair in zip(told, pairs, strict=True))
        precision = right / max(sum(told), 1)
        recall = right / max(sum(pair.label for pair in pairs), 1)
        print(f"{load_recipe(recipe).name:20} {precision:9.2f} {recall:7.2f}")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(*sys.argv[1:])
