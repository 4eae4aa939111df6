"""The journal of `dedup --state`."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from simstream.errors import StateFull
from simstream.tools.dedup.run_journal import RunJournal


def test_after_a_sync_that_failed_none_succeeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system may drop the pages that it could not write, and report success from then on."""

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with RunJournal(tmp_path / "judged.journal") as journal:
        journal.sync()
        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", full)
            with pytest.raises(StateFull):
                journal.sync()
        with pytest.raises(StateFull, match="no room to write"):
            journal.sync()
