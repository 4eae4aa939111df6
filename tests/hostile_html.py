"""HTML made to be slow: shapes over which a parser's time grows with the square of the size; and ordinary pages."""

from __future__ import annotations

from collections.abc import Callable

SENTENCE = "The night train stops at the mill village again after {} years, and the baker opens before dawn. "


def ordinary(size: int, seed: int = 0) -> str:
    """An article with navigation, links, a list and a table, of about so many bytes."""
    parts, filled, i = [], 0, seed
    while filled < size:
        i += 1
        parts.append(
            f'<div class="block" id="b{i}"><h2>Part {i}</h2><p>{SENTENCE.format(i)}<a href="/{i}">more</a> '
            f"{SENTENCE.format(i * 7)}</p><ul><li>one {i}<li>two</ul>"
            f"<table><tr><td>{i}</td><td>x</td></tr></table></div>"
        )
        filled += len(parts[-1])
    menu = "".join(f'<li><a href="/menu/{j}">Entry {j}</a></li>' for j in range(20))
    return (
        "<!doctype html><html><head><title>Mill</title><script>var a = '<div>';</script></head><body>"
        f"<nav><ul>{menu}</ul></nav><article>{''.join(parts)}</article><footer>Imprint</footer></body></html>"
    )


def _times(part: str) -> Callable[[int], str]:
    return lambda size: part * (size // len(part))


def _formatting(tag: str, closed: str) -> Callable[[int], str]:
    """Half of the page opens elements that all differ, the other half has them opened again."""

    def make(size: int) -> str:
        opening = "".join(f"<{tag} id={i}>" for i in range(size // 30))
        return f"<p>{opening}" + closed * (size // 2 // len(closed))

    return make


def _numbered(before: str, part: str) -> Callable[[int], str]:
    return lambda size: before + "".join(part.format(i) for i in range(size // (len(part) + 3)))


QUADRATIC: dict[str, Callable[[int], str]] = {
    "nested div": _times("<div>"),
    "nested div with text": _times("<div>word "),
    "nested div, closed": lambda size: "<div>" * (size // 11) + "x" + "</div>" * (size // 11),
    "nested div in upper case": _times("<DIV CLASS=a>"),
    "nested article": _times("<article>"),
    "nested div in lists": _times("<ul><li><div>"),
    "nested div in tables": _times("<table><tr><td><div>"),
    "nested div in buttons of SVG": _times("<svg><title><div>"),
    "nested div in selects": _times("<div><select></div></select>"),
    "nested div behind a script": lambda size: "<script><!--<script></script>--></script>" + "<div>" * (size // 5),
    "nested div behind a title in SVG": lambda size: "<svg><title></svg><title><p></title>" + "<div>" * (size // 5),
    "nested div behind a comment": lambda size: "<!--><!---><!-- --!>" + "<div>" * (size // 5),
    "500 div, again and again": lambda size: ("<div>" * 500 + "x" + "</div>" * 500) * (size // 5500),
    "400 div, then text": lambda size: "<div>" * 400 + "<p>x" * (size // 4),
    "anchors in div": _times("<a><div>"),
    "anchors around div": _times("<a><div></a>"),
    "formatting around div": _times("<b><i><div></b>"),
    "formatting, then paragraphs": _formatting("b", "<p>x"),
    "fonts, then paragraphs": _formatting("font", "<p>x</p>"),
    "formatting in each paragraph": _numbered("", "<p><b id={}>x</p>"),
    "formatting in each cell's table": _numbered("<p>", "<b id={0}><i id={0}><table><td>"),
    "attributes": lambda size: "<p" + "".join(f" a{i}=1" for i in range(size // 9)) + ">x",
    "attributes of bodies": _numbered("", "<body a{}=1>"),
    "options": lambda size: "<select>" + "<option>x" * (size // 9),
    "options, closed": lambda size: "<select>" + "<option>x</option>" * (size // 18),
    "end tags of nothing": lambda size: "<x>" * (size // 12) + "</y>" * (size // 6),
    "end tags of formatting": lambda size: "<p>" + "<i>" * (size // 12) + "</b>" * (size // 6),
}
"""Each makes a page of about so many bytes. 100 KB take a parser from a fifth of a second to minutes."""

LINEAR: dict[str, Callable[[int], str]] = {
    "paragraphs": _times("<p>x"),
    "spans": _times("<span>"),
    "tables in tables": _times("<table><tr><td>"),
    "cells": lambda size: "<table><tr>" + "<td>x" * (size // 5),
    "foster parents": lambda size: "<table>" + "x<b>" * (size // 4),
    "lists": lambda size: "<ul>" + "<li>x" * (size // 5),
    "comments": _times("<!--x-->"),
    "buttons": _times("<button><p>"),
    "ruby": _times("<ruby><rt>"),
    "entities": _times("&amp;"),
    "lesser-than": _times("<"),
    "one word": _times("a"),
    "one attribute": lambda size: "<p a='" + "x" * size + "'>text",
    "an open comment": lambda size: "<!--" + "x" * size,
    "an open quote": lambda size: "<a href='" + "<div>" * (size // 5),
    "one name in a comment of a script": lambda size: "<script><!--" + "<a" * (size // 2),
    "templates": _times("<template>"),
    "frames": _times("<frameset>"),
    "mathematics": _times("<math><mi>"),
    "499 attributes": _times("<p " + " ".join(f"a{i}" for i in range(499)) + ">x"),
    "900 spans, then text": lambda size: "<span>" * 900 + "<span>x</span>" * (size // 14),
    "45 div, then text": lambda size: "<div>" * 45 + "<div>x</div>" * (size // 12),
    "two kinds of formatting, then paragraphs": lambda size: "<p><b><i>" + "<p>x" * (size // 4),
}
"""Odd, but a parser's time is in proportion to their size, whether they are refused or not."""

UNDECLARED: dict[str, Callable[[int], bytes]] = {
    "attributes": lambda size: b"<a" + b" a=b" * (size // 4),
    "tags": lambda size: b"<a>" * (size // 3),
    "metas": lambda size: b"<meta a=b>" * (size // 10),
    "metas of no charset": lambda size: b"<meta charset=x>" * (size // 16),
    "pairs of GBK with faults": lambda size: b"\xb0\xa1\xff" * (size // 3),
    "letters of no alphabet": lambda size: b"\xe0 " * (size // 2),
    "UTF-8 without its last bytes": lambda size: b"\xe4\xb8 " * (size // 3),
    "pairs of Big5": lambda size: b"\x88\x62" * (size // 2),
    "pairs of GBK": lambda size: b"\x81\x80" * (size // 2),
    "pairs of EUC-TW": lambda size: b"\x8e\xa1" * (size // 2),
    "bytes that no charset has": lambda size: b"<meta charset=windows-874>" + b"\xff" * size,
}
"""Each makes a page without a usable charset, which is not UTF-8 once a byte 255 follows it."""
