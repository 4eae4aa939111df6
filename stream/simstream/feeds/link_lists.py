"""Recognizes lists of links (home pages, sections, archives), which are no stories."""

from __future__ import annotations

import re
from collections.abc import Iterator

from simstream.text.extraction.prose import is_sentence, width_of

MAX_CHARACTERS = 256 << 10
"""At most so many characters of a page's HTML are read."""
MIN_HEADLINES = 20
MIN_HEADLINE_WIDTH = 16
"""The least width of a link's text that may be a headline: 8 letters of Chinese, 16 of English."""
MIN_LINKS_TO_PROSE = 8
"""The headlines of a list are at least so many times as wide as its sentences. No article of 60 is above 5.6."""
SKIPPED = ("head", "script", "style", "noscript", "template", "svg")
"""Elements that no reader sees."""
_SKIPPED = re.compile(rf"<(?:({'|'.join(SKIPPED)})\b|!--)", re.IGNORECASE)
_ENDS = {name: re.compile(rf"</{name}\b[^<>]*>", re.IGNORECASE) for name in SKIPPED}
_TAG = re.compile(r"<(/?)([a-z][a-z0-9]*)\b[^<>]*>", re.IGNORECASE)
_INLINE = re.compile(
    "abbr|acronym|b|bdi|bdo|big|cite|code|em|font|i|img|ins|kbd|mark|q|s|small|span|strong|sub|sup|time|tt|u|wbr"
)


def is_list_of_links(html: str) -> bool:
    """Return whether a page has many linked headlines, and hardly a sentence outside links.

    Cost: linear, about 20 ms for MAX_CHARACTERS.
    """
    headlines = linked = said = 0
    for text, is_link in _blocks(html[:MAX_CHARACTERS]):
        width = width_of(text)
        if is_link and width >= MIN_HEADLINE_WIDTH:
            headlines, linked = headlines + 1, linked + width
        elif not is_link and is_sentence(text, width):
            said += width
    return headlines >= MIN_HEADLINES and linked >= MIN_LINKS_TO_PROSE * said


def _blocks(html: str) -> Iterator[tuple[str, bool]]:
    """Yield the texts of links (with True), and of blocks without their links (with False)."""
    pieces = _TAG.split(_without_skipped(html))
    block, anchor, in_link = [pieces[0]], [""], False
    for at in range(1, len(pieces), 3):
        name = pieces[at + 1].lower()
        if name == "a":
            yield _line(anchor), True
            in_link = not pieces[at]
        elif not _INLINE.fullmatch(name):
            yield _line(block), False
        (anchor if in_link else block).append(pieces[at + 2])
    yield _line(block), False


def _line(pieces: list[str]) -> str:
    """Return the pieces as one line, and empty the list."""
    text = " ".join("".join(pieces).split())
    pieces.clear()
    return text


def _without_skipped(html: str) -> str:
    """Return the HTML without elements that no reader sees; an unclosed element reaches to the end."""
    kept, at = [], 0
    while found := _SKIPPED.search(html, at):
        kept.append(html[at : found.start()])
        if found[1] is None:
            end = html.find("-->", found.end())
            at = end + 3 if end >= 0 else len(html)
        else:
            closed = _ENDS[found[1].lower()].search(html, found.end())
            at = closed.end() if closed else len(html)
    return " ".join([*kept, html[at:]])
