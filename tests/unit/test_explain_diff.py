"""Where two texts differ: every word of both is accounted for, and only what differs is marked."""

from __future__ import annotations

import re
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from simstream.tools.explain.difference import (
    CONTEXT_WORDS,
    MAX_SHOWN_WORDS,
    MAX_WORDS,
    TextUnit,
    counts,
    passages,
    readable,
    runs,
    units,
)
from simstream.tools.explain.explanation import TextPiece
from tests.cpu_time import least_seconds

WORDS = st.lists(st.sampled_from(["red", "Red", "tea", "kettle", "。", ".", "茶", "壶", "the"]), max_size=60)


def cut(text: str) -> list[TextUnit]:
    """Units of a text, its tokens being words, runs of space, and all else character by character."""
    return units(text, re.findall(r"\w+|\s+|.", text))


def shown(other: str, page: str) -> list[tuple[tuple[TextPiece, ...], tuple[TextPiece, ...]]]:
    left, right = cut(other), cut(page)
    return [(one.other, one.page) for one in passages(left, right, readable(runs(left, right)))]


@given(WORDS, WORDS)
def test_runs_cover_both_texts_in_order_and_equal_ones_are_equal(other: list[str], page: list[str]) -> None:
    left, right = cut(" ".join(other)), cut(" ".join(page))
    raw = runs(left, right)
    for found in (raw, readable(raw)):
        assert [u for run in found for u in left[run.a : run.b]] == left
        assert [u for run in found for u in right[run.c : run.d]] == right
        assert all(before.same != after.same for before, after in pairwise(found))
    for run in raw:
        if run.same:
            assert [u.key for u in left[run.a : run.b]] == [u.key for u in right[run.c : run.d]]
        else:
            assert [u.key for u in left[run.a : run.b]] != [u.key for u in right[run.c : run.d]]


def test_texts_made_to_be_hard_to_compare_take_a_few_times_as_long_as_others() -> None:
    def sentences(first: int) -> str:
        return "".join(f"{chr(0x4E00 + i % 100)}。{chr(first + i)}。" for i in range(9_900))

    hard = cut(sentences(0x20000)), cut(sentences(0x2A700))
    plain = "".join(f"第{i}条新闻说了{i * 7 % 1000}件事，人们都在谈论它。" for i in range(1_600))
    alike = cut(plain), cut(plain.replace("人们", "大家", 200))
    assert least_seconds(lambda: runs(*hard), 1) < 20 * least_seconds(lambda: runs(*alike))
    assert runs(*hard)[0].same, "the longest matches are found first"


@given(WORDS, WORDS)
def test_what_is_unmarked_in_passages_stands_in_both_texts(other: list[str], page: list[str]) -> None:
    left, right = cut(" ".join(other)), cut(" ".join(page))
    found = passages(left, right, readable(runs(left, right)))
    assert bool(found) == ([u.key for u in left] != [u.key for u in right])
    for one in found:
        same = [[p.text.casefold().split() for p in pieces if not p.changed] for pieces in (one.other, one.page)]
        assert [w for words in same[0] for w in words] == [w for words in same[1] for w in words]
        assert any(piece.changed for piece in (*one.other, *one.page))


@given(WORDS, WORDS)
def test_words_are_counted_once_each(other: list[str], page: list[str]) -> None:
    left, right = cut(" ".join(other)), cut(" ".join(page))
    same, only_other, only_page = counts(left, right, runs(left, right))
    assert same + only_other == sum(unit.is_word for unit in left)
    assert same + only_page == sum(unit.is_word for unit in right)


def test_one_word_changed_is_one_passage_with_words_around_it() -> None:
    before = " ".join(f"word{i}" for i in range(50))
    [(other, page)] = shown(before, before.replace("word25", "kettle"))
    assert [piece.text.strip() for piece in other if piece.changed] == ["word25"]
    assert [piece.text.strip() for piece in page if piece.changed] == ["kettle"]
    assert len("".join(piece.text for piece in page).split()) == 2 * CONTEXT_WORDS + 1


def test_two_changes_near_each_other_are_one_passage_and_two_far_apart_are_two() -> None:
    text = " ".join(f"word{i}" for i in range(200))
    near = text.replace("word50", "x").replace("word60", "y")
    far = text.replace("word50", "x").replace("word150", "y")
    assert [len(shown(text, changed)) for changed in (near, far)] == [1, 2]


def test_case_and_space_are_no_difference_but_are_shown_as_they_are() -> None:
    assert shown("The  old\nmill burned.", "the old mill burned.") == []
    [(other, page)] = shown("The  OLD mill burned", "the old mill stands")
    assert "".join(piece.text for piece in other) == "The  OLD mill burned"
    assert "".join(piece.text for piece in page) == "the old mill stands"


def test_words_that_two_other_sentences_share_by_chance_are_not_set_apart() -> None:
    [(other, _)] = shown("one grey heron waded in the shallow pond", "two boys fished in every muddy harbour")
    assert [piece.text for piece in other if piece.changed] == ["one grey heron waded in the shallow pond"]


@given(st.text(max_size=60))
def test_units_are_the_text_also_where_tokens_overlap(text: str) -> None:
    for tokens in (list(text), [text, text], ["x"]):
        made = units(text, tokens)
        assert "".join(unit.text for unit in made) == text


def test_overlapping_tokens_give_way_to_words_and_single_han_characters() -> None:
    made = units("清华大学 in 北京", ["清华", "华大", "大学", "清华大学", " ", "in", " ", "北京"])
    assert [unit.key for unit in made] == ["清", "华", "大", "学", "in", "北", "京"]


def test_a_long_passage_that_differs_is_cut_in_its_middle() -> None:
    long = " ".join(f"new{i}" for i in range(500))
    [(_, page)] = shown("start end", f"start {long} end")
    [changed] = [piece.text for piece in page if piece.changed]
    assert f"({500 - MAX_SHOWN_WORDS} more)" in changed
    assert changed.startswith("new0 ")
    assert changed.split()[-1] == "new499"


def test_passages_beyond_the_limit_are_compared_as_wholes() -> None:
    other = " ".join(f"a{i}" for i in range(MAX_WORDS + 1))
    page = " ".join(f"b{i}" if i != 1000 else "a1000" for i in range(MAX_WORDS + 1))
    left, right = cut(other), cut(page)
    assert [run.same for run in runs(left, right)] == [False]
