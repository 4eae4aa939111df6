"""Weights of words: jieba's tables as integers, unknown words, the cache file."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import jieba
import mmh3
import numpy as np
import pytest

from simstream.kernels.jit import kernel
from simstream.kernels.text import simhash
from simstream.kernels.text.trie import slots_of
from simstream.kernels.text.words import UNKNOWN_HAN, UNKNOWN_NUMBER, UNKNOWN_OTHER
from simstream.text import weights
from simstream.text.dictionary import Dictionary
from simstream.text.recipe import PRESETS, Recipe
from simstream.text.weights import Weights

word_weight = kernel(simhash.word_weight.py_func)
PLAIN = Recipe(name="plain", weights="dictionary", seed=0)


@pytest.fixture(scope="module")
def plain(dictionary: Dictionary, cache: Path) -> Weights:
    return weights.load(PLAIN, dictionary, cache)


def weight(table: Weights, word: str, kind: int = UNKNOWN_OTHER) -> int:
    value = np.uint64(mmh3.hash64(word.encode(), 0, x64arch=True, signed=False)[0])
    lexicon = table.lexicon
    by_length = kind - 3 * min(len(word), 8)
    return int(
        word_weight(value, lexicon.word_keys, lexicon.word_weights, lexicon.unknown, by_length, lexicon.secret)
    )


def test_a_dictionary_word_weighs_minus_the_logarithm_of_its_share(plain: Weights, dictionary: Dictionary) -> None:
    frequencies = dictionary.frequencies()
    total = sum(frequencies.values())
    for word in ("中国", "的", "邮局", "一"):
        assert weight(plain, word) == round(-65536 * math.log(frequencies[word] / total))


def test_words_that_casefold_alike_share_the_sum_of_their_frequencies(
    plain: Weights, dictionary: Dictionary
) -> None:
    frequencies = dictionary.frequencies()
    alike = [word for word in frequencies if word.casefold() == "t恤"]
    share = sum(frequencies[word] for word in alike) / sum(frequencies.values())
    assert "T恤" in alike
    assert weight(plain, "t恤") == round(-65536 * math.log(share))


def test_unknown_words_weigh_by_what_they_are_made_of(plain: Weights) -> None:
    known = plain.lexicon.word_weights[plain.lexicon.word_weights >= 0]
    assert weight(plain, "没有这样的词", UNKNOWN_HAN) == sorted(known.tolist())[len(known) // 2]
    assert weight(plain, "20260517", UNKNOWN_NUMBER) == 65536 * PLAIN.number_weight
    assert weight(plain, "nosuchword", UNKNOWN_OTHER) == 65536 * PLAIN.default_weight


def test_the_default_weighs_unknown_words_by_up_to_8_characters_and_caps_those_of_its_table(
    dictionary: Dictionary, cache: Path
) -> None:
    table = weights.load(replace(PRESETS["default"], seed=0), dictionary, cache)
    assert [weight(table, word) / 65536 for word in ("ab", "abcdefgh", "abcdefghij")] == [5, 14, 14]
    assert [weight(table, word, UNKNOWN_NUMBER) / 65536 for word in ("7", "20260517", "202605171")] == [5.5, 23, 23]
    assert weight(table, "馆员") == 9 * 65536
    assert table.lexicon.word_weights.max() == 9 * 65536
    assert weight(table, "html") == weight(table, "www") == 0


def test_every_dictionary_word_carries_hash_and_weight_in_its_slot(plain: Weights, dictionary: Dictionary) -> None:
    words = ["中国", "T恤", "AT&T", "邮局"]
    points = np.frombuffer("".join(words).encode("utf-32-le"), np.uint32)
    slots = slots_of(points, np.cumsum([len(word) for word in words]), dictionary.trie)
    for word, slot in zip(words, slots.tolist(), strict=True):
        lower = word.casefold()
        expected = mmh3.hash64(lower.encode(), 0, x64arch=True, signed=False)[0]
        assert int(plain.lexicon.slots[slot, 0]) == expected
        assert plain.lexicon.slots[slot, 1] == weight(plain, lower)


def test_jiebas_document_frequencies_are_taken_as_they_stand(dictionary: Dictionary, cache: Path) -> None:
    table = weights.load(PRESETS["google2007"], dictionary, cache)
    lines = (Path(jieba.__file__).parent / "analyse/idf.txt").read_text(encoding="utf-8").splitlines()
    (idf,) = [float(line.split(" ")[1]) for line in lines if line.startswith("中国 ")]
    assert weight(table, "中国") == round(65536 * idf)


def test_powers_of_the_term_frequency_end_at_the_cap() -> None:
    factors = weights.tf_factors(0.75, 4095)
    assert factors[[1, 16]].tolist() == [65536, 8 * 65536]
    assert len(factors) == 4096
    assert weights.tf_factors(1.0, 4095)[-1] == 4095 << 16


def test_a_damaged_or_missing_cache_file_is_built_anew(
    plain: Weights, dictionary: Dictionary, tmp_path: Path
) -> None:
    assert weights.load(PLAIN, dictionary, tmp_path).digest == plain.digest
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    for damaged in (whole[:-100], b"", whole[:5000] + b"\x55" + whole[5001:], b"something else" + whole):
        path.write_bytes(damaged)
        assert weights.load(PLAIN, dictionary, tmp_path).digest == plain.digest
        assert path.read_bytes() == whole


def test_a_cache_folder_that_cannot_be_written_only_costs_time(
    plain: Weights, dictionary: Dictionary, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    file.touch()
    assert weights.load(PLAIN, dictionary, file / "below").digest == plain.digest
