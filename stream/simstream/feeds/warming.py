"""Compiles what the news page needs before it serves: compiled in its event loop, it would stop all answers."""

from __future__ import annotations

from typing import Final

from simstream.feeds.comparison import side_by_side
from simstream.feeds.title_words import TitleWords
from simstream.feeds.titles import sheet_of
from simstream.model import Record
from simstream.text.extraction.fast import extract_fast, warm_fast
from simstream.wire.page import PageLimits

_HTML: Final = "<title>长江大桥 opens</title><p>The bridge opens after years.</p><a href='/1'>more</a>".encode()
_HEADERS: Final = (("content-type", b"text/html"),)


def warm_news(words: TitleWords) -> None:
    """Do once what titles, searches and comparisons do. Cost: .1 s, or half a minute if nothing is compiled."""
    sheet = sheet_of(Record("pages", 0, 0, b"a", _HTML, _HEADERS), PageLimits())
    title = "" if sheet is None else sheet.title
    words.of_title(title)
    words.of_question(title)
    warm_fast()
    text = extract_fast(_HTML, "text/html").text or ""
    side_by_side(text, f"{text} {title}")
