"""The feed's ordered keys against a sorted list."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simstream.feeds.ordered_tuples import OrderedTuples

KEY = st.tuples(st.integers(0, 6), st.integers(0, 30))


@given(
    st.sampled_from([2, 3, 8, 16, 512]),
    st.lists(KEY, unique=True, max_size=200),
    st.lists(KEY, max_size=300),
    st.lists(KEY | st.tuples(st.integers(-1, 8)) | st.just(()), min_size=1, max_size=6),
    st.integers(0, 90),
    st.integers(0, 30),
)
def test_keys_come_and_go_and_are_found_as_in_a_sorted_list(
    most: int,
    begin: list[tuple[int, int]],
    steps: list[tuple[int, int]],
    probes: list[tuple[int, ...]],
    start: int,
    length: int,
) -> None:
    with patch.object(OrderedTuples, "MAX_KEYS", most):
        ordered, known = OrderedTuples(begin), sorted(begin)
        for key in steps:
            if key in known:
                ordered.remove(key)
                known.remove(key)
            else:
                ordered.add(key)
                insort(known, key)
            assert len(ordered) == len(known)
        for probe in probes:
            assert list(ordered.since(probe)) == known[bisect_left(known, probe) :]
            assert list(ordered.before(probe)) == known[: bisect_left(known, probe)][::-1]
            assert ordered.after(probe, length) == known[bisect_right(known, probe) :][:length]
        assert ordered.between(start, start + length) == known[start : start + length]
        assert ([ordered.least()] if known else []) == known[:1]
        assert all(0 < len(block) <= most for block in ordered._blocks)


def test_what_is_not_there_cannot_be_removed() -> None:
    ordered = OrderedTuples([(1,), (3,)])
    for key in ((0,), (2,), (4,)):
        with pytest.raises(KeyError):
            ordered.remove(key)
    assert ordered.between(0, 9) == [(1,), (3,)]
