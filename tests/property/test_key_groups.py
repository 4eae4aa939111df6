"""Groups of equal keys in a batch, beside a dictionary."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from simstream.hash_secret import Secret, process_secret
from simstream.kernels.judge.key_groups import group_keys


@given(st.lists(st.tuples(*[st.sampled_from([0, 1, 1 << 32, 1 << 63, (1 << 64) - 1])] * 3), max_size=80))
@example([])
@example([(0, 0, 0)] * 5)
def test_equal_keys_have_one_group_and_others_do_not(keys: list[tuple[int, int, int]]) -> None:
    groups, firsts = group_keys(np.array(keys, np.uint64).reshape(-1, 3), process_secret())
    numbers: dict[tuple[int, int, int], int] = {}
    assert groups.tolist() == [numbers.setdefault(key, len(numbers)) for key in keys]
    assert firsts.tolist() == [keys.index(key) for key in numbers]


def test_keys_that_differ_in_one_word_are_grouped_right_under_any_secret() -> None:
    keys = np.zeros((4096, 6), np.uint64)
    keys[:, 5] = np.arange(4096) // 2
    for word in (0, 1, (1 << 64) - 1):
        groups, firsts = group_keys(keys, Secret(np.uint64(word), np.uint64(word)))
        assert (groups == np.arange(4096) // 2).all()
        assert (firsts == np.arange(0, 4096, 2)).all()
