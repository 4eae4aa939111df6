"""The probe pages' fingerprints as `fingerprints.json` holds them; run as a module it writes them anew.

    python -m tests.golden.write_fingerprints CACHE

Only for a change that is meant to change fingerprints: all logs have to be written again after it.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from simstream.text import probes
from simstream.text.fingerprinter import Fingerprinter
from simstream.text.recipe import PRESETS, Recipe
from simstream.text.recipe_file import load_recipe

GOLDEN = Path(__file__).parent / "fingerprints.json"
RECIPES = PRESETS | {"former": load_recipe(Path(__file__).parents[1] / "studies" / "recipes" / "former.toml")}
"""The presets, and the former `default`: its logs go on with such a file."""


def read() -> dict[str, dict[str, Any]]:
    """Per recipe its `recipe_id` and its `probes`."""
    return json.loads(GOLDEN.read_text(encoding="utf-8"))  # type: ignore[no-any-return]


def probe_rows(recipe: Recipe, cache: Path) -> list[list[Any]]:
    """Fingerprint, sketch and number of words of each probe page, also of short ones."""
    with Fingerprinter(replace(recipe, min_words=1), cache, workers=0) as fingerprinter:
        columns = [column.tolist() for column in fingerprinter.texts(probes.TEXTS)]
    return [[f"{f:016x}", [f"{s:016x}" for s in sketch], n] for f, sketch, n in zip(*columns, strict=True)]


def recipe_id(recipe: Recipe, cache: Path) -> str:
    """The recipe's id on this machine."""
    with Fingerprinter(recipe, cache, workers=0) as fingerprinter:
        return fingerprinter.recipe_id


def _lines(name: str, recipe: Recipe, cache: Path) -> str:
    rows = ",\n   ".join(json.dumps(row) for row in probe_rows(recipe, cache))
    return f' "{name}": {{\n  "recipe_id": "{recipe_id(recipe, cache)}",\n  "probes": [\n   {rows}\n  ]\n }}'


if __name__ == "__main__":
    blocks = [_lines(name, recipe, Path(sys.argv[1])) for name, recipe in RECIPES.items()]
    GOLDEN.write_text("{\n" + ",\n".join(blocks) + "\n}\n", encoding="utf-8")
