"""Finds the state folders of a matcher's shards, `DIR/shards/N-of-M`, and those of shards that it gave back.

A folder stays on the disk when its shard goes: if the shard comes back, the matcher reads only the later part of
the log. The folder goes if the disk is full, or if its state has become useless.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from simstream.errors import StateError, StateFormat
from simstream.files import manifest
from simstream.files.file_system import FileSystem
from simstream.files.folder import empty, locked
from simstream.index.plan import divided_plan
from simstream.index.shard import Shard
from simstream.judge.policy import Policy
from simstream.log.options import MATCHES

UNFIT: Final = ".unfit"
"""Ends the name of a folder that was set aside."""
_logger = logging.getLogger("simstream.match")


@dataclass(frozen=True, slots=True)
class ShardFolders:
    """The folders of one matcher, in the folder `path` of all its shards."""

    path: Path
    matches: str
    """The setting `matches`."""
    log_id: str
    policy: Policy

    def of(self, shard: Shard) -> Path:
        """Return the folder of a shard."""
        name = f"{shard.number}-of-{shard.count}"
        return self.path / (name if self.matches == MATCHES else f"{self.matches}.{name}")

    def take(self, shard: Shard) -> Path:
        """Return the folder of a shard whose state is to be loaded; set it aside before if it is useless.

        It is useless if its state does not fit, and a later state of another shard does: since then the matcher has
        gone on under other settings, or in another version. If no state fits, the settings may be wrong: the load
        then refuses the state by name. Raises StateLocked, StateUnwritable.
        """
        path = self.of(shard)
        facts, written_ns = _facts(path), _written_ns(path)
        if facts is None or self._fits(facts):
            return path
        later = (_facts(other) for other in self.path.iterdir() if _written_ns(other) > written_ns)
        if any(found is not None and self._fits(found) for found in later):
            aside = path.with_name(path.name + UNFIT)
            with locked(path):
                shutil.rmtree(aside, ignore_errors=True)
                path.rename(aside)
            _logger.warning(
                "%s has a state of another log, policy or version than later states beside it: the shard begins "
                "without a state, and this one is set aside in %s, which may be deleted",
                path,
                aside,
            )
        return path

    def given_back(self, numbers: Collection[int], count: int) -> list[Path]:
        """Return the folders with a state, the oldest first, but those of the shards `numbers` of `count`."""
        own = {self.of(Shard(number, count)) for number in numbers}
        written = {path: _written_ns(path) for path in self.path.glob("*-of-*") if path not in own}
        return sorted((path for path, at_ns in written.items() if at_ns), key=written.__getitem__)

    def make_room(self, numbers: Collection[int], count: int) -> None:
        """Remove the state of the first folder of `given_back` that no process uses, if there is one."""
        for path in self.given_back(numbers, count):
            with suppress(StateError):
                empty(path)
                _logger.warning("the disk is full: removed the state of a shard that was given back, %s", path)
                return

    def _fits(self, facts: Mapping[str, Any]) -> bool:
        tables = divided_plan(self.policy.distance).tables
        wanted = {"log_id": self.log_id, "policy": self.policy.id, "tables": tables}
        return wanted.items() <= {"tables": tables, **facts}.items()


def size_of(folders: Collection[Path]) -> int:
    """Return the bytes of all files in these folders."""
    sizes = 0
    for file in (file for folder in folders for file in folder.rglob("*")):
        with suppress(OSError):  # it is gone meanwhile
            sizes += file.lstat().st_size
    return sizes


def _facts(folder: Path) -> Mapping[str, Any] | None:
    """Return the facts of the newest snapshot, empty if its format is another one; None without a snapshot."""
    try:
        found = manifest.read_all(FileSystem(), folder)
    except StateFormat:
        return {}
    except StateError:
        return None
    return found[0].manifest.facts if found else None


def _written_ns(folder: Path) -> int:
    """Return when the newest snapshot was written, in ns since 1970; 0 without one."""
    times = [0]
    for name in manifest.IN_ORDER:
        with suppress(OSError):
            times.append((folder / name).stat().st_mtime_ns)
    return max(times)
