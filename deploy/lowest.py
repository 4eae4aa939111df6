"""Prints pip constraints that hold every dependency of pyproject.toml at the lowest version that it allows."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
_MIN_VERSION: Final = re.compile(r"([A-Za-z0-9_.-]+)(?:\[[^\]]*\])?\s*[>=]=\s*([0-9.]+)")


def constraints(pyproject: Path) -> list[str]:
    """Return `NAME==VERSION` for each dependency with a lower bound, extras included."""
    project = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"].values()
    wanted = [*project["dependencies"], *(one for extra in extras for one in extra)]
    found = [_MIN_VERSION.match(one) for one in wanted]
    return sorted({f"{one[1].lower()}=={one[2]}" for one in found if one})


if __name__ == "__main__":
    sys.stdout.writelines(f"{line}\n" for line in constraints(ROOT / "pyproject.toml"))
