"""Learns the trees that tell the blocks of an article from the rest of a page (`extract = "fast"`).

    python -m tests.studies.article_trees --scrapinghub PATH --trafilatura PATH --wcxb PATH --teacher FILE --out OUT

writes OUT, the file of `stream/simstream/text/tables`. It learns from the pages that are not held; the held ones
are for `article_quality`. The same pages give the same file. `article_pages` says what the pages are.

Of trafilatura's pages only segments are known. So what trafilatura itself finds there stands for the article, where
no segment says otherwise: FILE has it in rows {"name", "text"}, and `article_pages` says how they are made. Without
FILE these pages are only measured. Before it learns from all, it learns from three quarters and measures the rest,
in turn. Some ten minutes.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

import click
import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from simstream.kernels.html.block_features import FEATURES, SUMS, describe
from simstream.kernels.html.page_parts import BLOCKS, ELEMENTS, TEXT_END, TEXT_START, WIDTH
from simstream.text.extraction.article import article_of, parts_of
from tests.studies import article_pages, report
from tests.studies.article_pages import ArticlePage
from tests.studies.article_scores import ArticleScore, score
from tests.studies.boosting import BoostingOptions, learn
from tests.studies.measure import StudyTable

HEAD: Final = (
    "# One tree a line: a feature and a limit for each node, then what each leaf adds. See kernels/html/article.py."
)
FOLDS: Final = 4
_NO_LETTER = re.compile(r"[\W_]+")
_RUN_LETTERS: Final = 8
_MIN_LONG_LETTERS: Final = 16
"""A block of so many letters is told by its runs, a shorter one by its neighbours, or as a whole line."""
_MIN_RUN_SHARE: Final = 0.6
"""The least share of a long block's runs that stand in the article, too."""
_NEAR_BLOCKS: Final = 4
_MIN_LINE_LETTERS: Final = 6
"""A shorter line may equal a line of the article by chance."""
_BASE_WEIGHT: Final = 10
"""The weight of a block without width, in the unit of widths."""
_MAX_WEIGHED_WIDTH: Final = 400
_SET_WEIGHTS: Final = {"scrapinghub": 8, "chinese": 10, "trafilatura": 1, "wcxb": 2}
"""A set of few pages weighs more, and one whose articles are only taught weighs less."""
_MANY_BLOCKS: Final = 50
"""From about so many blocks on, each block of a page weighs less."""


class BlockRows(NamedTuple):
    """The blocks of pages: what the kernel sees, what they are, and how much each counts."""

    features: NDArray[np.int16]  # (n, FEATURES)
    is_article: NDArray[np.bool_]  # (n,)
    weights: NDArray[np.float64]  # (n,)


def rows_of(page: ArticlePage, taught: str | None, weight: float = 1) -> BlockRows:
    """Return the blocks of a page whose article is known, or was `taught`.

    A block weighs more the wider it is, and less on a page of many blocks.
    """
    parts = parts_of(page.html.encode("utf-8", "replace"))
    count = int(parts.num[BLOCKS])
    features = np.empty((len(FEATURES), count), np.int16)
    describe(parts, np.empty((parts.num[ELEMENTS], SUMS), np.int64), features)
    spans = parts.blocks[:count, [TEXT_START, TEXT_END]]
    blocks = [letters(parts.text[start:end].tobytes().decode("utf-8", "replace")) for start, end in spans]
    labels = label(blocks, page.body if page.body is not None else taught or "")
    correct(labels, blocks, page)
    weights = _BASE_WEIGHT + np.minimum(parts.blocks[:count, WIDTH] // 2, _MAX_WEIGHED_WIDTH)
    weights = weights / np.sqrt(1 + count / _MANY_BLOCKS)
    return BlockRows(features.T, labels, weights * weight)


def label(blocks: Sequence[str], body: str) -> NDArray[np.bool_]:
    """Return which blocks are of the article; blocks are given by their letters.

    A long block is of the article if most of its runs are. A short one must stand in the article, and near a long
    block of the article, or be a whole line.
    """
    article, lines = letters(body), {letters(line) for line in body.splitlines()}
    runs = set(_runs(article))
    is_long = np.array(
        [len(block) >= _MIN_LONG_LETTERS and _share(_runs(block), runs) >= _MIN_RUN_SHARE for block in blocks],
        np.bool_,
    )
    labels = is_long.copy()
    for i, block in enumerate(blocks):
        if 0 < len(block) < _MIN_LONG_LETTERS and block in article:
            is_near = is_long[max(0, i - _NEAR_BLOCKS) : i + _NEAR_BLOCKS + 1].any()
            labels[i] = is_near or (block in lines and len(block) >= _MIN_LINE_LETTERS)
    return labels


def correct(labels: NDArray[np.bool_], blocks: Sequence[str], page: ArticlePage) -> None:
    """Correct labels by the segments that are known to be wanted or not."""
    wanted, unwanted = (list(filter(None, map(letters, each))) for each in (page.wanted, page.unwanted))
    for i, block in enumerate(blocks):
        if any(segment in block or (len(block) >= _MIN_LONG_LETTERS and block in segment) for segment in wanted):
            labels[i] = True
        if any(segment in block and len(segment) * 2 > len(block) for segment in unwanted):
            labels[i] = False


def letters(text: str) -> str:
    """Return the letters and digits alone: pages and labels differ in spaces, and in marks."""
    return _NO_LETTER.sub("", text).lower()


def _runs(text: str) -> list[str]:
    return [text[start : start + _RUN_LETTERS] for start in range(len(text) - _RUN_LETTERS + 1)]


def _share(parts: Sequence[str], of: set[str]) -> float:
    return sum(part in of for part in parts) / len(parts)


def learn_trees(pages: Iterable[BlockRows], options: BoostingOptions) -> NDArray[np.int16]:
    """Return trees learnt from the blocks of pages."""
    features, is_article, weights = (np.concatenate(column) for column in zip(*pages, strict=True))
    return learn(features, is_article, weights, options)


def cross_validate(
    sets: dict[str, list[ArticlePage]], rows: dict[str, BlockRows], options: BoostingOptions
) -> dict[str, ArticleScore]:
    """Return the score of each set, where each page is read by trees that were learnt without its fold."""
    folds = [
        learn_trees((each for name, each in rows.items() if fold_of(name) != fold), options)
        for fold in range(FOLDS)
    ]
    return {
        name: score(pages, [_text(page, folds[fold_of(page.name)]) for page in pages])
        for name, pages in sets.items()
    }


def fold_of(name: str) -> int:
    return hashlib.sha256(b"f" + name.encode()).digest()[0] % FOLDS


def _text(page: ArticlePage, trees: NDArray[np.int16]) -> str:
    return article_of(page.html.encode("utf-8", "replace"), trees).decode("utf-8", "replace")


def write(path: Path, trees: NDArray[np.int16]) -> None:
    """Write trees as `extraction.article` reads them."""
    leaves = (trees.shape[1] + 2) // 3
    lines = [" ".join(map(str, tree[:-leaves])) + "  " + " ".join(map(str, tree[-leaves:])) for tree in trees]
    path.write_text("\n".join([HEAD, *lines, ""]), encoding="utf-8")


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@article_pages.options
@click.option("--teacher", type=click.Path(path_type=Path, exists=True), help="What trafilatura finds.")
@click.option("--rounds", type=click.IntRange(1), default=BoostingOptions().rounds, show_default=True)
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), required=True, help="File of trees.")
def main(teacher: Path | None, rounds: int, out: Path, **folders: Path) -> None:
    """Learn trees from the pages that are not held, and print how well they do by cross-validation."""
    options = replace(BoostingOptions(), rounds=rounds)
    taught = article_pages.read_texts(teacher) if teacher else {}
    sets = {
        name: [page for page in pages if not page.is_held]
        for name, pages in article_pages.read_pages(**folders).items()
    }
    rows = {
        page.name: rows_of(page, taught.get(page.name), _SET_WEIGHTS[name])
        for name, pages in sets.items()
        for page in pages
        if page.body is not None or page.name in taught
    }
    found = cross_validate(sets, rows, options)
    lines = [(name, str(len(sets[name])), *report.places(one)) for name, one in found.items()]
    columns = ("pages", "n", "precision", "recall", "F1", "±")
    report.show(Console(), [StudyTable(f"Learnt without a page's fold, {FOLDS} folds", columns, lines)])
    write(out, learn_trees(rows.values(), options))


if __name__ == "__main__":
    main()
