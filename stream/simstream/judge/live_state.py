"""Holds what judges and matchers share: the live pages under one policy, as parts of a snapshot and back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from simstream.closing import Closing
from simstream.files import SnapshotPart
from simstream.files.file_system import FileSystem
from simstream.files.sealed import SealedFile
from simstream.judge import live_pages_check, live_pages_parts
from simstream.judge.live_pages import LivePages
from simstream.judge.policy import Policy
from simstream.memory import ArrayRoom


class LiveState(Closing):
    """The live pages under one policy. A subclass says what an accepted page changes."""

    def __init__(self, policy: Policy, store: LivePages) -> None:
        self.policy = policy
        self._store = store

    @property
    def live_pages(self) -> int:
        """The number of live pages."""
        return self._store.live_pages

    @property
    def stream_time(self) -> int | None:
        """Stream time in ms since 1970; None before the first readable page."""
        return self._store.stream_time

    @property
    def window_span_ms(self) -> int:
        """Return the ms from the beginning of the oldest bucket with an entry to stream time; 0 without a
        window."""
        return self._store.span_ms

    def nbytes(self) -> dict[str, int]:
        """Return the memory by part, in bytes."""
        return live_pages_parts.nbytes(self._store)

    def parts(self) -> list[SnapshotPart]:
        """Return all state except `stream_time` and `live_pages`, for a snapshot, between two batches."""
        return live_pages_parts.parts(self._store)

    def restore(self, parts: Sequence[SnapshotPart], stream_time: int | None, live_pages: int) -> None:
        """Take over what `parts` returned, before the first page. Raises StateDamaged."""
        live_pages_parts.restore(self._store, parts, stream_time, live_pages)

    def check(self) -> None:
        """Check that all parts of the state agree. Raises StateDamaged. Cost: linear."""
        live_pages_check.check(self._store)

    def read_from_disk(self, files: FileSystem, found: Iterable[SealedFile]) -> None:
        """Read immutable parts from these files from now on."""
        live_pages_parts.read_from_disk(self._store, files, found)

    def use_folder(self, folder: Path, *, records: bool) -> None:
        """Let further segments lie in files without names in `folder`; with `records`, records of pages, too.

        These records are no parts of a snapshot then. Without room there, all stay in memory.
        """
        self._store.index.build_in(ArrayRoom(folder))
        if records:
            self._store.pages.spill(folder)

    def close(self) -> None:
        """End the thread of merges, and close files."""
        self._store.close()
