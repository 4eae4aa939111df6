"""The obvious way to count what HTML asks of a tree builder: strings, lists and regular expressions.

Shares the table of names with the kernel, and nothing else. The depth of the tree that a real parser builds is a
second oracle: see `tests/property/test_markup.py`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import takewhile

from simstream.kernels.html import element_names as names
from simstream.text.extraction.refused_html import MarkupCounts

WS = r"[\t\n\f\r ]"
NAME = re.compile(r"[A-Za-z][^\t\n\f\r />]*")
ATTRIBUTE = re.compile(
    rf"""(?:{WS}|/)*[^\t\n\f\r />][^\t\n\f\r />=]*(?:{WS}*={WS}*("[^"]*(?:"|\Z)|'[^']*(?:'|\Z)|[^\t\n\f\r >]*))?"""
)
CLOSE = re.compile(rf"((?:{WS}|/)*)>")
COMMENT = re.compile(r"<!--(?:>|->|.*?(?:-->|--!>)|.*)", re.S)
TRAITS = names.traits_by_name()
SCOPE = {"applet", "marquee", "object", "caption", "td", "th", "table", "template", "select"}
IMPLIED = {"dd", "dt", "li", "option", "optgroup", "p", "rb", "rp", "rt", "rtc"}
HEADINGS = {"h1", "h2", "h3", "h4", "h5", "h6"}
ROWS = {"tbody", "thead", "tfoot"}
POINTS = {"svg": {"desc", "foreignobject", "title"}, "math": {"mi", "mn", "mo", "ms", "mtext"}}


@dataclass(eq=False)
class HtmlElement:
    name: str
    space: str = ""
    sign: str = ""

    def has(self, trait: int) -> bool:
        return not self.space and bool(TRAITS.get(self.name, names.INLINE) & trait)

    @property
    def is_point(self) -> bool:
        return self.name in POINTS.get(self.space, ())

    @property
    def is_foreign(self) -> bool:
        return bool(self.space) and not self.is_point

    @property
    def is_barrier(self) -> bool:
        return self.is_point or (not self.space and self.name in SCOPE)

    @property
    def is_special(self) -> bool:
        return self.is_point or self.has(names.SPECIAL)


MARKER = HtmlElement("")


class HtmlTree:
    """Open elements and active formatting, and the counts."""

    def __init__(self) -> None:
        self.open: list[HtmlElement] = []
        self.listed: list[tuple[HtmlElement, HtmlElement]] = []  # formatting, or a marker and its element
        self.tags = self.depth = self.levels = self.clones = self.attributes = self.choices = 0
        self.root_attributes = self.select_start = 0
        self.has_form = False

    @property
    def top(self) -> HtmlElement:
        return self.open[-1] if self.open else HtmlElement("body")

    def node(self) -> None:
        self.levels += sum(e.has(names.CONTAINER) for e in self.open)

    def push(self, element: HtmlElement) -> None:
        self.node()
        self.open.append(element)
        self.depth = max(self.depth, len(self.open))
        if element.has(names.SELECT):
            self.select_start = self.tags

    def pop(self) -> None:
        gone = self.open.pop()
        if gone.has(names.MARKED):
            for i, (kind, element) in enumerate(self.listed):
                if kind is MARKER and element is gone:
                    del self.listed[i:]
                    break

    def pop_through(self, element: HtmlElement | None) -> None:
        while element is not None and element in self.open:
            self.pop()

    def find(self, wanted: set[str], barrier: set[str] | None = None, points: bool = True) -> HtmlElement | None:
        for e in reversed(self.open):
            if not e.space and e.name in wanted:
                return e
            if (not e.space and e.name in (SCOPE if barrier is None else barrier)) or (points and e.is_point):
                return None
        return None

    def pop_while(self, wanted: set[str]) -> None:
        while self.open and not self.top.space and self.top.name in wanted:
            self.pop()

    def pop_until(self, wanted: set[str]) -> None:
        while self.open and (self.top.space or self.top.name not in wanted):
            self.pop()

    # Formatting

    def recent(self) -> list[HtmlElement]:
        return [e for _, e in takewhile(lambda item: item[0] is not MARKER, reversed(self.listed))]

    def unlist(self, element: HtmlElement) -> None:
        self.listed = [item for item in self.listed if item[1] is not element or item[0] is MARKER]

    def format(self, element: HtmlElement) -> None:
        alike = [e for e in self.recent() if e.sign == element.sign]
        if len(alike) == 3:
            self.unlist(alike[-1])
        self.listed.append((element, element))

    def reopen(self) -> None:
        missing = list(takewhile(lambda e: e not in self.open, self.recent()))
        for element in reversed(missing):
            self.clones += 1
            self.tags += 1
            self.push(element)

    def adopt(self, name: str) -> bool:
        for turn in range(8):
            element = next((e for e in self.recent() if e.name == name), None)
            if element is None:
                return turn > 0
            if element not in self.open:
                self.unlist(element)
                return True
            at = self.open.index(element)
            above = self.open[at + 1 :]
            if any(e.is_barrier for e in above):
                return True
            block = next((e for e in above if e.is_special), None)
            if block is None:
                self.pop_through(element)
                self.unlist(element)
                return True
            between = above[: above.index(block)]
            for i, e in enumerate(reversed(between)):
                is_listed = any(e is kept for kind, kept in self.listed if kind is not MARKER)
                if is_listed and i < 3:
                    self.clone()
                    continue
                self.open.remove(e)
                self.unlist(e)
            self.open.remove(element)
            self.open.insert(self.open.index(block) + 1, element)
            self.clone(element)
        return True

    def clone(self, without: HtmlElement | None = None) -> None:
        self.clones += 1
        self.tags += 1
        self.node()

    # Tags

    def start(self, name: str, attributes: int, sign: str, empty: bool) -> bool:
        element = HtmlElement(name, sign=sign)
        self.attributes = max(self.attributes, attributes)
        if element.has(names.ROOT):
            self.root_attributes += attributes
            self.attributes = max(self.attributes, self.root_attributes)
            return True
        if self.top.is_foreign:
            if not element.has(names.BREAKOUT):
                element.space = self.top.space
                self.node() if empty else self.push(element)
                return False
            while self.top.is_foreign:
                self.pop()
        if name in {"caption", "col", "colgroup", "tbody", "tfoot", "thead", "tr", "td", "th"}:
            self.table_part(element)
            return True
        if name == "select" and (select := self.find({"select"}, SCOPE - {"select"})):
            self.pop_through(select)
            return True
        self.close_before(element)
        if element.has(names.INLINE):
            self.reopen()
        if name == "form" and self.has_form:
            return True
        self.has_form |= name == "form"
        if name in ("svg", "math"):
            element.space = name
            self.node() if empty else self.push(element)
        elif element.has(names.VOID):
            self.node()
        else:
            if name in ("option", "optgroup") and any(e.has(names.SELECT) for e in self.open):
                self.choices += self.tags - self.select_start
            if element.has(names.FORMATTING):
                self.format(element)
            elif element.has(names.MARKED):
                self.listed.append((MARKER, element))
            self.push(element)
        return True

    def table_part(self, element: HtmlElement) -> None:
        name = element.name
        if self.find({"table", "template"}, set(), points=False) is None:
            return
        if name == "col":
            self.pop_until({"colgroup", "table", "template"})
            self.node()
            return
        context = ROWS if name == "tr" else ROWS | {"tr"} if name in ("td", "th") else set()
        self.pop_until(context | {"table", "template"})
        if name in ("tr", "td", "th") and self.top.name == "table":
            self.push(HtmlElement("tbody"))
        if name in ("td", "th") and self.top.name in ROWS:
            self.push(HtmlElement("tr"))
        if element.has(names.MARKED):
            self.listed.append((MARKER, element))
        self.push(element)

    def close_before(self, element: HtmlElement) -> None:
        name, has_select = element.name, any(e.has(names.SELECT) for e in self.open)
        for items in ({"li"}, {"dd", "dt"}):
            if name in items:
                for e in reversed(self.open):
                    if not e.space and e.name in items:
                        self.pop_through(e)
                        break
                    if e.is_special and e.name not in ("address", "div", "p"):
                        break
        if element.has(names.CLOSES_P):
            self.pop_through(self.find({"p"}, SCOPE | {"button"}))
        if name in HEADINGS and not self.top.space and self.top.name in HEADINGS:
            self.pop()
        if name == "button":
            self.pop_through(self.find({"button"}))
        if name == "input":
            self.pop_through(self.find({"select"}, SCOPE - {"select"}))
        if name in ("option", "optgroup"):
            if has_select:
                self.pop_while(IMPLIED - {"optgroup"} if name == "option" else IMPLIED)
            elif not self.top.space and self.top.name == "option":
                self.pop()
        if element.has(names.RUBY_TEXT) and self.find({"ruby"}):
            self.pop_while(IMPLIED)
        if name == "a" and (old := next((e for e in self.recent() if e.name == "a"), None)):
            self.adopt("a")
            if any(e is old for e in self.recent()) and next(e for e in self.recent() if e.name == "a") is old:
                if old in self.open:
                    self.open.remove(old)
                self.unlist(old)
        if name == "nobr" and self.find({"nobr"}):
            self.adopt("nobr")

    def end(self, name: str) -> None:
        element = HtmlElement(name)
        if self.top.is_foreign and self.end_foreign(element):
            return
        if element.has(names.ROOT) or name == "col":
            return
        if name == "br":
            self.reopen()
            self.node()
        elif element.has(names.FORMATTING):
            if not self.adopt(name):
                self.any_other_end(name)
        elif name == "p":
            found = self.find({"p"}, SCOPE | {"button"})
            self.pop_through(found)
            if found is None:
                self.node()
        elif name == "form":
            self.has_form = False
            form = self.find({"form"})
            if form is not None:
                self.pop_while(IMPLIED)
                self.open.remove(form)
        elif name in HEADINGS:
            self.pop_through(self.find(HEADINGS))
        elif name == "li":
            self.pop_through(self.find({"li"}, SCOPE | {"ol", "ul"}))
        elif name in {"caption", "colgroup", "tr", "td", "th", "table"} | ROWS:
            self.pop_through(self.find({name}, {"table", "template"}, points=False))
        elif name == "template":
            self.pop_through(self.find({"template"}, set(), points=False))
        elif element.has(names.SPECIAL | names.CLOSES_P):
            self.pop_through(self.find({name}))
        else:
            self.any_other_end(name)

    def end_foreign(self, element: HtmlElement) -> bool:
        if element.name in ("p", "br"):
            while self.top.is_foreign:
                self.pop()
            return False
        for e in reversed(self.open):
            if not e.space:
                return False
            if e.name == element.name:
                self.pop_through(e)
                return True
        return True

    def any_other_end(self, name: str) -> None:
        for e in reversed(self.open):
            if not e.space and e.name == name:
                self.pop_through(e)
                return
            if e.is_special:
                return

    def text(self, text: str) -> None:
        if self.top.is_foreign or not text:
            return
        if not self.top.space and self.top.name in {"table", "tr"} | ROWS and not text.strip("\t\n\f\r "):
            return
        self.reopen()


def count(html: bytes) -> MarkupCounts:
    """What the kernel counts, one token after another."""
    text, tree, at = html.decode("latin-1"), HtmlTree(), 0
    while at < len(text):
        less = text.find("<", at)
        less = len(text) if less < 0 else less
        tree.text(text[at:less])
        if less + 1 >= len(text):
            break
        at = _markup(text, less, tree)
    return MarkupCounts(tree.tags, tree.depth, tree.levels, tree.clones, tree.attributes, tree.choices)


def _markup(text: str, at: int, tree: HtmlTree) -> int:
    ends = text[at + 1] == "/"
    name = NAME.match(text, at + 1 + ends)
    if name is None:
        if text[at + 1] not in "!?/":
            tree.text("<")
            return at + 1
        tree.tags += 1
        tree.node()
        if text.startswith("<!--", at):
            found = COMMENT.match(text, at)
            assert found
            return found.end()
        until = "]]>" if tree.top.is_foreign and text.startswith("<![CDATA[", at) else ">"
        end = text.find(until, at)
        return len(text) if end < 0 else end + len(until)
    place, attributes = name.end(), 0
    while found := ATTRIBUTE.match(text, place):
        place, attributes = found.end(), attributes + 1
    close = CLOSE.match(text, place)
    if close is None:
        return len(text)
    tree.tags += 1
    if ends:
        tree.end(name[0].lower())
        return close.end()
    lower = name[0].lower()
    owns = tree.start(lower, attributes, lower + text[name.end() : close.end()], close[1].endswith("/"))
    if owns and lower == "plaintext":
        return len(text)
    if owns and lower == "script":
        return script_end(text, close.end())
    if owns and HtmlElement(lower).has(names.RAW):
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
