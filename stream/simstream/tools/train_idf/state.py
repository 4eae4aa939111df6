"""Saves and loads the state of an unfinished training, for `--resume`."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from simstream.closing import Closing
from simstream.errors import StateError, UsageError
from simstream.log.local.lock import FileLock
from simstream.log.local.topic_file import replace_file
from simstream.tools.train_idf.runs import CountRun, check_run

VERSION: Final = 1
_STATE: Final = "state.json"
_LOCK: Final = "lock"
_OWN: Final = re.compile(r"state\.json(\.\d+\.part)?|lock|run-\d+")
"""The names of the files of a training."""


class TrainingState(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The progress of a training, and the runs with its counts."""

    recipe: str
    """The recipe's id: another recipe finds other words."""
    records: int = 0
    """The number of counted records of the input, whether they gave a page or not."""
    digest: str = ""
    """A digest of the records' bytes, so that no other input is taken for this one."""
    pages: int = 0
    runs: tuple[CountRun, ...] = ()
    version: int = VERSION


class TrainingFolder(Closing):
    """The folder `OUTPUT.state`, held by one process: the state, and the runs that it names."""

    def __init__(self, output: Path, *, resume: bool) -> None:
        """Create or open the folder.

        Raises UsageError if it holds other files, or an unfinished training and `resume` is false, or if it cannot
        be created; LogLocked if another process uses it."""
        self.path = output.with_name(output.name + ".state")
        try:
            self.path.mkdir(exist_ok=True)
            others = sorted(path.name for path in self.path.iterdir() if not _OWN.fullmatch(path.name))
        except OSError as error:
            raise UsageError(
                f"the folder {self.path} cannot be made ({error.strerror})", "name another file with -o"
            ) from error
        if others:
            what = f"{self.path} is not the state of a training: it holds other files ({', '.join(others[:3])})"
            raise UsageError(what, "name another file with -o")
        self._lock = FileLock(self.path / _LOCK, f"trains {output}")
        if not resume and (self.path / _STATE).exists():
            self.close()
            raise UsageError(
                f"{self.path} holds an unfinished training",
                f"add --resume to continue it, or delete {self.path} to begin again",
            )

    def load(self, recipe: str) -> TrainingState:
        """Return the last saved state, with its runs checked, or a new state. Raises StateError."""
        path = self.path / _STATE
        again = f"delete {self.path} and begin again"
        try:
            state = msgspec.json.decode(path.read_bytes(), type=TrainingState)
        except FileNotFoundError:
            return TrainingState(recipe)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
            raise StateError(f"{path} cannot be read ({error})", again) from error
        if state.version != VERSION:
            raise StateError(f"{path} has the format {state.version}, not {VERSION}", again)
        if state.recipe != recipe:
            raise StateError(
                f"{path} was made by the recipe {state.recipe}, not {recipe}", f"name that recipe, or {again}"
            )
        for run in state.runs:
            check_run(self.path / run.name, run)
        return state

    def save(self, state: TrainingState) -> None:
        """Replace the state atomically, then remove the files that it does not name. Raises DiskFull, LogError."""
        replace_file(self.path / _STATE, msgspec.json.encode(state))
        kept = {_STATE, _LOCK, *(run.name for run in state.runs)}
        self._unlink(path for path in self.path.iterdir() if path.name not in kept)

    def next_run(self) -> Path:
        """Return a file name that no run has had."""
        numbers = [int(path.stem[4:]) for path in self.path.glob("run-*") if path.stem[4:].isdigit()]
        return self.path / f"run-{max(numbers, default=0) + 1:06}"

    def remove(self) -> None:
        """Remove the folder, except files of others: the training is done."""
        with contextlib.suppress(OSError):
            self._unlink(self.path.iterdir())
            self.path.rmdir()

    @staticmethod
    def _unlink(paths: Iterable[Path]) -> None:
        """Remove the files of a training among these paths."""
        for path in paths:
            if _OWN.fullmatch(path.name):
                with contextlib.suppress(OSError):  # a file that cannot be removed now is removed next time
                    path.unlink()

    def close(self) -> None:
        """Release the folder for other processes; a folder without a state is removed."""
        if not (self.path / _STATE).exists():
            self.remove()
        self._lock.close()
