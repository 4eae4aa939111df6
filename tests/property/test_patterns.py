"""Patterns of addresses: what the learner finds is what the obvious comparison of all pages finds."""

from __future__ import annotations

from hypothesis import event, given, settings
from hypothesis import strategies as st

from simstream.tools.patterns.address import PageAddress
from simstream.tools.patterns.learning import PatternLearner
from simstream.tools.patterns.pattern import AddressPattern, PatternSet
from simstream.tools.patterns.seen_pages import PatternVerdict, SeenPages
from tests import naive_patterns
from tests.naive_patterns import NaivePage
from tests.short import examples

ROOM = 1 << 30
_sections = st.sampled_from([(), ("article",), ("print",), ("amp", "article"), ("article", "amp")])
_numbers = st.sampled_from(["1", "2", "3", "1;s=x", "2;s=x", "2;s=y"])
_ends = st.sampled_from([(), (), ("print",), ("amp",)])
_queries = st.lists(st.sampled_from(["sid=1", "sid=2", "page=1", "p", "u_a=1", "u_b=2"]), max_size=3, unique=True)
_sites = st.sampled_from(["https://a.example"] * 5 + ["http://a.example"])


def _url(site: str, section: tuple[str, ...], number: str, end: tuple[str, ...], query: list[str]) -> str:
    ordered = sorted(query, key=lambda part: part.split("=")[0])
    path = "/".join((*section, number, *end))
    return f"{site}/{path}" + ("?" + "&".join(ordered) if ordered else "")


_urls = st.builds(_url, _sites, _sections, _numbers, _ends, _queries)


@st.composite
def _pages(draw: st.DrawFn) -> list[NaivePage]:
    """Pages whose text is told by the number in their path, but for a few, and perhaps for the parameter `page`."""
    urls = draw(st.lists(_urls, min_size=10, max_size=40, unique=True))
    odd = draw(st.dictionaries(st.sampled_from(urls), st.one_of(st.none(), st.integers(0, 4)), max_size=2))
    counts = draw(st.booleans())
    texts = {url: int(next(filter(str.isdigit, url))) + 10 * (counts and "page=" in url) for url in urls}
    return [NaivePage(url, odd.get(url, texts[url])) for url in urls]


def verdicts(pages: list[NaivePage]) -> list[PatternVerdict]:
    return [
        PatternVerdict(
            page.url,
            page.url,
            "too_short" if page.cluster is None else "near_duplicate",
            None if page.cluster is None else str(page.cluster),
            ordinal,
        )
        for ordinal, page in enumerate(pages)
    ]


def seen(pages: list[NaivePage], room: int = ROOM) -> SeenPages:
    found = SeenPages(room)
    for verdict in verdicts(pages):
        found.add(verdict)
    return found


@given(_pages(), st.integers(1, 2))
@settings(max_examples=examples(60))
def test_the_learner_finds_what_the_comparison_of_all_pages_finds(pages: list[NaivePage], least: int) -> None:
    found = {
        (one.site, one.kind, one.name, one.to, one.below): (one.pages, one.copies, one.originals)
        for one in PatternLearner(least).learn([seen(pages)])
    }
    event(f"{len(found)} patterns")
    assert found == naive_patterns.learn(pages, least)


@given(_pages())
@settings(max_examples=examples(60))
def test_pages_with_one_plain_address_were_copies_of_each_other(pages: list[NaivePage]) -> None:
    for learned in PatternLearner(1).learn([seen(pages)]):
        forms: dict[str, set[int | None]] = {}
        for page in pages:
            plain = PatternSet([learned.pattern]).plain(page.url)
            if plain is not None and (page.cluster is not None or not plain.patterns):
                forms.setdefault(plain.text, set()).add(page.cluster)
        assert all(len(clusters) == 1 for clusters in forms.values())


@given(st.text(max_size=200))
@settings(max_examples=examples(100))
def test_any_text_is_an_address_or_none_and_cutting_it_again_changes_nothing(text: str) -> None:
    for url in (text, f"https://a.example/{text}", f"https://{text}", f"https://a.example?{text}"):
        address = PageAddress.parse(url)
        if address is not None:
            assert PageAddress.cut(address.site, address.rest) == address
            pattern = AddressPattern(address.site, "parameter", "sid")
            plain = PatternSet([pattern]).plain(url)
            assert plain is not None
            again = PatternSet([pattern]).plain(plain.text)
            assert again is None or again.patterns == ()
