"""Reads the pages of one input, ready for any recipe: decoded, extracted, with the group of each."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from simstream.errors import InputMissing, UsageError
from simstream.model import Page, PageKind, Record
from simstream.sources.input_files import shown_path
from simstream.sources.unread import UnreadPages
from simstream.text.extraction.extractor import make_extractor
from simstream.text.extraction.pool import MEMORY_BYTES, TIMEOUT_S
from simstream.text.recipe import HtmlPart, Recipe
from simstream.wire.page import NO_TIME, PageLimits, decode

GROUP: Final = "group"
"""The field of a page that names its group."""
NO_GROUP: Final = -1
_FRONT_MATTER: Final = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)
_BATCH_PAGES: Final = 256
"""The number of pages with HTML that go to the extraction processes together."""
_VAGUE: Final = ("docs", "pages")
"""Names of files that say nothing: the folder then names the corpus."""


@dataclass(frozen=True, slots=True)
class Corpus:
    """The pages of one input, in order. `place` has the last page of each id."""

    name: str
    pages: list[Page]
    group: NDArray[np.int32]  # (n,) number of its group, or NO_GROUP
    place: dict[str, int]
    digest: str
    unread: UnreadPages
    """The pages that could not be read."""
    fast: Corpus | None = None
    """The same pages as recipes with `extract = "fast"` read them; None if no such recipe does."""

    def read_by(self, recipe: Recipe) -> Corpus:
        """Return the pages with the texts that this recipe extracts, before `Fingerprinter.counting`."""
        return self if self.fast is None or recipe.extract != "fast" else self.fast

    def texts(self) -> list[str]:
        """Return the text of each page; empty for a page without text."""
        return [page.text or "" for page in self.pages]


@dataclass(frozen=True, slots=True)
class InputReader:
    """The options for reading inputs."""

    limits: PageLimits
    strip_front_matter: bool = False
    workers: int = 1
    timeout_s: float = TIMEOUT_S
    memory_bytes: int = MEMORY_BYTES
    fast: bool = False
    """Whether a recipe with `extract = "fast"` reads the pages, too."""


class _GroupedPages(msgspec.Struct, gc=False):
    group: str | int | float | None = None


_decode_group = msgspec.json.Decoder(_GroupedPages).decode


def corpus_names(inputs: Sequence[str]) -> list[str]:
    """Return a name for each input: that of its file without endings, or of its folder if that says more.

    Raises UsageError if two inputs get the same name.
    """
    inputs = [shown_path(path) for path in inputs]
    stems = [_stem(path) for path in inputs]
    names = [
        Path(path).absolute().parent.name if stem in _VAGUE or stems.count(stem) > 1 else stem
        for path, stem in zip(inputs, stems, strict=True)
    ]
    for name, path in zip(names, inputs, strict=True):
        if names.count(name) > 1:
            raise UsageError(f"two inputs are called {name} ({shown_path(path)})", "rename a file or its folder")
    return names


def read_corpus(name: str, records: Iterable[Record], reading: InputReader) -> Corpus:
    """Return all pages of one input. Raises what `records` raises, and InputMissing without a page.

    The true similarity of two pages is that of their main content, whatever the recipes extract.
    """
    pages, groups, paths = [], [], []
    numbers: dict[str, int] = {}
    for record in records:
        page = decode(record, reading.limits)
        page.time = 0 if page.time == NO_TIME else page.time
        pages.append(page)
        groups.append(_group(record, numbers))
        paths.append(record.topic)
    if not pages:
        raise InputMissing(f"{name} has no page", "give an input with pages")
    copies = [msgspec.structs.replace(page) for page in pages] if reading.fast else None
    _extract(pages, "main", reading)
    unread = UnreadPages(f"pages of {name}")
    for page, path in zip(pages, paths, strict=True):
        unread.take_page(page, path)
    group = np.array(groups, np.int32)
    place = {page.id: number for number, page in enumerate(pages)}
    corpus = Corpus(name, pages, group, place, _digest(pages), unread)
    if copies is None:
        return corpus
    _extract(copies, "fast", reading)
    return replace(corpus, fast=replace(corpus, pages=copies, digest=_digest(copies)))


def components(pages: int, a: NDArray[np.int64], b: NDArray[np.int64]) -> NDArray[np.int32]:
    """Return the connected component (n,) of each page under the pairs; NO_GROUP for a page in no pair."""
    parent = list(range(pages))

    def root(page: int) -> int:
        while parent[page] != page:
            parent[page] = parent[parent[page]]
            page = parent[page]
        return page

    for left, right in zip(a.tolist(), b.tolist(), strict=True):
        parent[root(left)] = root(right)
    group = np.full(pages, NO_GROUP, np.int32)
    for page in np.unique(np.concatenate([a, b])).tolist():
        group[page] = root(page)
    return group


def _stem(path: str) -> str:
    return Path(path).absolute().name.split(".")[0] or "input"


def _group(record: Record, numbers: dict[str, int]) -> int:
    """Return the number of the page's group. Groups are numbered in the order of their first pages."""
    name: str | int | float | None = None
    if record.headers:
        name = (dict(record.headers).get(GROUP) or b"").decode("utf-8", "surrogateescape")
    elif record.value and b'"group"' in record.value:
        with suppress(ValueError, RecursionError):
            name = _decode_group(record.value).group
    return NO_GROUP if name in (None, "") else numbers.setdefault(str(name), len(numbers))


def _extract(pages: Sequence[Page], part: HtmlPart, reading: InputReader) -> None:
    """Extract the text of pages with HTML, once for all recipes of this `part`, and leave out what the options
    leave out."""
    waiting = [page for page in pages if page.kind == PageKind.READABLE and page.text is None]
    with closing(make_extractor(part, reading.workers, reading.timeout_s, reading.memory_bytes)) as extractor:
        for at in range(0, len(waiting), _BATCH_PAGES):
            batch = waiting[at : at + _BATCH_PAGES]
            raws = [(page.raw if page.raw is not None else "", page.content_type) for page in batch]
            for page, extracted in zip(batch, extractor.extract(raws), strict=True):
                page.text, page.raw = extracted.text, None
                if extracted.text is None:
                    page.kind, page.reason, page.detail = PageKind.UNREADABLE, extracted.reason, extracted.detail
    if reading.strip_front_matter:
        for page in pages:
            page.text = page.text and _FRONT_MATTER.sub("", page.text)


def _digest(pages: Sequence[Page]) -> str:
    """Return 16 hex digits over all that a recipe and the judge see."""
    digest = blake2b(digest_size=8, person=b"evaluate corpus")
    for page in pages:
        text = (page.text or "").encode("utf-8", "surrogatepass")
        digest.update(f"{page.id}\0{page.kind}\0{page.time}\0{len(text)}\0".encode())
        digest.update(text)
    return digest.hexdigest()
