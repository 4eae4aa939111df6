"""Makes fingerprints, sketches and word counts of a corpus under one recipe, and keeps them in a file."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple
from zipfile import BadZipFile

import msgspec
import numpy as np
from numpy.typing import NDArray

from simstream.evaluate.corpus import Corpus
from simstream.evaluate.store import write_atomically
from simstream.model import U64, FingerprintColumns, Page, PageKind
from simstream.text.fingerprinter import Fingerprinter

BATCH_PAGES: Final = 256
_FORMAT: Final = 1
Done = Callable[[int], None]
"""Hears how many pages were done since the last call."""


class CorpusPrints(NamedTuple):
    """The fingerprints of n pages under one recipe."""

    fingerprint: U64  # (n,)
    sketch: U64  # (n, further + sketch bits / 64): the further fingerprints, then the sketch
    words: NDArray[np.uint32]  # (n,)
    kind: NDArray[np.uint8]  # (n,)
    reason: NDArray[np.uint8]  # (n,)

    def lookup_values(self, further: int) -> U64:
        """Return the words (n, 1 + further) that each page is looked up by."""
        return np.column_stack([self.fingerprint, self.sketch[:, :further]])

    @property
    def readable(self) -> NDArray[np.bool_]:
        """Return which pages (n,) have a fingerprint."""
        readable: NDArray[np.bool_] = self.kind == PageKind.READABLE
        return readable


def file_of(folder: Path, recipe_id: str, corpus: Corpus) -> Path:
    """Return the file of the fingerprints of a corpus under a recipe."""
    return folder / f"prints-{_FORMAT}-{recipe_id}-{corpus.digest}.npz"


def read(path: Path, pages: int) -> CorpusPrints | None:
    """Return the fingerprints of a file; None if it is missing or damaged."""
    try:
        with np.load(path, allow_pickle=False) as arrays:
            found = CorpusPrints(*(arrays[name] for name in CorpusPrints._fields))
    except (OSError, ValueError, KeyError, EOFError, NotImplementedError, BadZipFile):
        return None
    return found if len(found.fingerprint) == pages else None


def make(fingerprinter: Fingerprinter, corpus: Corpus, threads: int, done: Done) -> CorpusPrints:
    """Fingerprint all pages of a corpus, by `threads` threads; linear in their text.

    The corpus is `read_by` the recipe.
    """

    def one(at: int) -> FingerprintColumns:
        pages = [msgspec.structs.replace(page) for page in corpus.pages[at : at + BATCH_PAGES]]
        for page in pages:
            if page.content_type:  # it was extracted once for all such recipes
                page.text = fingerprinter.counting(page.text, page.content_type)
        found = fingerprinter.columns(pages)  # it changes the pages, so these are copies
        done(len(pages))
        return found

    with ThreadPoolExecutor(threads, thread_name_prefix="fingerprint") as pool:
        parts = list(pool.map(one, range(0, len(corpus.pages), BATCH_PAGES)))
    return CorpusPrints(*(np.concatenate([getattr(part, name) for part in parts]) for name in CorpusPrints._fields))


def write(path: Path, prints: CorpusPrints) -> None:
    """Write fingerprints to a file atomically. Raises UsageError."""
    content = io.BytesIO()
    np.savez(content, **prints._asdict())
    write_atomically(path, content.getvalue())


def columns(prints: CorpusPrints, pages: Sequence[Page], start: int) -> FingerprintColumns:
    """Return the judge's columns of `pages`, which begin at place `start` of the corpus."""
    here = slice(start, start + len(pages))
    ids = [page.id.encode() for page in pages]
    none = np.zeros(len(pages), np.uint32)
    return FingerprintColumns(
        offset=np.arange(here.start, here.stop, dtype=np.int64),
        kind=prints.kind[here],
        reason=prints.reason[here],
        time=np.array([page.time for page in pages], np.int64),
        identity=np.frombuffer(b"".join(page.identity for page in pages), np.uint64).reshape(-1, 2),
        fingerprint=prints.fingerprint[here],
        sketch=prints.sketch[here],
        words=prints.words[here],
        id_ends=np.cumsum([len(one) for one in ids], dtype=np.uint32),
        url_ends=none,
        ids=b"".join(ids),
        urls=b"",
    )
