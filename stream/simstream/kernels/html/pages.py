"""Reads many pages in one call: a thread waits for the GIL once a batch, not at each page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simstream.kernels.html.article import ArticleWork, choose
from simstream.kernels.html.character_references import CharacterReferences, room_for
from simstream.kernels.html.class_words import ClassWords
from simstream.kernels.html.element_names import ElementNames
from simstream.kernels.html.page_parts import PageParts
from simstream.kernels.html.page_reader import take_apart
from simstream.kernels.html.tags import HtmlBytes
from simstream.kernels.jit import sealed_kernel
from simstream.kernels.memory import addresses, bytes_at, words_at

# Steps of `read_pages`; they may be added.
APART: Final = 1
CHOSEN: Final = 2


class PagesInMemory(NamedTuple):
    """Where n pages in UTF-8 lie in memory. Their `bytes` must live until the kernel has read them."""

    places: NDArray[np.uint64]  # (n,)
    sizes: NDArray[np.int64]  # (n,)


class HtmlTables(NamedTuple):
    """What the kernels know of HTML."""

    names: ElementNames
    words: ClassWords
    references: CharacterReferences


class Articles(NamedTuple):
    """Room for the articles of n pages, one behind the other."""

    texts: NDArray[np.uint8]  # (t,) UTF-8
    ends: NDArray[np.int64]  # (n,) where each ends


def pages_in_memory(pages: Sequence[bytes]) -> PagesInMemory:
    """Return where the pages lie. Cost: about 1 us each."""
    return PagesInMemory(*addresses(pages))


def make_articles(pages: PagesInMemory) -> Articles:
    """Return room for the articles of these pages: memory that is not written costs nothing."""
    room = sum(map(room_for, pages.sizes.tolist()))
    texts = np.empty(room + 1, np.uint8)  # the last line's end is written, too
    return Articles(texts, np.empty(len(pages.sizes), np.int64))


@sealed_kernel
def read_pages(
    pages: PagesInMemory,
    tables: HtmlTables,
    trees: NDArray[np.int16],
    steps: int,
    parts: PageParts,
    work: ArticleWork,
    articles: Articles,
) -> None:
    """Read pages one by one: with APART fill `parts`, with CHOSEN write the article of what `parts` hold.

    `parts` and `work` have room for the longest page; in the end `parts` hold the last. Cost: linear, 1 to 3 ns a
    byte of real pages.
    """
    end = 0
    for i in range(pages.sizes.size):
        size = pages.sizes[i]
        if steps & APART:
            html = HtmlBytes(bytes_at(pages.places[i], size), words_at(pages.places[i], size >> 3))
            take_apart(html, tables.names, tables.words, tables.references, parts)
        if steps & CHOSEN:
            end = choose(parts, size, trees, work, articles.texts, end)
            articles.ends[i] = end
