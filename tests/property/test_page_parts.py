"""The kernels that take a page apart and choose its article, against the plain reading of `naive_page`."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from resiliparse.extract.html2text import extract_plain_text
from resiliparse.parse.html import HTMLTree

from simstream.kernels.html import page_parts as columns
from simstream.kernels.html.article import ArticleWork, make_article_work
from simstream.kernels.html.block_features import FEATURES, SUMS, describe
from simstream.kernels.html.character_references import REFERENCES
from simstream.kernels.html.class_words import CLASS_WORDS, WORD_LISTS, ClassWords, class_flags
from simstream.kernels.html.element_names import NAMES, kinds_by_name, traits_by_name
from simstream.kernels.html.page_batch import (
    CHOOSE,
    TAKE_APART,
    ArticleRoom,
    HtmlTables,
    make_article_room,
    pages_in_memory,
    read_pages,
)
from simstream.kernels.html.page_parts import MAX_DEPTH, MAX_ELEMENTS, PageParts, make_parts
from simstream.kernels.html.tags import HtmlBytes, make_html
from simstream.kernels.jit import lean_kernel
from simstream.text.extraction.article import TREES, article_of, articles_of, fill_parts, parts_of
from simstream.text.extraction.html_bytes import html_in_utf8
from tests import corpora, naive_article, naive_page
from tests.hostile_html import LINEAR, QUADRATIC, ordinary
from tests.naive_page import NaivePage
from tests.short import examples

GUARD, GUARD_ROWS = 0x5A, 4
WORDS = sorted({word.strip("^") for _, group in WORD_LISTS for word in group.split()})
COMMON = "p div a li ul td tr table span br h2 select button form svg math mi title desc section article nav b"
RARE = "meta link foreignObject mtext xmp plaintext x-y DIV sPan é b\x81"
TEXTS = ["x", " ", "\n", "\0", "<", "</", ">", "'", '"', "文", "，", "。", "\u3000", "\xa0", "\u2019", "３.", "1.5"]
REFERENCE_TEXTS = ["&amp;", "&nbsp;", "&#x3000;", "&#1;", "&#0;", "&lt", "&nGt;", "&nosuch;", "&Tab;", "&", "&#"]
DECLARATIONS = ["<!--", "-->", "--!>", "->", "</>", "<!doctype html>", "<?x>", "<![CDATA[", "]]>"]
RAW = ["<script>", "</script >", "<!--<script>", "</scriptx>", "<textarea>", "</textarea>", "<title>", "<style>"]
RAW += ["<xmp>", "</xmp>", "</title>", "<noscript>", "</noscript>"]
HEAD = [
    "<meta property=og:title content='A b'>",
    "<link rel=canonical href=/x>",
    "<meta content=y name='OG:Title'>",
]
PROSE = "The river rose in the night, and carried the old ferry as far as the mill. "
SOURCES = ["", "Home", PROSE, PROSE * 2, PROSE * 5, "夜里，河水涨了。" * 8, "words without any end " * 6]

name = st.sampled_from(COMMON.split()) | st.sampled_from(sorted(kinds_by_name() | traits_by_name()))
name |= st.sampled_from(RARE.split())
value = st.lists(st.sampled_from(WORDS) | st.sampled_from(["-", "_", " ", "s", "1", "É"]), max_size=4).map("".join)
style = st.sampled_from(["display:none", "x;DISPLAY : None", "display:block", "displaynone;", "display none"])
attribute = st.one_of(
    st.sampled_from(["", "", "", " ", " a", " a='>'", ' b="x y" c', " =x", "/", " a=b/", " a = 'c'd", "\n/ id=2"]),
    st.builds(" {}='{}'".format, st.sampled_from(["class", "id", "CLASS", "role", "itemprop", "name"]), value),
    st.builds(' style="{}"'.format, style),
    st.sampled_from([" hidden", " aria-hidden=True", " aria-hidden=false", " style"]),
)
tag = st.builds("<{}{}{}{}{}".format, st.sampled_from(["", "", "/"]), name, attribute, attribute,
                st.sampled_from([">", ">", ">", ">", "/>", ""]))  # fmt: skip
piece = st.sampled_from(TEXTS) | st.sampled_from(REFERENCE_TEXTS) | st.sampled_from(DECLARATIONS)
piece |= st.sampled_from(RAW) | st.sampled_from(HEAD) | st.sampled_from(SOURCES)
soup = st.lists(tag | tag | piece, max_size=40).map("".join)
broken = st.lists(soup.map(str.encode) | st.binary(max_size=6), max_size=4).map(b"".join)
block = st.builds(
    "<{0} class='{1}'>{2}<a>{3}</a></{0}>".format,
    st.sampled_from(["p", "li", "h2", "div", "td", "figcaption"]),
    value,
    st.sampled_from(SOURCES),
    st.sampled_from(SOURCES),
)
section = st.builds(
    "<{0} id={1}>{2}</{0}>".format,
    st.sampled_from(["div", "section", "article", "main", "nav", "aside", "footer", "ul", "table", "figure"]),
    st.sampled_from(WORDS),
    st.lists(block, max_size=8).map("".join),
)
page = st.recursive(
    section, lambda inner: st.builds("<div>{}</div>".format, st.lists(inner, max_size=4).map("".join))
)


@lean_kernel
def find_class_words(page: HtmlBytes, start: int, end: int, words: ClassWords) -> int:
    return int(class_flags(page, start, end, words))


def assert_same_parts(html: bytes, parts: PageParts, naive: NaivePage) -> None:
    num, text = parts.num, parts.text.tobytes()
    elements = parts.elements[: num[columns.ELEMENTS]].tolist()
    assert elements == [[e.parent.number, e.kind, e.flags, e.end] for e in naive.elements]
    blocks = parts.blocks[: num[columns.BLOCKS]].tolist()
    assert [text[row[columns.TEXT_START] : row[columns.TEXT_END]] for row in blocks] == [
        block.text.encode("latin-1") for block in naive.blocks
    ]
    assert text[: num[columns.TEXT]] == "".join(b.text + "\n" for b in naive.blocks).encode("latin-1")
    assert [
        [row[i] for i in (columns.ELEMENT, columns.WIDTH, columns.LINKED, columns.MARKS)] for row in blocks
    ] == [[b.element.number, b.double_width, b.linked, b.marks] for b in naive.blocks]
    assert num[columns.HEADLINES : columns.HEADLINES_WIDTH + 1].tolist() == [naive.headlines, naive.headlines_width]
    for place, span in ((columns.TITLE, naive.title), (columns.OG_TITLE, naive.og_title),
                        (columns.CANONICAL, naive.canonical)):  # fmt: skip
        assert tuple(num[place : place + 2]) == span


def assert_same_article(html: bytes, parts: PageParts, naive: NaivePage) -> None:
    sums = np.empty((parts.num[columns.ELEMENTS], SUMS), np.int64)
    rows = np.empty((len(FEATURES), parts.num[columns.BLOCKS]), np.int16)
    describe(parts, sums, rows)
    assert [dict(zip(FEATURES, row, strict=True)) for row in rows.T.tolist()] == naive_article.features(naive)
    assert article_of(html) == naive_article.article(naive, TREES.tolist()).encode("latin-1")


def assert_same(html: bytes) -> None:
    parts, naive = parts_of(html), NaivePage(html)
    assert_same_parts(html, parts, naive)
    assert_same_article(html, parts, naive)


@given(soup)
@example("")
@example("<p>one<xmp>&amp;\xa0 two</xmp>three")
@example("<a>one<xmp>two three</xmp></a>")
@example("<svg a=b/><p>shown")
@example("<svg><title><p>x</mi>y<table><tr><td></svg></table>z")
@example("<table><td><p>a<table><tr>b<td>c</table>d</p>e<caption>f")
@example("<ul><li>a<ol></li>b<li>c</ul>d")
@example("<p style='displaynone;'>x")
@example("".join(f"<p>{'x' * n}{mark}" for mark in "!,.;?،؛؟…。，！？；।·、：" for n in range(10)))
@example("text <a>fifteen letters</a> and <a>sixteen letters!</a>")
@example("text<a><p>fifteen<p>letters</a>")
def test_the_kernels_take_a_page_apart_as_the_plain_reading_does(html: str) -> None:
    assert_same(html.encode())


@given(broken)
@example(b"\xc2\x00\xa0 \xe3\x80\x00\x80\xe3\x80<p>\x80\xc2")
@example(b"a\x00b<p>\x00<p>\x01<p>&#1;<p>&nbsp;\xa0")
def test_bytes_that_are_not_utf_8_are_taken_apart_alike(html: bytes) -> None:
    assert_same(html)


@given(st.binary(max_size=200))
def test_any_bytes_are_taken_apart_alike(html: bytes) -> None:
    assert_same(html)


@given(st.lists(page, max_size=6).map("".join))
def test_the_article_is_the_one_of_the_plain_reading(html: str) -> None:
    assert_same(html.encode())


@given(st.lists(page, max_size=3).map("".join), st.data())
def test_a_page_that_is_cut_off_is_taken_apart_alike(html: str, data: st.DataObject) -> None:
    assert_same(html.encode()[: data.draw(st.integers(0, len(html)))])


@pytest.mark.parametrize("make", [*QUADRATIC.values(), *LINEAR.values()], ids=[*QUADRATIC, *LINEAR])
def test_pages_made_to_be_slow_are_taken_apart_alike(make: Callable[[int], str]) -> None:
    html = make(6_000).encode()
    assert_same_parts(html, parts_of(html), NaivePage(html))


@pytest.mark.parametrize("seed", range(3))
def test_an_ordinary_page_gives_the_same_article(seed: int) -> None:
    assert_same(ordinary(10_000, seed).encode())


@pytest.mark.corpora
def test_real_pages_are_taken_apart_alike(request: pytest.FixtureRequest) -> None:
    files = real_pages()
    assert len(files) > 300
    for path in files if request.config.getoption("--all-pages") else files[::10]:
        assert_same(path.read_bytes())


@pytest.mark.corpora
@given(st.data())
def test_real_pages_that_are_damaged_are_taken_apart_alike(data: st.DataObject) -> None:
    html = data.draw(st.sampled_from(real_pages())).read_bytes()
    start = data.draw(st.integers(0, len(html)))
    rng = random.Random(data.draw(st.integers(0, 1 << 32)))
    pieces = [
        html[start : start + rng.randrange(500)] for start in [start, *rng.choices(range(len(html) + 1), k=9)]
    ]
    assert_same(b"".join(pieces))


def real_pages() -> list[Path]:
    root = corpora.folder()
    assert root is not None
    return sorted(path for path in (root / "html_pages").rglob("*") if path.is_file() and path.stat().st_size)


@given(value)
@example("nav navbar")
@example("xad-ad")
@example("body-contentarticle")
def test_class_words_are_those_that_a_plain_search_finds(said: str) -> None:
    html = f"é{said}é".encode()
    found = find_class_words(make_html(html), 2, len(html) - 2, CLASS_WORDS)
    assert found == naive_page.flags_of(said.encode().decode("latin-1"))


# What has no room


def parts_in_guards(html: bytes, count: int) -> PageParts:
    """Take a page apart with room for so many elements and blocks; fail if a kernel writes anywhere else."""
    whole = make_parts(len(html))
    sizes: list[NDArray[Any]] = [*whole._replace(elements=whole.elements[:count], blocks=whole.blocks[:count])]
    room = [np.full((len(part) + 2 * GUARD_ROWS, *part.shape[1:]), GUARD, part.dtype) for part in sizes]
    parts = PageParts(*(array[GUARD_ROWS:-GUARD_ROWS] for array in room))
    fill_parts(html, parts)
    for array in room:
        assert (array[:GUARD_ROWS] == GUARD).all()
        assert (array[-GUARD_ROWS:] == GUARD).all()
    return parts


@given(broken, st.integers(2, 12))
@example(b"<a>x<p>y<p>z<p>w</a>v<br>u", 2)
def test_elements_and_blocks_without_room_are_part_of_those_before(html: bytes, count: int) -> None:
    assert_same_parts(html, parts_in_guards(html, count), NaivePage(html, max_elements=count))


@given(broken)
@example(b"&nGt;" * 50)
@example(b"<p>x" * 50)
@example(b"<b>" + b"x<xmp>y</xmp>" * 50)
def test_all_parts_of_a_page_have_room(html: bytes) -> None:
    assert_same_parts(html, parts_in_guards(html, MAX_ELEMENTS), NaivePage(html))


@given(soup, st.integers(-2, 5), st.sampled_from(["<div>", "<ul><li>", "<table><tr><td>", "<section>x"]))
def test_elements_that_are_too_deep_are_part_of_the_deepest(html: str, above: int, nest: str) -> None:
    deep = nest * ((MAX_DEPTH + above) // nest.count("<")) + html + "</div></li></td>x" * 3
    parts = parts_in_guards(deep.encode(), MAX_ELEMENTS)
    assert_same_parts(deep.encode(), parts, NaivePage(deep.encode()))


def test_a_page_of_more_elements_than_there_is_room_for_keeps_all_its_text() -> None:
    count = MAX_ELEMENTS + 1000
    parts = parts_in_guards(b"<p>x" * count, MAX_ELEMENTS)
    assert parts.num[columns.ELEMENTS] == parts.num[columns.BLOCKS] == MAX_ELEMENTS
    assert article_of(b"<p>x" * count).split() == [b"x"] * count


# Many pages in one call


@settings(max_examples=examples(300))
@given(st.lists(broken, max_size=8))
@example([b"", b"<p>x" * 90, b"&nGt;" * 50, b"", b"x"])
@example([b"x" * 20_000, b"<p>A line, of prose. And so on: it goes." * 70, b"<p>x" * 60])
@example([b"<p>" + b"A long line of prose, as in an article, with two marks of sentences. " * 3, b"<p>x<p>y"])
def test_a_page_among_others_has_the_article_that_it_has_alone(pages: list[bytes]) -> None:
    alone = [naive_article.article(NaivePage(html), TREES.tolist()).encode("latin-1") for html in pages]
    assert articles_of(pages) == alone


@given(st.lists(broken, min_size=1, max_size=5))
@example([b"&nGt;" * 50, b"&nGt;"])
@example([b"x", b"y", b"z"])
def test_articles_stay_in_their_room_and_pages_are_not_written(pages: list[bytes]) -> None:
    before = [bytes(bytearray(html)) for html in pages]
    where = pages_in_memory(pages)
    room = make_article_room(where)
    guarded = np.full(len(room.texts) + 2 * GUARD_ROWS, GUARD, np.uint8)
    parts = make_parts(max(map(len, pages)))
    sizes: list[NDArray[Any]] = [*make_article_work(parts, max(map(len, pages)))]
    work = [np.full((len(part) + 2 * GUARD_ROWS, *part.shape[1:]), GUARD, part.dtype) for part in sizes]
    read_pages(
        where,
        HtmlTables(NAMES, CLASS_WORDS, REFERENCES, TREES),
        TAKE_APART | CHOOSE,
        parts,
        ArticleWork(*(array[GUARD_ROWS:-GUARD_ROWS] for array in work)),
        ArticleRoom(guarded[GUARD_ROWS:-GUARD_ROWS], room.ends),
    )
    for array in (guarded, *work):
        assert (array[:GUARD_ROWS] == array.dtype.type(GUARD)).all()
        assert (array[-GUARD_ROWS:] == array.dtype.type(GUARD)).all()
    assert pages == before


HIDDEN = '[hidden], [aria-hidden="true" i], [style*="display:none" i], [style*="display: none" i], '
HIDDEN += "button, select, textarea, noscript, template, svg, math, object, video, audio, canvas, iframe"


def letters(text: str) -> Counter[str]:
    return Counter(filter(str.isalnum, text))


@pytest.mark.corpora
def test_the_text_of_real_pages_is_what_a_parser_shows() -> None:
    """What differs is text within hidden inline elements, which the kernel shows, and HTML within `<xmp>`."""
    folder = corpora.folder()
    assert folder is not None
    shown = lost = alike = 0
    pages = sorted((folder / "html_pages").rglob("*.html"))
    for path in pages:
        html = html_in_utf8(path.read_bytes(), "text/html")
        parts = parts_of(html)
        tree: Any = HTMLTree.parse(html.decode("utf-8", "replace"))
        for node in tree.document.query_selector_all(HIDDEN):
            node.decompose()
        wanted = letters(extract_plain_text(tree, list_bullets=False, alt_texts=False))
        found = letters(parts.text[: parts.num[columns.TEXT]].tobytes().decode("utf-8", "replace"))
        missing, beyond = (wanted - found).total(), (found - wanted).total()
        shown, lost = shown + wanted.total(), lost + missing
        alike += (missing + beyond) * 50 <= wanted.total()
    assert lost * 10_000 <= shown
    assert alike * 100 >= 92 * len(pages) > 0
