"""Letters and their marks: the kernel composes as Unicode's form C does, whatever a stranger writes."""

from __future__ import annotations

import unicodedata
from dataclasses import replace
from pathlib import Path
from time import thread_time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simstream.kernels.text.compose import MAX_REORDERED, fold_page, room_for
from simstream.text.composition import composition, read_text
from simstream.text.fingerprinter import Fingerprinter
from simstream.text.recipe import PRESETS
from simstream.text.unicode_tables import unicode_table
from tests.naive_text import COMPOSING, SECONDS, compose, fold
from tests.short import examples

NFC = replace(PRESETS["default"], name="nfc", normalization="nfc")
LETTERS = sorted(
    {*COMPOSING, *SECONDS, *"aeouAEOUnѝиα中 \n.,ㄱ", *map(chr, range(0x1100, 0x1200)), "\uff9e", "ｶ", "각"}
)
TEXTS = st.text(st.sampled_from(LETTERS), max_size=MAX_REORDERED)
"""No character behind the least of MAX_REORDERED marks has to pass more of them."""


def nfc(text: str) -> str:
    return unicodedata.normalize("NFC", fold(text))


@settings(max_examples=examples(3000), deadline=None)
@given(text=TEXTS)
def test_a_text_becomes_its_form_c_whatever_form_it_came_in(text: str) -> None:
    expected = nfc(text)
    for form in (fold(text), unicodedata.normalize("NFD", fold(text)), expected):
        assert read_text(form, NFC) == expected


@settings(max_examples=examples(3000), deadline=None)
@given(runs=st.lists(st.tuples(TEXTS, st.integers(1, 60)), max_size=4))
def test_kernel_and_plain_python_agree_on_runs_of_any_length(runs: list[tuple[str, int]]) -> None:
    text = "".join(part * times for part, times in runs)
    assert read_text(text, NFC) == compose(fold(text))


def test_every_character_alone_and_beside_marks_becomes_its_form_c() -> None:
    for char in COMPOSING:
        for text in (char, f"{char}\u0301", f"e{char}", f"{char}\u0344", f"{char}\u0323\u0327", f"{char}{char}"):
            assert read_text(text, NFC) == nfc(text), text


def test_a_text_without_marks_and_one_under_another_recipe_stay_as_they_are() -> None:
    for text in ("", "中国 abc 각 가\n", "plain é", "\u0301", "\ud800"):
        assert read_text(text, NFC) == fold(text)
        assert read_text(f"{text}e\u0301", PRESETS["default"]) == fold(f"{text}e\u0301")


@pytest.mark.parametrize(
    "unit", ["ᾂ\u0344", "ǖ\u0344", "\ufb2c", "\u0344", "ế\u0323", "\U0001d160", "e\u0345\u0301\u0323"]
)
def test_parts_need_no_more_room_than_a_page_is_given(unit: str) -> None:
    utf8 = np.frombuffer(bytearray((unit * 500).encode()), np.uint8)
    guard, room = 64, room_for(len(utf8))
    points = np.full(room + guard, 7, np.uint32)
    n = fold_page(utf8, 0, len(utf8), unicode_table().fold, composition("nfc"), points[:room])
    assert n <= len(utf8)
    assert (points[room:] == 7).all()
    assert points[:n].tobytes().decode("utf-32-le") == compose(fold(unit * 500))


def test_a_text_of_marks_costs_no_more_than_a_constant_for_each() -> None:
    marks = sorted((char for char in COMPOSING if COMPOSING[char][0]), key=lambda char: -COMPOSING[char][0])
    took = []
    for size in (40_000, 160_000):
        text = ("a" + "".join(marks) * (1 + size // len(marks)))[:size]
        read_text(text, NFC)
        start = thread_time()
        read_text(text, NFC)
        took.append(thread_time() - start)
    assert took[1] < 8 * took[0]  # four times the text; with the square of it sixteen


@pytest.mark.parametrize(
    "text",
    [
        "Chuyến tàu đêm lại dừng ở ngôi làng bên cối xay sau bốn mươi năm, và người thợ bánh mở cửa rất sớm",
        "사십 년 만에 밤 열차가 물레방아 마을에 다시 멈추고 빵집 주인은 동트기 전에 문을 연다",
        "四十年ぶりに夜行列車が水車の村に停まり、パン屋は夜明け前に店を開ける。ガラス戸の前でベンチを塗り直した",
    ],
)
def test_a_page_in_either_form_has_one_fingerprint_under_nfc_and_two_without(text: str, cache: Path) -> None:
    forms = [unicodedata.normalize(form, text) for form in ("NFC", "NFD")]
    for recipe, number in ((NFC, 1), (PRESETS["default"], 2)):
        with Fingerprinter(replace(recipe, min_words=1), cache, workers=0) as fingerprinter:
            fingerprints, sketches, _ = fingerprinter.texts(forms)
        assert len(set(fingerprints.tolist())) == number
        assert len({tuple(row) for row in sketches.tolist()}) == number


def test_words_of_a_recipe_are_read_as_texts_are(cache: Path) -> None:
    word = unicodedata.normalize("NFD", "한국어")
    with Fingerprinter(replace(NFC, add_words=(word,)), cache, workers=0) as fingerprinter:
        assert fingerprinter.tokens(word) == fingerprinter.tokens("한국어") == list("한국어")
