"""Extracts the article of an HTML page by kernels alone: linear in its bytes, without the GIL or a process."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from importlib import resources
from typing import Final

import numpy as np
from numpy.typing import NDArray

from simstream.kernels.html.article import TREE_COLUMNS, make_article_work
from simstream.kernels.html.character_references import REFERENCES
from simstream.kernels.html.class_words import CLASS_TABLES, CLASS_WORDS
from simstream.kernels.html.element_names import NAMES
from simstream.kernels.html.page_batch import (
    CHOOSE,
    TAKE_APART,
    HtmlTables,
    make_article_room,
    pages_in_memory,
    read_pages,
)
from simstream.kernels.html.page_parts import PageParts, make_parts


def _read_trees() -> NDArray[np.int32]:
    lines = resources.files("simstream.text").joinpath("tables/article_trees.txt").read_text().splitlines()
    rows = [line.split() for line in lines if not line.startswith("#")]
    return np.array(rows, np.int32).reshape(-1, TREE_COLUMNS)


_TABLE: Final = _read_trees()
TREES: Final = np.minimum(_TABLE, np.iinfo(np.int16).max).astype(np.int16)
"""What tells a block of the article from the rest; made by `tests/studies/article_trees.py`."""
RULES: Final = b"simstream html 2"
"""Another number for other rules of choosing, which tables do not show."""


def article_digest() -> str:
    """Return 16 hex digits over the trees and tables that choose an article, for the ids of recipes."""
    digest = blake2b(_TABLE.tobytes(), digest_size=8, person=RULES)
    for table in (*NAMES, *CLASS_TABLES, *REFERENCES):
        digest.update(np.ascontiguousarray(table).tobytes())
    return digest.hexdigest()


_TABLES: Final = HtmlTables(NAMES, CLASS_WORDS, REFERENCES, TREES)
_NO_WORK: Final = make_article_work(make_parts(0), 0)


def parts_of(html: bytes) -> PageParts:
    """Return the elements and the blocks of text of a page in UTF-8."""
    parts = make_parts(len(html))
    fill_parts(html, parts)
    return parts


def fill_parts(html: bytes, parts: PageParts) -> None:
    """Fill `parts`, which have room for the page, with its elements and blocks of text."""
    pages = pages_in_memory([html])
    read_pages(pages, _TABLES, TAKE_APART, parts, _NO_WORK, make_article_room(pages))


def article_of(html: bytes, trees: NDArray[np.int16] = TREES) -> bytes:
    """Return the article of one page, as `articles_of` does."""
    return articles_of([html], trees)[0]


def articles_of(pages: Sequence[bytes], trees: NDArray[np.int16] = TREES) -> list[bytes]:
    """Return the article of each page, both in UTF-8, a line for each block; of a page without an article all text.

    `trees` is (n, TREE_COLUMNS). Bytes that are not UTF-8 stay as they are. Never raises, but MemoryError. Holds no
    GIL while it reads them all. Memory: the parts of the longest page. Cost: .1 to .5 ms for 100 KB.
    """
    return _articles(pages, trees, TAKE_APART | CHOOSE, make_parts(max(map(len, pages)))) if pages else []


def article_in(parts: PageParts, html: bytes) -> bytes:
    """Return the article of a page from its parts, which stay as they are."""
    return _articles([html], TREES, CHOOSE, parts)[0]


def _articles(pages: Sequence[bytes], trees: NDArray[np.int16], steps: int, parts: PageParts) -> list[bytes]:
    where = pages_in_memory(pages)
    articles = make_article_room(where)
    work = make_article_work(parts, int(where.sizes.max()))
    read_pages(where, _TABLES._replace(trees=trees), steps, parts, work, articles)
    ends = articles.ends.tolist()
    return [articles.texts[start:end].tobytes() for start, end in zip([0, *ends], ends, strict=False)]
