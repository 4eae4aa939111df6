"""Pairs that `simstream evaluate` takes from the groups of pages, and a recipe's own bounds of what is near."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from simstream.errors import SettingsError
from simstream.evaluate.corpus import Corpus, InputReader, read_corpus
from simstream.evaluate.intervals import share
from simstream.evaluate.measure import CorpusTruth
from simstream.evaluate.pairs import DIFFERENT, SAME, LabelledPair, of_groups
from simstream.evaluate.run import _label_one
from simstream.evaluate.sentences import _bits
from simstream.evaluate.store import ResultStore
from simstream.index.plan import MAX_DISTANCE
from simstream.sources.read import read_pages
from simstream.text.recipe import Recipe
from simstream.text.recipe_file import load_recipe
from simstream.wire.page import PageLimits

ROWS = [
    {"id": "a", "group": "hill", "text": "one"},
    {"id": "b", "text": "no group"},
    {"id": "c", "group": 7, "text": "two"},
    {"id": "d", "group": "hill", "text": "three"},
    {"id": "e", "group": "hill", "text": "four"},
]


def corpus(folder: Path, rows: list[dict[str, object]]) -> Corpus:
    path = folder / "own.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    limits = PageLimits(max_record_bytes=1 << 20)
    return read_corpus("own", read_pages([str(path)], 1 << 20), InputReader(limits))


def test_successive_pages_of_one_group_are_a_pair(tmp_path: Path) -> None:
    assert of_groups(corpus(tmp_path, ROWS)) == [LabelledPair("a", "d", SAME), LabelledPair("d", "e", SAME)]


def test_a_page_that_comes_twice_is_no_pair_with_itself(tmp_path: Path) -> None:
    found = of_groups(corpus(tmp_path, [*ROWS, ROWS[0]]))
    assert all(pair.a != pair.b for pair in found)
    assert len(found) == 2


def test_pages_without_groups_make_no_pairs(tmp_path: Path) -> None:
    assert of_groups(corpus(tmp_path, [{"id": key, "text": key} for key in "abc"])) == []


def test_pages_of_a_pair_without_a_label_are_of_one_group(tmp_path: Path) -> None:
    truth = CorpusTruth(corpus(tmp_path, [{"id": key, "text": key} for key in "abc"]), 1)
    pairs = [LabelledPair("a", "b"), LabelledPair("b", "c", DIFFERENT)]
    info = _label_one(truth, pairs, "own.jsonl", ResultStore(tmp_path / "store"))
    assert (info.groups, info.grouped_by, sum(info.pairs_by_bin)) == (1, "pairs", 1)


@pytest.mark.parametrize("similarity", ["nan", "-0.1", "1.5", "half"])
def test_a_similarity_that_is_no_share_is_refused_by_its_own_name(similarity: str) -> None:
    with pytest.raises(SettingsError, match="setting similarity"):
        Recipe(name="own", similarity=similarity)


@pytest.mark.parametrize("distance", [-1, MAX_DISTANCE + 1])
def test_a_recipes_own_distance_is_one_that_the_index_supports(distance: int) -> None:
    with pytest.raises(SettingsError, match="setting distance"):
        Recipe(name="own", distance=distance)


@pytest.mark.parametrize("name", ["own.toml", "OWN.TOML"])
def test_a_recipe_file_may_begin_with_a_byte_order_mark_and_end_in_capitals(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(b"\xef\xbb\xbfmin_words = 3\n")
    assert load_recipe(path).min_words == 3


def test_a_users_dictionary_is_a_file_even_with_the_name_of_a_shipped_list(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text('user_dictionaries = ["zh"]\nstop_words = ["zh"]\n', encoding="utf-8")
    recipe = load_recipe(path)
    assert (recipe.user_dictionaries, recipe.stop_words) == ((str(tmp_path / "zh"),), ("zh",))


@pytest.mark.parametrize(("ones", "grades"), [(0.0, ["bad"]), (1.0, ["bad"]), (0.1, ["fair"]), (0.5, [])])
def test_a_bit_that_all_pages_have_alike_is_called_bad(ones: float, grades: list[str]) -> None:
    bits = [share([0.5], [1.0]), share([ones], [1.0])]
    one = SimpleNamespace(bits=bits)
    assert [sentence.tone for sentence in _bits(one)] == grades  # type: ignore[arg-type]
