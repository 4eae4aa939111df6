"""Turns errors of the file system into errors of simstream."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from simstream.errors import StateDamaged, StateError, StateFull, StateUnwritable

FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""No room on the disk, in the quota, or under the limit of a file's size."""

_NOT_ALLOWED: Final = "check its owner and permissions, and whether its file system is read-only"
_TODO: Final = {
    errno.EACCES: _NOT_ALLOWED,
    errno.EPERM: _NOT_ALLOWED,
    errno.EROFS: _NOT_ALLOWED,
    errno.ENOLCK: "use a local disk: this file system gives no locks",
}
"""What to do about errors that a good disk gives, too."""

START_OVER = (
    "restore the folder from a copy, or delete it (unless it is the state of a log that was cut): a service then "
    "judges its log again, dedup reads its inputs again, and a Deduper begins empty"
)
"""What to do about state that cannot be used: services and programs read it."""


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn an OSError in the block into StateFull or StateUnwritable."""
    try:
        yield
    except OSError as error:
        raise unwritable(path, error) from error


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn an OSError in the block into StateDamaged if a needed file is gone or broken, else into
    StateUnwritable."""
    try:
        yield
    except FileNotFoundError as error:
        raise damaged(path, "it is missing") from error
    except OSError as error:
        if error.errno == errno.EIO:
            raise damaged(path, "the disk cannot read it") from error
        raise StateUnwritable(
            f"{path} cannot be read ({error.strerror})", "check its permissions and the disk"
        ) from error


def unwritable(path: Path, error: OSError) -> StateError:
    """Return the error for a failed step of writing."""
    if error.errno in FULL:
        return StateFull(
            f"no room to write {path} ({error.strerror})", "make room; the earlier snapshots are as they were"
        )
    todo = _TODO.get(error.errno or 0, "check the disk")
    return StateUnwritable(
        f"cannot write {path} ({error.strerror})", f"{todo}; the earlier snapshots are as they were"
    )


def damaged(path: Path, what: str) -> StateDamaged:
    """Return the error for a file whose content cannot be trusted."""
    return StateDamaged(
        f"{path} is damaged ({what})",
        f"see `simstream state verify`; {START_OVER}",
    )
