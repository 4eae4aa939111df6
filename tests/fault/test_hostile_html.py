"""HTML made to be slow is refused before it is parsed, or costs what its size says."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from simstream.text.decode import charset_of, decode
from simstream.text.extraction.extract import extract_one
from simstream.text.extraction.fast import extract_fast
from simstream.text.extraction.pool import ExtractionPool
from simstream.text.extraction.refused_html import LIMITS, refusal
from tests import corpora
from tests.cpu_time import least_seconds
from tests.hostile_html import LINEAR, QUADRATIC, UNDECLARED, ordinary
from tests.property.test_markup import count

HTML = "text/html; charset=utf-8"
SIZE = 200_000
RATIO = 60
"""A page that consists of tags costs some 30 times as much as an ordinary page of its size, as it has more tags."""
FLOOR_S = 0.1


@pytest.fixture(scope="module")
def pool() -> Iterator[ExtractionPool]:
    with ExtractionPool(1, timeout=20.0) as pool:
        yield pool


@pytest.fixture(scope="module")
def ordinary_s(pool: ExtractionPool) -> float:
    """Seconds for an ordinary page of SIZE."""
    page = ordinary(SIZE)
    assert "night train" in (pool.extract([(page, HTML)])[0].text or "")
    return min(_seconds(pool, page) for _ in range(5))


def _seconds(pool: ExtractionPool, page: str) -> float:
    began = time.perf_counter()
    pool.extract([(page, HTML)])
    return time.perf_counter() - began


@pytest.mark.parametrize("name", QUADRATIC)
def test_what_costs_the_square_of_its_size_is_refused_before_it_is_parsed(name: str) -> None:
    for size in (SIZE, 10 * SIZE):
        assert refusal(QUADRATIC[name](size).encode()).startswith("the HTML ")


@pytest.mark.parametrize("make", [*QUADRATIC.values(), *LINEAR.values()], ids=[*QUADRATIC, *LINEAR])
def test_no_hostile_page_costs_more_than_a_constant_times_an_ordinary_page_of_its_size(
    pool: ExtractionPool, ordinary_s: float, make: Callable[[int], str]
) -> None:
    page = make(SIZE)
    assert min(_seconds(pool, page) for _ in range(2)) <= RATIO * ordinary_s + FLOOR_S


def test_a_refused_page_says_what_is_too_much(pool: ExtractionPool) -> None:
    pages = {
        "nests deeper than 1,000 elements": "<span>" * 20_000,
        "has more than 400,000 tags": "<br>" * 400_001,
        "has a tag with more than 500 attributes": QUADRATIC["attributes"](20_000),
        "has its elements on average more than 50 sections deep": QUADRATIC["400 div, then text"](SIZE),
        "leaves formatting unclosed that would be opened again and again": QUADRATIC["formatting, then paragraphs"](
            14_000
        ),
        "has a list of more options than are read, some 3,000": QUADRATIC["options"](SIZE),
    }
    for what, found in zip(pages, pool.extract([(page, HTML) for page in pages.values()]), strict=True):
        assert found == (None, "extract_failed", f"the HTML {what}")


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("codec", ["utf-8", "utf-16", "utf-16-le", "utf-16-be", "gb18030", "big5"])
def test_a_page_is_refused_in_every_character_set(workers: int, codec: str) -> None:
    page = ("<p>中文</p>" + "<span>" * 20_000).encode(codec)
    for content_type in ("text/html", f"text/html; charset={codec}"):
        with ExtractionPool(workers) as pool:
            ((text, reason, detail),) = pool.extract([(page, content_type)])
        assert (text, reason, detail) == (None, "extract_failed", "the HTML nests deeper than 1,000 elements")


@pytest.mark.parametrize(
    ("before", "again"),
    [
        ("", "<p></br>"),
        ("", "<p><"),
        ("", "<p> "),
        ("<template><table></template>", "<p>x"),
        ("<caption>", "<p>x"),
        ("<table><caption><object></caption></table>", "<p>x"),
        ("<table>", "<tr>x"),
    ],
)
def test_formatting_that_waits_is_counted_wherever_it_opens_again(before: str, again: str) -> None:
    formatting = "".join(f"<b id={i}>" for i in range(400))
    page = f"<div><p>{formatting}</div>{before}{again * 5_000}"
    assert refusal(page.encode()) == "the HTML leaves formatting unclosed that would be opened again and again"


def test_a_refused_page_starts_no_process() -> None:
    with ExtractionPool(1) as pool:
        pool.extract([("<div>" * 20_000, HTML)])
        assert pool.pids() == []


def test_binary_data_is_said_to_be_binary_however_many_tags_it_seems_to_have() -> None:
    page = b"%PDF-1.7 " + b"<div>" * 20_000
    with ExtractionPool(1) as pool:
        assert pool.extract([(page, "text/html")]) == [extract_one(page, "text/html")]


@pytest.mark.parametrize(
    "page",
    [
        ordinary(2_000_000),
        "<table>" + "<tr><td>1<td>2<td>3" * 20_000,
        "<ul>" + "<li>x" * 50_000,
        "<p>x" * 50_000,
        "<select>" + "<option>Berlin</option>" * 2_000 + "</select>",
        "<form>" + ("<select>" + "<option>Berlin</option>" * 250 + "</select>") * 100,
        "<font color=red><b>" * 100 + "<p>old page" * 1_000,
        "<center><font size=2>" * 40 + "<p>old page" * 2_000,
        "<blockquote>" * 60 + "<p>mail" * 500,
        "<script>document.write('" + "<div>" * 50_000 + "')</script><p>x",
        "<!--" + "<div>" * 50_000 + "--><p>x",
        "<textarea>" + "<div>" * 50_000 + "</textarea><p>x",
        "<a name=x>" * 5_000,
        "<p><span>x" * 5_000,
    ],
)
def test_long_and_sloppy_pages_are_read(page: str) -> None:
    assert refusal(page.encode()) == ""


@pytest.mark.corpora
def test_no_page_of_the_corpora_is_refused_or_comes_near_a_limit() -> None:
    root = corpora.folder()
    assert root is not None
    files = [path for path in (root / "html_pages").rglob("*") if path.is_file()]
    assert len(files) > 300
    for path in files:
        raw = path.read_bytes()
        for data in (raw, decode(raw, charset_of("text/html"), True)[0].encode()):
            assert refusal(data) == "", path
            found = count(data)
            assert 5 * found.depth < LIMITS.depth, path
            assert 4 * found.attributes < LIMITS.attributes, path
            assert 5 * found.tags < LIMITS.tags, path


@pytest.mark.parametrize("name", UNDECLARED)
def test_a_page_without_a_charset_costs_at_most_16_ordinary_pages(name: str) -> None:
    """Such pages took 25 to 60 times as long as an ordinary one, and held the GIL meanwhile."""
    plain, page = ordinary(SIZE).encode(), UNDECLARED[name](SIZE) + b"\xff"
    plain_s = least_seconds(lambda: extract_fast(plain, HTML), 5)
    assert least_seconds(lambda: extract_fast(page, "text/html"), 5) < 16 * plain_s
