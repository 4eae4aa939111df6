"""User dictionaries, added and removed words: jieba's own tokens after the same changes.

Removing a word changes every tokenizer of jieba's process, and how a frequency is found depends on all that came
before: so jieba runs in a process of its own here, which forgets after each question what the last one changed.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simstream.errors import InputError, InputMissing, SettingsError
from simstream.text.dictionary import Dictionary, _words, load, tokens
from simstream.text.user_words import WordChange, apply, read_changes
from tests.short import examples

ORACLE = r"""
import io, json, logging, sys
import jieba
from jieba import finalseg
jieba.setLogLevel(logging.ERROR)
dt = jieba.Tokenizer()
dt.tmp_dir = sys.argv[1]
dt.initialize()
base, total = dict(dt.FREQ), dt.total
for line in sys.stdin:
    asked = json.loads(line)
    dt.FREQ, dt.total = dict(base), total
    finalseg.Force_Split_Words.clear()
    for content in asked["files"]:
        dt.load_userdict(io.BytesIO(content.encode()))
    for entry in asked["add"]:
        word, _, freq = entry.partition(" ")
        dt.add_word(word, int(freq) if freq else None)
    for word in asked["remove"]:
        dt.del_word(word)
    changed = {word: freq for word, freq in dt.FREQ.items() if base.get(word) != freq and freq}
    search = dt.lcut_for_search
    cut = [
        [dt.lcut(t), dt.lcut(t, HMM=False), search(t), search(t, HMM=False), dt.lcut(t, cut_all=True)]
        for t in asked["texts"]
    ]
    print(json.dumps({"changed": changed, "total": dt.total, "cut": cut}), flush=True)
"""
MODES: list[tuple[bool, Any]] = [
    (True, "accurate"),
    (False, "accurate"),
    (True, "search"),
    (False, "search"),
    (True, "full"),
]


class JiebaProcess:
    """jieba in another process."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-c", ORACLE, str(folder)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, files: list[str], add: list[str], remove: list[str], texts: list[str]) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({"files": files, "add": add, "remove": remove, "texts": texts}) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def own_jieba(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JiebaProcess]:
    found = JiebaProcess(tmp_path_factory.mktemp("jieba"))
    yield found
    assert found.process.stdin is not None
    found.process.stdin.close()
    found.process.wait(30)


@pytest.fixture(scope="module")
def plain() -> tuple[dict[str, int], int]:
    """Words with their frequencies, and the total, before any change."""
    return _words()


def written(folder: Path, files: list[str]) -> list[str]:
    paths = [folder / f"user-{number}.txt" for number in range(len(files))]
    for path, content in zip(paths, files, strict=True):
        path.write_bytes(content.encode())
    return [str(path) for path in paths]


FILES = [
    "\ufeff潮汐围棋 5\n郝念慈 2 nr\r\n灯塔司 3 i\n\n  deep_well 3 eng\n耐读 300\n"
    "望月楼记 3 nz\n九渡白鹭 3\n台东\n莉絲貝 nz\n",
    "台东 0\n渡口站\n研究生命 20000\nNew Mill 7\n的\na 3\nab 3\nC++11\n潮汐围棋\n",
]
TEXTS = [
    "郝念慈在灯塔司管账，闲时写潮汐围棋的棋谱，也收着一册《望月楼记》，说它“耐读”；九渡白鹭年年飞来。",
    "从渡口站往「台东」去的船上，莉絲貝问：泥炭酒是什么？船夫说泥炭酒就是泥炭酒。",
    "他们用deep_well装C++11，xaby研究生命科学，后来搬到New Mill。",
    "硕士毕业于中国科学院的人来到杭研大厦，夜里看见磷火鱼，磷火鱼又看见他。",
    "杭研来杭研去，泥炭酒里磷火鱼，莉絲貝与郝念慈的渡口站站长",
]
REMOVED = ["杭研", "泥炭", "中国科学院", "磷火", "火鱼", "毕业", "炭酒", "磷火鱼"]


@pytest.mark.parametrize("files", [[], FILES[:1], FILES, FILES[::-1]], ids=["none", "one", "two", "turned"])
@pytest.mark.parametrize("remove", [[], REMOVED], ids=["kept", "removed"])
def test_every_mode_gives_jiebas_tokens_under_user_dictionaries(
    files: list[str], remove: list[str], own_jieba: JiebaProcess, tmp_path: Path
) -> None:
    add = ["泥炭酒", "莉絲貝 12", "杭研"] if files else []
    expected = own_jieba.ask(files, add, remove, TEXTS)
    changed = load(tmp_path, read_changes(written(tmp_path, files), add, remove))
    for text, cut in zip(TEXTS, expected["cut"], strict=True):
        for (hmm, mode), wanted in zip(MODES, cut, strict=True):
            assert tokens(text, changed, hmm, mode) == wanted, (hmm, mode)


WORDS = st.text("的一是不了中国人民大学生研究abAB1+.é ", min_size=1, max_size=5).filter(
    lambda word: word.strip() == word
)
ENTRIES = st.one_of(
    WORDS.filter(lambda word: " " not in word), st.builds("{} {}".format, WORDS, st.integers(0, 10**6))
)


@settings(max_examples=examples(30), deadline=None)
@given(add=st.lists(ENTRIES, max_size=8), remove=st.lists(WORDS, max_size=3))
def test_every_frequency_and_the_total_are_those_of_jieba(
    add: list[str],
    remove: list[str],
    own_jieba: JiebaProcess,
    plain: tuple[dict[str, int], int],
    tmp_path_factory: Any,
) -> None:
    content = "\n".join(add)
    expected = own_jieba.ask([content], [], remove, [])
    path = written(tmp_path_factory.mktemp("user"), [content])
    before, total = plain
    found = apply(before, total, read_changes(path, [], remove))
    changed = {word: freq for word, freq in found.words.items() if freq and before.get(word) != freq}
    assert (changed, found.total) == (expected["changed"], expected["total"])


def test_changes_stand_in_the_order_files_added_removed(tmp_path: Path) -> None:
    changes = read_changes(written(tmp_path, ["甲 5 n\n\n乙\n"]), ["丙", "丁 7"], ["乙"])
    assert changes == (
        WordChange("甲", 5),
        WordChange("乙", None),
        WordChange("丙", None),
        WordChange("丁", 7),
        WordChange("乙", 0),
    )


def test_each_change_makes_another_dictionary(dictionary: Dictionary, cache: Path) -> None:
    keys = {
        load(cache, changes).key
        for changes in ((), (WordChange("乙", 3),), (WordChange("乙", 4),), (WordChange("乙", None),))
    }
    assert len(keys) == 4
    assert dictionary.key in keys


def test_a_word_that_was_removed_and_added_again_is_a_word(own_jieba: JiebaProcess, cache: Path) -> None:
    content = "杭研 0\n杭研 90000\n"
    expected = own_jieba.ask([content], [], [], TEXTS)
    again = load(cache, (WordChange("杭研", 0), WordChange("杭研", 90000)))
    assert [tokens(text, again) for text in TEXTS] == [cut[0] for cut in expected["cut"]]


def test_files_and_entries_that_are_none_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputMissing, match="nowhere"):
        read_changes(["nowhere.txt"], [], [])
    (tmp_path / "gbk.txt").write_bytes("词".encode("gbk"))
    with pytest.raises(InputError, match="UTF-8"):
        read_changes([str(tmp_path / "gbk.txt")], [], [])
    with pytest.raises(SettingsError, match="add_words"):
        read_changes([], [" "], [])
    (tmp_path / "text.txt").write_text("甲 1\n" + "长" * 1_001)
    with pytest.raises(InputError, match=r"line 2 of .*text\.txt is no word"):
        read_changes([str(tmp_path / "text.txt")], [], [])
    assert read_changes([], ["长" * 1_000 + " " + "9" * 18], []) == (WordChange("长" * 1_000, 10**18 - 1),)
    for entry in ("甲 " + "9" * 19, "甲 " + "9" * 5_000 + " n"):
        with pytest.raises(SettingsError, match="add_words has"):
            read_changes([], [entry], [])
