"""Recipe files: what they may say, where their paths lead, and how a wrong one is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from simstream import Deduper, fingerprint
from simstream.errors import InputError, InputMissing, SettingsError
from simstream.text import word_lists
from simstream.text.fingerprinter import Fingerprinter
from simstream.text.recipe import PRESETS, Recipe, recipe_id
from simstream.text.recipe_file import load_recipe
from simstream.text.word_lists import stop_words

TEXT = "山里的邮差每天清晨骑车出门，把信送到十二个村子，傍晚才回到渡口旁边的小屋。"


def write(folder: Path, content: str, name: str = "own.toml") -> Path:
    path = folder / name
    path.write_text(content, encoding="utf-8")
    return path


def test_a_recipe_file_changes_what_it_says_and_leaves_the_rest_of_its_base(tmp_path: Path) -> None:
    path = write(tmp_path, 'base = "google2007"\ntf_power = 0.5\ntop = 40\n')
    recipe = load_recipe(path)
    assert (recipe.name, recipe.tf_power, recipe.top) == ("own", 0.5, 40)
    assert (recipe.weights, recipe.distance, recipe.sketch_bits) == ("jieba-idf", 3, 0)
    assert load_recipe(str(path)) == recipe


def test_a_file_that_says_nothing_is_the_default_recipe_under_its_own_name(tmp_path: Path) -> None:
    recipe = load_recipe(write(tmp_path, 'name = "news"\n'))
    assert recipe.name == "news"
    assert recipe_id(recipe, [], b"") == recipe_id(PRESETS["default"], [], b"")


@pytest.mark.parametrize(("written", "kept"), [("0.56250000000000000001", "0.56250000000000000001"), ("1", "1")])
def test_a_similarity_in_a_file_is_exact(written: str, kept: str, tmp_path: Path) -> None:
    assert load_recipe(write(tmp_path, f"similarity = {written}\n")).similarity == kept


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        ("similarity = 0.65\n", (32, 5, "0.6875")),
        ("similarity = 0.7\n", (32, 5, None)),
        ("similarity = 1\n", (32, 5, None)),
        ("distance = 5\n", (32, 5, "0.6875")),
        ("distance = 4\n", (32, None, "0.6875")),
        ("min_words = 31\n", (32, 5, "0.6875")),
        ("min_words = 32\n", (0, 5, "0.6875")),
        ("sketch_bits = 0\n", (32, 5, "0.6875")),
    ],
)
def test_a_files_rule_for_every_page_beats_an_inherited_milder_rule_for_short_pages(
    content: str, rule: tuple[int, int | None, str | None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PRESETS, "strict", replace(PRESETS["default"], short_distance=5))
    recipe = load_recipe(write(tmp_path, f'base = "strict"\n{content}'))
    assert (recipe.short_words, recipe.short_distance, recipe.short_similarity) == rule


def test_a_file_without_a_sketch_inherits_no_lookups_by_it_and_is_refused_its_own(tmp_path: Path) -> None:
    assert load_recipe(write(tmp_path, 'base = "default"\nsketch_bits = 0\n')).lookups == 1
    assert load_recipe(write(tmp_path, 'base = "default"\nfingerprints = 3\n')).lookups == 4
    for written in (
        "sketch_bits = 0\nsketch_lookups = 1",
        "fingerprints = 3\nsketch_lookups = 2",
        "sketch_lookups = 4",
        "sketch_bits = 64\nsketch_lookups = 1",
        "sketch_fill = 'copied'\nsketch_lookups = 1",
    ):
        with pytest.raises(SettingsError, match="sketch_lookups"):
            load_recipe(write(tmp_path, f'base = "default"\n{written}\n'))


@pytest.mark.parametrize(
    "written", ['similarity = 0.9\nshort_similarity = "0.8"', "min_words = 40\nshort_words = 30"]
)
def test_a_milder_rule_for_short_pages_that_a_file_writes_itself_is_refused(written: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="short_"):
        load_recipe(write(tmp_path, written))


def test_paths_in_a_recipe_file_begin_where_it_lies(tmp_path: Path) -> None:
    write(tmp_path, "山 3.5\n", "idf.txt")
    recipe = load_recipe(
        write(tmp_path, 'weights = "file"\nidf_file = "idf.txt"\nstop_words = ["zh", "own.txt"]\n')
    )
    assert recipe.idf_file == str(tmp_path / "idf.txt")
    assert recipe.stop_words == ("zh", str(tmp_path / "own.txt"))


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ("tf_pover = 1.0\n", "tf_pover"),
        ("tf_power = 2.0\n", "tf_power"),
        ('min_words = "few"\n', "min_words"),
        ('stop_words = "zh"\n', "stop_words"),
        ('weights = "file"\n', "idf_file"),
        ('idf_file = "idf.txt"\n', "idf_file"),
        ('base = "none"\n', "none"),
        ('base = "other.toml"\n', "base is 'other.toml'"),
        ("base = {x = 1}\n", "base is"),
        ("tf_power = \n", "TOML"),
        ('stop_words = ["a\\u0000b"]\n', "stop_words is"),
        ('idf_file = "a\\u0000b"\n', "idf_file is"),
        (f"tf_power = {'[' * 3_000}{']' * 3_000}\n", "TOML"),
    ],
)
def test_a_wrong_recipe_file_is_refused_with_the_key_and_the_file(content: str, named: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        load_recipe(write(tmp_path, content))
    assert named in caught.value.what
    assert "own.toml" in caught.value.what


def test_files_that_are_not_there_are_named(tmp_path: Path, cache: Path) -> None:
    with pytest.raises(InputMissing, match=r"nowhere\.toml"):
        load_recipe(tmp_path / "nowhere.toml")
    recipe = load_recipe(write(tmp_path, 'stop_words = ["missing.txt"]\n'))
    with pytest.raises(InputMissing, match=r"missing\.txt"):
        Fingerprinter(recipe, cache, workers=0)


@pytest.mark.parametrize("line", ["word", "word much", "word nan", "word 1e9", " 3.5"])
def test_a_wrong_line_in_a_table_of_weights_is_named(line: str) -> None:
    with pytest.raises(InputError, match=r"line 2 of .*own\.txt"):
        word_lists.idf_rows("own.txt", f"中国 1.5\n{line}\n".encode())


def test_an_empty_table_of_weights_is_refused() -> None:
    with pytest.raises(InputError, match="no weights"):
        word_lists.idf_rows("own.txt", b"\n")


def test_the_id_depends_on_a_files_content_and_not_on_its_path(tmp_path: Path) -> None:
    write(tmp_path, "某甲\n", "one.txt")
    write(tmp_path, "某甲\n", "two.txt")
    write(tmp_path, "某乙\n", "three.txt")
    ids = [
        recipe_id(Recipe(name="own", stop_words=(str(tmp_path / name),)), [], b"")
        for name in ("one.txt", "two.txt", "three.txt")
    ]
    assert ids[0] == ids[1] != ids[2]


@pytest.mark.parametrize(("said", "heaviest"), [("", 9.0), ("weight_cap = 100\n", 11.25)])
def test_words_of_a_users_table_have_its_weights_up_to_the_cap(
    said: str, heaviest: float, tmp_path: Path, cache: Path
) -> None:
    write(tmp_path, "邮差 11.25\n村子 2.5\n渡口 5.0\n", "idf.txt")
    recipe = load_recipe(write(tmp_path, f'weights = "file"\nidf_file = "idf.txt"\n{said}'))
    with Fingerprinter(recipe, cache, workers=0) as fingerprinter:
        found = {word: weight for word, _, weight in fingerprinter.weighted(TEXT)}
    assert (found["邮差"], found["村子"], found["清晨"]) == (heaviest, 2.5, 5.0)  # unknown Han words: the median


@pytest.mark.parametrize("name", word_lists.SHIPPED)
def test_a_shipped_list_has_a_word_a_line_sorted_below_a_header(name: str) -> None:
    lines = word_lists.read_content(name).decode().splitlines()
    words = [line for line in lines if not line.startswith("#")]
    assert lines[0].startswith("#")
    assert words == sorted(set(words)) == word_lists.stop_words([name])
    assert (80 if name == "web" else 150) <= len(words) <= 300
    assert all(word == word.casefold().strip() and word.isalnum() for word in words)


def test_stop_words_are_left_out_of_what_counts(cache: Path) -> None:
    recipe = Recipe(name="own", stop_words=("zh", "en"))
    with Fingerprinter(recipe, cache, workers=0) as fingerprinter:
        words = {word for word, _, _ in fingerprinter.weighted("The mill and THE river 在 河边 的 磨坊 里")}
    assert words == {"mill", "river", "河边", "磨坊"}


def test_python_takes_a_recipe_by_file_and_as_an_object(tmp_path: Path, cache: Path) -> None:
    path = write(tmp_path, "min_words = 3\ntf_power = 0.5\n")
    by_file, by_object = (fingerprint([TEXT], recipe, cache) for recipe in (path, load_recipe(path)))
    assert by_file[0] != 0
    assert np.array_equal(by_file, by_object)
    with Deduper(recipe=load_recipe(path), cache=cache, workers=0) as deduper:
        (verdict,) = deduper.judge([TEXT])
    assert verdict.fingerprint == f"{by_file[0]:016x}"


@pytest.mark.parametrize(
    ("key", "advice"), [("distnace", "use distance, if you mean that"), ("colour", "remove it")]
)
def test_an_unknown_setting_is_refused_with_the_one_that_was_meant(tmp_path: Path, key: str, advice: str) -> None:
    with pytest.raises(SettingsError, match=f"has '{key}', which is not a setting") as refused:
        load_recipe(write(tmp_path, f"{key} = 3\n"))
    assert refused.value.todo == advice


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        ('mode = "serach"', "use accurate or search or full"),
        ('extract = "mian"', "use main or prose or fast"),
        ("ties = 2", "use 0 or 1"),
        ('stop_words = ["fr"]', "correct its path in the recipe, or use a shipped list of stop words: zh, en, web"),
    ],
)
def test_a_wrong_value_is_refused_with_the_possible_ones(tmp_path: Path, line: str, advice: str) -> None:
    with pytest.raises((SettingsError, InputMissing)) as refused:
        stop_words(load_recipe(write(tmp_path, line)).stop_words)
    assert refused.value.todo == advice
