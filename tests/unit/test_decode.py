"""Which character set a page is read in."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from simstream.text.decode import charset_of, codec_of, decode, expected_codec
from simstream.text.extraction.extract import extract_one
from tests import corpora
from tests.cpu_time import least_seconds

HAN = "近日，气象台发布大风蓝色预警，沿海地区阵风可达八级，请市民注意安全，减少外出。"
KANA = "港町の小さな本屋が、来月から船で本を届けるサービスを始める。"
HANGUL = "항구의 작은 서점이 다음 달부터 배로 책을 나르기 시작한다고 밝혔다."


def html(text: str, codec: str, head: str = "") -> bytes:
    return f"<html><head>{head}</head><body><p>{text}</p></body></html>".encode(codec)


@pytest.mark.parametrize(
    ("mark", "codec"), [(b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be")]
)
def test_a_byte_order_mark_beats_every_declaration(mark: bytes, codec: str) -> None:
    raw = mark + HAN.encode(codec)
    assert decode(raw, "big5", True) == (HAN, codec)


def test_the_http_charset_beats_the_meta() -> None:
    raw = html(HAN, "gb18030", '<meta charset="big5">')
    assert HAN in decode(raw, "GBK", True)[0]


@pytest.mark.parametrize(
    "meta",
    [
        '<meta charset="gb2312">',
        "<META CHARSET=gb2312>",
        "<meta charset=gb2312 />",
        '<meta http-equiv="Content-Type" content="text/html; charset=gb2312">',
        "<meta content='text/html;charset=gb2312' http-equiv=content-type>",
        '<meta name="a" content="charset=utf-8"><meta charset=gb2312>',
        '<!-- <meta charset="big5"> --><meta charset="gb2312">',
        '<div title="<meta charset=big5>"><meta charset="gb2312">',
        '<meta charset="no-such-set"><meta charset="gb2312">',
    ],
)
def test_a_meta_is_found_as_browsers_find_it(meta: str) -> None:
    assert decode(html("中", "gb18030", meta), None, True) == (html("中", "utf-8", meta).decode(), "gb18030")


def test_a_meta_beyond_the_first_1024_bytes_does_not_overrule_utf8() -> None:
    raw = html("中", "utf-8", " " * 1100 + "<meta charset=gb2312>")
    assert decode(raw, None, True)[1] == "utf-8"


def test_a_late_meta_still_helps_where_the_bytes_are_not_utf8() -> None:
    raw = html("é", "cp1250", " " * 1100 + "<meta charset=windows-1250>")
    assert decode(raw, None, True)[1] == "cp1250"


def test_plain_text_has_no_meta() -> None:
    raw = b'<meta charset="big5">' + HAN.encode()
    assert decode(raw, None, False)[1] == "utf-8"


def test_a_meta_that_could_be_read_is_not_utf16() -> None:
    assert decode(html(HAN, "utf-8", "<meta charset=utf-16>"), None, True)[1] == "utf-8"


def test_an_xml_declaration_is_the_last_declaration() -> None:
    raw = b'<?xml version="1.0" encoding="GB2312"?>' + html("中", "gb18030")
    assert decode(raw, None, True)[1] == "gb18030"


@pytest.mark.parametrize(
    ("label", "codec"),
    [
        ("GB2312", "gb18030"),
        (" gbk ", "gb18030"),
        ("latin1", "cp1252"),
        ("us-ascii", "cp1252"),
        ("Shift_JIS", "cp932"),
        ("ks_c_5601-1987", "cp949"),
        ("Big5", "big5hkscs"),
        ("UTF8", "utf-8"),
        ("no-such-set", None),
        ("", None),
        (None, None),
    ],
)
def test_labels_mean_what_they_mean_on_the_web(label: str | None, codec: str | None) -> None:
    assert codec_of(label) == codec


def test_utf8_replaces_a_declared_character_set_if_the_bytes_are_invalid() -> None:
    raw = html(HAN, "utf-8", "<meta charset=gb2312>")
    with pytest.raises(UnicodeDecodeError):
        raw.decode("gb18030")
    assert HAN in decode(raw, None, True)[0]


def test_a_declared_character_set_is_kept_if_the_bytes_are_valid() -> None:
    assert decode(b"caf\xc3\xa9", "latin1", False) == ("cafÃ©", "cp1252")


def test_an_unknown_http_charset_is_ignored() -> None:
    assert decode(html(HAN, "gb18030", "<meta charset=gbk>"), "x-none", True)[1] == "gb18030"


def test_invalid_bytes_become_replacement_characters() -> None:
    assert decode(b"caf\xe9 au lait", "utf-8", False) == ("caf� au lait", "utf-8")
    assert decode(HAN.encode("gb18030") + b"\xff!", "gbk", False) == (HAN + "�!", "gb18030")


def test_a_page_full_of_gb18030_that_claims_utf8_is_not_believed() -> None:
    assert HAN in decode(html(HAN * 3, "gb18030", "<meta charset=utf-8>"), None, True)[0]


@pytest.mark.parametrize(
    ("text", "codec", "found"),
    [
        (HAN, "utf-8", "utf-8"),
        (HAN, "gb18030", "gb18030"),
        ("氣象局發布大雨特報，沿海地區請民眾注意安全，減少外出活動。" * 2, "big5", "big5hkscs"),
        (KANA * 3, "cp932", "cp932"),
        (KANA * 3, "euc_jp", "euc_jp"),
        (HANGUL * 3, "cp949", "cp949"),
        ("<p>plain " + HAN, "utf-16-le", "utf-16-le"),
        ("<p>plain " + HAN, "utf-16-be", "utf-16-be"),
        ("Le café était fermé à cause de la grève générale.", "cp1252", "cp1252"),
    ],
)
def test_an_undeclared_set_is_detected(text: str, codec: str, found: str) -> None:
    assert decode(text.encode(codec), None, False) == (text, found)


def test_short_chinese_is_detected() -> None:
    assert decode("中文网页".encode("gb18030"), None, False) == ("中文网页", "gb18030")


def test_utf8_that_was_cut_within_a_character_is_still_utf8() -> None:
    raw = HAN.encode()[:-1]
    assert decode(raw, None, False) == (raw.decode("utf-8", "replace"), "utf-8")


def test_utf8_with_a_few_lost_bytes_is_still_utf8() -> None:
    raw = (HAN * 5).encode()
    assert decode(raw[:31] + b"\xff" + raw[31:], None, False)[1] == "utf-8"


@pytest.mark.parametrize(
    ("raw", "label", "codec"),
    [
        ("é".encode() * 8 + b"\xff", None, "cp1252"),  # one fault in nine is too many for UTF-8
        ("é".encode() * 9 + b"\xff", None, "utf-8"),
        (HAN.encode("gb18030")[:20], "utf-8", "utf-8"),  # 15 faults are too few
        (HAN.encode("gb18030")[:22], "utf-8", "gb18030"),
        (HAN.encode("gb18030") + HAN.encode() * 2, "utf-8", "utf-8"),  # more characters than faults
        (HAN.encode("gb18030") + b"\xff", "utf-8", "utf-8"),  # no other charset reads it without a fault
        (b"\xff\xfe\x00\xd8", "gbk", "utf-16-le"),
        ("Привет".encode("cp1251") + b"\x98", "windows-1251", "cp1251"),
        (b"abc\xe4\xb8", "gbk", "gb18030"),
        (b"abc\xe4\xb8\xad", "big5", "utf-8"),
        (b"abc\xe4\xb8\xad\xe4\xb8", "big5", "utf-8"),
        (b"\xe4\xb8", None, "iso8859-7"),
        (b"a\xe4\xb8", None, "cp1252"),
        (b"ab\xe4\xb8", None, "utf-8"),
        (b"abc\xf0\x9f\x98", None, "utf-8"),
    ],
)
def test_faults_decide_the_codec(raw: bytes, label: str | None, codec: str) -> None:
    assert decode(raw, label, False)[1] == codec


@pytest.mark.parametrize(
    "part", [b"<!--", b"<!", b"<?", b"</", b"<a x='", b'<meta charset="', b"<meta content='charset="]
)
def test_the_search_for_a_meta_takes_time_in_proportion_to_the_page(part: bytes) -> None:
    page = part * (1_000_000 // len(part)) + b"\xff\xe9 \xe9"
    assert least_seconds(lambda: decode(page, None, True), times=1) < 2


@pytest.mark.parametrize("tail", [";", "'", '"', ""])
def test_the_search_for_a_charset_takes_time_in_proportion_to_the_header(tail: str) -> None:
    """A header of 100 KB took a minute."""
    header = "text/html; charset=" + " " * 1_000_000 + tail
    assert least_seconds(lambda: charset_of(header), times=1) < 2
    assert charset_of(header) is None


def test_only_the_first_charsets_of_a_page_are_read() -> None:
    unknown = b"<meta charset=nothing>"
    raw = b"<meta charset=gbk>" + HAN.encode("gbk")
    assert decode(15 * unknown + raw, None, True)[1] == "gb18030"
    late = b"<meta charset=euc-kr>" + HAN.encode("gbk") * 3
    assert decode(16 * unknown + late, None, True)[1] == "gb18030"  # by detection


def test_a_byte_without_a_character_becomes_the_replacement_character_in_each_charset() -> None:
    raw = bytes(range(256)) * 2
    for label in (*(f"windows-{number}" for number in (874, *range(1250, 1259))), "iso-8859-8", "koi8-r", "gbk"):
        text, codec = decode(raw, label, False)
        assert text == raw.decode(codec, "replace")


@pytest.mark.parametrize(
    ("raw", "label", "expected"),
    [
        (b"\xef\xbb\xbfa", "gbk", ("utf-8", 3, "seen")),
        (b"\xff\xfea\x00", None, ("utf-16-le", 2, "seen")),
        (b"<\x00p\x00>\x00a\x00b\x00", None, ("utf-16-le", 0, "seen")),
        (b"a", "UTF8", ("utf-8", 0, "declared")),
        (b"<meta charset=gbk>", None, ("gb18030", 0, "declared")),
        (b"a", "no-such-set", ("utf-8", 0, "assumed")),
        (b"\xff", None, ("utf-8", 0, "assumed")),
    ],
)
def test_the_expected_codec_says_where_it_comes_from(raw: bytes, label: str | None, expected: object) -> None:
    assert expected_codec(raw, label, True) == expected


def test_nothing_at_all_is_empty_text() -> None:
    assert decode(b"", None, True) == ("", "utf-8")


@pytest.mark.parametrize(
    ("header", "label"),
    [
        ("text/html; charset=GBK", "GBK"),
        ('text/html;Charset="utf-8"; x=y', "utf-8"),
        ("text/html", None),
        ("text/html; charset=", None),
    ],
)
def test_the_charset_of_a_content_type_is_found(header: str, label: str | None) -> None:
    assert charset_of(header) == label


def manifest() -> list[dict[str, str]]:
    return [json.loads(line) for line in (encodings() / "manifest.jsonl").read_text("utf-8").splitlines()]


def encodings() -> Path:
    folder = corpora.folder()
    assert folder is not None
    return folder / "html_pages" / "zh_html_encodings"


@pytest.mark.corpora
def test_every_reencoded_page_has_the_main_content_of_its_original() -> None:
    copies = [row for row in manifest() if "dup_of" in row]
    assert len(copies) == 60
    for row in copies:
        copy, original = (encodings() / row[name] for name in ("file", "dup_of"))
        assert decode(copy.read_bytes(), None, True)[0] == copy.read_bytes().decode("gb18030")
        same = extract_one(original.read_bytes(), "text/html")
        assert extract_one(copy.read_bytes(), "text/html") == same, row["file"]


@pytest.mark.corpora
def test_every_original_page_is_read_as_the_utf8_that_it_is() -> None:
    for row in manifest():
        if "dup_of" in row:
            raw = (encodings() / row["dup_of"]).read_bytes()
            assert decode(raw, None, True) == (raw.decode().removeprefix("\ufeff"), "utf-8"), row["dup_of"]


@pytest.mark.corpora
def test_real_chinese_pages_decode_as_the_manifest_says() -> None:
    real = [row for row in manifest() if row["file"].startswith("top1000_raw/") and row["lang"] == "zh"]
    assert sum(row["decodes_as"] == "gb18030" for row in real) == 27
    for row in real:
        raw = (encodings() / row["file"]).read_bytes()
        expected = raw.decode(row["decodes_as"]).removeprefix("\ufeff")
        for charset in (None, charset_of(row["content_type_header"])):
            assert decode(raw, charset, True)[0] == expected, row["file"]


@pytest.mark.corpora
def test_feeds_without_any_declaration_are_detected() -> None:
    expected = {"GB2312": "gb18030", "Big5": "big5hkscs", "utf-8": "utf-8"}
    for row in manifest():
        if row["file"].startswith("chardet_feeds/") and row["labelled_encoding"] in expected:
            found = decode((encodings() / row["file"]).read_bytes(), None, False)[1]
            assert found == expected[row["labelled_encoding"]], row["file"]
