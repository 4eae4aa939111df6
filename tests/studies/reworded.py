"""Whether a page is the same with other words beside its main text, and another with other words in it.

    python -m tests.studies.reworded --scrapinghub PATH --trafilatura PATH --wcxb PATH [--recipe NAME]

takes the held pages of WCXB, whose main text is known. Of each it makes two copies with other words of the same
length, one beside the main text, the other in it. Marks, spaces, digits and elements stay. Then it compares the
page with its copies by a recipe, once for each `extract`. Pages with less than MIN_FOUND of their main text in
their HTML are left out: scripts bring it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from random import Random
from string import ascii_lowercase
from typing import Any, Final, NamedTuple

import click
from resiliparse.parse.html import HTMLTree, NodeType
from rich.console import Console

from simstream.settings import default_cache
from tests.studies import article_pages, report
from tests.studies.article_pages import ArticlePage
from tests.studies.article_quality import EXTRACTIONS
from tests.studies.article_scores import words
from tests.studies.article_trees import label, letters
from tests.studies.context import StudyContext
from tests.studies.measure import StudyTable

MIN_FOUND: Final = 0.7
_WORD: Final = re.compile(r"[^\W\d_]+")
_UNSEEN: Final = ("script", "style", "noscript", "template", "textarea", "title")


class RewordedPage(NamedTuple):
    """A page, and its copies with other words beside the main text, and in it."""

    kind: str
    page: str
    beside: str
    within: str


class PageCounts(NamedTuple):
    """Of how many pages each copy counts as the same page."""

    pages: int
    beside: int
    within: int


def reword(pages: Iterable[ArticlePage], random: Random) -> Iterator[RewordedPage]:
    """Return the pages whose main text is found, with their copies."""
    for page in pages:
        tree = HTMLTree.parse(page.html)
        texts = list(_text_nodes(tree))
        labels = label([letters(node.text) for node in texts], page.body or "").tolist()
        main = words(" ".join(node.text for node, is_main in zip(texts, labels, strict=True) if is_main))
        if _share_found(main, words(page.body or "")) < MIN_FOUND:
            continue
        copies = [
            _with_other_words(tree, texts, [one == wanted for one in labels], random) for wanted in (False, True)
        ]
        yield RewordedPage(page.kind, str(tree), *copies)


def _text_nodes(tree: Any) -> Iterator[Any]:
    """The nodes of text that a reader may see, in their order."""
    stack = [tree.body]
    while stack:
        node = stack.pop()
        if node.type == NodeType.TEXT and node.text.strip():
            yield node
        elif node.tag not in _UNSEEN:
            stack.extend(reversed(node.child_nodes))


def _with_other_words(tree: Any, texts: list[Any], chosen: list[bool], random: Random) -> str:
    """Return the page with other words in the chosen texts; the tree stays as it is."""
    before = [node.text for node in texts]
    for node, is_chosen in zip(texts, chosen, strict=True):
        if is_chosen:
            node.text = _WORD.sub(lambda found: other_word(found[0], random), node.text)
    made = str(tree)
    for node, text in zip(texts, before, strict=True):
        node.text = text
    return made


def other_word(word: str, random: Random) -> str:
    """Return a made-up word of the same length; Chinese stays Chinese, and capitals stay capitals."""
    return "".join(_other_letter(letter, random) for letter in word)


def _other_letter(letter: str, random: Random) -> str:
    if letter > "\u2e80":
        return chr(random.randrange(0x4E00, 0x5E00))
    other = random.choice(ascii_lowercase)
    return other.upper() if letter.isupper() else other


def _share_found(found: Counter[str], true: Counter[str]) -> float:
    return (found & true).total() / max(1, true.total())


def compare(
    context: StudyContext, pages: list[RewordedPage], extract: Callable[[str], str]
) -> dict[str, PageCounts]:
    """Return by kind how many copies match their page under the recipe, where `extract` says which text counts."""
    base, beside, within = (
        context.prints([extract(html) for html in column])
        for column in zip(*((page.page, page.beside, page.within) for page in pages), strict=True)
    )
    hits = [context.matched(base, copy).tolist() for copy in (beside, within)]
    found: dict[str, PageCounts] = {}
    for page, *same in zip(pages, *hits, strict=True):
        for kind in ("all", page.kind):
            before = found.get(kind, PageCounts(0, 0, 0))
            found[kind] = PageCounts(before.pages + 1, before.beside + same[0], before.within + same[1])
    return found


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@article_pages.options
@click.option("--recipe", default="default", show_default=True, help="The recipe, except for its `extract`.")
def main(recipe: str, **folders: Path) -> None:
    """Print how many pages count as the same with other words beside their main text, or in it."""
    context = StudyContext(recipe, default_cache())
    held = [page for page in article_pages.read_pages(**folders)["wcxb"] if page.is_held]
    pages = list(reword(held, context.random("reworded")))
    found = {name: compare(context, pages, extract) for name, extract in EXTRACTIONS.items()}
    kinds = list(next(iter(found.values())))
    lines = [
        (name, *(f"{counts[kind].beside} / {counts[kind].within} of {counts[kind].pages}" for kind in kinds))
        for name, counts in found.items()
    ]
    title = "The same page with other words beside its main text (wanted) / in it (wrong)"
    report.show(Console(), [StudyTable(title, ("extraction", *kinds), lines)])


if __name__ == "__main__":
    main()
