"""What a crawl remembers of its pages: texts by cluster, and the names in their addresses."""

from __future__ import annotations

import msgspec
import pytest

from simstream.crawlers import seen_pages
from simstream.crawlers.address_kinds import kind_of
from simstream.crawlers.seen_pages import COPIES, SeenClusters, SeenNames, SeenSet, unmarked
from tests.unit.test_link_kinds import verdict

SITE = "https://a.example"


def names(*urls: str) -> SeenNames:
    found = SeenNames()
    for url in urls:
        found.add(SITE + url)
    return found


@pytest.mark.parametrize(
    ("url", "mark", "new"),
    [
        ("/article/18", "", ""),
        ("/article/18?sid=3", "", ""),
        ("/print/17.html", "named:", ""),
        ("/article/17?sid=3", "value:", " +sid"),
        ("/article/17/?a%20b=&sid=3", "value:", " +a%20b,sid"),
        ("/article/17", "seen:", ""),
        ("/page?sid=4&id=5", "seen:", ""),  # each value has been there, though not together
        ("/page?id=45&sid=4", "value:", " +id"),
        ("/page?id=5&sid=99", "value:", " +sid"),
        ("/about", "seen:", ""),
        ("/x/about.html", "named:", ""),
    ],
)
def test_a_kind_says_what_is_new_in_an_address(url: str, mark: str, new: str) -> None:
    seen = names("/article/17", "/page?id=5&sid=3", "/page?id=6&sid=4", "/about/")
    assert seen.kind_of(SITE + url) == mark + kind_of(SITE + url) + new
    assert unmarked(seen.kind_of(SITE + url)) == kind_of(SITE + url)
    assert unmarked(COPIES + seen.kind_of(SITE + url)) == COPIES + kind_of(SITE + url)


def test_a_site_that_makes_up_parameters_has_few_families() -> None:
    seen = names("/article/17")
    kinds = {seen.kind_of(f"{SITE}/article/17?p{number}x=1") for number in range(100)}
    assert len({kind.partition(" ")[0] for kind in kinds}) == 1


@pytest.mark.parametrize(
    "url", ["http://[broken", f"{SITE}/?{'&'.join(f'p{n}=1' for n in range(1_000))}", "\ud800"]
)
def test_odd_addresses_have_a_kind_too(url: str) -> None:
    seen = SeenNames()
    assert unmarked(seen.kind_of(url)) == kind_of(url)
    seen.add(url)
    assert seen.has(url)
    assert unmarked(seen.kind_of(url)) == kind_of(url)


def test_a_copy_is_a_page_whose_text_this_crawl_has_seen_at_another_address() -> None:
    seen = SeenClusters()
    assert not seen.is_copy(verdict("near_duplicate", "7", "old session"))  # of a page of an earlier crawl
    assert seen.is_copy(verdict("near_duplicate", "7", "new session"))
    assert seen.is_copy(verdict("unchanged", "7", "new session"))
    assert not seen.is_copy(verdict("unchanged", "7", "old session"))
    assert not seen.is_copy(verdict("new", "8", "new session"))
    merged = msgspec.structs.replace(verdict("near_duplicate", "5", "other"), merged_clusters=("6", "7"))
    assert seen.is_copy(merged)
    assert seen.is_copy(verdict("near_duplicate", "5", "third"))
    nothing = msgspec.structs.replace(verdict("too_short"), cluster_id=None)
    assert not seen.is_copy(nothing)
    again = SeenClusters()
    again.restore(seen.records())
    assert again.is_copy(verdict("near_duplicate", "7", "third"))


def test_the_number_of_remembered_clusters_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seen_pages, "MAX_CLUSTERS", 3)
    seen = SeenClusters()
    for number in range(5):
        seen.is_copy(verdict("new", str(number), "a"))
    assert [seen.is_copy(verdict("near_duplicate", str(number), "b")) for number in (4, 3, 0)] == [
        True,
        True,
        False,
    ]
    assert len(seen.records()) == 3


def test_a_set_of_seen_names_is_kept_over_a_restart() -> None:
    seen, again = SeenSet(), SeenSet()
    for number in range(1_000):
        seen.add(b"%d" % number)
    record = seen.record()
    assert len(record) < 60_000
    again.restore(record)
    assert all(b"%d" % number in again for number in range(1_000))
    assert sum(b"%d" % number in again for number in range(1_000, 2_000)) < 5
