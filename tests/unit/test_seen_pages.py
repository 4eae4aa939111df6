"""What a crawl remembers of its pages: texts by cluster, and the names in their addresses."""

from __future__ import annotations

import msgspec
import pytest

from simstream.crawlers import seen_pages
from simstream.crawlers.address_kinds import kind_of
from simstream.crawlers.seen_pages import (
    COPIES,
    MAX_PROGRAMS,
    LedTo,
    SeenClusters,
    SeenNames,
    SeenSet,
    link_names,
    unmarked,
)
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
        ("/article/17;jsessionid=9", "seen:", ""),
        ("/page?sid=4&id=5", "seen:", ""),  # each value has been there, though not together
        ("/page?id=45&sid=4", "value:", " +id"),
        ("/page?id=5&sid=99", "value:", " +sid"),
        ("/about", "seen:", ""),
        ("/x/about.html", "named:", ""),
    ],
)
def test_a_kind_says_what_is_new_in_an_address(url: str, mark: str, new: str) -> None:
    seen = names("/article/17", "/page?id=5&sid=3", "/page?id=6&sid=4", "/about/")
    kind = kind_of(SITE + url, with_name="?" in url)
    assert seen.kind_of(SITE + url) == mark + kind + new
    assert unmarked(seen.kind_of(SITE + url)) == kind
    assert unmarked(COPIES + seen.kind_of(SITE + url)) == COPIES + kind


def test_a_few_programs_are_kinds_of_their_own_and_many_names_are_one() -> None:
    seen = SeenNames()
    programs = [seen.kind_of(f"{SITE}/{name}.php?id=4") for name in ("view", "print")]
    assert programs == ["a.example/view.php ?id", "a.example/print.php ?id"]
    for number in range(MAX_PROGRAMS):
        seen.kind_of(f"{SITE}/{'abcdefgh'[number]}?id=4")
    assert [seen.kind_of(f"{SITE}/x/a?do={do}&id=4") for do in ("view", "a 1")] == [
        "a.example/x a?do=view&id",
        "a.example/x a?do&id",
    ]
    assert seen.kind_of(f"{SITE}/view.php?id=4") == kind_of(f"{SITE}/view.php?id=4") == "a.example/* ?id"


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
    again.bits = bytearray(seen.bits)
    assert all(b"%d" % number in again for number in range(1_000))
    assert sum(b"%d" % number in again for number in range(1_000, 2_000)) < 5


def test_a_copy_with_links_of_its_own_to_pages_that_are_none_is_told_from_another_form() -> None:
    led = LedTo()

    def fetched(url: str, cluster: str, is_copy: bool, *links: str) -> bool:
        return led.has_own(
            SITE + url, cluster, is_copy, [name for link in links for name in link_names(SITE + link)]
        )

    for number in range(6):
        assert not fetched(
            f"/article/{number}", str(number), False, f"/print/{number}", f"/article/{number + 1}?sid=1"
        )
    assert not fetched("/archive/1", "introduction", False, "/article/1", "/article/2", "/archive/2")
    assert fetched("/archive/2", "introduction", True, "/article/3", "/archive/3")
    assert not fetched("/archive/2?sid=1", "introduction", True, "/article/3", "/archive/3?sid=1")
    assert not fetched("/archive/3", "introduction", True, "/archive/4", "/elsewhere")
    assert not fetched("/article/2?sid=5", "2", True, "/print/2", "/article/3?sid=5")
    assert not fetched("/calendar/1", "day", False, "/calendar/2")
    assert not any(fetched(f"/calendar/{day}", "day", True, f"/calendar/{day + 1}") for day in range(2, 50))
