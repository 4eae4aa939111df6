"""Holds what judges and matchers share: the live pages under one policy, as parts of a snapshot and back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from simstream.closing import Closing
from simstream.errors import StateDamaged
from simstream.files import sealed
from simstream.files.failures import START_OVER
from simstream.files.file_system import FileSystem
from simstream.files.sealed import SealedFile
from simstream.files.snapshot_part import Fact, SnapshotPart
from simstream.index.index import Index
from simstream.judge import live_pages_check
from simstream.judge.directory import has_secret
from simstream.judge.live_pages import LivePages
from simstream.judge.pages.store import PageStore
from simstream.judge.policy import Policy
from simstream.judge.state_facts import StateFacts
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
    def numbers_used(self) -> int:
        """The numbers in use in the fullest table, of `record_table.MAX_RECORDS`."""
        store = self._store
        return max(store.rows.numbers_used, store.clusters.numbers_used, store.pages.numbers_used)

    @property
    def stream_time(self) -> int | None:
        """Stream time in ms since 1970; None before the first readable page."""
        return self._store.stream_time

    @property
    def buckets_a_window(self) -> int:
        """The number of buckets of a window."""
        return self._store.buckets_a_window

    @property
    def window_span_ms(self) -> int:
        """Return the ms from the beginning of the oldest bucket with an entry to stream time; 0 without a
        window."""
        return self._store.span_ms

    def nbytes(self) -> dict[str, int]:
        """Return the memory by part, in bytes."""
        store = self._store
        return {
            **store.index.nbytes(),
            "rows and chains": store.rows.nbytes(),
            "clusters": store.clusters.nbytes(),
            "directory": store.directory.nbytes(),
            "page store": store.pages.nbytes(),
        }

    def parts(self) -> list[SnapshotPart]:
        """Return all state that is not in `StateFacts`, for a snapshot, between two batches."""
        store = self._store
        return [
            *store.index.parts(),
            *store.rows.parts(),
            *store.clusters.parts(),
            store.directory.part(),
            *store.pages.parts(),
        ]

    def restore(self, parts: Sequence[SnapshotPart], known: StateFacts) -> None:
        """Take over what `parts` returned, and the snapshot's facts, before the first page. Raises StateDamaged."""
        store = self._store
        store.buckets_a_window = known.buckets
        named = {part.name: part for part in parts}
        try:
            store.rows.restore(named)
            store.clusters.restore(named)
            directory = named["directory"]
        except KeyError as error:
            raise StateDamaged(f"the state lacks {error}", START_OVER) from None
        store.index.restore(part for part in parts if part.kind in Index.KINDS)
        store.pages.restore(part for part in parts if part.kind in PageStore.KINDS)
        if has_secret(directory):
            store.directory.restore(directory)
        else:
            self._place_again(directory.facts.get("count"))
        store.stream_time, store.live_pages = known.stream_time, known.live_pages
        sizes = store.clusters.sizes()
        store.sizes.restore(sizes, known.live_pages - int(sizes.sum(dtype=np.int64)))

    def _place_again(self, count: Fact) -> None:
        """Fill the directory of an upgraded state, which has none, as its pages have new identities.

        Raises StateDamaged if the count does not agree. Cost: reads all records, at about 1 us a page.
        """
        store = self._store
        for colds, records in store.pages.chunks():
            live = store.rows.are_live(records["row"], colds)
            store.directory.add(records["identity"][live], records["row"][live])
            store.beat()
        if len(store.directory) != count:
            raise StateDamaged(
                f"the directory has {count} pages, but the page store has {len(store.directory)}", START_OVER
            )

    def check(self) -> None:
        """Check that all parts of the state agree. Raises StateDamaged. Cost: linear."""
        live_pages_check.check(self._store)

    def read_from_disk(self, files: FileSystem, found: Iterable[SealedFile]) -> None:
        """Read immutable parts from these files from now on, and free their memory."""
        parts = list(found)
        self._store.pages.read_from_disk(each for each in parts if each.kind in PageStore.KINDS)
        for each in parts:
            if each.kind in Index.KINDS:
                self._store.index.use_mapped(each.name, sealed.open(files, each.path, verify=False).arrays)

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
