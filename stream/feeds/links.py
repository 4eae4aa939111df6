"""Lists of links: home pages, sections and archives lead to stories, and are none themselves."""

from __future__ import annotations

import re
from collections.abc import Iterator

from stream.text.prose import is_sentence, width_of

MAX_CHARACTERS = 256 << 10
"""So much of a page's HTML is looked through."""
MIN_HEADLINES = 20
MIN_HEADLINE_WIDTH = 16
"""Width of a link's text that may be a headline: 8 letters of Chinese, 16 of English."""
MIN_LINKS_TO_PROSE = 8
"""A list has so many times as much in headlines as in sentences; of 60 articles none came above 5.6."""
_SKIPPED = re.compile(r"<(?:(head|script|style|noscript|template|svg)\b|!--)", re.IGNORECASE)
_ENDS = {
    name: re.compile(rf"</{name}\b[^<>]*>", re.IGNORECASE)
    for name in ("head", "script", "style", "noscript", "template", "svg")
}
_TAG = re.compile(r"<(/?)([a-z][a-z0-9]*)\b[^<>]*>", re.IGNORECASE)
_INLINE = re.compile(
    "abbr|acronym|b|bdi|bdo|big|cite|code|em|font|i|img|ins|kbd|mark|q|s|small|span|strong|sub|sup|time|tt|u|wbr"
)


def is_list_of_links(html: str) -> bool:
    """Whether a page has many headlines that are links, and hardly a sentence that is none.

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
    """The texts of links, and of blocks without their links."""
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
    """The pieces as one line; they are taken out."""
    text = " ".join("".join(pieces).split())
    pieces.clear()
    return text


def _without_skipped(html: str) -> str:
    """The HTML without what no reader sees; an element that is never closed goes on to the end."""
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
