"""Groups of equal keys in a batch, beside a dictionary."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from simstream.hash_secret import Secret, process_secret
from simstream.kernels.judge.key_groups import group_keys, note_places, place_keys


@given(st.lists(st.tuples(*[st.sampled_from([0, 1, 1 << 32, 1 << 63, (1 << 64) - 1])] * 3), max_size=80))
@example([])
@example([(0, 0, 0)] * 5)
def test_equal_keys_have_one_group_and_others_do_not(keys: list[tuple[int, int, int]]) -> None:
    words = np.array(keys, np.uint64).reshape(-1, 3)
    groups, firsts = group_keys(words, place_keys(words, process_secret()))
    numbers: dict[tuple[int, int, int], int] = {}
    assert groups.tolist() == [numbers.setdefault(key, len(numbers)) for key in keys]
    assert firsts.tolist() == [keys.index(key) for key in numbers]


def test_keys_that_differ_in_one_word_are_grouped_right_under_any_secret() -> None:
    keys = np.zeros((4096, 6), np.uint64)
    keys[:, 5] = np.arange(4096) // 2
    for word in (0, 1, (1 << 64) - 1):
        groups, firsts = group_keys(keys, place_keys(keys, Secret(np.uint64(word), np.uint64(word))))
        assert (groups == np.arange(4096) // 2).all()
        assert (firsts == np.arange(0, 4096, 2)).all()


def test_keys_that_meet_in_the_table_are_told_apart() -> None:
    keys = np.arange(300, dtype=np.uint64).reshape(-1, 1) // 3
    groups, firsts = group_keys(keys, np.zeros(300, np.uint64))
    assert (groups == np.arange(300) // 3).all()
    assert (firsts == np.arange(0, 300, 3)).all()


@given(st.lists(st.lists(st.integers(0, (1 << 64) - 1), max_size=40), max_size=4), st.sampled_from([1, 2, 64]))
def test_noted_places_are_known_as_their_two_bits_were_set(batches: list[list[int]], size: int) -> None:
    bits, noted = np.zeros(size, np.uint8), set[int]()
    for places in batches:
        known = note_places(np.array(places, np.uint64), bits)
        for place, answer in zip(places, known.tolist(), strict=True):
            own = {place % (8 * size), (place >> 32) % (8 * size)}
            assert answer == (own <= noted)
            noted |= own
