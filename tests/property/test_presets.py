"""Presets and choices that stand for other programs: they give what those programs give."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import jieba
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from jieba import analyse
from opencc import OpenCC

from simstream.sources.demo import demo_records
from simstream.text import probes
from simstream.text.fingerprinter import Fingerprinter
from simstream.text.recipe import PRESETS
from simstream.wire.page import PageLimits, decode
from tests import corpora
from tests.naive_text import java_signature
from tests.property.test_fingerprint import MIXED
from tests.short import examples

HAN_TEXT = st.lists(st.sampled_from(probes.TEXTS[0] + probes.TEXTS[1]), max_size=80).map("".join)


@pytest.fixture(scope="module")
def java(cache: Path) -> Iterator[Fingerprinter]:
    with Fingerprinter(replace(PRESETS["fnv1-tf"], min_words=1), cache, workers=0) as made:
        yield made


@pytest.fixture(scope="module")
def default(cache: Path) -> Iterator[Fingerprinter]:
    with Fingerprinter(PRESETS["default"], cache, workers=0) as made:
        yield made


@pytest.fixture(scope="module")
def tfidf(oracle: jieba.Tokenizer) -> analyse.TFIDF:
    made = analyse.TFIDF()
    made.tokenizer = oracle
    return made


def demo_texts() -> list[str]:
    pages = (decode(record, PageLimits()) for record in demo_records())
    return [page.text for page in pages if page.text]


@settings(max_examples=examples(150), deadline=None)
@given(text=MIXED)
def test_fnv1_tf_gives_the_java_programs_signature_of_the_same_words(java: Fingerprinter, text: str) -> None:
    counts = {word: times for word, times, _ in java.weighted(text)}
    assume(counts)
    assert f"{int(java.texts([text])[0][0]):064b}" == java_signature(counts)


def test_where_words_weigh_the_same_fnv1_tf_has_a_1_as_the_java_program_does(java: Fingerprinter) -> None:
    text = "左 右"  # two words: a tie in every bit in which they differ
    counts = {word: times for word, times, _ in java.weighted(text)}
    assert len(counts) == 2
    one, other = (java_signature({word: 1}) for word in counts)
    assert f"{int(java.texts([text])[0][0]):064b}" == f"{int(one, 2) | int(other, 2):064b}"


def test_a_word_counts_as_often_as_it_occurs_under_fnv1_tf(java: Fingerprinter) -> None:
    text = "河 " * 9000 + "岸 " * 4500 + "桥 " * 4501
    counts = {word: times for word, times, _ in java.weighted(text)}
    assert counts == {"河": 9000, "岸": 4500, "桥": 4501}
    assert f"{int(java.texts([text])[0][0]):064b}" == java_signature(counts)


@settings(max_examples=examples(150), deadline=None)
@given(text=st.one_of(MIXED, HAN_TEXT), top=st.integers(1, 30))
def test_tags_are_those_of_jieba(default: Fingerprinter, tfidf: analyse.TFIDF, text: str, top: int) -> None:
    assert default.tags(text, top) == tfidf.extract_tags(text, topK=top)


def test_tags_of_whole_pages_are_those_of_jieba(default: Fingerprinter, tfidf: analyse.TFIDF) -> None:
    texts = demo_texts()
    assert len(texts) > 50
    for text in texts:
        assert default.tags(text, 20) == tfidf.extract_tags(text, topK=20)


def test_a_page_of_fewer_words_than_a_shingle_has_one_shingle_of_all_of_them(cache: Path) -> None:
    recipe = replace(PRESETS["shingles"], min_words=1, shingle_words=3)
    with Fingerprinter(recipe, cache, workers=0) as made:
        short, order, three = made.texts(["河岸 渡船", "渡船 河岸", "河岸 渡船 清晨"])[0].tolist()
    assert len({short, order, three}) == 3


def test_shingles_split_ascii_words_at_what_is_no_letter(cache: Path) -> None:
    with Fingerprinter(PRESETS["shingles"], cache, workers=0) as made:
        words = [word for word, _, _ in made.weighted("AT&T's mp3 v2.0 in 2024: 渡船")]
        same = made.texts(["a b c d e f g h i", "a-b c1d e.f+g&h_i"])[0].tolist()
    assert words == ["at", "t", "s", "mp", "v", "in", "2024", "渡船"]
    assert same[0] == same[1] != 0


def mirrored(texts: list[str], convert: Callable[[str], str], cache: Path) -> np.ndarray:
    """Bits by which texts and their traditional forms differ, where the two scripts are one."""
    with Fingerprinter(replace(PRESETS["default"], script="simplified", min_words=1), cache, workers=0) as made:
        there, back = made.texts(texts)[0], made.texts([convert(text) for text in texts])[0]
    return np.bitwise_count(there ^ back)


def traditional(text: str) -> str:
    """Character by character, as OpenCC's `s2t` has each by itself."""
    return "".join(map(traditional_char, text))


@functools.cache
def traditional_char(char: str) -> str:
    return converter().convert(char)


@functools.cache
def converter() -> OpenCC:
    return OpenCC("s2t")


def test_a_page_and_its_mirror_character_by_character_are_equal(cache: Path) -> None:
    texts = [text for text in demo_texts() if len(text) > 100]
    assert len(texts) > 30
    assert sum(traditional(text) != text for text in texts) > 20
    assert mirrored(texts, traditional, cache).max() == 0


def test_a_page_and_its_mirror_phrase_by_phrase_match(cache: Path) -> None:
    """Phrases bring in characters that are simplified ones too (瞭 in 瞭解), and stay as they are."""
    differ = mirrored([text for text in demo_texts() if len(text) > 100], converter().convert, cache)
    assert np.mean(differ == 0) > 0.8
    assert differ.max() <= PRESETS["default"].distance


@pytest.mark.corpora
def test_news_and_their_mirrors_in_traditional_characters_match(cache: Path) -> None:
    differ = mirrored(list(corpora.texts("zh_news_xwlb", 20)), converter().convert, cache)
    print(f"{len(differ)} news items: {np.mean(differ == 0):.2%} equal, {np.mean(differ <= 3):.2%} within 3 bits")
    assert np.mean(differ <= 3) > 0.97
