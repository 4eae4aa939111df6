"""Reads many pages in one call: a thread waits for the GIL once a batch, not at each page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simstream.kernels.addresses import addresses, bytes_at, words_at
from simstream.kernels.html.article import ArticleWork, choose
from simstream.kernels.html.character_references import CharacterReferences, room_for
from simstream.kernels.html.class_words import ClassWords
from simstream.kernels.html.element_names import ElementNames
from simstream.kernels.html.page_parts import PageParts
from simstream.kernels.html.page_reader import take_apart
from simstream.kernels.html.tags import HtmlBytes
from simstream.kernels.jit import sealed_kernel

# Steps of `read_pages`; combine them with |.
TAKE_APART: Final = 1
CHOOSE: Final = 2


class PagesInMemory(NamedTuple):
    """Where n pages in UTF-8 lie in memory."""

    addresses: NDArray[np.uint64]  # (n,)
    sizes: NDArray[np.int64]  # (n,)


class HtmlTables(NamedTuple):
    """What the kernels know of HTML, and what tells an article from the rest."""

    names: ElementNames
    words: ClassWords
    references: CharacterReferences
    trees: NDArray[np.int16]  # (n, TREE_COLUMNS)


class ArticleRoom(NamedTuple):
    """Room for the articles of n pages, one after another."""

    texts: NDArray[np.uint8]  # (t,) UTF-8; t is the sum of `room_for` of all sizes, and 1
    ends: NDArray[np.int64]  # (n,) where each ends


def pages_in_memory(pages: Sequence[bytes]) -> PagesInMemory:
    """Return where the pages lie. The caller keeps them alive as long as this is used. Cost: about 1 us each."""
    return PagesInMemory(*addresses(pages))


def make_article_room(pages: PagesInMemory) -> ArticleRoom:
    """Return room for the articles of these pages. What of it is not written takes no RAM."""
    room = sum(map(room_for, pages.sizes.tolist()))
    texts = np.empty(room + 1, np.uint8)  # the last line's end is written, too
    return ArticleRoom(texts, np.empty(len(pages.sizes), np.int64))


@sealed_kernel
def read_pages(
    pages: PagesInMemory,
    tables: HtmlTables,
    steps: int,
    parts: PageParts,
    work: ArticleWork,
    articles: ArticleRoom,
) -> None:
    """Read pages one by one: with TAKE_APART fill `parts`, with CHOOSE write the article of the page of `parts`.

    `parts` and `work` have room for the longest page. After TAKE_APART, `parts` hold the last page. CHOOSE alone is
    for one page, which `parts` hold already. Cost: 1 to 2 ns a byte of real pages.
    """
    end = 0
    for i in range(pages.sizes.size):
        size = pages.sizes[i]
        if steps & TAKE_APART:
            html = HtmlBytes(bytes_at(pages.addresses[i], size), words_at(pages.addresses[i], size >> 3))
            take_apart(html, tables.names, tables.words, tables.references, parts)
        if steps & CHOOSE:
            end = choose(parts, size, tables.trees, work, articles.texts, end)
            articles.ends[i] = end
