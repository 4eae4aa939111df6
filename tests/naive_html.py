"""The obvious way to count what HTML asks of a tree builder: strings, lists and regular expressions.

Shares the table of names with the kernel, and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import NamedTuple

from simstream.kernels.html import element_names as names
from simstream.text.extraction.refused_html import MarkupCounts

WS = r"[\t\n\f\r ]"
NAME = re.compile(r"[A-Za-z][^\t\n\f\r />]*")
ATTRIBUTE = re.compile(
    rf"""(?:{WS}|/)*([^\t\n\f\r />][^\t\n\f\r />=]*)"""
    rf"""(?:{WS}*={WS}*("[^"]*(?:"|\Z)|'[^']*(?:'|\Z)|[^\t\n\f\r >]*))?"""
)
CLOSE = re.compile(rf"((?:{WS}|/)*)>")
COMMENT = re.compile(r"<!--(?:>|->|.*?(?:-->|--!>)|.*)", re.S)
TRAITS = names.traits_by_name()
POINTS = {"svg": {"desc", "foreignobject", "title"}, "math": {"mi", "mn", "mo", "ms", "mtext"}}
ROWS = {"tbody", "thead", "tfoot"}
ITEMS = {"li": {"li"}, "dd": {"dd", "dt"}, "dt": {"dd", "dt"}}
TABLE_PARTS = {"caption", "tr", "td", "th"} | ROWS
HEADINGS = {"h1", "h2", "h3", "h4", "h5", "h6"}
IMPLIED = {"dd", "dt", "li", "option", "p", "rb", "rp", "rt", "rtc"}
"""An end tag may be left out; `optgroup`'s, too, except before an option."""
FONT_OF_HTML = {"color", "face", "size"}
"""With such an attribute, `font` is no element of SVG or MathML."""
HTML_TYPES = {"text/html", "application/xhtml+xml"}
POINT = "(point)"
"""The kind of elements of SVG and MathML that contain HTML."""
ANNOTATION = "(annotation)"
"""The kind of `annotation-xml` that contains no HTML."""


def _having(trait: int) -> set[str]:
    return {name for name, traits in TRAITS.items() if traits & trait}


FORMATTING, MARKED, CONTAINERS = _having(names.FORMATTING), _having(names.MARKED), _having(names.CONTAINER)
SPECIAL = _having(names.SPECIAL) | {POINT, ANNOTATION}
SCOPE = MARKED | {"select", "table", POINT, ANNOTATION}
FOREIGN = {"(svg)", "(math)", ANNOTATION}


class OpenTag(NamedTuple):
    kind: str  # the name of an element of HTML; "(svg)", "(math)", ANNOTATION or POINT
    name: str
    space: str  # "svg", "math", or "" for HTML
    sign: str


class OpenTags:
    """The names of open elements, the formatting that waits in each cell, and the counts."""

    def __init__(self) -> None:
        self.open: list[OpenTag] = []
        self.waiting: list[list[OpenTag]] = [[]]
        self.tags = self.depth = self.levels = self.clones = self.attributes = self.choices = 0
        self.root_attributes = self.select_start = 0
        self.form: OpenTag | None = None

    @property
    def top(self) -> str:
        return self.open[-1].kind if self.open else "body"

    @property
    def is_foreign(self) -> bool:
        return self.top in FOREIGN

    def node(self) -> None:
        self.levels += sum(e.kind in CONTAINERS for e in self.open)

    def push(self, element: OpenTag) -> None:
        self.open.append(element)
        self.form = element if element.kind == "form" else self.form
        self.depth = max(self.depth, len(self.open))
        if element.kind in MARKED:
            self.waiting.append([])

    def pop_to(self, depth: int | None) -> None:
        while depth is not None and len(self.open) > depth:
            gone = self.open.pop()
            if gone.kind in MARKED:
                self.waiting.pop()
            elif gone.kind in FORMATTING and sum(e.sign == gone.sign for e in self.waiting[-1]) < 3:
                self.waiting[-1].append(gone)

    def pop_while(self, kinds: Collection[str]) -> None:
        while self.top in kinds:
            self.pop_to(len(self.open) - 1)

    def find(self, kinds: Collection[str], barrier: Collection[str], name: str | None = None) -> int | None:
        """The place of the innermost element of these kinds or of this name in HTML, if no barrier is before it."""
        for place, element in reversed(list(enumerate(self.open))):
            if element.kind in kinds or (element.name == name and not element.space):
                return place
            if element.kind in barrier:
                return None
        return None

    def place_of_form(self, barrier: Collection[str]) -> int | None:
        """The place of the last form, if no end tag has ended it and no barrier is before it."""
        for place, element in reversed(list(enumerate(self.open))):
            if element is self.form:
                return place
            if element.kind in barrier:
                return None
        return None

    def reopen(self) -> None:
        while self.waiting[-1]:
            self.clones += 1
            self.tags += 1
            self.node()
            self.push(self.waiting[-1].pop())

    def start(self, name: str, attributes: list[tuple[str, str]], sign: str, empty: bool) -> bool:
        traits = TRAITS.get(name, names.INLINE)
        if traits & names.ROOT:
            self.root_attributes += len(attributes)
        self.attributes = max(self.attributes, self.root_attributes if traits & names.ROOT else len(attributes))
        if self.is_foreign and not self.leaves_foreign(name, traits, attributes):
            self.node()
            if not empty:
                space = self.open[-1].space
                self.push(OpenTag(_foreign_kind(space, name, attributes), name, space, sign))
            return False
        self.pop_while(FOREIGN)
        if traits & names.ROOT or not self.close_before(name, traits):
            return True
        if traits & names.INLINE:
            self.reopen()
        self.node()
        if not traits & names.VOID and not (empty and name in POINTS):
            foreign = name in POINTS
            self.push(OpenTag(f"({name})" if foreign else name, name, name if foreign else "", sign))
        return True

    def leaves_foreign(self, name: str, traits: int, attributes: list[tuple[str, str]]) -> bool:
        if name == "font":
            return any(attribute in FONT_OF_HTML for attribute, _ in attributes)
        return traits & names.BREAKOUT != 0 and name != "sup"  # the parser differs from the standard in `sup`

    def close_before(self, name: str, traits: int) -> bool:
        """Close what ends where such an element begins; False if it does not begin."""
        if name == "form" and self.place_of_form(()) is not None:
            return False
        if name in TABLE_PARTS:
            parents = ROWS if name == "tr" else ROWS | {"tr"} if name in ("td", "th") else set()
            place = self.find(parents | {"table", "template"}, ())
            self.pop_to(None if place is None else place + 1)
            if place is not None and name in ("tr", "td", "th"):
                for kind, parent in (("tbody", {"table"}), ("tr", ROWS))[: 1 if name == "tr" else 2]:
                    if self.top in parent:
                        self.push(OpenTag(kind, "", "", ""))
            return place is not None
        if name in ITEMS:
            self.pop_to(self.find(ITEMS[name], SPECIAL - {"address", "div", "p"}))
        if traits & names.CLOSES_P:
            self.pop_to(self.find({"p"}, SCOPE | {"button"}))
        if name == "button":
            self.pop_to(self.find({"button"}, SCOPE))
        if name == "a":
            self.end_formatting("a", MARKED)
        if name in HEADINGS and self.top in HEADINGS:
            self.pop_to(len(self.open) - 1)
        if name in ("rb", "rp", "rt", "rtc") and self.find({"ruby"}, SCOPE) is not None:
            self.pop_while(IMPLIED | {"optgroup"})
        if name == "table":
            self.pop_to(self.find({"table"}, {"td", "th", "caption", "template"}))
        select = self.find({"select"}, SCOPE - {"select"})
        if name == "select":
            self.select_start = self.tags
            self.pop_to(select)
            return select is None
        if name == "input":
            self.pop_to(select)
        if name in ("option", "optgroup"):
            self.pop_while({"option"} if select is None else IMPLIED | {name})
            self.choices += 0 if select is None else self.tags - self.select_start
        return True

    def end(self, name: str) -> None:
        traits = TRAITS.get(name, names.INLINE)
        if name in ("p", "br"):
            self.pop_while(FOREIGN)
        for place, element in reversed(list(enumerate(self.open))):
            if not element.space:
                break
            if element.name == name:
                self.pop_to(place)
                return
        if name in FORMATTING:
            self.end_formatting(name, SCOPE)
            return
        if name == "br":
            self.reopen()
        barrier = SPECIAL
        if name in TABLE_PARTS | {"table", "template"}:
            barrier = {"table", "template"} if name != "template" else set()
        elif traits & (names.SPECIAL | names.CLOSES_P):
            barrier = SCOPE | {"li": {"ol", "ul"}, "p": {"button"}}.get(name, set())
        place = self.find(HEADINGS if name in HEADINGS else (), barrier, name)
        if place is None and name in ("p", "br"):
            self.node()
        elif name == "form":
            place, self.form = self.place_of_form(SCOPE), None
            if place is not None:
                self.pop_while(IMPLIED | {"optgroup"})
                del self.open[place]
        else:
            self.pop_to(place)

    def end_formatting(self, name: str, barrier: Collection[str]) -> None:
        for i, element in enumerate(self.waiting[-1]):
            if element.name == name:
                del self.waiting[-1][i]
                return
        place = self.find((), barrier, name)
        if place is not None:
            if not any(e.kind in SPECIAL for e in self.open[place:]):
                self.pop_to(place + 1)
            del self.open[place]

    def text(self, text: str) -> None:
        if self.top in {"table", "tr"} | ROWS:
            text = text.strip("\t\n\f\r ")
        if text and not self.is_foreign:
            self.reopen()


def _foreign_kind(space: str, name: str, attributes: list[tuple[str, str]]) -> str:
    is_annotation = space == "math" and name == "annotation-xml"
    if name in POINTS[space]:
        return POINT
    if is_annotation and any(a == "encoding" and value.lower() in HTML_TYPES for a, value in attributes):
        return POINT
    return ANNOTATION if is_annotation else f"({space})"


def count(html: bytes) -> MarkupCounts:
    """What the kernel counts, one token after another."""
    text, state, at = html.decode("latin-1"), OpenTags(), 0
    while at < len(text):
        less = text.find("<", at)
        less = len(text) if less < 0 else less
        state.text(text[at:less])
        if less + 1 >= len(text):
            break
        at = _markup(text, less, state)
    return MarkupCounts(state.tags, state.depth, state.levels, state.clones, state.attributes, state.choices)


def _markup(text: str, at: int, state: OpenTags) -> int:
    ends = text[at + 1] == "/"
    name = NAME.match(text, at + 1 + ends)
    if name is None:
        if text[at + 1] not in "!?/":
            state.text("<")
            return at + 1
        state.tags += 1
        state.node()
        if text.startswith("<!--", at):
            found = COMMENT.match(text, at)
            assert found
            return found.end()
        until = "]]>" if state.is_foreign and text.startswith("<![CDATA[", at) else ">"
        end = text.find(until, at)
        return len(text) if end < 0 else end + len(until)
    place, attributes = name.end(), []
    while found := ATTRIBUTE.match(text, place):
        place = found.end()
        attributes.append((found[1].lower(), (found[2] or "").strip("\"'")))
    close = CLOSE.match(text, place)
    if close is None:
        return len(text)
    state.tags += 1
    if ends:
        state.end(name[0].lower())
        return close.end()
    lower = name[0].lower()
    owns = state.start(lower, attributes, lower + text[name.end() : close.end()], close[1].endswith("/"))
    if owns and lower == "plaintext":
        return len(text)
    if owns and lower == "script":
        return script_end(text, close.end())
    if owns and TRAITS.get(lower, 0) & names.RAW:
        found = re.compile(rf"</{re.escape(lower)}(?=[\t\n\f\r />])", re.I).search(text, close.end())
        return found.start() if found else len(text)
    return close.end()


def script_end(text: str, at: int) -> int:
    """The states of script data, by the tokens that change them."""
    state = "data"
    token = re.compile(r"<!--|-->|</?script(?=[\t\n\f\r />])", re.I)
    while found := token.search(text, at):
        at = found.end()
        if found[0] == "<!--":
            if state == "data":
                state, at = "escaped", at - 2
        elif found[0] == "-->":
            state = "data"
        elif found[0].startswith("</"):
            if state != "doubly":
                return found.start()
            state = "escaped"
        elif state == "escaped":
            state = "doubly"
    return len(text)
