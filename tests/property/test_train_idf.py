"""Training: whatever memory, batches, threads and interruptions, the counts are those of plain Python."""

from __future__ import annotations

import json
import math
import random
import shutil
import struct
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jieba
import mmh3
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simstream.hash_secret import Secret
from simstream.kernels import hashing
from simstream.kernels.jit import kernel
from simstream.kernels.text.frequencies import BYTES, MAX_WORD_BYTES, WORDS, WordCounts, make_counts
from simstream.model import Record
from simstream.text.fingerprinter import Fingerprinter
from simstream.text.recipe import PRESETS
from simstream.tools.train_idf import table as tables
from simstream.tools.train_idf import training as trainings
from simstream.tools.train_idf.state import TrainingFolder
from simstream.tools.train_idf.table import WordTable
from simstream.tools.train_idf.training import TrainingOptions, TrainingRun
from simstream.tools.train_idf.weights import lines
from simstream.wire.page import NO_TIME, PageLimits
from tests.colliding import SECRET, SECRETS, crowding, placed, same_hash
from tests.naive_text import NaiveRecipe
from tests.short import examples

place_bytes = kernel(hashing.place_bytes.py_func)
RECIPE = PRESETS["default"]
SCRIPTS = "的了在是中国人民研究生命大学 abcABC 0123 éÉ Жж カタ한국 ＡＢ１２ ßẞİ"
TEXTS = st.lists(st.text(SCRIPTS, max_size=60), max_size=8)


@pytest.fixture(scope="module")
def fingerprinter(cache: Path) -> Iterator[Fingerprinter]:
    with Fingerprinter(RECIPE, cache, workers=0) as made:
        yield made


@pytest.fixture(scope="module")
def naive(oracle: jieba.Tokenizer) -> NaiveRecipe:
    return NaiveRecipe(RECIPE, oracle)


def records(texts: Iterable[str]) -> list[Record]:
    values = [json.dumps({"text": text}).encode() for text in texts]
    return [Record("pages", 0, number, None, value, (), NO_TIME) for number, value in enumerate(values)]


def expected(naive: NaiveRecipe, texts: Iterable[str]) -> tuple[int, dict[str, int]]:
    """Pages that count, and in how many of them each word occurs."""
    pages, counts = 0, Counter[str]()
    for text in texts:
        words = set(naive.words(text.encode()))
        if len(words) >= naive.recipe.min_words:
            pages += 1
            counts.update(word for word in words if len(word.encode()) <= MAX_WORD_BYTES)
    return pages, dict(counts)


def trained(
    fingerprinter: Fingerprinter, output: Path, pages: Iterable[Record], options: TrainingOptions
) -> TrainingRun:
    with TrainingFolder(output, resume=True) as folder:
        training = TrainingRun(fingerprinter, folder, PageLimits(), options)
        training.run(pages)
        return training


def counted(training: TrainingRun) -> tuple[int, dict[str, int]]:
    rows = list(training.rows())
    assert rows == sorted(rows)
    found = {word.decode(): pages for word, pages in rows}
    assert len(found) == len(rows)
    return training.pages, found


@settings(max_examples=examples(60), deadline=None)
@given(texts=TEXTS)
def test_a_batch_counts_each_word_once_a_page(
    texts: list[str], naive: NaiveRecipe, fingerprinter: Fingerprinter, tmp_path_factory: pytest.TempPathFactory
) -> None:
    output = tmp_path_factory.mktemp("idf") / "out"
    assert counted(trained(fingerprinter, output, records(texts), TrainingOptions())) == expected(naive, texts)


@pytest.mark.parametrize(
    "changes",
    [
        {"mode": "full"},
        {"mode": "search", "least_chars": 2},
        {"script": "simplified", "hash": "fnv1"},
        {"add_words": ("研究生命",), "remove_words": ("大学",)},
    ],
    ids=str,
)
def test_words_are_the_recipes(changes: dict[str, Any], cache: Path, tmp_path: Path) -> None:
    recipe = replace(RECIPE, min_words=1, **changes)
    texts = ["中国人民研究生命起源的大学", "圖書館 library 3.14，清华大学研究所", "研究生命 abc"] * 2
    with Fingerprinter(recipe, cache, workers=0) as made:
        training = trained(made, tmp_path / "out", records(texts), TrainingOptions())
        expected_pages: dict[str, int] = {}
        for text in texts:
            for word, _, _ in made.weighted(text):
                expected_pages[word] = expected_pages.get(word, 0) + 1
    assert counted(training) == (len(texts), expected_pages)


def test_a_word_too_long_to_be_one_is_passed_over(
    naive: NaiveRecipe, fingerprinter: Fingerprinter, tmp_path: Path
) -> None:
    texts = [
        f"one two three four five six seven eight {'a' * size} {'é' * (size // 2)}" for size in (255, 256, 900)
    ]
    found = counted(trained(fingerprinter, tmp_path / "out", records(texts), TrainingOptions()))
    assert found == expected(naive, texts)
    assert "a" * 255 in found[1]
    assert max(len(word.encode()) for word in found[1]) == 255


def test_a_page_of_more_words_than_there_was_room_for_counts_whole(
    naive: NaiveRecipe, fingerprinter: Fingerprinter, tmp_path: Path
) -> None:
    texts = [" ".join(chr(0x4E00 + at) for at in range(start, start + 4_000)) for start in (0, 2_000)]
    found = counted(trained(fingerprinter, tmp_path / "out", records(texts), TrainingOptions()))
    assert found == expected(naive, texts)
    assert len(found[1]) == 6_000


class KilledProcess(BaseException):
    """Stands for the death of the process: nothing is saved because of it."""


def up_to(pages: list[Record], end: int, how: BaseException) -> Iterator[Record]:
    yield from pages[:end]
    raise how


@pytest.fixture(scope="module")
def many() -> list[str]:
    rng = random.Random(5)
    names = ["".join(rng.choice("abcdefgh科学研究发现大") for _ in range(rng.randint(1, 12))) for _ in range(3000)]
    return [" ".join(rng.choice(names) for _ in range(rng.randint(2, 60))) for _ in range(1500)]


@pytest.fixture(scope="module")
def whole(many: list[str], naive: NaiveRecipe) -> tuple[int, dict[str, int]]:
    return expected(naive, many)


@settings(max_examples=examples(25), deadline=None)
@given(
    ends=st.lists(st.tuples(st.integers(0, 1500), st.sampled_from([KilledProcess, KeyboardInterrupt])), max_size=3),
    memory=st.sampled_from([0, 300_000, 1 << 24]),
    threads=st.integers(1, 3),
    save_every=st.sampled_from([0.0, 0.002, 100.0]),
    batch=st.sampled_from([1, 37, 200]),
)
def test_interruptions_memory_and_threads_change_nothing(
    ends: list[tuple[int, type[BaseException]]],
    memory: int,
    threads: int,
    save_every: float,
    batch: int,
    many: list[str],
    whole: tuple[int, dict[str, int]],
    fingerprinter: Fingerprinter,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    output, pages = tmp_path_factory.mktemp("idf") / "out", records(many)
    options = TrainingOptions(memory, threads, save_every)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trainings, "MAX_RUNS", 3)
        patch.setattr(trainings, "record_batches", lambda items: groups(items, batch))
        reached = -1
        for end, how in ends:
            if end < reached:
                continue  # an input that is shorter than the counted part is another input
            with pytest.raises(how):
                trained(fingerprinter, output, up_to(pages, end, how()), options)
            reached = max(reached, end)
        assert counted(trained(fingerprinter, output, pages, options)) == whole
    shutil.rmtree(output.parent)


def groups(items: Iterable[Record], size: int) -> Iterator[list[Record]]:
    group: list[Record] = []
    for item in items:
        group.append(item)
        if len(group) == size:
            yield group
            group = []
    if group:
        yield group


RAW_WORDS = (
    st.binary(min_size=1, max_size=20)
    | st.binary(min_size=16, max_size=16)
    | st.text("ab", min_size=1, max_size=20).map(str.encode)
)


def twin(word: bytes) -> bytes:
    """Another word of the same hash under SECRET, if this one has 16 bytes; else the same."""
    if len(word) != 16:
        return word
    first, second = struct.unpack("<QQ", word)
    undone = placed(16 ^ first) ^ placed(16 ^ first ^ 1)
    return struct.pack("<QQ", first ^ 1, second ^ undone)


def counts_of(words: dict[bytes, int]) -> WordCounts:
    """A batch with these words."""
    made = make_counts(len(words), sum(map(len, words)), 1 << max(1, (2 * len(words)).bit_length()), SECRET)
    end = 0
    for number, (word, pages) in enumerate(words.items()):
        made.pages[number] = pages
        made.blob[end : end + len(word)] = np.frombuffer(word, np.uint8)
        end += len(word)
        made.starts[number + 1] = end
    made.filled[WORDS], made.filled[BYTES] = len(words), end
    return made


@settings(max_examples=examples(100), deadline=None)
@given(
    batches=st.lists(
        st.dictionaries(RAW_WORDS, st.integers(1, 9), min_size=1, max_size=40),
        max_size=5,
    ),
    secret=st.sampled_from([SECRET, *SECRETS]),
)  # fmt: skip
def test_words_that_share_a_hash_or_their_beginning_stay_apart_and_in_order(
    batches: list[dict[bytes, int]], secret: Secret
) -> None:
    total = Counter[bytes]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "_FIRST_PLACES", 4)
        table = WordTable(0, secret)
    for words in batches:
        batch = words | {twin(word): pages + 1 for word, pages in words.items()}
        total.update(batch)
        assert table.add(counts_of(batch), 0) == len(batch)
    assert list(table.rows()) == sorted(total.items())


def test_the_twins_of_these_tests_share_a_hash() -> None:
    word = bytes(range(16))
    hashes = [place_bytes(np.frombuffer(each, np.uint8), 0, 16, SECRET) for each in (word, twin(word))]
    assert word != twin(word)
    assert hashes[0] == hashes[1]


@pytest.mark.parametrize("secret", SECRETS)
def test_words_that_share_their_published_hash_do_not_crowd(secret: Secret) -> None:
    words = same_hash(5_000)
    assert len({mmh3.hash64(word, 0, x64arch=True)[0] for word in words}) == 1
    table = WordTable(1 << 20, secret)
    assert table.add(counts_of(dict.fromkeys(words, 1)), 0) == len(set(words)) == 5_000
    assert crowding(table._counts.places >= 0) < 12  # at most half of the places are taken


def test_idf_is_never_negative_and_falls_with_the_pages() -> None:
    rows = [(b"all", 5), (b"most", 4), (b"one", 1), (b"two", 2)]
    found = dict(line.decode().split() for line in lines(rows, 5, 2))
    assert found == {"all": "0.000000", "most": f"{math.log(6 / 5):.6f}", "two": f"{math.log(2):.6f}"}
