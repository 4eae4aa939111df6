"""Weights of words: jieba's tables as integers, unknown words, the cache file."""

from __future__ import annotations

import math
from pathlib import Path

import mmh3
import numpy as np
import pytest

from stream.kernels.simhash import word_weight
from stream.kernels.tokenize import slots_of
from stream.kernels.words import UNKNOWN_HAN, UNKNOWN_NUMBER, UNKNOWN_OTHER
from stream.text import weights
from stream.text.dictionary import Dictionary
from stream.text.recipe import PRESETS
from stream.text.weights import Weights

DEFAULT = PRESETS["default"]


@pytest.fixture(scope="module")
def default(dictionary: Dictionary, cache: Path) -> Weights:
    return weights.load(DEFAULT, dictionary, cache)


def weight(table: Weights, word: str, kind: int = UNKNOWN_OTHER) -> int:
    value = np.uint64(mmh3.hash64(word.encode(), 0, x64arch=True, signed=False)[0])
    lexicon = table.lexicon
    return int(
        word_weight(value, lexicon.word_keys, lexicon.word_weights, lexicon.unknown, kind - 3 * min(len(word), 8))
    )


def test_a_dictionary_word_weighs_minus_the_logarithm_of_its_share(
    default: Weights, dictionary: Dictionary
) -> None:
    frequencies = dictionary.frequencies()
    total = sum(frequencies.values())
    for word in ("中国", "的", "邮局", "一"):
        assert weight(default, word) == round(-65536 * math.log(frequencies[word] / total))


def test_words_that_casefold_alike_share_the_sum_of_their_frequencies(
    default: Weights, dictionary: Dictionary
) -> None:
    frequencies = dictionary.frequencies()
    alike = [word for word in frequencies if word.casefold() == "t恤"]
    share = sum(frequencies[word] for word in alike) / sum(frequencies.values())
    assert "T恤" in alike
    assert weight(default, "t恤") == round(-65536 * math.log(share))


def test_unknown_words_weigh_by_what_they_are_made_of(default: Weights) -> None:
    known = default.lexicon.word_weights[default.lexicon.word_weights >= 0]
    assert weight(default, "没有这样的词", UNKNOWN_HAN) == sorted(known.tolist())[len(known) // 2]
    assert weight(default, "20260517", UNKNOWN_NUMBER) == 65536 * DEFAULT.number_weight
    assert weight(default, "nosuchword", UNKNOWN_OTHER) == 65536 * DEFAULT.default_weight


def test_every_dictionary_word_carries_hash_and_weight_in_its_slot(
    default: Weights, dictionary: Dictionary
) -> None:
    words = ["中国", "T恤", "AT&T", "邮局"]
    points = np.frombuffer("".join(words).encode("utf-32-le"), np.uint32)
    slots = slots_of(points, np.cumsum([len(word) for word in words]), dictionary.trie)
    for word, slot in zip(words, slots.tolist(), strict=True):
        lower = word.casefold()
        expected = mmh3.hash64(lower.encode(), 0, x64arch=True, signed=False)[0]
        assert int(default.lexicon.slots[slot, 0]) == expected
        assert default.lexicon.slots[slot, 1] == weight(default, lower)


def test_jiebas_document_frequencies_are_taken_as_they_stand(dictionary: Dictionary, cache: Path) -> None:
    table = weights.load(PRESETS["google2007"], dictionary, cache)
    lines = weights.idf_path().read_text(encoding="utf-8").splitlines()
    (idf,) = [float(line.split(" ")[1]) for line in lines if line.startswith("中国 ")]
    assert weight(table, "中国") == round(65536 * idf)


def test_powers_of_the_term_frequency_end_at_the_cap() -> None:
    factors = weights.tf_factors(0.75, 4095)
    assert factors[[1, 16]].tolist() == [65536, 8 * 65536]
    assert len(factors) == 4096
    assert weights.tf_factors(1.0, 4095)[-1] == 4095 << 16


def test_a_damaged_or_missing_cache_file_is_built_anew(
    default: Weights, dictionary: Dictionary, tmp_path: Path
) -> None:
    assert weights.load(DEFAULT, dictionary, tmp_path).digest == default.digest
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    for damaged in (whole[:-100], b"", whole[:5000] + b"\x55" + whole[5001:], b"something else" + whole):
        path.write_bytes(damaged)
        assert weights.load(DEFAULT, dictionary, tmp_path).digest == default.digest
        assert path.read_bytes() == whole


def test_a_cache_folder_that_cannot_be_written_only_costs_time(
    default: Weights, dictionary: Dictionary, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    file.touch()
    assert weights.load(DEFAULT, dictionary, file / "below").digest == default.digest
