"""No page with text comes out without words, whatever its script: as the command line shows it."""

from __future__ import annotations

import json

import pytest

from simstream.text.recipe import PRESETS
from tests.e2e.harness import Program

PAGES = {
    "Chinese": "图书馆", "one Han character": "鲸", "traditional": "圖書館開門", "rare Han": "𠮷𪚥",
    "Han of compatibility": "豈更", "Japanese": "図書館へようこそ", "hiragana": "ひらがな", "katakana": "カタカナ",
    "half-width katakana": "ｶﾀｶﾅ", "one kana": "あ", "Korean": "도서관", "jamo": "ᄒ", "Yi": "ꆈꌠ",
    "bopomofo": "ㄅㄆㄇ", "English": "library", "one letter": "x", "full width": "ＡＢＣ", "Vietnamese": "thư viện",
    "ligature": "ﬁ", "German": "ß", "Turkish": "İstanbul", "Greek": "βιβλιοθήκη", "Cyrillic": "библиотека",
    "Armenian": "գրադարան", "Georgian": "ბიბლიოთეკა", "Hebrew": "ספרייה", "Arabic": "مكتبة", "Persian": "کتابخانه",
    "Syriac": "ܫܠܡܐ", "Thaana": "ދިވެހި", "Nko": "ߒߞߏ", "Amharic": "ቤተ", "Tifinagh": "ⵜⵉⴼⵉⵏⴰⵖ", "Hindi": "पुस्तकालय",
    "Bengali": "গ্রন্থাগার", "Punjabi": "ਲਾਇਬ੍ਰੇਰੀ", "Gujarati": "પુસ્તકાલય", "Tamil": "நூலகம்", "Telugu": "గ్రంథాలయం",
    "Kannada": "ಗ್ರಂಥಾಲಯ", "Malayalam": "ഗ്രന്ഥശാല", "Sinhala": "පුස්තකාලය", "Thai": "ห้องสมุด", "Lao": "ຫໍສະໝຸດ",
    "Khmer": "បណ្ណាល័យ", "Burmese": "စာကြည့်တိုက်", "Tibetan": "དཔེ་མཛོད་ཁང", "Mongolian": "ᠨᠣᠮ", "Uyghur": "كۈتۈپخانا",
    "Cherokee": "ᏣᎳᎩ", "Inuktitut": "ᐃᓄᒃᑎᑐᑦ", "runes": "ᚠᚢᚦ", "Gothic": "𐌲𐌿𐍄", "cuneiform": "𒀀𒀁", "Deseret": "𐐔𐐯",
    "digits": "2026", "a decimal": "3.14", "Arabic digits": "٣٤٥", "Devanagari digits": "१२३", "Roman numeral": "Ⅷ",
    "circled": "①②", "fraction": "½", "mixed": "C++和Python", "between marks": "…«ж»…", "after emoji": "🚀x🚀",
    "mathematical": "𝒳", "with a joiner": "नि‍र", "combining": "e\u0301", "with a lone surrogate": "\ud800ж",
}  # fmt: skip
"""A page of each script, most with no more than a word or a character."""
NO_TEXT = {
    "space": " \t\u3000",
    "punctuation": "，。！…?!",
    "emoji": "🚀👍🏽",
    "control": "\x00\x07",
    "nothing": "",
}


def heaviest(program: Program, texts: dict[str, str], recipe: str) -> dict[str, float]:
    """The weight of the heaviest word that `tokens --recipe` shows for each page; 0 without words."""
    lines = "\n".join(json.dumps({"id": name, "text": text}) for name, text in texts.items())
    (program.folder / "scripts.jsonl").write_text(lines)
    done = program.run("tokens", "-i", "scripts.jsonl", "--recipe", recipe, "--json")
    assert done.returncode == 0, done.stderr.decode()
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return {name: page[0][2] if page else 0.0 for name, page in zip(texts, rows, strict=True)}


@pytest.mark.parametrize("recipe", sorted(PRESETS))
def test_a_page_with_text_of_any_script_has_words_that_weigh(recipe: str, alone: Program) -> None:
    found = heaviest(alone, PAGES, recipe)
    assert [name for name, weight in found.items() if weight <= 0] == []


def test_a_page_without_a_letter_or_digit_has_none(alone: Program) -> None:
    assert set(heaviest(alone, NO_TEXT, "default").values()) == {0.0}
