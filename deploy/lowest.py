"""Prints pip constraints that hold the dependencies of pyproject.toml at the lowest versions that it allows.

python -m deploy.lowest [EXTRA ...]
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
_MIN_VERSION: Final = re.compile(r"([A-Za-z0-9_.-]+)(?:\[[^\]]*\])?\s*[>=]=\s*([0-9.]+)")


def constraints(pyproject: Path, extras: Sequence[str]) -> list[str]:
    """Return `NAME==VERSION` for each dependency with a lower bound, those of the extras included.

    pip takes one constraint a name. If several bounds are given for a name, the highest counts.
    """
    project = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]
    optional = project["optional-dependencies"]
    wanted = [*project["dependencies"], *(one for extra in extras for one in optional[extra])]
    found = [(one[1].lower(), one[2]) for one in map(_MIN_VERSION.match, wanted) if one]
    highest = dict(sorted(found, key=lambda one: [int(part) for part in one[1].split(".")]))
    return sorted(f"{name}=={version}" for name, version in highest.items())


if __name__ == "__main__":
    sys.stdout.writelines(f"{line}\n" for line in constraints(ROOT / "pyproject.toml", sys.argv[1:]))
