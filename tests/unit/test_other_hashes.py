"""Hashes of other programs and the SimHash over given hashes: published values, and examples worked by hand."""

from __future__ import annotations

import mmh3
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simstream.kernels.text.other_hashes import cyclic, fnv1, jenkins
from simstream.kernels.text.simhash import simhash
from simstream.text import unicode_tables as tables
from tests.naive_text import M64, casefold, fold, java_fnv1, one_at_a_time, window_hash
from tests.short import examples

WORDS = st.text(max_size=20).map(fold)


def hashed(word: str, kind: str, seed: int = 0) -> int:
    points = np.frombuffer(word.encode("utf-32-le"), np.uint32)
    traits = tables.unicode_table().traits
    if kind == "fnv1":
        return int(fnv1(points, 0, len(points), traits))
    return int(jenkins(points, 0, len(points), traits, np.uint64(seed)))


def bits(words: dict[str, int]) -> str:
    """The last 8 bits of the SimHash of words given as their 8-bit hashes with their weights."""
    hashes = np.array([int(value, 2) for value in words], np.uint64)
    weights = np.array([weight << 16 for weight in words.values()], np.int64)
    return f"{int(simhash(hashes, weights, len(words), np.empty(64, np.int64))):08b}"


@pytest.mark.parametrize(
    ("word", "value"), [("", 0xCBF29CE484222325), ("a", 0xAF63BD4C8601B7BE), ("foobar", 0x340D8765A4DDA9C2)]
)
def test_fnv1_gives_its_published_values(word: str, value: int) -> None:
    assert hashed(word, "fnv1") == value


def test_one_at_a_time_gives_its_published_values() -> None:
    assert one_at_a_time(b"The quick brown fox jumps over the lazy dog", 0) == 0x519E91F5
    assert hashed("a", "jenkins") & 0xFFFFFFFF == one_at_a_time(b"a", 0) == 0xCA2E9442


@settings(max_examples=examples(300), deadline=None)
@given(word=WORDS)
def test_fnv1_is_that_of_the_java_program_for_any_word(word: str) -> None:
    assert hashed(word, "fnv1") == java_fnv1(casefold(word))


@settings(max_examples=examples(300), deadline=None)
@given(word=WORDS, seed=st.integers(0, (1 << 32) - 1))
def test_jenkins_is_one_at_a_time_twice_for_any_word(word: str, seed: int) -> None:
    data = casefold(word).encode()
    low = one_at_a_time(data, seed)
    assert hashed(word, "jenkins", seed) == one_at_a_time(data, low) << 32 | low


@settings(max_examples=examples(200), deadline=None)
@given(values=st.lists(st.integers(0, M64), min_size=1, max_size=50), size=st.integers(1, 32))
def test_a_rolling_window_has_the_hash_of_its_words(values: list[int], size: int) -> None:
    windows = [values[at : at + size] for at in range(max(len(values) - size + 1, 1))]
    assert cyclic(np.array(values, np.uint64), size).tolist() == [window_hash(window) for window in windows]


def test_the_order_of_words_in_a_window_matters() -> None:
    first, second = (mmh3.hash64(word, signed=False)[0] for word in ("north", "south"))
    there, back = (cyclic(np.array(pair, np.uint64), 2)[0] for pair in ((first, second), (second, first)))
    assert there != back


TRAIN, SERVER, FAULT, CARRIAGE = "10011100", "01110101", "00110011", "11001010"


def test_two_words_of_the_worked_example_sum_to_its_signs() -> None:
    # 5 -5 -5 5 5 5 -5 -5 and -4 4 4 4 -4 4 -4 4 are 1 -1 -1 9 1 9 -9 -1.
    assert bits({TRAIN: 5, SERVER: 4}) == "10011100"


def test_the_four_words_of_the_worked_example_sum_to_their_signs() -> None:
    # With -4 -4 4 4 -4 -4 4 4 and 4 4 -4 -4 4 -4 4 -4 it is 1 -1 -1 9 1 1 -1 -1.
    assert bits({TRAIN: 5, SERVER: 4, FAULT: 4, CARRIAGE: 4}) == "10011100"


def test_the_sums_at_the_end_of_the_worked_example_become_its_fingerprint() -> None:
    # Two words whose hashes differ but in one bit from being each other's complement count in that bit alone.
    hashes, weights = [], []
    for at, total in enumerate((18, 9, -6, -9, 22, -35, 12, -5)):
        bit = 1 << (7 - at)
        hashes += [bit, 0xFF] if total > 0 else [0, 0xFF ^ bit]
        weights += [abs(total), abs(total)]
    found = simhash(np.array(hashes, np.uint64), np.array(weights, np.int64), len(hashes), np.empty(64, np.int64))
    assert f"{int(found) & 0xFF:08b}" == "11001010"
