"""Fingerprints files in parallel: one row a page with fingerprint and sketch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np

from simstream.errors import InputError
from simstream.model import Page, Record
from simstream.sources.batches import record_batches
from simstream.sources.fields import FieldNames
from simstream.sources.read import read_pages
from simstream.sources.repeated_names import PageNames
from simstream.text.fingerprinter import Fingerprinter
from simstream.text.recipe import Recipe
from simstream.wire.page import PageLimits, decode

FILE_BITS: Final = 36
"""A page's number is that of its file, and in these low bits that of its record."""
TROUBLE: Final = -1
"""Stands for a kind: the row is not a page; its `id` says what is wrong with a file."""
SCHEMA: Final = "number long, identity binary, id string, kind int, fingerprint long, sketch binary, short boolean"
Row = tuple[int, bytes, str, int, int, bytes, bool]
"""A row of SCHEMA. A fingerprint is signed, since Spark has no unsigned numbers."""


@dataclass(frozen=True, slots=True)
class FingerprintTask:
    """The settings of a worker. `cache`: its folder of tables that are built once (default: that of its user)."""

    recipe: Recipe
    short_words: int
    cache: str
    max_record_bytes: int
    timeout_s: float
    memory_bytes: int
    fields: FieldNames
    versions: bool = False
    """Whether all pages of one id are versions of one page, in any file and with any text."""

    @property
    def limits(self) -> PageLimits:
        return PageLimits(self.max_record_bytes, html_by_kernels=True)


def fingerprinted(files: Iterable[tuple[int, str]], how: FingerprintTask) -> Iterator[Row]:
    """Yield the rows of each file, given by number and path.

    Opens the paths on the worker's machine. A damaged part is lost, and gives a row of kind TROUBLE.
    """
    for file, path in files:
        number = file << FILE_BITS
        try:
            pages: Iterable[Record] = read_pages([path], how.max_record_bytes, how.fields)
            for records in record_batches(pages if how.versions else PageNames().separate(pages)):
                yield from page_rows([decode(record, how.limits) for record in records], number, how)
                number += len(records)
        except InputError as error:
            yield number, b"", error.what, TROUBLE, 0, b"", False


def page_rows(pages: Sequence[Page], first: int, how: FingerprintTask) -> Iterator[Row]:
    """Return the rows of pages, numbered from `first`."""
    columns = _fingerprinter(how).columns(pages)
    return zip(
        range(first, first + len(columns)),
        [identity.tobytes() for identity in columns.identity],
        columns.id_list(),
        columns.kind.tolist(),
        columns.fingerprint.view(np.int64).tolist(),
        [sketch.tobytes() for sketch in columns.sketch],
        (columns.words < how.short_words).tolist(),
        strict=True,
    )


@cache
def _fingerprinter(how: FingerprintTask) -> Fingerprinter:
    """Return the fingerprinter of a worker process. Spark uses the process again for the next task."""
    return Fingerprinter(
        how.recipe, Path(how.cache), workers=1, timeout_s=how.timeout_s, memory_bytes=how.memory_bytes
    )
