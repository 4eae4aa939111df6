"""The shipped table of characters: what folds, what casefolds, which class; and that nothing else decides."""

from __future__ import annotations

import numpy as np
import pytest

from simstream.kernels.text import words
from simstream.text import unicode_tables as tables
from simstream.text.composition import read_text
from simstream.text.recipe import PRESETS

TABLE = tables.unicode_table()
CLASSES = (TABLE.traits >> 24) & 7


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("ＡｂＣ１２３％", "AbC123%"),
        ("ｶﾞｰ", "カ\u3099ー"),
        ("\u3000\u00a0\u2003\u2028\x0b\x85", "      "),
        ("\r\n\t", "\r\n\t"),
        ("\ufa0a\uf900", "\u898b\u8c48"),
        ("①Å", "1Å"),
        ("…½ﬁ㈱", "…½ﬁ㈱"),
        ("\ud800\udfff", "\ufffd\ufffd"),
        ("T恤Äß", "T恤Äß"),
    ],
)
def test_a_text_folds_one_code_point_to_one(text: str, folded: str) -> None:
    assert read_text(text, PRESETS["default"]) == folded


@pytest.mark.parametrize(
    ("text", "folded"), [("T恤", "t恤"), ("ÀΩЖ", "àωж"), ("ẞß", "ßß"), ("ς", "σ"), ("İ", "İ"), ("\u0345", "\u0345")]
)
def test_a_text_casefolds_one_code_point_to_one(text: str, folded: str) -> None:
    points = np.frombuffer(text.encode("utf-32-le"), np.uint32)
    assert (TABLE.traits[points] & 0x1FFFFF).tobytes().decode("utf-32-le") == folded


@pytest.mark.parametrize(
    ("kind", "chars"),
    [
        (tables.HAN, "中\u9fff㐀𠮷\U00031350々〇"),
        (tables.LETTER, "aZéЖ한שع" + "हα"),
        (tables.DIGIT, "09१½Ⅷ"),
        (tables.MARK, "\u0301\ufe0f\u093f"),
        (tables.BIGRAM, "あカーゝ\u3099ก\u0e31ລខမ"),
        (tables.OTHER, "。, \n🚀\u200d\ufffd・$_"),
    ],
)
def test_characters_have_their_class(kind: int, chars: str) -> None:
    assert {char: CLASSES[ord(char)] for char in chars} == dict.fromkeys(chars, kind)


def test_folding_a_folded_text_changes_nothing() -> None:
    assert np.array_equal(TABLE.fold[TABLE.fold], TABLE.fold)


def test_casefolding_keeps_class_and_fold() -> None:
    lower = TABLE.traits & 0x1FFFFF
    assert np.array_equal(lower[lower], lower)
    assert np.array_equal(TABLE.traits[lower] >> 24, TABLE.traits >> 24)
    folded = np.flatnonzero(TABLE.fold == np.arange(tables.POINTS))
    assert np.array_equal(TABLE.fold[lower[folded]], lower[folded])


def test_the_kernels_fast_path_for_han_takes_only_han() -> None:
    assert set(CLASSES[words.HAN_FIRST : words.HAN_LAST + 1].tolist()) == {tables.HAN}


def test_the_kernels_and_the_table_number_classes_alike() -> None:
    assert (words.OTHER, words.BIGRAM) == (tables.OTHER, tables.BIGRAM)


def test_the_table_is_the_one_whose_fingerprints_are_known() -> None:
    assert tables.digest() == "0a4fd548f8dbdca7"
