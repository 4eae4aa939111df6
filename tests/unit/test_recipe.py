"""Recipes and policies: presets, ranges, ids; and the fingerprints that presets are known to give."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simstream.errors import SettingsError
from simstream.judge.policy import Policy, least_agreement, make_policy
from simstream.kernels.text import words
from simstream.model import Page, PageKind
from simstream.text import probes
from simstream.text.fingerprinter import Fingerprinter
from simstream.text.recipe import MAX_WEIGHED_CHARACTERS, MAX_WORD_WEIGHT, PRESETS, Recipe, preset, recipe_id
from tests.golden import write_fingerprints as golden

DEFAULT = PRESETS["default"]
PLAIN = Recipe(name="plain")
"""Every setting as it is where a recipe does not say it."""


@pytest.fixture(scope="module")
def fingerprinter(cache: Path) -> Iterator[Fingerprinter]:
    with Fingerprinter(DEFAULT, cache, workers=0) as made:
        yield made


def page(number: int, **fields: Any) -> Page:
    return Page(f"id-{number}", number.to_bytes(16, "little"), offset=10 + number, time=1000 + number, **fields)


# Recipes


def test_presets_are_found_by_name() -> None:
    assert (preset("default").distance, preset("default").sketch_bits) == (8, 256)
    assert (preset("google2007").distance, preset("google2007").sketch_bits) == (3, 0)


def test_an_unknown_preset_is_a_settings_error_that_names_those_there_are() -> None:
    with pytest.raises(SettingsError, match="default or google2007 or fnv1-tf or shingles"):
        preset("defualt")


@pytest.mark.parametrize(
    "wrong",
    [
        {"sketch_bits": 100},
        {"sketch_bits": 320},
        {"seed": 1 << 32},
        {"tf_power": 1.5},
        {"min_words": 0},
        {"max_text_bytes": 3},
        {"weights": "own"},
        {"default_weight": float("nan")},
        {"mode": "fast"},
        {"extract": "whole"},
        {"least_chars": 0},
        {"script": "traditional"},
        {"normalization": "nfd"},
        {"features": "lines"},
        {"features": "shingles"},
        {"shingle_words": 33},
        {"hash": "md5"},
        {"ties": 2},
        {"add_words": (" ",)},
        {"tf_cap": 0},
        {"top": -1},
        {"idf_file": "own.txt"},
        {"short_words": 8},
        {"short_words": -1},
        {"short_distance": 9},
        {"short_distance": -1},
        {"short_similarity": "0.56"},
        {"short_similarity": "1.01"},
        {"short_similarity": "much"},
        {"short_similarity": "nan"},
        {"short_similarity": "0.9", "similarity": None},
    ],
)
def test_a_recipe_out_of_range_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match=f"recipe setting {next(iter(wrong))} is"):
        Recipe(name="wrong", **wrong)


@pytest.mark.parametrize("weight", ["default_step", "number_step"])
def test_weights_that_64_bits_do_not_hold_are_refused(weight: str) -> None:
    """A word of such a recipe could count against itself."""
    much: dict[str, Any] = {"tf_power": 1.0, weight: 1000.0, "default_weight": 1000.0, "number_weight": 1000.0}
    with pytest.raises(SettingsError, match="could weigh"):
        Recipe(name="heavy", tf_cap=1 << 20, **much)
    most = (MAX_WORD_WEIGHT - 1) // 9_000
    Recipe(name="heavy", tf_cap=most, **much)


def test_the_number_of_characters_that_weigh_is_that_of_the_kernel() -> None:
    assert MAX_WEIGHED_CHARACTERS == words.MAX_WEIGHED_CHARACTERS


def test_the_advice_names_every_part_of_html_that_may_count() -> None:
    with pytest.raises(SettingsError) as refused:
        Recipe(name="wrong", extract="whole")  # type: ignore[arg-type]  # a value that types refuse
    assert refused.value.todo == "use main, prose or fast"


IDENTITY: dict[str, dict[str, Any]] = {
    "weights": {"weights": "jieba-idf"},
    "idf_file": {"weights": "file", "idf_file": "own.txt"},
    "stop_words": {"stop_words": ("zh",)},
    "mode": {"mode": "search"},
    "user_dictionaries": {"user_dictionaries": ("own.txt",)},
    "add_words": {"add_words": ("潮汐围棋",)},
    "remove_words": {"remove_words": ("中国",)},
    "least_chars": {"least_chars": 2},
    "script": {"script": "simplified"},
    "normalization": {"normalization": "nfc"},
    "features": {"weights": "none", "features": "shingles"},
    "shingle_words": {"shingle_words": 3},
    "hash": {"hash": "fnv1"},
    "fingerprints": {"fingerprints": 2},
    "ties": {"ties": 1},
    "tf_power": {"tf_power": 0.5},
    "tf_cap": {"tf_cap": 16},
    "top": {"top": 50},
    "seed": {"seed": 1},
    "sketch_bits": {"sketch_bits": 64},
    "hmm": {"hmm": False},
    "min_words": {"min_words": 9},
    "max_text_bytes": {"max_text_bytes": 4096},
    "number_weight": {"number_weight": 1.0},
    "number_step": {"number_step": 0.5},
    "default_weight": {"default_weight": 1.0},
    "default_step": {"default_step": 0.5},
    "weight_cap": {"weight_cap": 9.0},
    "sketch_characters": {"sketch_characters": 5},
    "sketch_fill": {"sketch_fill": "mixed"},
    "extract": {"extract": "prose"},
}
"""A change of each setting that a fingerprint depends on."""
OTHERS = {"name", "distance", "similarity", "short_words", "short_distance", "short_similarity", "sketch_lookups"}


def test_every_setting_of_a_recipe_is_part_of_its_id_or_listed_as_other() -> None:
    assert {field.name for field in fields(Recipe)} == set(IDENTITY) | OTHERS


def test_each_part_of_html_that_may_count_gives_an_id_of_its_own() -> None:
    parts: tuple[Any, ...] = ("main", "prose", "fast")
    assert len({recipe_id(replace(PLAIN, extract=part), ["t"], b"out") for part in parts}) == 3


@pytest.mark.parametrize("setting", list(IDENTITY))
def test_the_id_changes_with_every_setting_that_a_fingerprint_depends_on(
    setting: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own.txt").write_text("中国 2.5\n", encoding="utf-8")
    change = IDENTITY[setting]
    before = replace(PLAIN, **{key: value for key, value in change.items() if key != setting} | _apart(setting))
    assert recipe_id(replace(before, **change), ["t"], b"out") != recipe_id(before, ["t"], b"out")


def _apart(setting: str) -> dict[str, Any]:
    """What a setting that cannot stand by itself is changed from, all else being the same."""
    Path("other.txt").write_text("中国 3.5\n", encoding="utf-8")
    return {"idf_file": "other.txt"} if setting == "idf_file" else {}


def test_the_id_changes_with_tables_and_output_and_not_with_name_distance_or_similarity() -> None:
    own = recipe_id(PLAIN, ["t"], b"out")
    assert own == recipe_id(replace(PLAIN, name="n", distance=3, similarity="0.9"), ["t"], b"out")
    strict = replace(PLAIN, short_words=20, short_distance=2, short_similarity="0.9")
    assert own == recipe_id(strict, ["t"], b"out")
    assert len({own, recipe_id(PLAIN, ["u"], b"out"), recipe_id(PLAIN, ["t"], b"other")}) == 3


# Policies


@pytest.mark.parametrize(
    ("similarity", "bits", "agreement"),
    [
        ("0.5625", 128, 100),
        ("0", 128, 64),
        ("1", 128, 128),
        (0.1, 128, 71),
        ("0.7", 64, 55),
        (Decimal("0.5"), 64, 48),
        ("0.56250000000000000001", 128, 101),
        (0.3, 256, 167),
    ],
)
def test_the_least_agreement_is_exact(similarity: str | float | Decimal, bits: int, agreement: int) -> None:
    assert least_agreement(similarity, bits) == agreement


@pytest.mark.parametrize("similarity", ["1.01", "-0.1", "much", "nan", "inf", "", "1e99999999", "1e-99999999"])
def test_a_wrong_similarity_is_refused(similarity: str) -> None:
    with pytest.raises(SettingsError, match="similarity"):
        least_agreement(similarity, 128)


def test_a_policy_takes_missing_values_from_its_recipe() -> None:
    policy = make_policy(DEFAULT, "0123abcd")
    assert (policy.limits, policy.short_words, policy.short_limits) == ((8, 205), 32, (8, 216))
    assert (policy.window_ms, policy.link) == (None, "any")
    plain = make_policy(PLAIN, "0123abcd")
    assert (plain.limits, plain.short_words, plain.short_limits) == ((8, 100), 0, None)
    assert make_policy(PRESETS["google2007"], "0123abcd").agreement == 0


@pytest.mark.parametrize("wrong", [{"distance": -1}, {"distance": 64}, {"window_ms": 0}, {"link": "all"}])
def test_a_policy_out_of_range_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match=next(iter(wrong)).removesuffix("_ms")):
        make_policy(PLAIN, "0123abcd", **wrong)


def test_a_similarity_without_a_sketch_is_refused() -> None:
    with pytest.raises(SettingsError, match="no sketch"):
        make_policy(PRESETS["google2007"], "0123abcd", similarity="0.5")


def test_every_choice_of_a_policy_changes_its_id() -> None:
    ids = {
        make_policy(PLAIN, "0123abcd").id,
        make_policy(PLAIN, "0123abce").id,
        make_policy(PLAIN, "0123abcd", distance=7).id,
        make_policy(PLAIN, "0123abcd", similarity="0.6").id,
        make_policy(PLAIN, "0123abcd", window_ms=1).id,
        make_policy(PLAIN, "0123abcd", link="canonical").id,
    }
    assert len(ids) == 6
    assert all(len(one) == 8 and int(one, 16) >= 0 for one in ids)


SHORT = replace(PLAIN, short_words=20, short_distance=4, short_similarity="0.75")


def test_every_part_of_a_policy_changes_its_id() -> None:
    policy = make_policy(SHORT, "0123abcd")
    others: dict[str, Any] = {
        "recipe_id": "0123abce",
        "sketch_bits": policy.sketch_bits + 64,
        "distance": policy.distance + 1,
        "agreement": policy.agreement + 1,
        "window_ms": 1,
        "link": "canonical",
        "short_words": policy.short_words + 1,
        "short_distance": policy.short_distance + 1,
        "short_agreement": policy.short_agreement + 1,
        "fingerprints": policy.fingerprints + 1,
        "sketch_lookups": policy.sketch_lookups + 1,
    }
    assert others.keys() == {field.name for field in fields(Policy)}
    ids = {policy.id, *(replace(policy, **{name: value}).id for name, value in others.items())}
    assert len(ids) == 1 + len(others)


def test_the_rule_for_short_pages_comes_from_the_recipe() -> None:
    policy = make_policy(SHORT, "0123abcd")
    assert (policy.limits, policy.short_words, policy.short_limits) == ((8, 100), 20, (4, 112))
    only_similarity = make_policy(replace(SHORT, short_distance=None), "0123abcd")
    assert only_similarity.short_limits == (8, 112)
    only_distance = make_policy(replace(SHORT, short_similarity=None), "0123abcd")
    assert only_distance.short_limits == (4, 100)


def test_a_stricter_rule_for_every_pair_beats_the_rule_for_short_pages() -> None:
    assert make_policy(SHORT, "0123abcd", distance=3).short_limits == (3, 112)
    assert make_policy(SHORT, "0123abcd", similarity="0.9").short_limits == (4, 122)
    assert make_policy(SHORT, "0123abcd", distance=12, similarity="0").short_limits == (4, 112)


def test_a_rule_for_short_pages_that_is_not_stricter_leaves_the_id() -> None:
    own = make_policy(PLAIN, "0123abcd").id
    assert own == "9d817506"
    assert own == make_policy(replace(PLAIN, short_words=20), "0123abcd").id
    assert make_policy(SHORT, "0123abcd", distance=4, similarity="0.75").short_limits is None


def test_every_part_of_the_rule_for_short_pages_changes_the_policys_id() -> None:
    changed = ({"short_words": 21}, {"short_distance": 3}, {"short_similarity": "0.8"}, {"short_words": 0}, {})
    assert len({make_policy(replace(SHORT, **change), "0123abcd").id for change in changed}) == 5


# Fingerprints


@pytest.mark.parametrize("name", list(golden.RECIPES))
def test_the_probe_pages_have_the_fingerprints_they_always_had(name: str, cache: Path) -> None:
    assert golden.probe_rows(golden.RECIPES[name], cache) == golden.read()[name]["probes"]


@pytest.mark.parametrize("name", list(golden.RECIPES))
def test_the_presets_have_the_ids_that_stand_beside_the_fingerprints(name: str, cache: Path) -> None:
    """Fails where another resiliparse extracts the HTML probe in another way: then the id is another, rightly."""
    assert golden.recipe_id(golden.RECIPES[name], cache) == golden.read()[name]["recipe_id"]


def test_pages_become_columns_in_their_order(fingerprinter: Fingerprinter) -> None:
    pages = [
        page(0, text=probes.TEXTS[0], url="https://a.example/"),
        page(1, raw=probes.HTML, content_type="text/html"),
        page(2, text="太短"),
        page(3, raw=b"%PDF-1.7", content_type="text/html"),
        page(4, kind=PageKind.WITHDRAWN),
        page(5, kind=PageKind.FAILED, reason="http_status", text=probes.TEXTS[0]),
    ]
    columns = fingerprinter.columns(pages)
    assert columns.kind.tolist() == [
        PageKind.READABLE,
        PageKind.READABLE,
        PageKind.TOO_SHORT,
        PageKind.UNREADABLE,
        4,
        2,
    ]
    assert [one.reason for one in pages] == ["", "", "few_words", "binary", "", "http_status"]
    assert columns.reason.tolist() == [0, 0, 1, 11, 0, 2]
    assert columns.offset.tolist() == [10, 11, 12, 13, 14, 15]
    assert columns.time.tolist() == [1000, 1001, 1002, 1003, 1004, 1005]
    assert columns.identity[:, 0].tolist() == [0, 1, 2, 3, 4, 5]
    assert columns.id_list() == [f"id-{i}" for i in range(6)]
    assert columns.url_list() == ["https://a.example/", None, None, None, None, None]
    assert columns.fingerprint[0] == fingerprinter.texts([probes.TEXTS[0]])[0][0]
    assert columns.fingerprint[2:].tolist() == [0, 0, 0, 0]
    assert pages[1].text is not None
    assert columns.fingerprint[1] == fingerprinter.texts([pages[1].text])[0][0]


def test_no_pages_make_empty_columns(fingerprinter: Fingerprinter) -> None:
    columns = fingerprinter.columns([])
    assert len(columns) == 0
    assert columns.sketch.shape == (0, DEFAULT.sketch_bits // 64)


def test_a_long_text_is_cut_at_a_character_and_says_so(cache: Path) -> None:
    text = "长江两岸的城市今年种下了四万棵新树，" * 40
    with Fingerprinter(replace(DEFAULT, max_text_bytes=1000), cache, workers=0) as made:
        pages = [page(0, text=text), page(1, text=text[:333]), page(2, text=text[:334])]
        columns = made.columns(pages)
    assert [one.cut for one in pages] == [True, False, True]
    assert len(set(columns.fingerprint.tolist())) == 1


def test_a_page_that_fails_the_kernel_fails_alone(cache: Path) -> None:
    with Fingerprinter(DEFAULT, cache, workers=0) as made:
        kernel = made._kernel

        def failing(utf8: Any, *rest: Any) -> int:
            if "引爆".encode() in utf8.tobytes():
                raise FloatingPointError("broken on purpose")
            return kernel(utf8, *rest)

        pages = [
            page(0, text=probes.TEXTS[0]),
            page(1, text="引爆" + probes.TEXTS[1]),
            page(2, text=probes.TEXTS[2]),
        ]
        expected, sketches, _ = made.texts(probes.TEXTS[:3])
        made._kernel = failing
        columns = made.columns(pages)
    assert columns.kind.tolist() == [PageKind.READABLE, PageKind.UNREADABLE, PageKind.READABLE]
    assert pages[1].reason == "kernel_error"
    assert "broken on purpose" in pages[1].detail
    assert columns.fingerprint.tolist() == [int(expected[0]), 0, int(expected[2])]
    assert np.array_equal(columns.sketch[2], sketches[2])


def test_several_threads_get_what_one_gets(fingerprinter: Fingerprinter) -> None:
    batches = [[text * (1 + i % 3) for text in probes.TEXTS[i % 5 :]] for i in range(40)]
    expected = [fingerprinter.texts(batch) for batch in batches]
    with ThreadPoolExecutor(4) as threads:
        for one, other in zip(threads.map(fingerprinter.texts, batches), expected, strict=True):
            assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def test_it_says_that_it_compiles_only_the_first_time(tmp_path: Path) -> None:
    said: list[str] = []
    for _ in range(2):
        Fingerprinter(DEFAULT, tmp_path, workers=0, say=said.append).close()
    assert len(said) == 1
    assert "compiling" in said[0]
