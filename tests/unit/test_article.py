"""The article of a page, what it leaves out, and what else is read from a page."""

from __future__ import annotations

import time
from hashlib import blake2b
from typing import Final

import pytest

from simstream.kernels.html.page_parts import BLOCKS, CANONICAL, OG_TITLE, TITLE
from simstream.text import probes
from simstream.text.extraction import article
from simstream.text.extraction.article import article_of, parts_of
from simstream.text.extraction.refused_html import refusal
from tests.hostile_html import LINEAR, QUADRATIC

STORY = [
    "The river rose in the night, and carried the old ferry as far as the mill, where it stayed until the morning.",
    "Nobody was hurt, said the miller. He had heard the chain break, and thought that it was only the wind again.",
    "The town wants to build a bridge now, ten years after the first plans. It costs more than the ferry earns.",
]
NAVIGATION = "<nav><ul><li><a href='/'>Home</a></li><li><a href='/news'>News</a></li></ul></nav>"
RELATED = "<div class=related><ul><li><a href='/1'>Old bridge</a></li><li><a href='/2'>Dry year</a></li></ul></div>"
COMMENTS = "<div id='comments'><p>I crossed it every day, and never paid! Will there be another one soon?</p></div>"


def page(body: str, head: str = "") -> bytes:
    return f"<!doctype html><html><head>{head}</head><body>{body}</body></html>".encode()


def blocks_of(body: str) -> list[str]:
    """All lines of text, in the order of the page."""
    parts = parts_of(page(body))
    return [
        parts.text[start:end].tobytes().decode() for _, start, end, *_ in parts.blocks[: parts.num[BLOCKS]].tolist()
    ]


def test_an_article_is_found_among_navigation_lists_and_comments() -> None:
    paragraphs = "".join(f"<p>{line}</p>" for line in STORY)
    body = f"{NAVIGATION}<article><div class='entry-content'>{paragraphs}</div></article>{RELATED}{COMMENTS}"
    assert article_of(page(body)).decode().split("\n") == STORY


def test_formatting_and_links_stay_in_their_line() -> None:
    lines = [line.replace("the", "<b>the</b>").replace("ferry", "<a href='/f'>ferry</a>") for line in STORY]
    body = f"{NAVIGATION}<article>{''.join(f'<p>{line}</p>' for line in lines)}</article>"
    assert article_of(page(body)).decode().split("\n") == STORY


def test_a_page_without_an_article_gives_all_its_text() -> None:
    body = (
        f"{NAVIGATION}<table><tr><td>Monday<td>rain<tr><td>Tuesday<td>sun</table><footer>Mill &amp; Sons</footer>"
    )
    assert article_of(page(body)).decode().split("\n") == [
        *("Home", "News", "Monday", "rain", "Tuesday", "sun"),
        "Mill & Sons",
    ]


def test_a_page_without_text_gives_none() -> None:
    assert article_of(b"") == b""
    assert article_of(page("<img src=ferry.png> <p> &nbsp; </p>")) == b""


@pytest.mark.parametrize(
    "hidden",
    [
        "<p hidden>no</p>",
        "<p style='color: red; Display : none'>no</p>",
        "<div aria-hidden=true><p>no</p></div>",
        "<script>'no'</script><style>p { no }</style><!-- no --><noscript>no</noscript>",
        "<button>no</button><select><option>no</select><textarea>no</textarea>",
        "<template><p>no</p></template><svg><title>no</title><text>no</text></svg>",
        "<video>no</video><iframe>no</iframe><object><svg>no</svg></object>",
    ],
)
def test_what_a_browser_does_not_show_is_no_text(hidden: str) -> None:
    assert blocks_of(f"<p>before</p>{hidden}<p>after</p>") == ["before", "after"]


def test_what_is_only_written_as_hidden_is_text() -> None:
    assert blocks_of("<p class=hidden>a</p><p style='display: block'>b</p><p aria-hidden=false>c") == [
        "a",
        "b",
        "c",
    ]


def test_a_line_ends_where_a_browser_ends_it() -> None:
    body = "one <b>line</b>\n of\ttext<br>next<hr>rule<ul><li>item<li>item 2</ul><h2>head</h2>rest"
    assert blocks_of(body) == ["one line of text", "next", "rule", "item", "item 2", "head", "rest"]


def test_the_titles_and_the_canonical_link_are_found_in_the_page() -> None:
    html = page(
        "<svg><title>Icon</title></svg>",
        "<meta property='og:title' content='Ferry adrift'><title>Ferry adrift - Mill News</title>"
        "<link rel=canonical href='https://mill.example/ferry'><meta property='og:title' content='Second'>",
    )
    num = parts_of(html).num
    assert html[num[TITLE] : num[TITLE + 1]] == b"Ferry adrift - Mill News"
    assert html[num[OG_TITLE] : num[OG_TITLE + 1]] == b"Ferry adrift"
    assert html[num[CANONICAL] : num[CANONICAL + 1]] == b"https://mill.example/ferry"


def test_a_page_without_titles_has_none() -> None:
    num = parts_of(page("<p>text")).num
    assert [num[place] for place in (TITLE, TITLE + 1, OG_TITLE, OG_TITLE + 1, CANONICAL, CANONICAL + 1)] == [0] * 6


def test_bytes_that_are_not_utf_8_stay_as_they_are() -> None:
    assert article_of(b"<p>caf\xe9</p>") == b"caf\xe9"


@pytest.mark.parametrize("name", [*LINEAR, *QUADRATIC])
def test_no_page_costs_more_than_in_proportion_to_its_size(name: str) -> None:
    for size in (100, 256_000):  # the first compiles
        html = {**LINEAR, **QUADRATIC}[name](size).encode()
        began = time.thread_time()
        refusal(html)
        article_of(html)
        taken = time.thread_time() - began
    assert taken < 2


SEEN: Final = (b"simstream html 2", "0ec0e3d04fa7d0c6")
"""The number of the rules, and a digest of what they find on some pages."""


def test_rules_that_find_something_else_have_another_number() -> None:
    """Else a log would go on under the same recipe with other fingerprints."""
    made = [make(3_000).encode() for make in {**LINEAR, **QUADRATIC}.values()]
    found = b"\0".join(article_of(html) for html in [probes.HTML.decode("gb18030").encode(), *made])
    assert (article.RULES, blake2b(found, digest_size=8).hexdigest()) == SEEN
