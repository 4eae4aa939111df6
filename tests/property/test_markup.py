"""The kernel that counts tags, against a plain counter and against the tree that the parser builds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from resiliparse.parse.html import HTMLTree

from simstream.kernels.html.element_names import NAMES as TABLE
from simstream.kernels.html.element_names import traits_by_name
from simstream.kernels.html.markup import survey
from simstream.kernels.html.open_tags import COUNTS, make_open
from simstream.kernels.html.tags import make_html
from simstream.text.extraction.refused_html import LIMITS, MarkupCounts
from tests import naive_html

NAMES = sorted(traits_by_name())
COMMON = "p div b i a li ul td tr table span font option select br button form svg math mi title x-y annotation-xml"
name = st.sampled_from(COMMON.split()) | st.sampled_from(NAMES) | st.sampled_from(["DIV", "sPan", "é", "b\x81"])
attribute = st.sampled_from(
    ["", " ", " a", " a=1", " a=@", " a='>'", ' b="x y" c', " =x", "/", " a=b/", " a = 'c'd", "\n/ id=2"]
) | st.sampled_from([" SIZE=1", " encoding='Text/HTML'"])
tag = st.builds(lambda slash, n, a, end: f"<{slash}{n}{a}{end}", st.sampled_from(["", "", "/"]), name, attribute,
                st.sampled_from([">", ">", ">", ">", "/>", ""]))  # fmt: skip
TEXTS = ["x", " ", "\n", "<", "</", ">", "&amp;", "'", '"', "文"]
DECLARATIONS = ["<!--", "-->", "--!>", "->", "</>", "<!doctype html>", "<?x>", "<![CDATA[", "]]>"]
RAW = ["<script>", "</script >", "<!--<script>", "</scriptx>", "<textarea>", "</textarea>", "<title>", "<style>"]
piece = st.sampled_from(TEXTS) | st.sampled_from(DECLARATIONS) | st.sampled_from(RAW)
soup = st.lists(tag | tag | piece, max_size=40).map("".join)
few = st.lists(tag | tag | tag | piece, max_size=7).map("".join)


@given(soup)
@example("<p><b id=1>x</p><p>y<p>z</b>w")
@example("<script><!--<script></script>--></script><div>")
@example("<a><b><div><i><p></a>x</b>y")
@example("<table>x<b><tr><td><b>y</table>z")
def test_the_kernel_counts_as_the_plain_counter(html: str) -> None:
    data = html.encode()
    assert count(data) == naive_html.count(data)


@given(st.binary(max_size=200))
def test_any_bytes_are_counted_alike(data: bytes) -> None:
    assert count(data) == naive_html.count(data)


@given(soup)
@example("<select><div><option><p></select></div>" * 3)
@example("<svg><title><div><p></title><div>" * 3)
@example("<b><p><b id=1></p><i></b>x" * 5)
def test_no_tree_is_deeper_than_what_is_counted(html: str) -> None:
    assert depth_of(html) <= count(html.encode()).depth + 1


@given(st.lists(tag, max_size=3).map("".join), few)
@example("<ruby>", "<p><rt><x-y>")
@example("", "<table></font><font a=@><font>")
def test_what_deepens_the_tree_again_and_again_deepens_the_count(before: str, again: str) -> None:
    html = before + "".join(again.replace("@", str(i)) for i in range(30))
    assert depth_of(html) <= 2 * count(html.encode()).depth + 10


@pytest.mark.parametrize(
    ("before", "again"),
    [
        ("<ruby>", "<p><rt><x-y>"),
        ("<ruby>", "<li><rt><x-y>"),
        ("", "<form><p></form><x-y>"),
        ("<div>", "<form><template></form></template></form><form><x-y>"),
        ("", "</form><form><select>"),
        ("", "</foreignobject><foreignobject><p><form><svg>"),
        ("<h3>", "<b><h2></b><h3>"),
        ("<h3>", "<form><h2></form><h3>"),
        ("", "</p><mi><h2><svg>"),
        ("", "<svg><title><b></title>"),
        ("<select>", "<optgroup><i><p>"),
        ("", "<input><x-y><select>"),
        ("", "</table><table><table></table><em>"),
        ("", "<table></font><font a=@><font>"),
        ("<svg><font>", "<caption>"),
        ("<svg><font a=1>", "<caption>"),
        ("<math><sup>", "<tbody>"),
        ("", "<math><annotation-xml encoding=text/html><p>"),
        ("<math><annotation-xml a=1>", "<caption>"),
        ("", "<ul><math><annotation-xml></ul>"),
    ],
)
def test_what_is_open_is_never_counted_as_flat(before: str, again: str) -> None:
    html = before + "".join(again.replace("@", str(i)) for i in range(50))
    assert depth_of(html) <= count(html.encode()).depth + 1


@pytest.mark.parametrize(
    ("html", "depth"),
    [
        ("<ul>" + "<li>x" * 50, 2),
        ("<p>x" * 50, 1),
        ("<table>" + "<tr><td>x" * 50, 4),
        ("<dl>" + "<dt>x<dd>y" * 50, 2),
        ("<select>" + "<option>x" * 50, 2),
        ("<a href=x>y" * 50, 1),
        ("<h1>x<h2>y" * 50, 1),
        ("<div>" * 50 + "x", 50),
        ("<p>" + "".join(f"<b id={i}>" for i in range(20)) + "<p>x" * 20, 21),
    ],
)
def test_what_closes_itself_is_no_depth(html: str, depth: int) -> None:
    assert count(html.encode()).depth == depth
    assert depth_of(html) in (depth, depth - 1, depth + 1)


def test_formatting_is_counted_each_time_it_is_opened_again() -> None:
    html = "<p>" + "".join(f"<b id={i}>" for i in range(20)) + "<p>x" * 30
    assert count(html.encode()) == MarkupCounts(651, 21, 0, 600, 1, 0)


def count(html: bytes) -> MarkupCounts:
    """All that the kernel counts of a page, without limits."""
    no_limits, state = np.full(len(LIMITS), 1 << 60), make_open(100_000)
    survey(make_html(html), TABLE, no_limits, np.zeros_like(no_limits), state)
    return MarkupCounts(*state.num[:COUNTS].tolist())


def depth_of(html: str) -> int:
    """How many elements lie within each other below the body."""
    body = HTMLTree.parse(html.encode("utf-8", "replace").decode("utf-8", "replace")).body
    deepest, waiting = 0, [(body, 0)] if body is not None else []
    while waiting:
        node, depth = waiting.pop()
        deepest = max(deepest, depth)
        waiting += [(child, depth + 1) for child in _children(node)]
    return deepest


def _children(node: Any) -> list[Any]:
    return [child for child in node.child_nodes if child.tag and not child.tag.startswith("#") and child.tag != "!"]
