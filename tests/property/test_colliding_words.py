"""Words chosen to collide cost what other words cost, and the secret that places words changes no result."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba.misc.quicksort import make_py_quicksort

from simstream.hash_secret import Secret, make_secret, process_secret
from simstream.kernels.jit import kernel
from simstream.kernels.text import simhash, variants
from simstream.kernels.text.fingerprint import make_work
from simstream.model import U64
from simstream.text.fingerprinter import Fingerprinter
from simstream.text.recipe import PRESETS
from tests.colliding import SECRETS, any_words, crowding, low_bits_agree, patterns
from tests.cpu_time import least_seconds
from tests.short import examples

count_words, weigh_windows = kernel(simhash.count_words.py_func), kernel(variants._weigh_windows.py_func)
WORDS = 20_000
MAX_CROWDED = 6.0
"""Random places at the table's load give about 2; a crowd of words that collide gives thousands."""


@pytest.fixture(scope="module", params=["default", "shingles"])
def fingerprinter(request: pytest.FixtureRequest, cache: Path) -> Iterator[Fingerprinter]:
    with Fingerprinter(PRESETS[request.param], cache, workers=0) as made:
        yield made


def test_words_whose_low_bits_agree_do_not_crowd_in_the_table(fingerprinter: Fingerprinter) -> None:
    text = " ".join(low_bits_agree(WORDS, fingerprinter.recipe.seed))
    *_, distinct, n = fingerprinter._weigh(np.frombuffer(text.encode(), np.uint8))
    assert n == WORDS
    assert crowding(distinct.places != 0) < MAX_CROWDED


def test_words_chosen_to_collide_take_no_longer_than_others(fingerprinter: Fingerprinter) -> None:
    chosen, ordinary = " ".join(low_bits_agree(WORDS, fingerprinter.recipe.seed)), " ".join(any_words(WORDS))
    assert len(chosen) == len(ordinary)
    fingerprinter.texts([ordinary])
    assert _seconds(fingerprinter, chosen) < 2.5 * _seconds(fingerprinter, ordinary)


def _seconds(fingerprinter: Fingerprinter, text: str) -> float:
    return least_seconds(lambda: fingerprinter.texts([text]), 7)


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("pattern", list(patterns(2)))
def test_no_pattern_of_hashes_crowds_in_the_table(pattern: str, secret: Secret) -> None:
    hashes = patterns(WORDS)[pattern]
    work = make_work(2 * WORDS, 0)
    work.words.hash[:WORDS], work.words.weight[:WORDS] = hashes, 1
    assert count_words(work.words, WORDS, 1, work.distinct, secret) == len(set(hashes.tolist()))
    assert crowding(work.distinct.places != 0) < MAX_CROWDED


HASHES = st.integers(0, 2**64 - 1) | st.integers(0, 40).map(lambda number: number << 57)


@settings(max_examples=examples(200), deadline=None)
@given(hashes=st.lists(HASHES, min_size=1, max_size=200), random=st.binary(min_size=16, max_size=16))
def test_distinct_words_are_those_of_a_dict_under_any_secret(hashes: list[int], random: bytes) -> None:
    work, m = make_work(2 * len(hashes), 0), len(hashes)
    work.words.hash[:m], work.words.weight[:m] = np.array(hashes, np.uint64), np.arange(m)
    n = count_words(work.words, m, 1, work.distinct, make_secret(random))
    expected = {value: (hashes.count(value), hashes.index(value)) for value in hashes}
    assert work.distinct.hash[:n].tolist() == list(expected)
    found = zip(work.distinct.times[:n].tolist(), work.distinct.first[:n].tolist(), strict=True)
    assert list(found) == list(expected.values())
    assert work.distinct.weight[:n].tolist() == [first for _, first in expected.values()]


@pytest.mark.parametrize("name", list(PRESETS))
def test_any_secret_gives_the_same_recipe_fingerprints_sketches_and_weights(name: str, cache: Path) -> None:
    texts = [
        " ".join(any_words(300)),
        " ".join(low_bits_agree(500, PRESETS[name].seed) * 2),
        "国务院总理主持召开常务会议 研究部署 café 2026 " * 3,
    ]
    results = []
    for secret in [*SECRETS, None]:
        with Fingerprinter(PRESETS[name], cache, workers=0, secret=secret) as made:
            arrays = [array.tobytes() for array in made.texts(texts)]
            results.append((made.recipe_id, arrays, [made.weighted(text) for text in texts]))
    assert results == results[:1] * len(results)


def killer(count: int) -> U64:
    """An order of `count` numbers in which numba's sort takes quadratic time.

    Source: M. D. McIlroy, "A killer adversary for quicksort", 1999: values are decided as they are compared.
    """
    open_ended, decided, candidate = count, 0, 0
    value = [open_ended] * count

    def less(a: int, b: int) -> bool:
        nonlocal decided, candidate
        if value[a] == value[b] == open_ended:
            value[a if a == candidate else b] = decided
            decided += 1
        if value[a] == open_ended:
            candidate = a
        elif value[b] == open_ended:
            candidate = b
        return value[a] < value[b]

    make_py_quicksort(lt=less).run_quicksort(list(range(count)))
    return np.array(value, np.uint64) << np.uint64(40)


def test_windows_in_an_order_that_kills_a_sort_take_no_longer_than_others() -> None:
    windows, factors = killer(4_000), np.arange(10, dtype=np.int64)
    shuffled = np.random.default_rng(1).permutation(windows)
    found = [weigh_windows(each.copy(), factors, SECRETS[0]) for each in (windows, shuffled)]
    assert [sorted(hashes.tolist()) for hashes, _ in found] == [np.unique(windows).tolist()] * 2
    times = [
        least_seconds(lambda each=each: weigh_windows(each.copy(), factors, SECRETS[0]), 7)
        for each in (windows, shuffled)
    ]
    assert times[0] < 2.5 * times[1]


def test_a_secret_has_sixteen_bytes_and_a_process_has_one() -> None:
    assert process_secret() is process_secret()
    assert make_secret(bytes(range(16))) == (0x0706050403020100, 0x0F0E0D0C0B0A0908)
    with pytest.raises(ValueError, match="16 bytes"):
        make_secret(b"short")
