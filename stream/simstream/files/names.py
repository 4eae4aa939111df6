"""Names the files in a state folder, and checks that it holds no other files."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path
from typing import Final

from simstream.errors import UsageError
from simstream.files.manifest import IN_ORDER

LOCK: Final = "lock"
SUSPECT: Final = "suspect"
"""An empty file. It says that a file of the state was found damaged in use: the next start verifies all files."""
ASIDE: Final = "damaged"
"""The folder for damaged snapshots that were set aside."""
SHARDS: Final = "shards"
"""The folder of a matcher's shards, each with a state folder of its own."""
QUERY: Final = "query"
"""The folder of the role `query`, if it runs in one process with a judge."""
SEALED: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,59}\.\d+\.sealed(\.part)?")
"""Sealed files, whole or half-written: the part's name, and the number of the snapshot that wrote it."""


OTHERS: Final = frozenset({SHARDS, QUERY, SUSPECT, ASIDE, "lost+found"})
"""Other names that may stand in a state folder."""


def is_of_snapshot(name: str) -> bool:
    """Whether a file of this name belongs to a snapshot: a sealed file or a manifest."""
    return name in IN_ORDER or SEALED.fullmatch(name) is not None


def check_own(path: Path, names: Collection[str]) -> None:
    """Raise UsageError for a folder that holds other files and has never held a state."""
    if {LOCK, *IN_ORDER} & set(names):
        return
    others = sorted(name for name in names if name not in OTHERS and not name.startswith((".", f"{SHARDS}-")))
    if others:
        raise UsageError(
            f"{path} is not a state folder: it holds other files ({', '.join(others[:3])})",
            "name a new or an empty folder",
        )
