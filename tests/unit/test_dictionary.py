"""The dictionary: what is read from jieba's tables, how it is cached, and what a damaged cache does."""

from __future__ import annotations

import math
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import jieba
import numpy as np
import pytest
from jieba import finalseg

from simstream.kernels.text import trie as trie_kernels
from simstream.kernels.text.trie import NO_WORD, build, find, slots_of
from simstream.text import dictionary as module
from simstream.text import jieba_tables
from simstream.text.cached_file import LAYOUT, encode, read_cache
from simstream.text.dictionary import Dictionary, load, tokens


def flat(words: list[str]) -> tuple[np.ndarray, np.ndarray]:
    points = np.frombuffer("".join(words).encode("utf-32-le"), np.uint32)
    return points, np.cumsum(np.array([len(word) for word in words], np.int64))


def slot(word: str, dictionary: Dictionary) -> int:
    points, _ = flat([word])
    return find(points, 0, len(points), dictionary.trie)


@pytest.fixture
def own_cache(dictionary: Dictionary, cache: Path, tmp_path: Path) -> Path:
    """A cache folder of the test's own, with the file already in it."""
    (file,) = cache.glob(f"dictionary-{LAYOUT}-{dictionary.key}.bin")
    (tmp_path / file.name).write_bytes(file.read_bytes())
    return tmp_path


def test_every_word_has_the_score_that_jieba_computes(dictionary: Dictionary, oracle: jieba.Tokenizer) -> None:
    words = [word for word, frequency in oracle.FREQ.items() if frequency]
    slots = slots_of(*flat(words), dictionary.trie)
    log_total = math.log(oracle.total)
    expected = [math.log(oracle.FREQ[word]) - log_total for word in words]
    assert slots.min() > 0
    assert len(set(slots.tolist())) == len(words)
    assert dictionary.trie.nodes["log_frequency"][slots].tolist() == expected
    assert dictionary.trie.log_total == log_total


def test_there_are_no_more_words_than_jieba_has(dictionary: Dictionary, oracle: jieba.Tokenizer) -> None:
    words = np.count_nonzero(dictionary.trie.nodes["log_frequency"] > NO_WORD)
    assert words == sum(f > 0 for f in oracle.FREQ.values())


def test_what_only_begins_words_is_no_word(dictionary: Dictionary, oracle: jieba.Tokenizer) -> None:
    beginnings = [word for word, frequency in oracle.FREQ.items() if not frequency]
    assert len(beginnings) > 100_000
    assert set(slots_of(*flat(beginnings), dictionary.trie).tolist()) == {-1}


@pytest.mark.parametrize("text", ["", "中国中国", "😀", "é", "\U0010ffff", "zzz"])
def test_an_unknown_text_has_no_slot(text: str, dictionary: Dictionary) -> None:
    assert slot(text, dictionary) == -1


def test_the_hmm_has_every_probability_of_jieba(dictionary: Dictionary) -> None:
    hmm = dictionary.hmm
    for at, state in enumerate("BMES"):
        assert hmm.start[at] == finalseg.start_P[state]
        for to, target in enumerate("BMES"):
            assert hmm.trans[at, to] == finalseg.trans_P[state].get(target, finalseg.MIN_FLOAT)
        column = {chr(p): hmm.emit[p, at] for p in np.flatnonzero(hmm.emit[:, at] != finalseg.MIN_FLOAT)}
        assert column == finalseg.emit_P[state]


def test_frequencies_are_those_of_the_file(dictionary: Dictionary, oracle: jieba.Tokenizer) -> None:
    assert dictionary.frequencies() == {word: f for word, f in oracle.FREQ.items() if f}


def test_no_text_has_no_tokens(dictionary: Dictionary) -> None:
    assert tokens("", dictionary) == []


def test_a_nul_inside_the_text_is_a_token(dictionary: Dictionary) -> None:
    assert tokens("中国\0北京\0", dictionary) == ["中国", "\0", "北京", "\0"]


def test_a_repeated_word_has_its_last_frequency_and_counts_twice_in_the_total(oracle: jieba.Tokenizer) -> None:
    words, total = module._words()
    listed, _, _ = jieba_tables.columns("dict.txt")
    assert len(listed) > len(words) == len(set(listed))
    assert total == oracle.total > sum(words.values())


def test_loading_does_not_import_jieba(tmp_path: Path, own_cache: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from simstream.text.dictionary import load; "
        "load(Path(sys.argv[1])); load(Path(sys.argv[2])); print('jieba' in sys.modules)"
    )
    arguments = [sys.executable, "-c", code, str(tmp_path / "empty"), str(own_cache)]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout == "False\n"


def test_a_warm_load_builds_nothing(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("built although the cache has it")

    monkeypatch.setattr(module, "build", refuse)
    load(own_cache)


def test_arrays_from_the_cache_have_the_types_of_built_ones(own_cache: Path, tmp_path: Path) -> None:
    """Otherwise every kernel would be compiled twice."""
    (tmp_path / "file").write_text("")
    built, mapped = load(tmp_path / "file"), load(own_cache)
    pairs: list[tuple[Any, Any]] = list(
        zip(built.trie[:-1] + built.hmm, mapped.trie[:-1] + mapped.hmm, strict=True)
    )
    for one, other in pairs:
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        assert one.flags.writeable
        assert other.flags.writeable
        assert other.flags.aligned
        assert np.array_equal(one, other)


def test_without_a_folder_to_write_to_it_is_kept_in_memory(tmp_path: Path, dictionary: Dictionary) -> None:
    (tmp_path / "file").write_text("")
    assert tokens("我来到北京清华大学", load(tmp_path / "file")) == ["我", "来到", "北京", "清华大学"]


@pytest.mark.parametrize("at", [0, 25, 60, 5_000_000, -1])
def test_a_cache_file_with_one_wrong_byte_is_built_again(at: int, own_cache: Path) -> None:
    (file,) = own_cache.glob("dictionary-*.bin")
    whole = file.read_bytes()
    damaged = bytearray(whole)
    damaged[at] ^= 1
    file.write_bytes(damaged)
    assert np.array_equal(load(own_cache).trie.nodes, load(own_cache).trie.nodes)
    assert file.read_bytes() == whole


@pytest.mark.parametrize("size", [0, 30, 1_000_000])
def test_a_cache_file_that_broke_off_is_built_again(size: int, own_cache: Path) -> None:
    (file,) = own_cache.glob("dictionary-*.bin")
    whole = file.read_bytes()
    file.write_bytes(whole[:size])
    load(own_cache)
    assert file.read_bytes() == whole


def test_a_cache_file_of_other_tables_is_not_trusted(own_cache: Path) -> None:
    (file,) = own_cache.glob("dictionary-*.bin")
    whole = file.read_bytes()
    arrays = read_cache(file, file.stem.rpartition("-")[2])
    assert arrays is not None
    file.write_bytes(encode("0" * 32, arrays))
    load(own_cache)
    assert file.read_bytes() == whole


def test_building_leaves_nothing_but_the_cache_file(tmp_path: Path) -> None:
    key = load(tmp_path).key
    assert os.listdir(tmp_path) == [f"dictionary-{LAYOUT}-{key}.bin"]


def test_a_dictionary_of_one_word_can_be_built() -> None:
    points, ends = flat(["中"])
    trie = build(points, ends, np.array([-1.0]), 1.0)
    assert slots_of(*flat(["中", "国", "中中"]), trie)[1:].tolist() == [-1, -1]
    assert find(points, 0, 1, trie) > 0


def test_words_that_leave_many_slots_free_can_be_built(monkeypatch: pytest.MonkeyPatch) -> None:
    """Random pairs fit together so badly that the first guess at the number of slots does not suffice."""
    guesses = []

    def place_all(*arguments: Any) -> Any:
        guesses.append(len(arguments[4].base))
        return placed(*arguments)

    placed = trie_kernels._place_all
    monkeypatch.setattr(trie_kernels, "_place_all", place_all)
    letters, pick = [chr(0x4E00 + at) for at in range(300)], random.Random(1)
    pairs = sorted(a + b for a in letters for b in letters)
    words = [pair for pair in pairs if pick.random() < 0.3]
    slots = slots_of(*flat(pairs), build(*flat(words), np.full(len(words), -2.0), 1.0))
    assert len(guesses) > 1
    assert [pair for pair, slot in zip(pairs, slots, strict=True) if slot >= 0] == words


def test_too_many_characters_are_refused() -> None:
    words = [chr(point) for point in range(0x10000, 0x10000 + 0x10000)]
    with pytest.raises(ValueError, match="65536 different characters"):
        trie_kernels.build(*flat(words), np.full(len(words), -2.0), 1.0)
