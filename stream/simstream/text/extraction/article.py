"""Extracts the article of an HTML page by kernels alone: linear in its bytes, without the GIL or a process."""

from __future__ import annotations

from hashlib import blake2b
from importlib import resources
from typing import Final

import numpy as np
from numpy.typing import NDArray

from simstream.kernels.html.article import SCORES, TREE_COLUMNS, choose, is_scored
from simstream.kernels.html.block_features import FEATURES, SUMS
from simstream.kernels.html.character_references import REFERENCES
from simstream.kernels.html.class_words import CLASS_TABLES, CLASS_WORDS
from simstream.kernels.html.element_names import NAMES
from simstream.kernels.html.page_parts import BLOCKS, ELEMENTS, PageParts, make_parts
from simstream.kernels.html.page_reader import take_apart
from simstream.kernels.html.tags import make_html


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


def parts_of(html: bytes) -> PageParts:
    """Return the elements and the blocks of text of a page in UTF-8."""
    parts = make_parts(len(html))
    take_apart(make_html(html), NAMES, CLASS_WORDS, REFERENCES, parts)
    return parts


def article_of(html: bytes, trees: NDArray[np.int16] = TREES) -> bytes:
    """Return the article of a page, both in UTF-8, a line for each block; of a page without an article all text.

    `trees` is (n, TREE_COLUMNS). Bytes that are not UTF-8 stay as they are. Never raises, but MemoryError. Cost:
    .1 to .5 ms for 100 KB.
    """
    return article_in(parts_of(html), len(html), trees)


def article_in(parts: PageParts, size: int, trees: NDArray[np.int16] = TREES) -> bytes:
    """Return the article of a page of so many bytes that was taken apart. Uses up the parts."""
    blocks = int(parts.num[BLOCKS])
    sums = np.empty((parts.num[ELEMENTS], SUMS), np.int64)
    scored = blocks if is_scored(blocks, size) else 0
    features, scores = (np.empty((rows, scored), np.int16) for rows in (len(FEATURES), SCORES))
    length = choose(parts, trees, sums, features, scores, np.empty(blocks, np.bool_))
    return parts.text[:length].tobytes()
