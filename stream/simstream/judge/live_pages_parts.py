"""Converts the live pages into parts of a snapshot, and back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from simstream.errors import StateDamaged
from simstream.files import SnapshotPart, sealed
from simstream.files.failures import START_OVER
from simstream.files.file_system import FileSystem
from simstream.files.sealed import SealedFile
from simstream.files.snapshot_part import Fact
from simstream.index.index import Index
from simstream.judge.directory import has_secret
from simstream.judge.live_pages import LivePages
from simstream.judge.pages.store import PageStore


def parts(store: LivePages) -> list[SnapshotPart]:
    """Return everything except `stream_time` and `live_pages`, between batches."""
    return [
        *store.index.parts(),
        *store.rows.parts(),
        *store.clusters.parts(),
        store.directory.part(),
        *store.pages.parts(),
    ]


def restore(store: LivePages, parts: Sequence[SnapshotPart], stream_time: int | None, live_pages: int) -> None:
    """Take over what `parts` returned, in an unused store. Raises StateDamaged."""
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
        _place_again(store, directory.facts.get("count"))
    store.stream_time, store.live_pages = stream_time, live_pages
    sizes = store.clusters.sizes()
    store.sizes.restore(sizes, live_pages - int(sizes.sum(dtype=np.int64)))


def _place_again(store: LivePages, count: Fact) -> None:
    """Fill the directory of an upgraded state, which has none, as its pages have new identities.

    Raises StateDamaged if the count does not agree. Cost: reads all records, at about 1 us a page.
    """
    for colds, records in store.pages.chunks():
        live = store.rows.are_live(records["row"], colds)
        store.directory.add(records["identity"][live], records["row"][live])
    if len(store.directory) != count:
        raise StateDamaged(
            f"the directory has {count} pages, but the page store has {len(store.directory)}", START_OVER
        )


def read_from_disk(store: LivePages, files: FileSystem, found: Iterable[SealedFile]) -> None:
    """Read immutable parts from these files from now on, and free their memory."""
    parts = list(found)
    store.pages.read_from_disk(each for each in parts if each.kind in PageStore.KINDS)
    for each in parts:
        if each.kind in Index.KINDS:
            store.index.use_mapped(each.name, sealed.open(files, each.path, verify=False).arrays)


def nbytes(store: LivePages) -> dict[str, int]:
    """Return the memory by part, in bytes."""
    return {
        **store.index.nbytes(),
        "rows and chains": store.rows.nbytes(),
        "clusters": store.clusters.nbytes(),
        "directory": store.directory.nbytes(),
        "page store": store.pages.nbytes(),
    }
