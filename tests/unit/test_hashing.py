"""The kernels' hashes against mmh3, their mixer, and the order in which empty bins are filled."""

from __future__ import annotations

import mmh3
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simstream.kernels import hashing
from simstream.kernels.hashing import hash_words
from simstream.kernels.jit import kernel
from simstream.kernels.text import sketch as sketches
from simstream.text import unicode_tables as tables
from tests import naive_text
from tests.short import examples

mix, murmur, sketch = map(kernel, (hashing.mix.py_func, hashing.murmur.py_func, sketches.sketch.py_func))
SEEDS = st.integers(0, 2**32 - 1)


def reference(data: bytes, seed: int) -> int:
    return mmh3.hash64(data, seed, x64arch=True, signed=False)[0]


@settings(max_examples=examples(500), deadline=None)
@given(data=st.binary(min_size=1, max_size=100), seed=SEEDS)
def test_murmur_is_mmh3s_first_half(data: bytes, seed: int) -> None:
    assert int(murmur(np.frombuffer(data, np.uint8), len(data), np.uint64(seed))) == reference(data, seed)


@settings(max_examples=examples(500), deadline=None)
@given(words=st.lists(st.text(min_size=1, max_size=24), min_size=1, max_size=8), seed=SEEDS)
def test_a_word_hashes_as_the_utf8_of_its_casefold(words: list[str], seed: int) -> None:
    folded = [naive_text.fold(word) for word in words]
    points = np.frombuffer("".join(folded).encode("utf-32-le"), np.uint32)
    ends = np.cumsum([len(word) for word in folded])
    hashes, kinds = hash_words(points, ends, tables.unicode_table().traits, np.uint64(seed))
    for i, word in enumerate(folded):
        counts = any(naive_text.traits(char)[3] for char in word)
        expected = reference(naive_text.casefold(word).encode(), seed) if counts else 0
        assert int(hashes[i]) == expected
        assert bool(kinds[i] & 0x80) == counts


def test_words_of_every_length_in_bytes_hash_as_mmh3_does() -> None:
    for length in range(1, 70):
        for char in "aé中𠮷":
            word = char * length
            points = np.frombuffer(word.encode("utf-32-le"), np.uint32)
            ends = np.array([length])
            hashes, _ = hash_words(points, ends, tables.unicode_table().traits, np.uint64(7))
            assert int(hashes[0]) == reference(word.encode(), 7)


ASCII = st.text(st.characters(max_codepoint=127), min_size=1, max_size=18)
NEARLY_HAN = st.text("中文龥一鿿㐀𠮷々aＺé", min_size=1, max_size=7)


@settings(max_examples=examples(500), deadline=None)
@given(word=st.one_of(ASCII, NEARLY_HAN, st.builds(lambda a, b: a + b, ASCII, NEARLY_HAN)), seed=SEEDS)
def test_the_fast_paths_for_ascii_and_han_give_the_hash_and_kind_of_the_slow_path(word: str, seed: int) -> None:
    folded = naive_text.fold(word)
    points = np.frombuffer(folded.encode("utf-32-le"), np.uint32)
    hashes, kinds = hash_words(points, np.array([len(folded)]), tables.unicode_table().traits, np.uint64(seed))
    traits = [naive_text.traits(char) for char in folded]
    counts = any(trait[3] for trait in traits)
    expected = reference(naive_text.casefold(folded).encode(), seed) if counts else 0
    classes = {trait[2] for trait in traits} - {naive_text.OTHER}
    assert int(hashes[0]) == expected
    assert int(kinds[0]) == sum(1 << kind for kind in classes) + 0x80 * counts


def test_the_mixer_is_the_naive_one() -> None:
    for x in (0, 1, 2**63, 2**64 - 1, 0x0123456789ABCDEF):
        assert int(mix(np.uint64(x))) == naive_text.mix(x)


def test_a_sketch_of_one_full_bin_is_filled_whichever_bin_it_is() -> None:
    for bins in (64, 128, 192, 256):
        out, scratch = np.zeros(bins // 64, np.uint64), np.empty(2 * bins, np.uint64)
        seen = set()
        for value in range(4 * bins):
            sketch(np.array([value], np.uint64), 1, False, scratch, out)
            # All bins take the one minimum there is, so all bits are its bit.
            assert int(np.bitwise_count(out).sum()) in (0, bins)
            seen.add((naive_text.mix(value) >> 32) * bins >> 32)
        assert len(seen) > 0.9 * bins


@pytest.mark.parametrize("mixed", [False, True])
def test_a_page_whose_only_hash_stands_for_an_empty_bin_gets_a_sketch(mixed: bool) -> None:
    word = naive_text.unmix(2**64 - 1)
    assert naive_text.mix(word) == 2**64 - 1
    out, scratch = np.zeros(4, np.uint64), np.empty(512, np.uint64)
    sketch(np.array([word], np.uint64), 1, mixed, scratch, out)  # an endless search before
    assert mixed or int(np.bitwise_count(out).sum()) in (0, 256)


@pytest.mark.parametrize("mixed", [False, True])
def test_sketches_agree_by_half_of_one_plus_the_similarity(mixed: bool) -> None:
    rng, agreements = np.random.default_rng(5), []
    scratch = np.empty(512, np.uint64)
    for _ in range(200):
        words = rng.integers(1, 2**63, 300).astype(np.uint64)
        other = np.concatenate([words[:200], rng.integers(1, 2**63, 100).astype(np.uint64)])
        a, b = np.zeros(4, np.uint64), np.zeros(4, np.uint64)
        sketch(words, 300, mixed, scratch, a)
        sketch(other, 300, mixed, scratch, b)
        agreements.append(256 - int(np.bitwise_count(a ^ b).sum()))
    similarity = 199 / (299 + 100)  # bigrams in common of those in either
    assert abs(np.mean(agreements) / 256 - (1 + similarity) / 2) < 0.01


def test_mixed_bits_tell_short_pages_apart_that_have_nothing_in_common() -> None:
    rng, scratch = np.random.default_rng(6), np.empty(512, np.uint64)
    agreements: dict[bool, list[int]] = {False: [], True: []}
    for mixed, found in agreements.items():
        made = np.zeros((400, 4), np.uint64)
        for page in made:
            sketch(rng.integers(1, 2**63, 7).astype(np.uint64), 7, mixed, scratch, page)
        pairs = np.bitwise_count(made[:200] ^ made[200:]).sum(axis=1)
        found += (256 - pairs).tolist()
    assert max(agreements[True]) < 180, "as if each bit were thrown by itself"
    assert max(agreements[False]) > 200
