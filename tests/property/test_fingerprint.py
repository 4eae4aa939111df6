"""Fingerprints and sketches: the kernels say what the obvious Python says, bit for bit."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from contextlib import ExitStack
from copy import copy
from dataclasses import replace
from pathlib import Path

import jieba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simstream.kernels import hashing
from simstream.kernels.jit import kernel
from simstream.kernels.text.fold import fold_utf8
from simstream.kernels.text.words import Lexicon
from simstream.text import probes
from simstream.text import unicode_tables as tables
from simstream.text.dictionary import Mode
from simstream.text.fingerprinter import Fingerprinter, _join
from simstream.text.recipe import PRESETS, Recipe
from simstream.text.weights import Weights
from tests import corpora
from tests.naive_text import NaiveRecipe, decode, fold, read, traits
from tests.short import examples

place = kernel(hashing.place.py_func)
RECIPES = [
    *(replace(recipe, min_words=1) for recipe in PRESETS.values()),
    Recipe(name="search", mode="search", min_words=1, least_chars=2, top=7, hash="jenkins", seed=7, ties=1),
    Recipe(
        name="full",
        mode="full",
        min_words=1,
        script="simplified",
        stop_words=("zh", "en"),
        tf_cap=2,
        sketch_bits=64,
        sketch_characters=3,
    ),
    Recipe(
        name="runs",
        sketch_bits=192,
        sketch_characters=5,
        seed=7,
        min_words=1,
        tf_cap=2,
        tf_power=0.6,
        number_weight=10,
        number_step=0.5,
        default_weight=5,
        default_step=1.5,
        weight_cap=9,
    ),
    Recipe(
        name="windows",
        weights="none",
        features="shingles",
        shingle_words=2,
        tf_power=0.5,
        hash="fnv1",
        min_words=1,
        mode="full",
        script="simplified",
        hmm=False,
        sketch_bits=64,
        sketch_fill="mixed",
    ),
    replace(PRESETS["default"], name="two", fingerprints=2, min_words=1),
    replace(PRESETS["default"], name="nfc", normalization="nfc", min_words=1),
    Recipe(name="nfc full", normalization="nfc", mode="full", least_chars=2, script="simplified", min_words=1),
    Recipe(name="three", fingerprints=3, sketch_bits=0, similarity=None, ties=1, top=5, min_words=2),
    Recipe(name="odd", sketch_bits=192, seed=0xDEADBEEF, hmm=False, tf_power=0.5, min_words=2, number_weight=0),
]


@pytest.fixture(scope="module", params=RECIPES, ids=lambda recipe: recipe.name)
def both(
    request: pytest.FixtureRequest, cache: Path, oracle: jieba.Tokenizer
) -> Iterator[tuple[Fingerprinter, NaiveRecipe]]:
    with Fingerprinter(request.param, cache, workers=0) as fast:
        yield fast, NaiveRecipe(request.param, oracle)


@pytest.fixture(scope="module")
def presets(cache: Path) -> Iterator[dict[str, Fingerprinter]]:
    with ExitStack() as stack:
        made = {
            name: Fingerprinter(replace(recipe, min_words=1, stop_words=()), cache, workers=0)
            for name, recipe in PRESETS.items()
        }
        yield {name: stack.enter_context(one) for name, one in made.items()}


def agree(both: tuple[Fingerprinter, NaiveRecipe], texts: list[str]) -> None:
    fast, naive = both
    fingerprints, sketches, words = fast.texts(texts)
    for i, text in enumerate(texts):
        expected = naive.fingerprint(text.encode("utf-8", "surrogatepass"))
        assert (int(fingerprints[i]), sketches[i].tolist(), int(words[i])) == expected, text


SCRIPTS = (
    "中国人民研究生命起源的是不了乒乓球拍卖完永和服装饰品有限公司",
    "abcXYZ0123456789.%+#&_-",
    " \t\r\n\u3000\u00a0\u2028，。！?、…",
    "éàßçñÆİıǅ\u0301\u0308\u0345\u0323\u200d",
    "ếǖᾂ\u0344\u0316\u0958\u09c7\u09be\u0f71\ufb2c\U0001d15f",
    "\u1112\u1161\u11ab하",
    "абвЁжЯ",
    "한국어도서관",
    "ひらがなカタカナーゝヶﾊﾟﾋﾞｱ\u3099",
    "สวัสดีครับກຂຄខ្មែរမြန်",
    "ＡＢｃ１２３％①②Ⅷ½豈更〇々𠮷𪚥",
    "🚀👨‍👩‍👧❤️1️⃣\ud800\udfff\ufffd\x00\x07",
    "שלוםمرحباहिन्दी१२३",
)
DICTIONARY_WORDS = [
    "AT&T",
    "T恤",
    "卡拉OK",
    "C++",
    "IC卡",
    "A股",
]  # characters that can stand beside a letter and join with it
PHRASES = st.sampled_from(
    DICTIONARY_WORDS + [piece for text in probes.TEXTS for piece in re.split(r"(?<=[，。, ])", text)]
)
STOPPED = ["的", "是", "是不是", "中国", "人民", "研究", "a", "abc", "é", "か", "1", "한국어", "t恤", "的是"]
RUNS = st.builds(
    lambda chars, times: "".join(chars) * times,
    st.lists(st.sampled_from("".join(SCRIPTS)), min_size=1, max_size=3),
    st.integers(1, 300),
)
MIXED = st.lists(
    st.one_of(*(st.text(alphabet, max_size=8) for alphabet in SCRIPTS), PHRASES, RUNS, st.text(max_size=8)),
    max_size=12,
).map("".join)


@settings(max_examples=examples(120), deadline=None)
@given(texts=st.lists(MIXED, min_size=1, max_size=6))
def test_kernels_and_plain_python_give_the_same_bits(
    both: tuple[Fingerprinter, NaiveRecipe], texts: list[str]
) -> None:
    agree(both, texts)


def test_the_probe_pages_agree_too(both: tuple[Fingerprinter, NaiveRecipe]) -> None:
    agree(both, list(probes.TEXTS))


@settings(max_examples=examples(40), deadline=None)
@given(texts=st.lists(MIXED, min_size=1, max_size=4), top=st.integers(1, 40))
def test_only_the_heaviest_words_count_where_a_recipe_says_so(
    both: tuple[Fingerprinter, NaiveRecipe], texts: list[str], top: int
) -> None:
    fast, naive = both[0], copy(both[1])
    if naive.recipe.features == "shingles":
        pytest.skip("shingles all count")
    utf8, offsets = _join([text.encode("utf-8", "surrogatepass") for text in texts])
    found = fast._run(utf8, offsets, fast._rules._replace(top=top))
    naive.recipe = replace(naive.recipe, top=top)
    for i, text in enumerate(texts):
        expected = naive.fingerprint(text.encode("utf-8", "surrogatepass"))
        assert (int(found.fingerprints[i]), found.sketches[i].tolist(), int(found.words[i])) == expected, text


@settings(max_examples=examples(40), deadline=None)
@given(texts=st.lists(MIXED, min_size=1, max_size=4), stopped=st.sets(st.sampled_from(STOPPED)))
def test_words_of_weight_0_count_in_the_sketch_alone(
    both: tuple[Fingerprinter, NaiveRecipe], texts: list[str], stopped: set[str]
) -> None:
    fast, naive = both
    utf8, offsets = _join([text.encode("utf-8", "surrogatepass") for text in texts])
    before, naive = fast._weights, copy(naive)
    fast._weights = Weights(_stop(before.lexicon, [naive.hash(word) for word in stopped]), before.digest)
    naive.table = naive.table | dict.fromkeys(stopped, 0)
    try:
        found = fast._run(utf8, offsets, fast._rules)
    finally:
        fast._weights = before
    for i, text in enumerate(texts):
        expected = naive.fingerprint(text.encode("utf-8", "surrogatepass"))
        assert (int(found.fingerprints[i]), found.sketches[i].tolist(), int(found.words[i])) == expected, text


def _stop(lexicon: Lexicon, hashes: list[int]) -> Lexicon:
    """A lexicon in which these words weigh nothing, by slot and by hash."""
    stopped = np.array(hashes, np.uint64)
    slots, keys, weights = lexicon.slots.copy(), lexicon.word_keys.copy(), lexicon.word_weights.copy()
    slots[np.isin(slots[:, 0], stopped), 1] = 0
    if weights.max() < 0:  # a recipe without a table: it has room for no word
        keys, weights = np.zeros(64, np.uint64), np.full(64, -1, np.int32)
    mask = len(keys) - 1
    for value in hashes:
        at = int(place(np.uint64(value), lexicon.secret)) & mask
        while weights[at] >= 0 and int(keys[at]) != value:
            at = (at + 1) & mask
        keys[at], weights[at] = value, 0
    return lexicon._replace(slots=slots, word_keys=keys, word_weights=weights)


LETTERS = st.characters(categories=("L", "N")).filter(lambda char: traits(fold(char))[3])  # by the shipped Unicode


@settings(max_examples=examples(200), deadline=None)
@given(before=MIXED, letter=LETTERS, after=MIXED)
@pytest.mark.parametrize("name", list(PRESETS))
def test_no_text_with_a_letter_or_a_digit_is_without_words(
    presets: dict[str, Fingerprinter], name: str, before: str, letter: str, after: str
) -> None:
    text = before + letter + after
    assert presets[name].texts([text])[2][0] > 0
    assert presets[name].weighted(text)


@pytest.mark.parametrize("run", ["a", "中", "か", "1", "é", "한", " ", "的是", "a中", "ab "])
def test_very_long_runs_agree(both: tuple[Fingerprinter, NaiveRecipe], run: str) -> None:
    """More words than are counted; jieba's HMM takes quadratic time, and the Java program's numbers grow."""
    quick = both[0].recipe.mode == "accurate" and both[0].recipe.hash != "fnv1"
    agree(both, [run * (12_000 // len(run) if quick else 1_000)])


@settings(max_examples=examples(80), deadline=None)
@given(texts=st.lists(MIXED, min_size=1, max_size=8))
def test_a_page_has_the_same_bits_in_any_batch(both: tuple[Fingerprinter, NaiveRecipe], texts: list[str]) -> None:
    together = both[0].texts(texts)
    alone = [both[0].texts([text]) for text in texts]
    for column in range(3):
        assert np.array_equal(together[column], np.concatenate([one[column] for one in alone]))


@settings(max_examples=examples(60), deadline=None)
@given(text=MIXED)
def test_the_words_shown_are_the_words_counted(both: tuple[Fingerprinter, NaiveRecipe], text: str) -> None:
    fast, naive = both
    words = naive.words(text.encode("utf-8", "surrogatepass"))
    expected = {(word, words.count(word), weight / 65536) for word, weight in naive.weighted(words).items()}
    rows = fast.weighted(text)
    assert set(rows) == expected
    assert len(rows) == len(expected)
    assert [row[2] for row in rows] == sorted((row[2] for row in rows), reverse=True)


@settings(max_examples=examples(60), deadline=None)
@given(text=MIXED)
def test_tokens_are_those_of_jieba_on_the_folded_text(both: tuple[Fingerprinter, NaiveRecipe], text: str) -> None:
    fast, naive = both
    folded, hmm = read(text, fast.recipe), fast.recipe.hmm
    expected = {
        "accurate": naive.tokenizer.lcut(folded, HMM=hmm),
        "search": naive.tokenizer.lcut_for_search(folded, HMM=hmm),
        "full": naive.tokenizer.lcut(folded, cut_all=True),
    }
    assert fast.tokens(text) == expected[fast.recipe.mode]


@settings(max_examples=examples(60), deadline=None)
@given(text=MIXED, mode=st.sampled_from(["accurate", "search", "full"]), hmm=st.booleans())
def test_jieba_tokens_are_those_of_jieba_on_the_text_as_it_is_written(
    both: tuple[Fingerprinter, NaiveRecipe], text: str, mode: Mode, hmm: bool
) -> None:
    fast, naive = both
    expected = {
        "accurate": naive.tokenizer.lcut(text, HMM=hmm),
        "search": naive.tokenizer.lcut_for_search(text, HMM=hmm),
        "full": naive.tokenizer.lcut(text, cut_all=True),
    }
    assert fast.jieba_tokens(text, mode, hmm) == expected[mode]


BYTES = st.one_of(
    st.binary(max_size=40),
    st.lists(st.integers(0x70, 0xFF), max_size=40).map(bytes),
    st.lists(
        st.sampled_from(
            [
                *(b"\xed\xa0\x80", b"\xed", b"\xf0\x9f\x98", b"\xe4\xb8", b"\xf4\x90", b"\xe0\x80", b"\xc0\xaf"),
                *("é中🚀a".encode(), b"\x80", b"\xf4\x8f\xbf\xbf", b"\xef\xbf\xbf"),
            ]
        ),
        max_size=12,
    ).map(b"".join),
)


@settings(max_examples=examples(2000), deadline=None)
@given(utf8=BYTES)
def test_broken_utf8_decodes_as_python_replaces_it(utf8: bytes) -> None:
    points = np.zeros(len(utf8) + 1, np.uint32)
    n = fold_utf8(np.frombuffer(bytearray(utf8), np.uint8), 0, len(utf8), tables.unicode_table().fold, points)
    assert points[:n].tobytes().decode("utf-32-le") == fold(decode(utf8))


@functools.cache
def sample(name: str) -> list[str]:
    return list(corpora.texts(name, 397))


@pytest.mark.corpora
@pytest.mark.parametrize("name", corpora.REVISIONS)
def test_real_pages_agree(both: tuple[Fingerprinter, NaiveRecipe], name: str) -> None:
    agree(both, sample(name))
