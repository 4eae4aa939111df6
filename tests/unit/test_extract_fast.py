"""The fast extraction: what reaches the kernel, and the fingerprinter of a recipe that has it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from simstream.model import Page, PageKind
from simstream.text.decode import charset_of, decode
from simstream.text.extraction import article, fast
from simstream.text.extraction.article import article_of, articles_of
from simstream.text.extraction.extract import extract_one
from simstream.text.extraction.fast import extract_fast, extract_many
from simstream.text.extraction.html_bytes import html_in_utf8
from simstream.text.extraction.pool import ExtractionPool
from simstream.text.fingerprinter import Fingerprinter
from simstream.text.recipe import preset

STORY = (
    "河边的磨坊昨天重新开张，面包师天不亮就生了火，镇上的人都来看热闹，直到天黑才散去。",
    "有人带来了三十年前的旧照片，说那时候的水车还在转，夜里能听见，如今又听见了。",
    "修水车的木匠只有两个徒弟，三个人干了整整半个冬天，开春的时候，齿轮终于又咬上了。",
)
BIG5_STORY = ("氣象局昨天發布大雨特報，沿海地區請民眾注意安全，減少外出活動，學校也提早放學了。",) * 3
HTML = "text/html"


def html_of(story: tuple[str, ...] = STORY, head: str = "") -> str:
    paragraphs = "".join(f"<p>{part}</p>" for part in story)
    return f"<html><head>{head}</head><body><article>{paragraphs}</article></body></html>"


PAGE = html_of()


def text_of(html: str) -> str:
    return article_of(html.encode()).decode()


def page(raw: bytes | str, content_type: str = HTML) -> Page:
    return Page("a", bytes(16), offset=0, time=0, raw=raw, content_type=content_type)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What reaches the kernel."""
    given: list[bytes] = []
    monkeypatch.setattr(fast, "articles_of", lambda pages: given.extend(pages) or articles_of(pages))
    return given


def test_the_story_is_found() -> None:
    text = extract_fast(PAGE.encode(), HTML).text
    assert text == text_of(PAGE)
    assert all(part in text for part in STORY)


@pytest.mark.parametrize("content_type", [HTML, "text/html; charset=utf-8", "text/html; charset=no-such-set"])
def test_utf8_reaches_the_kernel_without_a_copy(seen: list[bytes], content_type: str) -> None:
    raw = PAGE.encode()
    extract_fast(raw, content_type)
    assert seen[0] is raw


@pytest.mark.parametrize(
    ("raw", "content_type"),
    [
        (PAGE.encode("gb18030"), "text/html; charset=GBK"),
        (html_of(head="<meta charset=gb2312>").encode("gb18030"), HTML),
        (PAGE.encode("gb18030"), HTML),
        (PAGE.encode("utf-16"), HTML),
        (PAGE.encode("utf-16-be"), "text/html; charset=utf-16be"),
        (PAGE.encode("utf-16-le"), "text/html; charset=utf-16le"),
        (PAGE.encode("utf-8-sig"), "text/html; charset=gbk"),
        (html_of(head="<meta charset=gbk>").encode() + b"\xe4\xb8\xad<", HTML),
        (PAGE.encode("gb18030"), "text/html; charset=utf-8"),
        (PAGE.encode(), "text/html; charset=utf-8"),
        (PAGE, HTML),
    ],
)
def test_a_page_gives_the_same_text_in_every_character_set(raw: bytes | str, content_type: str) -> None:
    text = extract_fast(raw, content_type).text or ""
    assert [line for line in text.splitlines() if line in STORY] == list(STORY)


LABELS = ["gbk", "big5", "shift_jis", "windows-1252", "iso-8859-7", "utf-8"]
PIECES = ["中文", "é", "a" * 70, "磨坊村的人", "€", "日本語"]
RAW_PIECES = [
    piece.encode(codec, "ignore") for piece in PIECES for codec in ("utf-8", "gb18030", "big5", "cp932", "cp1252")
]


@given(st.lists(st.sampled_from([*RAW_PIECES, b"\xff", b"\xe4\xb8"]), max_size=8), st.sampled_from(LABELS))
@example(["中文".encode()], "gbk")  # an odd number of bytes in all: no GBK
@example(["中文中文".encode()], "gbk")  # characters of GBK as well
@example(["é".encode()], "windows-1252")
def test_html_is_the_text_that_the_detection_finds(pieces: list[bytes], label: str) -> None:
    raw = b"<p>" + b"".join(pieces) + b"</p>"
    assert html_in_utf8(raw, f"text/html; charset={label}").decode() == decode(raw, label, True)[0]


CUT_KOREAN = "<p>서울시 퇴근길 교통 정보</p><p>".encode() + "퇴".encode()[:2] + b"...</p>"


@pytest.mark.parametrize(
    ("raw", "content_type", "text"),
    [
        (CUT_KOREAN, HTML, "<p>서울시 퇴근길 교통 정보</p><p>\ufffd...</p>"),
        (CUT_KOREAN, "text/html; charset=utf-8", "<p>서울시 퇴근길 교통 정보</p><p>\ufffd...</p>"),
        (b"\xef\xbb\xbf<p>a\xff", HTML, "<p>a\ufffd"),
        (b"\xff\xfea\x00\x00\xd8b\x00", HTML, "a\ufffdb"),
        ("<p>café ".encode("cp1252") + b"\x81", "text/html; charset=latin1", "<p>café \ufffd"),
        ("<p>天地玄黄".encode("gbk") + b"\xff", "text/html; charset=gbk", "<p>天地玄黄\ufffd"),
    ],
)
def test_a_fault_costs_one_character(raw: bytes, content_type: str, text: str) -> None:
    assert html_in_utf8(raw, content_type).decode() == text == decode(raw, charset_of(content_type), True)[0]


def test_big5_is_read_as_declared() -> None:
    html = html_of(BIG5_STORY, "<meta charset=big5>")
    assert extract_fast(html.encode("big5hkscs"), HTML).text == text_of(html)


def test_invalid_bytes_become_replacement_characters(seen: list[bytes]) -> None:
    raw = PAGE.encode().replace("磨坊".encode(), b"\xff")
    extract_fast(raw, "text/html; charset=utf-8")
    assert seen[0].decode() == PAGE.replace("磨坊", "\ufffd")


def test_a_byte_order_mark_does_not_reach_the_kernel(seen: list[bytes]) -> None:
    extract_fast(PAGE.encode("utf-8-sig"), HTML)
    assert seen == [PAGE.encode()]


@pytest.mark.parametrize(
    ("html", "read"),
    [
        ("<p>a\ud800b", "<p>a\ufffdb"),
        ("<p>\ud83d\ude80", "<p>🚀"),
        ("<p>a\x00b", "<p>a\ufffdb"),
        ("", ""),
    ],
)
def test_text_that_is_no_utf8_is_made_valid_as_for_the_parser(seen: list[bytes], html: str, read: str) -> None:
    assert extract_fast(html, HTML).reason == ""
    assert seen == [read.encode()]


def test_nuls_become_replacement_characters(seen: list[bytes]) -> None:
    extract_fast(b"<p>" + b"plain text " * 9 + b"\x00", HTML)
    assert seen == [b"<p>" + b"plain text " * 9 + "\ufffd".encode()]


@pytest.mark.parametrize("raw", [b"%PDF-1.7 \n", b"PK\x03\x04", bytes(range(256)) * 8, b"\x00" * 100])
@pytest.mark.parametrize("content_type", [HTML, "text/plain"])
def test_binary_data_is_refused_as_by_the_parser(seen: list[bytes], raw: bytes, content_type: str) -> None:
    assert extract_fast(raw, content_type) == extract_one(raw, content_type)
    assert extract_fast(raw, content_type).reason == "binary"
    assert seen == []


@pytest.mark.parametrize("raw", ["<p>a\ud800", "<p>中文".encode("gb18030"), b"", "中\x00".encode()])
def test_plain_text_is_only_decoded(seen: list[bytes], raw: bytes | str) -> None:
    assert extract_fast(raw, "text/plain; charset=gbk") == extract_one(raw, "text/plain; charset=gbk")
    assert seen == []


@given(
    st.one_of(st.binary(), st.text(st.characters())),
    st.sampled_from([HTML, "text/html; charset=gbk", "text/plain"]),
)
def test_no_page_raises(raw: bytes | str, content_type: str) -> None:
    found = extract_fast(raw, content_type)
    assert found.reason in ("", "binary")
    assert (found.text is None) == bool(found.reason)


@pytest.mark.parametrize(
    ("error", "detail"),
    [
        (MemoryError(), "there was not enough memory for the page"),
        (ValueError("no room"), "the HTML could not be read (ValueError: no room)"),
    ],
)
def test_a_page_on_which_the_kernel_fails_costs_only_itself(
    monkeypatch: pytest.MonkeyPatch, error: Exception, detail: str
) -> None:
    bad = b"<p>a page that no kernel reads"

    def fail(pages: list[bytes]) -> list[bytes]:
        if bad in pages:
            raise error
        return articles_of(pages)

    monkeypatch.setattr(fast, "articles_of", fail)
    found = extract_many([(PAGE.encode(), HTML), (bad, HTML), (b"%PDF-1.7", HTML), (b"a b", "text/plain")])
    assert found[0] == (text_of(PAGE), "", "")
    assert found[1] == (None, "extract_failed", detail)
    assert [one.text for one in found[2:]] == [None, "a b"]


def test_without_html_no_kernel_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a kernel was called")

    monkeypatch.setattr(article, "read_pages", refuse)
    found = extract_many([(b"a b", "text/plain"), (b"%PDF-1.7", HTML)])
    assert [one.text for one in found] == ["a b", None]
    assert extract_many([]) == []
    assert articles_of([]) == []


def test_pages_of_many_calls_come_in_order_and_errors_of_reading_cost_one_page(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[int] = []
    monkeypatch.setattr(fast, "articles_of", lambda pages: calls.append(len(pages)) or articles_of(pages))
    monkeypatch.setattr(fast, "CALL_BYTES", 4 * len(PAGE.encode()))
    monkeypatch.setattr(fast, "html_in_utf8", lambda raw, kind: 1 / 0 if "gbk" in kind else html_in_utf8(raw, kind))
    items: list[tuple[bytes | str, str]]
    items = [(PAGE.replace(STORY[0], f"{number}{STORY[0]}"), HTML) for number in range(10)]
    items.insert(5, (PAGE.encode("gb18030"), "text/html; charset=gbk"))
    items.insert(2, (bytearray(b"<p>one"), HTML))  # type: ignore[arg-type]
    found = extract_many(items)
    assert [one.reason for one in found] == [""] * 6 + ["extract_failed"] + [""] * 5
    assert found[2].text == "one"
    stories = [one.text for one in found if one.text and STORY[0] in one.text]
    assert stories == [f"{number}{text_of(PAGE)}" for number in range(10)]
    assert calls == [5, 4, 2]


WARMED = """
import gc
from numba.core.dispatcher import Dispatcher
from simstream.text.extraction.fast import extract_fast, warm_fast

def compiled():
    return sum(len(each.signatures) for each in gc.get_objects() if issubclass(type(each), Dispatcher))

warm_fast()
before = compiled()
page = "<meta charset=gbk>" + "<p>Half of them came to see it. 台风在西岸登陆。" * 200
for raw in (page.encode(), page.encode("gbk"), page.encode("utf-16"), page.encode() + b"\\xff", b"\\xe9t\\xe9 "):
    for content_type in ("text/html", "text/html; charset=utf-8", "text/html; charset=windows-1252"):
        extract_fast(raw, content_type)
print(before, compiled())
"""


def test_no_page_compiles_a_kernel_after_warming() -> None:
    done = subprocess.run([sys.executable, "-c", WARMED], check=True, capture_output=True, text=True)
    before, after = map(int, done.stdout.split())
    assert 0 < before == after


# The fingerprinter


@pytest.fixture
def no_process(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    with Fingerprinter(preset("default"), cache):  # the first with these kernels compiles in another process
        pass

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a fast recipe needs no process")

    monkeypatch.setattr(ExtractionPool, "__init__", refuse)
    monkeypatch.setattr(subprocess, "Popen", refuse)


@pytest.fixture
def make(cache: Path) -> Callable[[], Fingerprinter]:
    return lambda: Fingerprinter(replace(preset("default"), extract="fast"), cache, workers=2)


@pytest.mark.usefixtures("no_process")
def test_html_has_the_fingerprint_of_the_text_that_the_kernel_finds(make: Callable[[], Fingerprinter]) -> None:
    with make() as fingerprinter:
        columns = fingerprinter.columns([page(PAGE.encode()), page(PAGE), page(PAGE.encode("gb18030"))])
        fingerprints, sketches, words = fingerprinter.texts([text_of(PAGE)] * 3)
    assert columns.kind.tolist() == [PageKind.READABLE] * 3
    assert columns.fingerprint.tolist() == fingerprints.tolist()
    assert columns.sketch.tolist() == sketches.tolist()
    assert columns.words.tolist() == words.tolist()
    assert fingerprints[0]


@pytest.mark.usefixtures("no_process")
def test_plain_text_counts_whole_and_binary_data_is_unreadable(make: Callable[[], Fingerprinter]) -> None:
    pages = [page("\n".join((*STORY, "首页")).encode(), "text/plain"), page(b"%PDF-1.7")]
    with make() as fingerprinter:
        fingerprinter.columns(pages)
        assert fingerprinter.pages_set_aside == 0
    assert pages[0].text == "\n".join((*STORY, "首页"))
    assert (pages[1].kind, pages[1].reason) == (PageKind.UNREADABLE, "binary")


@pytest.mark.usefixtures("no_process")
def test_html_that_costs_a_parser_too_much_is_read(make: Callable[[], Fingerprinter]) -> None:
    deep = page("<b>" * 5_000 + PAGE)
    with make() as fingerprinter:
        fingerprinter.columns([deep])
    assert deep.kind == PageKind.READABLE
    assert all(part in (deep.text or "") for part in STORY)


def test_a_closed_fingerprinter_extracts_nothing(make: Callable[[], Fingerprinter]) -> None:
    fingerprinter = make()
    fingerprinter.close()
    fingerprinter.close()
    with pytest.raises(ValueError, match="closed"):
        fingerprinter.columns([page(PAGE)])


@pytest.mark.parametrize("other", ["main", "prose"])
def test_the_recipes_id_is_not_that_of_another_extraction(
    make: Callable[[], Fingerprinter], cache: Path, other: Any
) -> None:
    with make() as one, Fingerprinter(replace(one.recipe, extract=other), cache, workers=0) as two:
        assert one.recipe_id != two.recipe_id


def test_the_recipes_id_changes_with_the_tables_that_choose_an_article(
    make: Callable[[], Fingerprinter], monkeypatch: pytest.MonkeyPatch
) -> None:
    with make() as fingerprinter:
        before = fingerprinter.recipe_id
    monkeypatch.setattr(article, "_TABLE", article._TABLE + 1)
    with make() as fingerprinter:
        assert fingerprinter.recipe_id != before
