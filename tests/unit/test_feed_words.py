"""Search by words: how titles and questions are cut, and what the index keeps."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simstream.feeds.title_words import MAX_PARTS, TitleWords
from simstream.feeds.word_index import WordIndex
from simstream.settings import default_cache

WORDS = TitleWords(default_cache())


@pytest.mark.parametrize(
    ("question", "title", "is_found"),
    [
        ("长江", "南京市长江大桥通车", True),
        ("大桥", "南京市长江大桥通车", True),
        ("长江大桥", "南京市长江大桥通车", True),
        ("市长", "南京市长江大桥通车", False),
        ("江大", "南京市长江大桥通车", False),
        ("中国经济", "经济：中国与世界", True),
        ("鐵路", "青藏铁路", True),
        ("铁路", "青藏鐵路", True),
        ("ａｉ", "AI 时代", True),
        ("AI", "Rain in Spain", False),
        ("häuser", "HÄUSER am Meer", True),
        ("a.example", "www title a.example", True),
        ("サッカー", "サッカー日本代表", True),
        ("iphone15", "新款iPhone15发布", True),
        ("tàu", "Chuyến ta\u0300u đêm", True),
        ("ta\u0300u", "Chuyến tàu đêm", True),
        ("tau", "Chuyến tàu đêm", False),
    ],
)
def test_a_title_is_found_by_its_words_and_not_by_other_runs_of_characters(
    question: str, title: str, is_found: bool
) -> None:
    [part] = WORDS.of_question(question)
    assert (part <= WORDS.of_title(title)) == is_found


@pytest.mark.parametrize("text", ["", " ", "!?", "\x00", "😀 …"])
def test_a_text_without_letters_and_digits_has_no_words(text: str) -> None:
    assert WORDS.of_question(text) == []
    assert WORDS.of_title(text) == set()


def test_a_question_has_few_parts_and_none_twice() -> None:
    assert WORDS.of_question("b a B a ! b") == [{"b"}, {"a"}]
    words = [f"w{number}" for number in range(MAX_PARTS + 4)]
    parts = WORDS.of_question(" ".join(words + words))
    assert parts == [*({word} for word in words[: MAX_PARTS - 1]), set(words[MAX_PARTS - 1 :])]


@given(st.text(max_size=40))
def test_any_text_can_be_cut(text: str) -> None:
    for words in (WORDS.of_title(text), *WORDS.of_question(text)):
        assert "" not in words


def found_by(index: WordIndex, question: str) -> list[str]:
    [words] = WORDS.of_question(question)
    work = index.find(words)
    while True:
        try:
            next(work)
        except StopIteration as done:
            pages: list[str] = done.value
            return sorted(pages)


TITLES = ["南京市长江大桥", "长江三峡", "大桥 bridge", "Bridge over water", "water 三峡", ""]


def test_the_index_finds_what_a_scan_of_all_titles_finds_while_pages_come_and_go() -> None:
    index, there, rng = WordIndex(WORDS), dict[str, str](), random.Random(1)
    for number in range(600):
        page = f"p{rng.randrange(40)}"
        if page in there:
            index.take(page, there.pop(page))
        else:
            there[page] = rng.choice(TITLES)
            index.put(page, there[page])
        if number % 20 == 0:
            for question in ("长江", "大桥", "bridge water", "三峡", "nowhere"):
                for part in question.split():
                    wanted = sorted(one for one, title in there.items() if {part} <= WORDS.of_title(title))
                    assert found_by(index, part) == wanted
    for page, title in there.items():
        index.take(page, title)
    assert len(index) == 0


def test_a_search_looks_only_at_the_pages_of_its_rarest_word() -> None:
    index = WordIndex(WORDS)
    for number in range(5_000):
        index.put(f"p{number}", f"common {'rare' if number == 7 else ''}")
    looks: list[Any] = list(index.find({"common", "rare"}))
    assert len(looks) == 1
    assert found_by(index, "common,rare") == ["p7"]
