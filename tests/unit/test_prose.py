"""Prose: of an extracted page, the lines with sentences; of a page without them, everything."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simstream.model import Page, PageKind
from simstream.text.extraction.prose import MIN_PROSE_WIDTH, prose
from simstream.text.fingerprinter import Fingerprinter
from simstream.text.recipe import preset

STORY = [
    "河边的磨坊昨天重新开张，面包师天不亮就生了火，镇上的人都来看热闹。",
    "有人带来了三十年前的旧照片，说那时候的水车还在转，夜里能听见。",
    "修水车的木匠只有一个徒弟，两个人干了整整一个冬天；开春的时候，齿轮终于又咬上了。",
    "The night train stops at the mill village again, and the baker opens before dawn for it.",
]
LISTS = ["要闻", "消防员连夜抢修供水管道引来全城围观点赞", "3小时前", "714 跟贴 714", "Related stories", "版本 3.5"]


def test_lines_with_sentences_are_kept_in_order_and_lists_are_not() -> None:
    mixed = [line for pair in zip(LISTS, STORY, strict=False) for line in pair] + LISTS[4:]
    assert prose("\n".join(mixed)) == "\n".join(STORY)


@pytest.mark.parametrize("short", ["好的，再见。", "Yes, of course."])
def test_a_short_line_is_none_even_with_marks(short: str) -> None:
    assert prose("\n".join([*STORY, short])) == "\n".join(STORY)


@pytest.mark.parametrize(
    "line", ["价格 1,299.50 元 型号 A-3.5 重量 2.75 千克 尺寸 10,5", "www.harbour-post.example/2026/03/marrow.html"]
)
def test_points_and_commas_within_numbers_and_names_are_no_marks_of_a_sentence(line: str) -> None:
    assert prose("\n".join([*STORY, line])) == "\n".join(STORY)


def test_a_page_of_little_prose_counts_whole() -> None:
    page = "\n".join([*LISTS, STORY[0]])
    assert prose(page) == page


@given(st.lists(st.text("河边的磨坊，。a. 3\n", max_size=60), max_size=20))
def test_the_text_itself_or_its_wide_lines_count(lines: list[str]) -> None:
    text = "\n".join(lines)
    found = prose(text)
    rest = iter(text.splitlines())
    assert found == text or all(line in rest for line in found.splitlines())
    assert found == text or sum(2 * len(line) for line in found.splitlines()) >= MIN_PROSE_WIDTH


def test_the_recipe_decides_and_plain_text_is_left_alone(cache: Path) -> None:
    lists = "".join(f"<div>{line}</div>" for line in LISTS)
    html = f"<html><body><article>{''.join(f'<p>{line}</p>' for line in STORY)}{lists}</article></body></html>"
    with Fingerprinter(replace(preset("default"), extract="prose"), cache, workers=0) as fingerprinter:
        pages = [_page(html, "text/html"), _page("\n".join(STORY + LISTS), "text/plain")]
        fingerprinter.columns(pages)
        assert pages[0].text is not None
        assert [line for line in pages[0].text.splitlines() if line] == STORY
        assert pages[1].text == "\n".join(STORY + LISTS)


def _page(content: str, content_type: str) -> Page:
    page = Page(id="a", identity=bytes(16), offset=0, time=0, raw=content.encode(), content_type=content_type)
    assert page.kind == PageKind.READABLE
    return page
