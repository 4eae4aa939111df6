"""Article pages taken apart: where a page holds its article, the article, and another one put in its place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

from resiliparse.extract.html2text import extract_plain_text
from resiliparse.parse.html import DOMNode, HTMLTree, NodeType

from tests.studies import dressing
from tests.studies.edits import sentences

_HOLDERS: Final = frozenset(
    {"body", "div", "section", "article", "main", "center", "form"}
    | {"table", "tbody", "tr", "td", "ul", "li", "dl", "dd"}
)
_SILENT: Final = frozenset({"script", "style", "noscript", "a", "template", "iframe", "textarea", "select"})
_PUNCTUATION = re.compile("[，。！？；、：]")
_MIN_SHARE = 0.6
"""A node holds the article where none of its parts has this share of its punctuation."""
_NAMED = (".all-txt", "#artibody")
"""Where two sites put their articles, beside comments or notices that hold as much text."""
_HERE, _AFTER, _TITLE, _NAVIGATION = "\ue000", "\ue001", "\ue002", "\ue003"  # private use: no page has them
_BODY = re.compile(r"(?i)(<body[^>]*>)")
_LINK = re.compile(r"(?i)(<a\b[^>]*>)([^<>]{8,}?)(</a>)")


class SiteTemplate(NamedTuple):
    """A page without its article; `needs_heading` where its headline went with it."""

    html: str
    needs_heading: bool


class SiteArticle(NamedTuple):
    """What a page is about, without the page."""

    page: str
    title: str
    paragraphs: list[str]

    @property
    def text(self) -> str:
        return "\n".join(self.paragraphs)


def read(path: Path) -> str:
    """Return a stored page without its declared charset: all pages are UTF-8, though some declare another one."""
    html = path.read_bytes().decode("utf-8", "replace")
    return re.sub(r"(?i)charset=[\"']?gb\w+", "charset=utf-8", html)


def article_of(name: str, html: str) -> SiteArticle:
    """The article of a page, by the place where most punctuation outside links stands together."""
    tree = HTMLTree.parse(html)
    node = content_node(tree)
    heading = tree.body.query_selector("h1")
    title = heading.text.strip() if heading is not None and heading.text.strip() else tree.title or name
    return SiteArticle(name, " ".join(title.split())[:80], lines_of(node))


def lines_of(node: Any) -> list[str]:
    """The lines of a node's text that are not empty."""
    text = extract_plain_text(str(node.html), list_bullets=False, alt_texts=False)
    lines = [" ".join(line.split()) for line in text.splitlines()]
    return [line for line in lines if line]


def content_node(tree: Any) -> Any:
    """The smallest node that holds most of the page's punctuation outside links; on two sites, a named one."""
    for named in _NAMED:
        if (node := tree.body.query_selector(named)) is not None:
            return node
    weights: dict[int, int] = {}
    _weigh(tree.body, weights)
    node = tree.body
    while True:
        parts = [child for child in _children(node) if child.tag in _HOLDERS]
        best = max(parts, key=lambda part: weights[hash(part)], default=None)
        if best is None or weights[hash(best)] < _MIN_SHARE * max(1, weights[hash(node)]):
            return node
        node = best


def _weigh(node: DOMNode, weights: dict[int, int]) -> int:
    """Punctuation of a node outside links and scripts, and of every element within it."""
    if node.type == NodeType.TEXT:
        return len(_PUNCTUATION.findall(node.value or ""))
    if node.type != NodeType.ELEMENT or node.tag in _SILENT:
        weights[hash(node)] = 0
        return 0
    weights[hash(node)] = total = sum(_weigh(child, weights) for child in _children(node))
    return total


def template_of(html: str) -> SiteTemplate:
    """The page with marks where its article, its headline and what follows the article stand. About 50 ms."""
    tree = HTMLTree.parse(html)
    node = content_node(tree)
    needs_heading = node.query_selector("h1") is not None or tree.body.query_selector("h1") is None
    _fill(tree, node, _HERE)
    for heading in (tree.head.query_selector("title"), tree.body.query_selector("h1")):
        if heading is not None:
            _fill(tree, heading, _TITLE)
    after = tree.create_element("div")
    _fill(tree, after, _AFTER)
    if node.next is not None:
        node.parent.insert_before(after, node.next)
    else:
        node.parent.append_child(after)
    return SiteTemplate(_BODY.sub(lambda found: found[1] + _NAVIGATION, str(tree), count=1), needs_heading)


def transplant(template: SiteTemplate, article: SiteArticle, random: Random) -> str:
    """Return a site's page with another article in place of its own, and other headlines, advertisements and
    comments.

    Half of the page's longer links become others: lists of headlines are never the same twice.
    """
    below = [dressing.counters(random), dressing.related(random), dressing.comments(random)]
    random.shuffle(below)
    title = escape(article.title)
    heading = f"<h1>{title}</h1>" if template.needs_heading else ""
    html = _LINK.sub(
        lambda found: f"{found[1]}{dressing.headline(random)}{found[3]}" if random.random() < 0.5 else found[0],
        template.html,
    )
    for mark, content in (
        (_HERE, heading + _article_html(article, random)),
        (_AFTER, "".join(below)),
        (_TITLE, title),
        (_NAVIGATION, dressing.navigation(random)),
    ):
        html = html.replace(mark, content)
    return html


def _article_html(article: SiteArticle, random: Random) -> str:
    """Return the article in its own paragraphs, with a date line before and advertisements between."""
    units = [unit.strip() for paragraph in article.paragraphs for unit in sentences(paragraph) if unit.strip()]
    paragraphs = []
    while units:
        size = random.randint(1, 5)
        paragraphs.append(escape("".join(units[:size])))
        units = units[size:]
    blocks = [f"<p>{text}</p>" for text in paragraphs]
    if random.random() < 0.2:
        blocks = [f"{text}<br><br>" for text in paragraphs]
    for _ in range(random.randrange(3)):
        blocks.insert(random.randrange(len(blocks) + 1), dressing.advertisement(random))
    return dressing.date_line(random) + "".join(blocks)


def _fill(tree: Any, node: Any, text: str) -> None:
    """Let this text be all that a node holds."""
    for child in list(_children(node)):
        node.remove_child(child)
    node.append_child(tree.create_text_node(text))


def _children(node: Any) -> Iterator[Any]:
    """As `child_nodes`, which takes time quadratic in their number."""
    child = node.first_child
    while child is not None:
        yield child
        child = child.next
