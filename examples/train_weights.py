"""Train word weights on pages of one's own, and see what they change for a text.

    python examples/train_weights.py pages.jsonl weights.txt

A word that is on many pages weighs little: what all pages of a site share no longer makes them alike.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np

from simstream import fingerprint, load_recipe


def train(pages: str, table: Path) -> Path:
    """Write a table of weights, and beside it the recipe file that uses it; return the recipe file."""
    command = ["train-idf", pages, "-o", str(table), "--min-pages", "2"]
    subprocess.run([sys.executable, "-m", "simstream", *command], check=True)
    recipe = table.with_suffix(".toml")
    recipe.write_text(f'weights = "file"\nidf_file = "{table.name}"\n', encoding="utf-8")
    return recipe


def main(pages: str, table: str) -> None:
    recipe = train(pages, Path(table))
    with Path(table).open(encoding="utf-8") as lines:
        weights = sorted((float(line.split()[-1]), line.split()[0]) for line in lines)
    print("lightest words:", *(word for _, word in weights[:5]))
    text = "The keeper of the lighthouse says that the lamp will be lit again before the end of the winter."
    shipped, trained = fingerprint([text])[0], fingerprint([text], recipe=load_recipe(recipe))[0]
    print(f"fingerprint {shipped:016x} by the shipped weights, {trained:016x} by your own")
    print("bits that differ:", np.bitwise_count(shipped ^ trained))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
