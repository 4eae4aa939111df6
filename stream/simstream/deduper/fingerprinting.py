"""Fingerprints records batch by batch: records in, pages with their fingerprints out, ready to be judged."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from simstream.deduper.pages import refuse_foreign_number, refuse_single
from simstream.errors import InputError, UsageError
from simstream.model import PYTHON, U64, FingerprintColumns, Page, PageKind, PageSource, Record
from simstream.processors import takes_no_more
from simstream.settings import default_cache
from simstream.sources.batches import record_batches
from simstream.text.fingerprinter import Fingerprinter
from simstream.text.recipe import Recipe
from simstream.text.recipe_file import load_recipe
from simstream.wire.page import FIRST_LIKELY_MS, MAX_TIME_MS, NO_TIME, PageLimits, decode


class FingerprintedPages(NamedTuple):
    """One batch between fingerprinting and judging."""

    pages: Sequence[Page]
    columns: FingerprintColumns
    sources: Sequence[PageSource]


class RecordFingerprinter:
    """Fingerprints records of pages; refuses pages that cannot be judged. `timed`: each page needs a time.

    `say` is called once, if a time is likely in seconds.
    """

    def __init__(
        self,
        fingerprinter: Fingerprinter,
        max_record_bytes: int,
        *,
        timed: bool,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._fingerprinter = fingerprinter
        self._limits = PageLimits(max_record_bytes, html_by_kernels=True)
        self._timed = timed
        self._say: Callable[[str], None] | None = say if timed else None

    def batches(self, records: Iterable[Record], threads: int) -> Iterator[FingerprintedPages]:
        """Yield the records' batches in order. At most `threads` + 1 batches are held.

        Raises UsageError for a page that cannot be judged. An InputError of `records` comes behind all batches
        before it.
        """
        waiting: deque[Callable[[], FingerprintedPages]] = deque()
        with ThreadPoolExecutor(threads, thread_name_prefix="fingerprint") as pool:
            try:
                for batch in record_batches(records):
                    waiting.append(self._begin(pool, batch))
                    if len(waiting) > threads:
                        yield waiting.popleft()()
            except InputError:
                yield from (result() for result in waiting)  # what was read before the damage counts
                raise
            while waiting:
                yield waiting.popleft()()

    def _begin(self, pool: ThreadPoolExecutor, batch: Sequence[Record]) -> Callable[[], FingerprintedPages]:
        """Let the pool fingerprint a batch, and return the function that waits for it."""
        try:
            return pool.submit(self._batch, batch).result
        except RuntimeError as error:
            if not takes_no_more(error):
                raise
            return partial(self._batch, batch)

    def one(self, record: Record) -> FingerprintedPages:
        """Return a batch of one page, whatever the page is called. Raises UsageError for a page without a time."""
        return self._fingerprint([decode(record, self._limits)], [record])

    def _batch(self, records: Sequence[Record]) -> FingerprintedPages:
        pages = [decode(record, self._limits) for record in records]
        for page, record in zip(pages, records, strict=True):
            refuse_foreign_number(page, record)
        return self._fingerprint(pages, records)

    def _fingerprint(self, pages: Sequence[Page], records: Sequence[Record]) -> FingerprintedPages:
        for page, record in zip(pages, records, strict=True):
            if page.time == NO_TIME:
                if self._timed and page.kind == PageKind.READABLE:
                    raise _untimed(page, record)
                page.time = 0
            if page.time < FIRST_LIKELY_MS and (say := self._say) and page.kind == PageKind.READABLE:
                self._say = None
                say(f"{_named(page, record)} has the time {page.time}, in ms since 1970: is it in seconds?")
            if not 0 <= page.time <= MAX_TIME_MS:  # `time` of a page is checked; this is the record's timestamp
                raise UsageError(
                    f"{record.topic}:{record.offset + 1} has the timestamp {record.timestamp}",
                    f"give milliseconds since 1970, from 0 to {MAX_TIME_MS}",
                )
        sources = [PageSource(record.topic, record.partition, record.offset) for record in records]
        return FingerprintedPages(pages, self._fingerprinter.columns(pages), sources)


def _untimed(page: Page, record: Record) -> UsageError:
    return UsageError(
        f"{_named(page, record)} has no `time` that can be read",
        "a window needs the time of every page: give ISO 8601 or a number of ms since 1970, "
        + ("or make the Deduper without `window`" if record.topic == PYTHON else "or leave --window out"),
    )


def _named(page: Page, record: Record) -> str:
    """Return a page as a person finds it: by its id, or by its line."""
    return f"the page {page.id!r}" if record.topic == PYTHON else f"{record.topic}:{record.offset + 1}"


def fingerprint(
    texts: Sequence[str], recipe: str | Path | Recipe = "default", cache: str | Path | None = None
) -> U64:
    """Return the 64-bit fingerprints of texts under a recipe.

    Two texts are alike if their fingerprints differ in few bits: `np.bitwise_count(a ^ b)` is the Hamming
    distance. Cost: about 0.1 ms for a text of 2,000 characters; the first call loads tables in about a second.

    Args:
        texts: A list of n texts; HTML is taken for text.
        recipe: A preset's name ("default", "google2007", "fnv1-tf", "shingles"), a recipe file, or a Recipe.
        cache: The folder for tables that are built once; by default the one of the setting `cache`.

    Returns:
        An array of uint64, shape (n,); (n, F) if the recipe gives a page F fingerprints. A text of fewer words than
        the recipe's `min_words` has the fingerprint 0.

    Raises:
        TypeError: `texts` is a single text, a mapping or a table, or one of them is no text.
        SettingsError: There is no such recipe, or its file holds an unknown key or value.
        InputMissing: The recipe's file, or one that it names, cannot be read.

    Examples:
        >>> from simstream import fingerprint
        >>> story = "The night train stops at the mill village again after forty years, before dawn."
        >>> prints = fingerprint([story, story.upper(), "Too short."])
        >>> prints.dtype, prints.shape
        (dtype('uint64'), (3,))
        >>> bool(prints[0] == prints[1]), int(prints[2])
        (True, 0)
    """
    refuse_single("fingerprint", "texts", texts)
    texts = list(texts)
    for number, text in enumerate[object](texts):
        if not isinstance(text, str):
            kind = type(text).__name__
            raise TypeError(f"text {number} has the type {kind}, not str: decode bytes, and leave out absent texts")
    fingerprinter = _shared_fingerprinter(recipe_of(recipe), Path(cache) if cache else None)
    first, sketches, _ = fingerprinter.texts(texts)
    further = fingerprinter.recipe.fingerprints - 1
    return np.column_stack([first, sketches[:, :further]]) if further else first


def recipe_of(named: str | Path | Recipe) -> Recipe:
    """Return the recipe with this name or file, or the given Recipe. Raises as `load_recipe`."""
    return named if isinstance(named, Recipe) else load_recipe(named)


@lru_cache(maxsize=4)
def _shared_fingerprinter(recipe: Recipe, cache: Path | None) -> Fingerprinter:
    return Fingerprinter(recipe, cache or default_cache())
