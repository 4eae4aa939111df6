"""The obvious way from the bytes of a page to its article: strings, lists, dicts and regular expressions.

Shares the table of names, the lists of class words and the trees with the kernels, and nothing else. Each byte of
the page is one character here, as of Latin-1.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache

from simstream.kernels.html import class_words as words
from simstream.kernels.html import element_names as names
from tests.naive_html import CLOSE, COMMENT, NAME, POINTS, WS, script_end
from tests.naive_references import unescape_bytes

MAX_DEPTH, MAX_ELEMENTS, MIN_HEADLINE_WIDTH = 512, 1 << 18, 16
KINDS, TRAITS = names.kinds_by_name(), names.traits_by_name()
FOREIGN = {names.SVG_KIND, names.MATH_KIND}
TABLES = {names.TABLE_KIND, names.TEMPLATE_KIND}
SCOPE = TABLES | {names.CELL_KIND, names.CAPTION_KIND, names.OBJECT_KIND, names.SELECT_KIND, names.POINT_KIND}
PARAGRAPH_SCOPE = SCOPE | {names.BUTTON_KIND}
ITEMS = {names.LI_KIND, names.DD_KIND}
TABLE_PARTS = {"caption", "colgroup", "tbody", "tfoot", "thead", "tr", "td", "th"}
ROW_PLACES = {names.ROWS_KIND}
CELL_PLACES = {names.ROWS_KIND, names.ROW_KIND}
NEVER_SHOWN = FOREIGN | {
    *(names.TEMPLATE_KIND, names.BUTTON_KIND, names.SELECT_KIND),
    *(names.POINT_KIND, names.HIDDEN_KIND, names.MEDIA_KIND),
}
ATTRIBUTE = re.compile(
    rf"""(?:{WS}|/)*([^\t\n\f\r />][^\t\n\f\r />=]*)"""
    rf"""(?:{WS}*={WS}*(?:"(?P<double>[^"]*)(?:"|\Z)|'(?P<single>[^']*)(?:'|\Z)|(?P<bare>[^\t\n\f\r >]*)))?"""
)
NOT_DISPLAYED = re.compile(rf"display(?:{WS}|:)+none", re.I)
SPACES = re.compile(r"\xc2\xa0|\xe3\x80\x80|[\x01-\x20]")
MARK = re.compile(
    rb"[,;!?](?![0-9])|\.(?=[ \"')\]]|\xe2\x80[\x99\x9d]|\Z)"
    + b"".join(b"|" + sign.encode() for sign in "，。！？；…،؛؟।")
)


@cache
def class_words() -> dict[str, int]:
    """Class words and what they say; what is no letter is a dash."""
    return {re.sub("[^a-z]", "-", word): flag for flag, group in words.WORD_LISTS for word in group.split()}


def flags_of(value: str) -> int:
    """What the words of a `class`, `id`, `role` or `itemprop` say."""
    said = f"-{re.sub('[^A-Za-z]', '-', value).lower()}-"
    return union(flag for word, flag in class_words().items() if word in said)


def double_width(text: str) -> int:
    """The characters and the bytes together."""
    return len(text) + len(re.sub("[\x80-\xbf]", "", text))


@dataclass(eq=False)
class PageElement:
    kind: int
    number: int = 0
    around: list[PageElement] = field(default_factory=list)
    """The elements around it, outermost first."""
    flags: int = 0
    is_hidden: bool = False
    is_firm: bool = False
    end: int = 0

    @property
    def parent(self) -> PageElement:
        return self.around[-1] if self.around else self

    @property
    def way(self) -> list[PageElement]:
        """The elements from the page, without it, to this one."""
        return [*self.around, self][1:]


@dataclass(eq=False)
class PageBlock:
    element: PageElement
    text: str
    linked: int

    @property
    def double_width(self) -> int:
        return double_width(self.text)

    @property
    def marks(self) -> int:
        return len(MARK.findall(self.text.encode("latin-1")))

    @property
    def prose(self) -> int:
        """Its width if it is prose, half of it if it is only long; else 0."""
        width = self.double_width // 2
        if self.linked > len(self.text) / 2 or width < 30:
            return 0
        return width if self.marks else width // 2 if width > 80 else 0

    @property
    def link_share(self) -> int:
        return self.linked * 100 // len(self.text)


Attribute = tuple[str, tuple[int, int]]
"""Its name in lower case, and where its value begins and ends."""


class NaivePage:
    """Reads a page when made."""

    def __init__(self, html: bytes, max_elements: int = MAX_ELEMENTS) -> None:
        self.page, self.max_elements = html.decode("latin-1"), max_elements
        self.elements: list[PageElement] = []
        self.blocks: list[PageBlock] = []
        self.open: list[PageElement] = []
        self.left_out = self.link_depth = self.headlines = self.headlines_width = 0
        self.link = ""
        self.line: list[tuple[str, bool]] = []  # each character, and whether it is in a link
        self.title = self.og_title = self.canonical = (0, 0)
        self.push(PageElement(0))
        at = 0
        while at < len(self.page):
            less = self.page.find("<", at)
            less = len(self.page) if less < 0 else less
            self.write(unescape_bytes(self.page[at:less]))
            at = self.markup(less) if less < len(self.page) else less
        self.end_block()
        self.pop_to(0)

    # Tokens

    def markup(self, at: int) -> int:
        page, is_end = self.page, self.page.startswith("</", at)
        name = NAME.match(page, at + 1 + is_end)
        if name is None:
            if page[at + 1 : at + 2] not in ("!", "?", "/"):
                self.write("<")
                return at + 1
            if comment := COMMENT.match(page, at):
                return comment.end()
            is_cdata = self.is_foreign and page.startswith("<![CDATA[", at)
            return (page + "]]>").index("]]>", at) + 3 if is_cdata else (page + ">").index(">", at) + 1
        attributes: list[Attribute] = []
        place = name.end()
        while found := ATTRIBUTE.match(page, place):
            value = next((found.span(form) for form, text in found.groupdict().items() if text is not None), (0, 0))
            attributes.append((found[1].lower(), value))
            place = found.end()
        close = CLOSE.match(page, place)
        if close is None:
            return len(page)
        if is_end:
            self.end_tag(name[0].lower())
            return close.end()
        return self.start_tag(name[0].lower(), attributes, close[1].endswith("/"), close.end())

    def start_tag(self, name: str, attributes: list[Attribute], is_empty: bool, at: int) -> int:
        traits = TRAITS.get(name, 0)
        if self.is_foreign and not traits & names.BREAKOUT:
            space = "svg" if self.top.kind == names.SVG_KIND else "math"
            if name == space and not is_empty:
                self.push(PageElement(self.top.kind, is_hidden=True))
            elif name in POINTS[space] and not is_empty:
                self.push(PageElement(names.POINT_KIND, is_hidden=True, is_firm=True))
            return at
        while self.is_foreign:
            self.close(self.top)
        if traits & names.RAW:
            return self.raw(name, at)
        if name == "plaintext":
            self.end_block()
            self.write(self.page[at:])
            return len(self.page)
        if name == "a":
            self.end_link()
            self.link, self.link_depth = "", len(self.open)
        if name in ("meta", "link"):
            self.note(attributes)
        if name in KINDS:
            self.end_block()
            self.open_element(name, attributes, is_empty)
        return at

    def raw(self, name: str, at: int) -> int:
        closing = re.compile(rf"</{name}(?=[\t\n\f\r />])", re.I).search(self.page, at)
        end = script_end(self.page, at) if name == "script" else closing.start() if closing else len(self.page)
        if name == "title" and self.title == (0, 0):
            self.title = (at, end)
        if name == "xmp":
            self.end_block()
            self.close(self.find(names.P_KIND, PARAGRAPH_SCOPE))
            self.write(self.page[at:end])
            self.end_block()
        return end

    def value(self, span: tuple[int, int]) -> str:
        return self.page[slice(*span)]

    def note(self, attributes: list[Attribute]) -> None:
        said = [self.value(span).lower() for name, span in attributes if name in ("property", "name", "rel")]
        wanted = [what for what in said if what in ("og:title", "canonical")]
        values = [span for name, span in attributes if name in ("content", "href")]
        if not wanted or not values or not self.value(values[-1]):
            return
        if wanted[-1] == "og:title" and self.og_title == (0, 0):
            self.og_title = values[-1]
        if wanted[-1] == "canonical" and self.canonical == (0, 0):
            self.canonical = values[-1]

    # Open elements

    @property
    def top(self) -> PageElement:
        return self.open[-1]

    @property
    def is_foreign(self) -> bool:
        return self.top.kind in FOREIGN

    def push(self, element: PageElement) -> None:
        if len(self.open) == MAX_DEPTH or len(self.elements) == self.max_elements:
            self.left_out += 1
            return
        element.number, element.around = len(self.elements), self.open.copy()
        element.is_hidden |= any(e.is_hidden for e in self.open)
        self.elements.append(element)
        self.open.append(element)

    def pop_to(self, place: int) -> None:
        for element in self.open[place:]:
            element.end = len(self.elements)
        del self.open[place:]
        self.left_out = 0
        if self.link_depth > place:
            self.end_link()

    def close(self, element: PageElement | None) -> None:
        if element is not None:
            self.pop_to(self.open.index(element))

    def find(self, kind: int, barriers: set[int]) -> PageElement | None:
        for element in reversed(self.open):
            if element.kind == kind:
                return element
            if element.kind in barriers:
                return None
        return None

    def open_element(self, name: str, attributes: list[Attribute], is_empty: bool) -> None:
        kind, traits = KINDS[name], TRAITS.get(name, 0)
        if kind == names.TABLE_KIND or traits & names.CLOSES_P:
            self.close(self.find(names.P_KIND, PARAGRAPH_SCOPE))
        if not (self.clear_table(kind) if name in TABLE_PARTS else self.clear(kind)):
            return
        if kind == names.LINE_KIND or (kind in FOREIGN and is_empty):
            return
        flags = [flags_of(self.value(v)) for n, v in attributes if n in ("class", "id", "role", "itemprop")]
        is_hidden = kind in NEVER_SHOWN or any(self.hides(name, self.value(value)) for name, value in attributes)
        is_firm = bool(traits & names.SPECIAL and not traits & names.SOFT)
        self.push(PageElement(kind, flags=union(flags), is_hidden=is_hidden, is_firm=is_firm))

    def hides(self, name: str, value: str) -> bool:
        if name == "style":
            return NOT_DISPLAYED.search(value) is not None
        return name == "hidden" or (name == "aria-hidden" and value.lower() == "true")

    def clear(self, kind: int) -> bool:
        """Close what an element of this kind ends; return False if it is not opened."""
        if kind in ITEMS:
            for element in reversed(self.open):
                if element.kind == kind:
                    self.close(element)
                if element.kind == kind or element.is_firm:
                    break
            self.close(self.find(names.P_KIND, PARAGRAPH_SCOPE))
        elif kind == names.HEADING_KIND and self.top.kind == kind:
            self.close(self.top)
        elif kind == names.BUTTON_KIND:
            self.close(self.find(kind, SCOPE))
        elif kind == names.SELECT_KIND and (select := self.find(kind, SCOPE)):
            self.close(select)
            return False
        return True

    def clear_table(self, kind: int) -> bool:
        """Close what a part of a table ends; return False if no table is open."""
        table = self.find(names.TABLE_KIND, {names.TEMPLATE_KIND})
        if table is None:
            return False
        stays = ROW_PLACES if kind == names.ROW_KIND else CELL_PLACES if kind == names.CELL_KIND else set()
        place = len(self.open)
        while self.open[place - 1] is not table and self.open[place - 1].kind not in stays:
            place -= 1
        self.pop_to(place)
        return True

    def end_tag(self, name: str) -> None:
        kind = KINDS.get(name, 0)
        if name in POINTS["svg"] | POINTS["math"] and any(e.kind == names.POINT_KIND for e in self.open):
            kind = names.POINT_KIND
        if name == "a":
            self.end_link()
        if kind == 0 or (self.is_foreign and kind not in FOREIGN | {names.P_KIND, names.POINT_KIND}):
            return
        self.end_block()
        if kind == names.LINE_KIND:
            return
        if self.left_out:
            self.left_out -= 1
            return
        barriers = SCOPE
        if kind in TABLES:
            barriers = {names.TEMPLATE_KIND}
        elif name in TABLE_PARTS:
            barriers = TABLES
        elif kind == names.P_KIND:
            barriers = PARAGRAPH_SCOPE
        elif kind == names.LI_KIND:
            barriers = SCOPE | {names.LIST_KIND}
        self.close(self.find(kind, barriers))

    # Text

    def write(self, text: str) -> None:
        if not self.top.is_hidden:
            shown = SPACES.sub(" ", text).replace("\0", "")
            self.link += shown
            self.line += [(sign, self.link_depth > 0) for sign in shown]

    def end_link(self) -> None:
        width = double_width(re.sub(" +", " ", self.link).strip(" "))
        if self.link_depth and width >= 2 * MIN_HEADLINE_WIDTH:
            self.headlines += 1
            self.headlines_width += width
        self.link_depth = 0

    def end_block(self) -> None:
        self.link += " "
        text, linked, is_spaced = "", 0, False
        for sign, is_linked in self.line:
            if sign != " ":
                shown = " " + sign if is_spaced and text else sign
                text += shown
                linked += len(shown) if is_linked else 0
            is_spaced = sign == " "
        self.line.clear()
        if text and len(self.blocks) == self.max_elements:
            self.blocks[-1].text += " " + text
            self.blocks[-1].linked += linked
        elif text:
            self.blocks.append(PageBlock(self.top, text, linked))


def union(flags: Iterable[int]) -> int:
    found = 0
    for flag in flags:
        found |= flag
    return found
