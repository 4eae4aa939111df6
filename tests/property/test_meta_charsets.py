"""The kernel that finds the metas of charsets, beside the regular expressions of `decode`."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from simstream.kernels.html import meta_charsets
from simstream.text import decode
from simstream.text.extraction.html_bytes import html_in_utf8
from tests import corpora

PIECES = st.one_of(
    st.binary(max_size=3),
    st.sampled_from(
        [
            *(
                b"<meta",
                b"<META ",
                b"<meta/",
                b"<metal ",
                b"</meta ",
                b"<p ",
                b"</p",
                b"</ ",
                b"<!--",
                b"-->",
                b"<!-->",
            ),
            *(b"<!", b"<?", b"<", b">", b"/", b" ", b"\n", b"\x0b", b"=", b" = ", b'"', b"'", b"--"),
            *(b"charset", b"Charset=", b"charset = gbk ", b'charset="big5"', b"charset='euc-kr' ", b"charset=> "),
            *(b"http-equiv", b"http-equiv=Content-Type ", b"HTTP-EQUIV='content-type'", b"http-equiv=refresh "),
            *(b"content", b"content='text/html; charset=gbk' ", b"content=charset=big5 ", b"content "),
        ]
    ),
)


@given(st.lists(PIECES, max_size=24).map(b"".join), st.integers(1, 4))
@example(b"<meta charset=a><meta charset=b>", 1)
@example(b"<meta content=x http-equiv=content-type charset>", 4)
@example(b"<meta charset=\"a b='c' charset=d>", 4)
@example(b"<meta", 4)
@example(b"", 1)
def test_the_kernel_finds_the_metas_that_the_expressions_find(head: bytes, most: int) -> None:
    assert meta_charsets.charset_metas(head, most) == decode.charset_metas(head, most)


@pytest.mark.parametrize("content_type", ["text/html", "text/html; charset=gbk", "text/plain"])
@given(raw=st.lists(PIECES, max_size=24).map(b"".join))
def test_kernels_decode_as_python_does(content_type: str, raw: bytes) -> None:
    text, _ = decode.decode(raw, decode.charset_of(content_type), True)
    assert html_in_utf8(raw, content_type).decode() == text.replace("\0", "\ufffd")


@pytest.mark.corpora
def test_real_pages_are_decoded_as_python_decodes_them() -> None:
    folder = corpora.folder()
    assert folder is not None
    pages = [path.read_bytes() for path in sorted((folder / "html_pages").rglob("*.html"))]
    assert len(pages) > 100
    for page in pages:
        for raw in (page, page.replace(b"charset", b"charsex")):
            text, _ = decode.decode(raw, None, True)
            assert html_in_utf8(raw, "text/html").decode() == text.replace("\0", "\ufffd")
