"""Patterns of addresses: what is learned from which verdicts, what is not, and at what cost."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from simstream.errors import LogDamaged
from simstream.model import VerdictKind
from simstream.tools.patterns.address import MAX_ADDRESS_CHARS, MAX_PARTS, PageAddress, is_name
from simstream.tools.patterns.learning import PatternLearner, fetches_saved
from simstream.tools.patterns.pattern import (
    AddressPattern,
    LearnedPattern,
    PatternSet,
    least_originals,
    most_lost_of,
    part_names,
)
from simstream.tools.patterns.seen_pages import PatternVerdict, SeenPages
from tests.cpu_time import least_seconds
from tests.peak_memory import peak_memory

SITE = "https://a.example"
LEAST = 29
ROOM = 1 << 30
Told = Iterable[tuple[str, int | None]]
"""Paths of pages with their clusters; None for a page without enough text."""


def seen(told: Told, *merged: tuple[int, int], room: int = ROOM) -> SeenPages:
    """Pages of a run. `merged`: clusters that become part of another one at the end."""
    pages = SeenPages(room)
    ordinal = 0
    for ordinal, (path, cluster) in enumerate(told):
        kind, number = (VerdictKind.TOO_SHORT, None) if cluster is None else (VerdictKind.NEW, str(cluster))
        pages.add(PatternVerdict(path, None if path[:1] == "?" else SITE + path, kind, number, ordinal))
    for into, gone in merged:
        verdict = PatternVerdict("x", None, VerdictKind.NEAR_DUPLICATE, str(into), ordinal + 1, [str(gone)])
        pages.add(verdict)
    return pages


def learned(*runs: SeenPages, earlier: Iterable[LearnedPattern] = ()) -> list[str]:
    return [str(one.pattern) for one in PatternLearner(LEAST, earlier).learn(runs)]


def articles(form: str = "", count: int = LEAST) -> list[tuple[str, int | None]]:
    """Articles, and after them another form of each. `form` has `#` for the number."""
    numbers = range(count)
    return [*((f"/article/{n}", n) for n in numbers), *((form.replace("#", str(n)), n) for n in numbers if form)]


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("HTTPS://A.example:443/a/?b=2&&a=1#top", "https://a.example/a?a=1&b=2"),
        ("https://a.example", "https://a.example/"),
        ("https://a.example/?", "https://a.example/"),
        ("http://a.example:443/%2F/x", "http://a.example:443/%2F/x"),
        ("https://a.example/a?b=2&b=1&a", "https://a.example/a?a&b=2&b=1"),
        ("https://[::1]:8080/a", "https://[::1]:8080/a"),
    ],
)
def test_addresses_that_differ_in_nothing_that_counts_are_one(url: str, text: str) -> None:
    address = PageAddress.parse(url)
    assert address is not None
    assert address.site + address.rest == text


@pytest.mark.parametrize(
    "url",
    [
        "",
        "a.example/1",
        "ftp://a.example/",
        "https:///no-host",
        "https://[broken/",
        "https://user:secret@a.example/",
        "https://a.example/" + "x" * MAX_ADDRESS_CHARS,
        "https://a.example/" + "x/" * (MAX_PARTS + 1),
        "https://a.example/?" + "a&" * (MAX_PARTS + 1),
        "javascript:alert(1)",
    ],
)
def test_other_addresses_have_no_patterns(url: str) -> None:
    assert PageAddress.parse(url) is None
    assert PatternSet([AddressPattern(SITE, "parameter", "a")]).plain(url) is None


def test_numbers_dates_and_titles_are_no_names() -> None:
    assert [
        word for word in ("print", "AMP", "print-view", "17", "2026-03", "the-old-mill", "x" * 33) if is_name(word)
    ] == [
        "print",
        "AMP",
        "print-view",
    ]


def test_a_bound_of_ten_percent_needs_29_originals() -> None:
    assert least_originals(0.1) == LEAST
    assert most_lost_of(LEAST) <= 0.1 < most_lost_of(LEAST - 1)
    assert most_lost_of(300) == pytest.approx(3 / 300, rel=0.01)  # the rule of three


@pytest.mark.parametrize(
    ("form", "pattern"),
    [
        ("/article/#?sid=#", "?sid="),
        ("/article/#;jsessionid=a#", ";jsessionid="),
        ("/article/#/print", "/print/"),
        ("/amp/article/#", "/amp/"),
        ("/print/#", "/print/ for /article/"),
    ],
)
def test_each_kind_of_part_is_learned_from_enough_pages(form: str, pattern: str) -> None:
    pages = articles(form)
    assert learned(seen(pages)) == [pattern]
    assert learned(seen(reversed(pages))) == [pattern]
    assert learned(seen(pages[:-1])) == []


def test_one_page_with_another_text_is_enough_to_leave_a_part_out() -> None:
    pages = [*articles("/article/#?sid=#", 200), ("/article/5?sid=other", 999)]
    assert learned(seen(pages)) == []
    assert learned(seen([*articles("/print/#", 200), ("/print/300", 900), ("/article/300", 901)])) == []


def test_a_page_with_text_beside_one_without_is_an_exception() -> None:
    """The plain page may need a script for its text; then the print page is the only source of it."""
    odd = [("/article/300", None), ("/article/300?sid=1", 900)]
    assert learned(seen([*articles("/article/#?sid=#"), *odd])) == []
    failed = [("/article/300", 900), ("/article/300?sid=1", None)]
    assert learned(seen([*articles("/article/#?sid=#"), *failed])) == ["?sid="]


def test_a_page_whose_plain_address_was_never_seen_says_nothing() -> None:
    assert learned(seen([*articles("/article/#?sid=#"), ("/other?sid=4", 900)])) == ["?sid="]


def test_parameters_that_only_come_together_are_learned_together() -> None:
    pages = articles("/article/#?utm_source=a#&utm_medium=b")
    assert learned(seen(pages)) == ["?utm_medium=&utm_source="]
    pages = [(f"/story?id={n}{more}", n) for more in ("", "&utm_source=a&utm_medium=b") for n in range(LEAST)]
    [one] = PatternLearner(LEAST).learn([seen(pages)])
    plain = PatternSet([one.pattern]).plain
    assert plain(f"{SITE}/story?utm_medium=x&id=7&utm_source=y") == (f"{SITE}/story?id=7", (one.pattern,))
    assert plain(f"{SITE}/story?utm_medium=x&id=7") == (f"{SITE}/story?id=7&utm_medium=x", ())


def test_session_ids_are_learned_on_a_site_that_has_no_address_without_one() -> None:
    pages = [(f"/article/{n}?sid={visit}{n}", n) for visit in "ab" for n in range(LEAST)]
    assert learned(seen(pages)) == ["?sid="]


def test_numbers_of_articles_and_of_pages_of_a_list_are_no_pattern() -> None:
    pages = [(f"/story?id={n}", n) for n in range(100)] + [(f"/list?page={n}", 500) for n in range(100)]
    assert learned(seen(pages)) == []


def test_a_site_that_showed_the_same_page_everywhere_teaches_nothing() -> None:
    """As a wall for consent or a blocked crawler does: there are pages enough, and only one text."""
    pages = [(path, 7) for path, _ in articles("/article/#?sid=#") + articles("/print/#")]
    assert learned(seen(pages)) == []


def test_a_part_that_makes_other_pages_in_one_section_is_learned_in_the_others() -> None:
    pages = [*articles("/article/#?view=x"), ("/search?view=a", 800), ("/search?view=b", 801)]
    assert learned(seen(pages)) == ["?view= below /article/"]
    assert PatternSet([AddressPattern(SITE, "parameter", "view", below="article")]).plain(
        f"{SITE}/search?view=a"
    ) == (
        f"{SITE}/search?view=a",
        (),
    )


def test_what_is_learned_on_one_site_does_not_count_on_another() -> None:
    [one] = PatternLearner(LEAST).learn([seen(articles("/article/#?sid=#"))])
    patterns = PatternSet([one.pattern])
    assert patterns.plain("https://b.example/article/1?sid=4") is None
    assert patterns.plain("http://a.example/article/1?sid=4") is None
    assert patterns.plain(f"{SITE}/article/1?b=1&sid=4") == (f"{SITE}/article/1?b=1", (one.pattern,))


def test_a_page_with_two_patterns_is_saved_once() -> None:
    pages = seen([*articles("/article/#?sid=#"), *articles("/print/#"), ("/print/1?sid=9", 1), ("/b?sid=1", 900)])
    found = PatternLearner(LEAST).learn([pages])
    assert sum(one.copies for one in found) == 2 * LEAST + 1
    assert fetches_saved(found, [pages]) == 2 * LEAST + 1
    both = [*articles("/article/#?a=#&b=#"), *articles("/article/#?a=#"), *articles("/article/#?b=#")]
    found = PatternLearner(LEAST).learn([seen(both)])
    assert [str(one.pattern) for one in found] == ["?a=", "?a=&b=", "?b="]
    assert fetches_saved(found, [seen(both)]) == 3 * LEAST


def test_clusters_that_were_tied_later_are_one() -> None:
    pages = [
        (path, n if "sid" not in path else n + 1000) for path, n in articles("/article/#?sid=#") if n is not None
    ]
    assert learned(seen(pages)) == []
    assert learned(seen(pages, *((n, n + 1000) for n in range(LEAST)))) == ["?sid="]


def test_merges_that_no_judge_writes_do_not_go_round_for_ever() -> None:
    pages = articles("/article/#?sid=#", LEAST + 1)
    assert learned(seen(pages, (1, 2), (2, 1), (3, 3))) == ["?sid="]


def test_the_verdict_with_the_greatest_ordinal_counts_in_whatever_order_they_come() -> None:
    verdicts = [
        PatternVerdict("x", f"{SITE}/article/1?sid=1", VerdictKind.NEW, str(cluster), ordinal)
        for ordinal, cluster in ((500, 1), (400, 999))
    ]
    for order in (verdicts, verdicts[::-1]):
        pages = seen(articles("/article/#?sid=#"))
        for verdict in order:
            pages.add(verdict)
        assert learned(pages) == ["?sid="]


def test_a_withdrawn_page_says_nothing() -> None:
    pages = seen([*articles("/article/#?sid=#"), ("/article/5?sid=other", 999)])
    pages.add(PatternVerdict("x", f"{SITE}/article/5?sid=other", VerdictKind.WITHDRAWN, None, 999))
    assert learned(pages) == ["?sid="]


def test_clusters_of_two_runs_are_not_compared_and_their_pages_add_up() -> None:
    pages = articles("/article/#?sid=#", LEAST - 10)
    others = [(path.replace("/article/", "/story/"), cluster) for path, cluster in pages]
    assert learned(seen(pages), seen(others)) == ["?sid="]
    assert learned(seen(articles()), seen([(f"/article/{n}?sid=1", n) for n in range(LEAST)])) == []


@pytest.mark.parametrize("form", ["/article/#?sid={}", "/print/#", "/article/#/print"])
def test_a_text_that_two_runs_have_at_one_plain_address_is_one_original(form: str) -> None:
    few = LEAST - 10
    learner = PatternLearner(LEAST)
    assert learner.learn(seen(articles(form.format(visit), few)) for visit in "ab") == []
    assert learner.nearest is not None
    assert learner.nearest[0] == few


def test_an_exception_in_a_small_run_is_not_overlooked() -> None:
    assert learned(seen(articles("/article/#?sid=#")), seen([("/article/1", 1), ("/article/1?sid=1", 2)])) == []


def test_an_earlier_pattern_stays_until_a_page_contradicts_it() -> None:
    earlier = PatternLearner(LEAST).learn([seen(articles("/article/#?sid=#") + articles("/print/#"))])
    assert learned(seen(articles()), earlier=earlier) == ["?sid=", "/print/ for /article/"]
    odd = seen([*articles(), ("/article/1?sid=4", 999), ("/print/1", 1)])
    assert learned(odd, earlier=earlier) == ["/print/ for /article/"]
    assert learned(seen([("/print/1", 1), ("/article/1", 2)]), earlier=earlier) == ["?sid="]


def test_an_earlier_pattern_is_turned_around_if_most_pages_have_the_other_segment_now() -> None:
    earlier = PatternLearner(LEAST).learn([seen(articles("/print/#"))])
    now = [(f"/print/{n}", n) for n in range(80)] + articles("/print/#")[:LEAST]
    assert learned(seen(now), earlier=earlier) == ["/article/ for /print/"]


def test_an_id_stands_for_a_missing_address_and_other_ids_are_counted() -> None:
    pages = SeenPages(ROOM)
    for ordinal, name in enumerate([f"{SITE}/a", "a page", "?"]):
        pages.add(PatternVerdict(name, None, VerdictKind.NEW, "1", ordinal))
    assert (len(pages), pages.passed) == (1, 2)


@pytest.mark.parametrize("cluster", [None, "", "-1", "x", "٣", "9" * 21])
def test_a_cluster_that_is_no_number_is_refused(cluster: str | None) -> None:
    with pytest.raises(LogDamaged, match="which is no number"):
        SeenPages(ROOM).add(PatternVerdict("x", f"{SITE}/a", VerdictKind.NEW, cluster, 1))


def test_pages_beyond_the_room_are_forgotten_the_first_ones_first() -> None:
    room = 20 * seen([("/article/1", 1)]).used
    pages = seen([(f"/article/{n}", n) for n in range(100)], room=room)
    [site] = pages.sites()
    assert site.rests == [f"/article/{n}" for n in range(100 - len(pages), 100)]
    assert pages.forgotten == 100 - len(pages)
    assert len(pages) in (19, 20)
    assert pages.used <= room


def test_merged_clusters_take_at_most_half_of_the_room() -> None:
    pages = seen([(f"/article/{n}", n) for n in range(20)], room=100_000)
    pages.add(PatternVerdict("x", None, VerdictKind.NEAR_DUPLICATE, "1", 30, list(map(str, range(100, 10_100)))))
    assert pages.used <= 100_000
    assert len(pages) == 20


@pytest.mark.parametrize(
    "path",
    [
        "/article/{n}?session={n}",
        "/article/{n}?p{n}=1",  # each page has a parameter of its own
        "/{n}/a/b/c/d/e/f/g/h/i/j/k/l/m",
        "/x?" + "&".join(f"p{i}={{n}}" for i in range(MAX_PARTS)),
        "/{n};a=1;b=2;c=3;d=4/{n};e=1",
    ],
)
def test_learning_keeps_to_its_memory_whatever_the_addresses(path: str) -> None:
    with peak_memory() as peak:
        found = seen((path.format(n=n), n % 150) for n in range(500))
        learned(found)
    assert peak.bytes < 1.3 * found.used


def test_a_hostile_address_costs_at_most_a_small_multiple_of_an_ordinary_one() -> None:
    patterns = PatternSet([AddressPattern(SITE, "parameter", f"p{n}") for n in range(MAX_PARTS)])

    def cost(url: str) -> float:
        return least_seconds(lambda: [patterns.plain(url) for _ in range(300)])

    ordinary = cost(f"{SITE}/article/17/the-old-mill?p1=4&lang=en")
    for url in (
        f"{SITE}/?" + "&".join(f"p{n}={'x' * 100}" for n in range(MAX_PARTS)),
        f"{SITE}/?" + "p1=1&" * 1_000_000,
        f"{SITE}/" + ";p=1" * 500,
        f"{SITE}/" + "/".join("abcdefghijklmnop"),
        f"{SITE}/" + "%E2%80%AE" * 200,
        "https://" + "." * 2_000,
        f"{SITE}/{'x' * 10_000_000}",
    ):
        assert cost(url) < 60 * ordinary


def test_a_segment_that_stands_twice_is_no_part() -> None:
    pages = [*articles("/amp/article/#"), *((f"/amp/article/{n}/amp", n) for n in range(9))]
    assert learned(seen(pages)) == ["/amp/"]
    [one] = PatternLearner(LEAST).learn([seen(articles("/print/#"))])
    plain = PatternSet([one.pattern]).plain
    assert plain(f"{SITE}/print/1/article") == (f"{SITE}/print/1/article", ())
    assert plain(f"{SITE}/print/1/print") == (f"{SITE}/print/1/print", ())


def test_a_name_that_is_empty_or_very_long_is_no_part() -> None:
    address = PageAddress.parse(f"{SITE}/a;=1;;{'n' * 65}=2/?=1&{'q' * 65}=2&&ok=1")
    assert address is not None
    assert [part.name for part in part_names(address)] == ["ok"]
    address = PageAddress.parse(f"{SITE}/?_a=1&_b=2")
    assert address is not None
    assert [part.name for part in part_names(address)] == ["_a", "_b", "_a&_b"]


def test_a_part_that_only_lacks_originals_is_named_as_the_nearest() -> None:
    learner = PatternLearner(LEAST)
    few = [*articles("/print/#", LEAST - 7), *((f"/print/{LEAST + n}", LEAST + n) for n in range(9))]
    few += [(f"/article/1?sid={n}", 1) for n in range(LEAST)]
    assert learner.learn([seen(few)]) == []
    assert learner.nearest == (LEAST - 7, AddressPattern(SITE, "segment", "print", "article"))
    assert learner.learn([seen(articles("/print/#"))])
    assert learner.nearest is None
