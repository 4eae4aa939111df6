"""What lies in a state's folder: names of its own making, and how a folder of somebody else's is told from it."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path
from typing import Final

from stream.errors import UsageError
from stream.files.manifest import IN_ORDER

LOCK: Final = "lock"
SUSPECT: Final = "suspect"
"""An empty file: something was found damaged while it was used, so all is verified at the next start."""
ASIDE: Final = "damaged"
"""The folder of what was set aside."""
SEALED: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,59}\.\d+\.sealed(\.part)?")
"""Sealed files, also half-written: the part's name, and the number of the snapshot that wrote it."""


def check_own(path: Path, names: Collection[str]) -> None:
    """Raise UsageError for a folder with other people's files, in which no state has ever been."""
    if {LOCK, *IN_ORDER} & set(names):
        return
    others = sorted(name for name in names if not name.startswith(".") and name != "lost+found")
    if others:
        raise UsageError(
            f"{path} is no folder of a state, and holds other things ({', '.join(others[:3])})",
            "give the state a folder of its own: one that is new or empty",
        )
