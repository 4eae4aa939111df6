"""Properties of the segmentation: jieba's own tokens for whatever text, linear in its length."""

from __future__ import annotations

import random

import jieba
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from simstream.kernels.text.tokenize import cut, make_scratch
from simstream.kernels.text.trie import find
from simstream.text.dictionary import Dictionary, tokens
from tests import corpora
from tests.cpu_time import least_seconds
from tests.short import examples

ONE_BY_ONE = settings(
    max_examples=examples(400), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
HAN = st.characters(min_codepoint=0x4E00, max_codepoint=0x9FD5)
COMMON_HAN = st.sampled_from(
    "的一是不了在人有我他这中大来上国个到说们为子和你地出道也时年得就那要下以生会自着去之过家学对可"
)
EDGES = st.sampled_from("\u3400\u4dff\u4e00\u9fd5\u9fd6\u9fff\uf900\U00020000〇々·")
ASCII = st.text("abcxyzABCTXYZ0123456789", min_size=1, max_size=6)
SIGNS = st.text("+#&._%-", min_size=1, max_size=4)
NUMBERS = st.sampled_from(["3.14%", "1.2.3", "50%", "v1.0", "1.", ".5", "1.a", "%%", "2024-01-01", "a.b@c", "..."])
OTHERS = st.sampled_from(
    ["é", "Привет", "かな", "カナ", "한국", "٣٤", "３．１４％", "²", "ａｂ", "İ", "ß", "ﬁ", "क्ष"]
)
SPACES = st.sampled_from(
    [" ", "\r\n", "\r", "\n", "\r\r\n", "\n\r", "\t", "\u3000", "\x85", "\x1c", "\u2028", "\0"]
)
MARKS = st.sampled_from("，。！？、：；“”（）《》—…!?,:;@()[]{}/\\\"'=*~^|<>$`")
ASTRAL = st.sampled_from(["😀", "👨‍👩‍👧", "🇨🇳", "❤️", "𝔸", "\U0010ffff"])
SURROGATES = st.sampled_from(["\ud800", "\udc00", "\udfff", "\ud83d\ude00", "\ude00\ud83d"])
MIXED_WORDS = st.sampled_from(
    ["T恤", "A股", "B超", "c#", "AT&T", "卡拉OK", "IC卡", "C++", "江南style", "3D", "PH值"]
)


@pytest.fixture(scope="module")
def words(oracle: jieba.Tokenizer) -> list[str]:
    return sorted(word for word, frequency in oracle.FREQ.items() if frequency)


def texts(words: list[str]) -> st.SearchStrategy[str]:
    """Texts of all that the segmentation treats differently, glued together without regard to sense."""
    known = st.integers(0, len(words) - 1).map(words.__getitem__)
    parts = (known, known, known.map(lambda word: word[:-1]), HAN, COMMON_HAN, COMMON_HAN, EDGES, ASCII, SIGNS)
    rest = (NUMBERS, OTHERS, SPACES, MARKS, ASTRAL, SURROGATES, MIXED_WORDS, st.text(max_size=4))
    return st.lists(st.one_of(*parts, *rest), max_size=40).map("".join)


@pytest.mark.parametrize("hmm", [True, False])
@ONE_BY_ONE
@given(data=st.data())
def test_any_text_gives_the_tokens_of_jieba(
    data: st.DataObject, hmm: bool, words: list[str], dictionary: Dictionary, oracle: jieba.Tokenizer
) -> None:
    text = data.draw(texts(words))
    assert tokens(text, dictionary, hmm) == oracle.lcut(text, HMM=hmm)


@pytest.mark.parametrize("hmm", [True, False])
@ONE_BY_ONE
@given(data=st.data())
def test_any_text_gives_the_tokens_of_jiebas_search_mode(
    data: st.DataObject, hmm: bool, words: list[str], dictionary: Dictionary, oracle: jieba.Tokenizer
) -> None:
    text = data.draw(texts(words))
    assert tokens(text, dictionary, hmm, "search") == oracle.lcut_for_search(text, HMM=hmm)


@ONE_BY_ONE
@given(data=st.data())
def test_any_text_gives_the_tokens_of_jiebas_full_mode(
    data: st.DataObject, words: list[str], dictionary: Dictionary, oracle: jieba.Tokenizer
) -> None:
    text = data.draw(texts(words))
    assert tokens(text, dictionary, mode="full") == oracle.lcut(text, cut_all=True)


@ONE_BY_ONE
@given(text=st.text("aZ09.%+#&_- 中国人民\n", max_size=40))
def test_letters_digits_and_signs_give_the_tokens_of_jiebas_full_mode(
    text: str, dictionary: Dictionary, oracle: jieba.Tokenizer
) -> None:
    assert tokens(text, dictionary, mode="full") == oracle.lcut(text, cut_all=True)


@ONE_BY_ONE
@given(text=st.text(st.one_of(COMMON_HAN, HAN), max_size=60))
def test_a_run_of_han_gives_the_tokens_of_jieba(text: str, dictionary: Dictionary, oracle: jieba.Tokenizer) -> None:
    assert tokens(text, dictionary) == oracle.lcut(text)


@ONE_BY_ONE
@given(text=st.text("aZ09.%+#&_- 中", max_size=40), hmm=st.booleans())
def test_letters_digits_and_signs_give_the_tokens_of_jieba(
    text: str, hmm: bool, dictionary: Dictionary, oracle: jieba.Tokenizer
) -> None:
    assert tokens(text, dictionary, hmm) == oracle.lcut(text, HMM=hmm)


@ONE_BY_ONE
@given(data=st.data())
def test_tokens_cover_the_text_and_a_slot_is_that_of_its_word(
    data: st.DataObject, words: list[str], dictionary: Dictionary
) -> None:
    text = data.draw(texts(words))
    points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    ends, slots = np.empty((2, len(points)), np.int32)
    scratch = make_scratch(len(points))
    count = cut(points, len(points), dictionary.trie, dictionary.hmm, True, scratch, ends, slots)
    starts = [0, *ends[:count].tolist()]
    assert starts == sorted(set(starts))
    assert starts[-1] == len(points)
    for start, end, slot in zip(starts, ends[:count].tolist(), slots[:count].tolist(), strict=False):
        assert slot in (-1, find(points, start, end, dictionary.trie))


def test_a_scratch_that_held_another_text_changes_nothing(dictionary: Dictionary) -> None:
    long = np.frombuffer(("龘靐齉爩工信处女干事" * 50).encode("utf-32-le"), np.uint32)
    short = np.frombuffer("韩立的乾蓝冰焰 3.14%".encode("utf-32-le"), np.uint32)
    used, seen = make_scratch(len(long)), []
    for points, scratch in ((long, used), (short, used), (short, make_scratch(len(short)))):
        ends, slots = np.empty((2, len(points)), np.int32)
        count = cut(points, len(points), dictionary.trie, dictionary.hmm, True, scratch, ends, slots)
        seen.append((ends[:count].tolist(), slots[:count].tolist()))
    assert seen[1] == seen[2]


def test_a_run_of_rare_han_longer_than_a_page_gives_the_tokens_of_jieba(
    dictionary: Dictionary, oracle: jieba.Tokenizer
) -> None:
    pick = random.Random(1)
    run = "".join(chr(pick.randrange(0x4E00, 0x9FD6)) for _ in range(2000))
    assert tokens(run, dictionary) == oracle.lcut(run)


@pytest.mark.parametrize("hmm", [True, False])
@pytest.mark.parametrize("kind", ["rare", "的", "中华人民共和国", "a", "1", ".", "\ud800", "\r\n", "a中"])
def test_a_million_characters_take_linear_time(kind: str, hmm: bool, dictionary: Dictionary) -> None:
    pick = random.Random(2)
    rare = "".join(chr(pick.randrange(0x9000, 0x9FD6)) for _ in range(1000)) if kind == "rare" else kind
    text = rare * (1_000_000 // len(rare))
    tokens(rare, dictionary, hmm)  # compiles
    found: list[list[str]] = []
    took = least_seconds(lambda: found.append(tokens(text, dictionary, hmm)), times=1)
    assert took < 10  # about 0.1 s; a quadratic way takes an hour
    [cut_up] = found
    assert "".join(cut_up) == text
    if kind in {"a", "1"}:
        assert cut_up == [text]


@pytest.mark.corpora
@pytest.mark.parametrize("corpus", corpora.REVISIONS)
@pytest.mark.long
def test_the_pages_of_the_corpora_give_the_tokens_of_jieba(
    corpus: str, dictionary: Dictionary, oracle: jieba.Tokenizer, pytestconfig: pytest.Config
) -> None:
    """Every 40th page with and without HMM, 10 s in all; with --all-pages every page with HMM, 4 minutes."""
    every = pytestconfig.getoption("--all-pages")
    differ, pages = [], 0
    for number, text in enumerate(corpora.texts(corpus, 1 if every else 40)):
        pages += 1
        if tokens(text, dictionary) != oracle.lcut(text):
            differ.append((number, "with HMM"))
        if number % (40 if every else 1) == 0 and tokens(text, dictionary, False) != oracle.lcut(text, HMM=False):
            differ.append((number, "without HMM"))
        if number % 8 == 0 and tokens(text, dictionary, mode="search") != oracle.lcut_for_search(text):
            differ.append((number, "search"))
        if number % 8 == 0 and tokens(text, dictionary, mode="full") != oracle.lcut(text, cut_all=True):
            differ.append((number, "full"))
    print(f"{corpus}: {pages} pages compared")
    assert differ == []
    assert pages > 0


def test_the_demos_pages_give_the_tokens_of_jieba(dictionary: Dictionary, oracle: jieba.Tokenizer) -> None:
    from simstream.sources.demo import demo_records
    from simstream.wire.page import PageLimits, decode

    texts = [page.text or str(page.raw or "") for page in (decode(r, PageLimits()) for r in demo_records())]
    assert sum(map(len, texts)) > 20_000
    for text in texts:
        assert tokens(text, dictionary) == oracle.lcut(text)
        assert tokens(text, dictionary, hmm=False) == oracle.lcut(text, HMM=False)
