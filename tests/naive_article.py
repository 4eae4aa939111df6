"""The obvious way from the blocks of a page to its article: each number of a block by itself, over all blocks.

Continues `naive_page`.
"""

from __future__ import annotations

from simstream.kernels.html import class_words as words
from simstream.kernels.html import element_names as names
from simstream.kernels.html.block_features import FEATURES
from tests.naive_page import NaivePage, PageBlock, PageElement, union

MIN_TEXT_WIDTH = 200
DEBITS = {
    *(words.NAVIGATION, words.FOOT, words.COMMENTS, words.RELATED),
    words.SHARING,
    words.ADVERTISING,
    words.SIDE,
}
BESIDE = {names.NAV_KIND, names.FOOTER_KIND, names.ASIDE_KIND}
NO_CORE = {names.NAV_KIND, names.FOOTER_KIND}
SECTIONS = {names.DIV_KIND, names.SECTION_KIND}
IN_PARAGRAPHS = {names.P_KIND, names.LI_KIND, names.HEADING_KIND, names.PRE_KIND}


class PageSums:
    """What lies within each element, and on the way to it."""

    def __init__(self, page: NaivePage) -> None:
        self.page = page
        self.within: dict[PageElement, list[PageBlock]] = {element: [] for element in page.elements}
        self.credit = dict.fromkeys(page.elements, 0)
        for block in page.blocks:
            for element in [*block.element.around, block.element]:
                self.within[element].append(block)
            holder = block.element.parent if block.element.kind in IN_PARAGRAPHS else block.element
            self.credit[holder] += block.prose
            if holder.around:
                self.credit[holder.parent] += block.prose // 2
        self.proses = {element: sum(block.prose for block in self.within[element]) for element in page.elements}
        self.total = self.proses[page.elements[0]]

    def prose_share(self, element: PageElement) -> int:
        return self.proses[element] * 100 // max(1, self.total)

    def link_share(self, element: PageElement) -> int:
        size = sum(len(block.text) for block in self.within[element])
        return sum(block.linked for block in self.within[element]) * 100 // max(1, size)

    def words(self, element: PageElement) -> int:
        """The class words around a block, but not of what holds half of the page's prose."""
        return union(e.flags for e in element.way if self.total == 0 or self.proses[e] < self.total / 2)

    def container(self) -> PageElement:
        """The element with most credit, the first one of these."""
        return max(self.page.elements[1:], key=self.debited_credit, default=self.page.elements[0])

    def core(self) -> PageElement:
        """The element with most credit for text outside links, the first one of these."""
        credit = dict.fromkeys(self.page.elements, 0)
        for block in self.page.blocks:
            given = block.double_width // 2 * (len(block.text) - block.linked) // len(block.text)
            if NO_CORE.isdisjoint(element.kind for element in block.element.way):
                for element in [block.element, *reversed(block.element.around)][:6]:
                    credit[element] += given
                    given = given * 3 // 4
        return max(self.page.elements[1:], key=credit.__getitem__, default=self.page.elements[0])

    def debited_credit(self, element: PageElement) -> int:
        size = sum(len(block.text) for block in self.within[element])
        credit = self.credit[element] * (size - sum(block.linked for block in self.within[element])) // max(1, size)
        if self.words(element) & union(DEBITS):
            credit //= 4
        if any(e.kind in BESIDE for e in element.way):
            credit //= 4
        return credit


def features(page: NaivePage) -> list[dict[str, int]]:
    """What `block_features` says of each block, by its names."""
    if not page.blocks:
        return []
    sums = PageSums(page)
    container = sums.container()
    proses = [i for i, block in enumerate(page.blocks) if block in sums.within[container] and block.prose]
    first, last = (proses[0], proses[-1]) if proses else (len(page.blocks), -1)
    core = sums.core()
    texts = [
        i
        for i, block in enumerate(page.blocks)
        if block in sums.within[core] and block.double_width >= 40 and block.link_share <= 50
    ]
    core_first, core_last = (texts[0], texts[-1]) if texts else (len(page.blocks), -1)
    rows = []
    for i, block in enumerate(page.blocks):
        before = page.blocks[i - 1] if i > 0 else None
        after = page.blocks[i + 1] if i + 1 < len(page.blocks) else None
        element = block.element
        section = element if element.kind in SECTIONS else element.parent
        around = section.parent
        said, kinds = sums.words(element), {e.kind for e in element.way}
        row = {
            "width of the block": min(2000, block.double_width // 2),
            "share of links": block.link_share,
            "marks of sentences": min(50, block.marks),
            "width of the block before": min(2000, before.double_width // 2) if before else -1,
            "share of links of the block before": before.link_share if before else -1,
            "share of links of the block after": after.link_share if after else -1,
            "kind of its element": element.kind,
            "within comments": bool(said & words.COMMENTS),
            "within related pages": bool(said & words.RELATED),
            "within a side column": bool(said & words.SIDE),
            "within notes about the article": bool(said & words.ABOUT),
            "within navigation": bool(said & words.NAVIGATION),
            "within a foot": bool(said & words.FOOT),
            "within advertising": bool(said & words.ADVERTISING),
            "within buttons to share": bool(said & words.SHARING),
            "within an article": names.ARTICLE_KIND in kinds,
            "within an aside": names.ASIDE_KIND in kinds,
            "within the main element": names.MAIN_KIND in kinds,
            "within a list": names.LIST_KIND in kinds,
            "within a figure": names.FIGURE_KIND in kinds,
            "within a nav element": names.NAV_KIND in kinds,
            "within a footer element": names.FOOTER_KIND in kinds,
            "within a header element": names.HEADER_KIND in kinds,
            "within the container": block in sums.within[container],
            "blocks since the container's first prose": min(1000, max(-1000, i - first)),
            "blocks since the container's last prose": min(1000, max(-1000, i - last)),
            "share of the page's prose that its section has": sums.prose_share(section),
            "share of links in its section": sums.link_share(section),
            "blocks in its section": min(100, len(sums.within[section])),
            "paragraphs in its section": min(100, count_paragraphs(sums.within[section])),
            "share of the page's prose that the section around has": sums.prose_share(around),
            "share of links in the section around": sums.link_share(around),
            "share of the page's prose that the container has": sums.prose_share(container),
            "levels between the container and its section": len(section.around) - len(container.around),
            "place on the page": i * 100 // len(page.blocks),
            "within the core": block in sums.within[core],
            "share of the page's text that the core has": width(sums.within[core])
            * 100
            // max(1, width(page.blocks)),
            "blocks since the core's first text": min(1000, max(-1000, i - core_first)),
            "blocks since the core's last text": min(1000, max(-1000, i - core_last)),
        }
        rows.append({name: int(value) for name, value in row.items()})
    return rows


def count_paragraphs(blocks: list[PageBlock]) -> int:
    return sum(block.prose > 0 and block.element.kind == names.P_KIND for block in blocks)


def score(row: dict[str, int], trees: list[list[int]]) -> int:
    """What the trees say, each a list: a feature and a limit for each of 15 nodes, then what 16 leaves add."""
    total = 0
    for tree in trees:
        node = 0
        while node < 15:
            feature, limit = FEATURES[tree[2 * node]], tree[2 * node + 1]
            node = 2 * node + 2 if row[feature] > limit else 2 * node + 1
        total += tree[30 + node - 15]
    return total


def article(page: NaivePage, trees: list[list[int]]) -> str:
    """The lines of the article; else those of prose; else all."""
    blocks, chosen = page.blocks, list[PageBlock]()
    if len(blocks) <= 64 + len(page.page) // 64:
        chosen = [block for block, row in zip(blocks, features(page), strict=True) if score(row, trees) > 0]
    whole = width(blocks)
    if width(chosen) < max(MIN_TEXT_WIDTH, whole // 30):
        chosen = [block for block in blocks if block.marks and block.prose]
        if width(chosen) < max(MIN_TEXT_WIDTH, whole // 5):
            chosen = blocks
    return "\n".join(block.text for block in chosen)


def width(blocks: list[PageBlock]) -> int:
    return sum(block.double_width // 2 for block in blocks)
