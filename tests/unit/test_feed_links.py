"""Lists of links are told from articles, at a cost that no HTML can raise; mirrors of a site count as one site."""

from __future__ import annotations

import time

import msgspec
import pytest

from simstream.feeds import titles
from simstream.feeds.cards import CardQuery, StoryCards
from simstream.feeds.fold import FoldLimits, VerdictFold
from simstream.feeds.records import PageSheet, place
from simstream.feeds.sites import owner_of
from simstream.feeds.titles import sheet_of
from simstream.model import Record
from simstream.text.decode import decode
from simstream.text.extraction.article import parts_of
from simstream.wire.page import PageLimits
from tests import corpora
from tests.property.test_feed import catch_up, found_by
from tests.unit.test_feed_costs import TIME, verdict

SENTENCE = "The council has decided, after a long debate, that the bridge will be built next year."


SKIPPED = ("script", "style", "noscript", "template")
"""Elements that no reader sees. A paragraph ends SVG, as in browsers."""


def is_list_of_links(html: str) -> bool:
    return titles.is_list_of_links(parts_of(html.encode()))


def headlines(count: int) -> str:
    items = (f"<li><a href='/{n}'>Headline number {n}, which says a little more</a></li>" for n in range(count))
    return f"<ul>{''.join(items)}</ul>"


def test_a_page_of_headlines_is_a_list_and_an_article_with_headlines_is_not() -> None:
    assert is_list_of_links(f"<title>News</title><body>{headlines(40)}<p>About us, and imprint.</p>")
    assert not is_list_of_links(f"<body>{headlines(40)}<p>{SENTENCE * 5}</p>")
    assert not is_list_of_links(f"<body>{headlines(19)}")
    assert not is_list_of_links(f"<body><p>{SENTENCE}</p>")
    assert not is_list_of_links("")


def test_a_long_article_in_one_line_is_no_list() -> None:
    assert not is_list_of_links(f"<body>{headlines(40)}<div>{SENTENCE * 600}</div>")


def test_sentences_in_links_scripts_and_comments_are_no_prose_and_inline_tags_cut_none() -> None:
    hidden = f"<script>{SENTENCE * 9}</script><!-- {SENTENCE * 9} --><style>{SENTENCE * 9}</style>"
    assert is_list_of_links(f"<body>{headlines(30)}{hidden}<a>{SENTENCE * 9}</a>")
    cut = " ".join(f"<b>{word}</b>" for word in (SENTENCE * 9).split())
    assert not is_list_of_links(f"<body>{headlines(30)}<p>{cut}</p>")


@pytest.mark.parametrize("name", SKIPPED)
def test_an_invisible_element_is_skipped_to_its_end_or_to_the_end_of_the_page(name: str) -> None:
    shown = f"<body>{headlines(30)}"
    prose = f"<p>{SENTENCE * 9}</p>"
    assert is_list_of_links(f"{shown}<{name}>{prose}</{name.upper()} >")
    assert is_list_of_links(f"{shown}<{name}>{prose}")
    assert not is_list_of_links(f"{shown}<{name}></{name}>{prose}")


def test_a_page_s_record_says_whether_it_is_a_list() -> None:
    def sheet(value: str, content_type: str) -> PageSheet | None:
        headers = (("content-type", content_type.encode()),)
        return sheet_of(Record("pages", 0, 7, b"id", value.encode(), headers, 5), PageLimits(1 << 20))

    page = f"<title>News</title><body>{headlines(40)}"
    assert sheet(page, "text/html") == PageSheet("News", 5, is_list=True, page_id="id")
    found = sheet(page, "text/plain")
    assert found is not None
    assert not found.is_list


@pytest.mark.parametrize(
    "piece", ["<", "<a", "<a ", "<a\n", "<a>x ", "<!--", "<script", "</script", "<svg ", "x<p>", "&"]
)
def test_hostile_html_costs_no_more_than_its_first_part(piece: str) -> None:
    html = piece * (3_000_000 // len(piece))
    began = time.thread_time()
    is_list_of_links(html)
    assert time.thread_time() - began < 2


@pytest.mark.corpora
def test_no_article_of_real_sites_is_a_list_and_many_home_pages_are() -> None:
    folder = corpora.folder()
    assert folder is not None
    pages = folder / "html_pages"

    def lists(under: str) -> list[bool]:
        found = sorted((pages / under).rglob("*.html"))
        return [is_list_of_links(decode(path.read_bytes(), None, True)[0]) for path in found]

    articles, homes = lists("zh_html_gne/html"), lists("zh_html_encodings/top1000_raw")
    assert (sum(articles), len(articles)) == (0, 60)
    assert sum(homes) > len(homes) / 3


@pytest.mark.parametrize(
    ("site", "owner"),
    [
        ("m.news.co.uk", "news.co.uk"),
        ("mirror.sina.com.cn", "sina.com.cn"),
        ("one.github.io", "one.github.io"),
        ("s1.a.example", "a.example"),
        ("localhost", "localhost"),
        ("192.0.2.7", "192.0.2.7"),
        ("::1", "::1"),
        ("co.uk", "co.uk"),
        ("", ""),
    ],
)
def test_hosts_of_one_registered_domain_are_one_site(site: str, owner: str) -> None:
    assert owner_of(site) == owner


def test_the_largest_story_has_the_most_sites_and_a_list_of_links_is_not_a_story() -> None:
    fold = VerdictFold({}, FoldLimits())
    mirrored, spread, listed = 0, 4, 6
    hosts = [
        "a.one.example",
        "b.one.example",
        "c.one.example",
        "d.one.example",
        "two.example",
        "three.example",
        "x",
    ]
    for number, host in enumerate(hosts):
        url = f"https://{host}/"
        fold.read(place(0, number), PageSheet("A title", TIME, is_list=number == listed))
        cluster = max(one for one in (mirrored, spread, listed) if one <= number)
        fold.apply(msgspec.structs.replace(verdict(number, cluster), id=url, url=url))
    cards = StoryCards(fold)
    catch_up(cards)
    found, _ = found_by(cards, CardQuery(order="largest"))
    assert [(card.cluster, card.sites, card.pages) for card in found] == [(spread, 2, 2), (mirrored, 1, 4)]
    assert fold.lists == 1
