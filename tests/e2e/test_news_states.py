"""What the news page shows in every state: loading, no broker, no answer, no story, a refusal."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from typing import Any

import feedparser
import pytest
from selenium.webdriver.common.keys import Keys

from simstream.feeds import web
from simstream.feeds.fold import FoldLimits
from simstream.feeds.records import PageSheet, place
from tests.e2e.browser import Browser, chromium
from tests.e2e.stage import PAGES, NewsStage, on_stage
from tests.unit.test_feed_costs import TIME, verdict


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with chromium(tmp_path_factory.mktemp("chromium")) as running:
        yield running


@pytest.fixture
def stage() -> Iterator[NewsStage]:
    with on_stage(70) as running:
        yield running


def says_nothing(browser: Browser) -> None:
    browser.until(lambda: browser.texts("#notice") == [], "no notice is shown")


def address(browser: Browser) -> str:
    return str(browser.run("return location.search + location.hash"))


def test_stories_that_still_load_are_called_incomplete(stage: NewsStage, browser: Browser) -> None:
    browser.open(stage.url)
    says_nothing(browser)
    stage.now = 100.0
    stage.hear(1234)
    browser.sees(
        "#notice.loading p", "Stories still load: about 1,234 records have to be read. The list is not complete."
    )
    assert len(browser.texts(".card")) == 30
    stage.feed.condition.take(PAGES, 1234)
    stage.hear(1234)
    says_nothing(browser)


def test_while_the_feed_reads_its_table_there_are_placeholders_and_no_empty_list(
    stage: NewsStage, browser: Browser
) -> None:
    sign, stage.feed.sign = stage.feed.sign, ""
    stage.feed.condition.has_read_table = False
    browser.open(stage.url)
    browser.sees("#notice.loading p", "The server starts: it reads its earlier records.")
    assert browser.run("return document.querySelectorAll('#stories .skeleton').length") == 5
    assert browser.texts("#nothing") == []
    stage.feed.sign, stage.feed.condition.has_read_table = sign, True
    browser.sees(".card h2", "title 138")
    says_nothing(browser)


def test_a_broker_that_is_away_is_told_with_its_time_and_the_stories_stay(
    stage: NewsStage, browser: Browser
) -> None:
    browser.open(stage.url)
    browser.sees(".card h2", "title 138")
    stage.now = 620.0
    wanted = "No Kafka broker has answered for 10 minutes. The stories stay as they are; new ones are missing."
    browser.sees("#notice.away p", wanted)
    assert len(browser.texts(".card")) == 30
    browser.click(".card h2 a")
    browser.click(".step button", 1)
    browser.sees(
        "#difference.error p",
        "The texts cannot be compared now: no broker answers, so no text can be read: ask again in a moment",
    )
    stage.hear(0)
    says_nothing(browser)
    browser.click("#compare-again")
    browser.sees("#rows .b", "Another.")


def test_a_chinese_page_says_in_chinese_why_it_cannot_compare(stage: NewsStage, browser: Browser) -> None:
    browser.open(f"{stage.url}#story/4")
    browser.click("[data-language=zh]")
    stage.now = 620.0
    browser.sees("#notice.away p", "Kafka 已有 10 分钟没有应答。页面停留在此前的状态，缺少新的新闻。")
    browser.click(".step button", 1)
    browser.sees("#difference.error p", "暂时无法对照：Kafka 没有应答，无法读取原文，请稍后重试。")
    browser.click("[data-language=en]")  # the comparison stays open
    browser.sees(
        "#difference.error p",
        "The texts cannot be compared now: no broker answers, so no text can be read: ask again in a moment",
    )


def test_a_feed_that_is_gone_is_told_at_once_and_comes_back_by_itself(stage: NewsStage, browser: Browser) -> None:
    browser.open(stage.url)
    browser.sees(".card h2", "title 138")
    stage.stop()
    browser.until(lambda: "has not answered" in "".join(browser.texts("#notice.error p")), "the error is told")
    assert browser.texts("#again") == ["Try again"]
    assert len(browser.texts(".stale .card")) == 30
    stage.start()
    says_nothing(browser)
    assert browser.texts(".stale .card") == []


@pytest.mark.long
def test_a_feed_that_never_answers_is_waited_for_visibly_and_not_for_ever(
    stage: NewsStage, browser: Browser
) -> None:
    stage.is_frozen = True
    browser.open(stage.url)
    browser.sees("#notice.loading p", "Waiting for the server to answer …")
    assert browser.run("return document.querySelectorAll('#stories .skeleton').length") == 5
    browser.until(lambda: browser.texts("#notice.error p") != [], "the deadline is over")
    assert browser.run("return document.querySelectorAll('#stories .skeleton').length") == 0
    stage.is_frozen = False
    browser.click("#again")
    browser.sees(".card h2", "title 138")
    says_nothing(browser)


def test_an_unknown_story_says_so_and_never_shows_the_one_before(stage: NewsStage, browser: Browser) -> None:
    browser.open(f"{stage.url}#story/4")
    browser.sees("#story-title", "title 4")
    browser.run("location.hash = '#story/999'; return null")
    browser.sees("#gone h1", "This story is not on the page")
    assert browser.texts("#story-title") == browser.texts(".step") == browser.texts("#notice") == []
    browser.run("location.hash = '#story/6'; return null")
    browser.sees("#story-title", "title 6")
    assert browser.texts("#gone") == []
    assert browser.run("return document.title") == "title 6 · simstream news"


def test_the_address_holds_order_filters_and_page(stage: NewsStage, browser: Browser) -> None:
    browser.open(f"{stage.url}?sort=largest&words=title&sites=2&page=2")
    browser.sees("#page", "Page 2 of 3")
    checked = "return [...new FormData(document.getElementById('controls'))].flat().join(' ')"
    assert browser.run(checked) == "sort largest words title hours  sites 2"
    second = browser.texts(".card h2")
    browser.click("#next")
    browser.sees("#page", "Page 3 of 3")
    assert address(browser) == "?sort=largest&words=title&sites=2&page=3"
    browser.click(".card h2 a")
    browser.until(lambda: browser.texts("#story-title") != [], "the story is shown")
    assert address(browser).startswith("?sort=largest&words=title&sites=2&page=3#story/")
    browser.driver.back()
    browser.driver.back()
    browser.until(lambda: browser.texts(".card h2") == second, "the second page is back")
    browser.click("[value=growing]")
    browser.until(lambda: address(browser) == "?sort=growing&words=title&sites=2", "the first page by growth")
    browser.driver.refresh()
    browser.sees("#page", "Page 1 of 3")
    assert browser.run(checked) == "sort growing words title hours  sites 2"


@pytest.mark.parametrize("query", ["?sort=best&hours=7&sites=x&page=-1", "?page=99999999999999999999"])
def test_an_address_with_unknown_values_shows_the_first_stories(
    stage: NewsStage, browser: Browser, query: str
) -> None:
    browser.open(stage.url + query)
    browser.sees(".card h2", "title 138")
    says_nothing(browser)


def test_a_page_beyond_the_last_one_is_the_last_one(stage: NewsStage, browser: Browser) -> None:
    browser.open(f"{stage.url}?page=50")
    browser.sees("#page", "Page 3 of 3")
    assert address(browser) == "?page=3"


def test_chinese_words_are_found_and_can_be_followed_in_a_news_reader(stage: NewsStage, browser: Browser) -> None:
    stage.feed.fold.read(place(0, 2000), PageSheet("南京市长江大桥通车", TIME))
    stage.feed.fold.apply(verdict(2000, 2000))
    browser.open(f"{stage.url}?words=大桥")
    browser.sees(".card h2", "南京市长江大桥通车")
    assert browser.texts("#follow a") == ["Atom", "JSON Feed"]
    link = browser.run("return document.querySelector('[data-feed]').href")
    assert link == f"{stage.url}feed.atom?words=%E5%A4%A7%E6%A1%A5"
    with urllib.request.urlopen(link, timeout=10) as answer:
        assert [entry.title for entry in feedparser.parse(answer.read()).entries] == ["南京市长江大桥通车"]
    browser.open(f"{stage.url}?words=市长")
    browser.sees("#nothing", "No story fits.")


def test_the_stories_of_a_site_are_shown_and_followed_from_its_name_on_a_card(
    stage: NewsStage, browser: Browser
) -> None:
    browser.open(f"{stage.url}?sort=largest")
    browser.sees(".card h2", "title 138")
    assert browser.texts("#chosen") == []
    [name] = [site for site in browser.texts(".card .site") if site == "s138.example"]
    browser.driver.find_element("link text", name).click()
    browser.sees("#chosen-site", f"Stories with pages of {name}")
    assert browser.texts(".card h2") == ["title 138"]
    assert address(browser) == f"?site={name}"
    assert browser.run("return document.querySelector('[data-feed]').search") == f"?site={name}"
    browser.click("#all-sites")
    browser.until(lambda: len(browser.texts(".card h2")) == 30, "all stories are shown")


def test_a_slow_comparison_ends_with_an_error_and_can_be_repeated(
    stage: NewsStage, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web, "ANSWER_S", 2.0)
    texts, stage.texts = stage.texts, ("", "")
    browser.open(f"{stage.url}#story/4")
    browser.click(".step button", 1)
    browser.sees("#difference.loading p", "Comparing both texts …")
    wanted = "The texts cannot be compared now: there was no answer within 2 s: ask again in a moment"
    browser.sees("#difference.error p", wanted)
    assert browser.texts("#texts") == []
    stage.texts = texts
    browser.click("#compare-again")
    browser.sees("#rows .b mark", "Another")


def test_passages_of_both_texts_stand_at_one_height(stage: NewsStage, browser: Browser) -> None:
    same = [f"Sentence {number} is in both texts." for number in range(40)]
    stage.texts = (" ".join(same), " ".join([*same[:3], *(["A long insertion."] * 30), *same[3:]]))
    browser.open(f"{stage.url}#story/4")
    browser.click(".step button", 1)
    browser.until(lambda: len(browser.texts("#rows tr")) == 3, "three rows: before, the insertion, behind")
    tops = "return [...document.querySelectorAll('#rows td')].map(n => n.getBoundingClientRect().top)"
    found = browser.run(tops)
    assert found[::2] == found[1::2]
    assert browser.texts("#rows .same .a") == browser.texts("#rows .same .b")


def test_titles_and_texts_that_are_written_from_right_to_left_begin_on_the_right(
    stage: NewsStage, browser: Browser
) -> None:
    title = "الفجر Simstream هنا."
    stage.texts = (title, title)
    stage.feed.fold.read(place(0, 1000), PageSheet(title, TIME))
    stage.feed.fold.apply(verdict(1000, 4))
    stage.feed.fold.read(place(0, 1001), PageSheet(title, TIME))
    stage.feed.fold.apply(verdict(1001, 1001))
    is_turned = """
    const places = [...document.querySelectorAll(arguments[0])].map((node) => {
      const walker = document.createTreeWalker(node, NodeFilter.SHOW_TEXT), range = document.createRange();
      const text = walker.nextNode(), at = (place) => {
        range.setStart(text, place), range.setEnd(text, place + 1);
        return range.getBoundingClientRect().left;
      };
      return text.data.endsWith("هنا.") && at(text.length - 1) < at(0);
    });
    return places.includes(true);
    """
    browser.open(stage.url)
    browser.sees(".card h2", title)
    assert browser.run(is_turned, ".card h2")
    browser.open(f"{stage.url}?sort=largest")
    browser.sees(".latest", f"Latest: {title}")
    assert browser.run(is_turned, ".latest bdi")
    browser.open(f"{stage.url}#story/1001")
    browser.sees("#story-title", title)
    assert browser.run(is_turned, "#story-title")
    browser.open(f"{stage.url}#story/4")
    browser.click(".step button", 1)
    browser.sees("#rows .b", title)
    assert browser.run(is_turned, "#texts td")
    assert browser.run(is_turned, ".step .title")


def emulate(browser: Browser, command: str, **values: Any) -> None:
    browser.driver.execute_cdp_cmd(f"Emulation.{command}", values)


def test_a_link_in_focus_is_never_below_the_header(stage: NewsStage, browser: Browser) -> None:
    browser.open(stage.url)
    browser.until(lambda: len(browser.texts(".card")) == 30, "all stories are shown")
    browser.run("document.querySelectorAll('.card .site')[29].focus()")
    is_free = (
        "return document.activeElement.getBoundingClientRect().top > arguments[0].getBoundingClientRect().bottom"
    )
    header = browser.driver.find_element("tag name", "header")
    for _ in range(40):
        browser.driver.switch_to.active_element.send_keys(Keys.SHIFT, Keys.TAB)
        assert browser.run(is_free, header)


def test_on_a_phone_each_passage_that_differs_names_its_page(stage: NewsStage, browser: Browser) -> None:
    emulate(browser, "setDeviceMetricsOverride", width=360, height=800, deviceScaleFactor=1, mobile=True)
    try:
        browser.open(f"{stage.url}#story/4")
        browser.click(".step button", 1)
        browser.sees("#rows .b", "Another.")
        names = (
            "return [...document.querySelectorAll('#rows td')].map(n => getComputedStyle(n, '::before').content)"
        )
        same, hidden, left, right = browser.run(names)
        assert (same, hidden, left, right) == ("none", "none", '"1. s4.example"', '"2. s5.example"')
    finally:
        emulate(browser, "clearDeviceMetricsOverride")


def test_the_choice_is_seen_under_forced_colours(stage: NewsStage, browser: Browser) -> None:
    emulate(browser, "setEmulatedMedia", features=[{"name": "forced-colors", "value": "active"}])
    try:
        browser.open(stage.url)
        browser.sees(".card h2", "title 138")
        grounds = """return [...document.querySelectorAll(arguments[0])].map(getComputedStyle)
            .map((style) => style.forcedColorAdjust === "none" ? style.backgroundColor : "forced")"""
        chosen, *others = browser.run(grounds, ".orders span")
        assert (chosen == "forced", others) == (False, ["forced", "forced"])
        assert browser.run(grounds, ".languages button") == ["forced", chosen]
    finally:
        emulate(browser, "setEmulatedMedia", features=[])


def test_without_javascript_there_are_links_and_no_form(stage: NewsStage, browser: Browser) -> None:
    emulate(browser, "setScriptExecutionDisabled", value=True)
    try:
        browser.open(stage.url)
        browser.until(lambda: "This page needs JavaScript." in "".join(browser.texts("noscript p")), "it says so")
        assert browser.texts("main a[href]") == ["/api/stories", "Atom", "JSON Feed"]
        assert browser.texts("form, button") == []
        assert browser.texts("#home") == ["simstream news"]
    finally:
        emulate(browser, "setScriptExecutionDisabled", value=False)


def test_numbers_have_separators_and_their_words_a_number(browser: Browser) -> None:
    with on_stage(1001) as stage:
        browser.open(stage.url)
        browser.until(lambda: "".join(browser.texts("#status")).startswith("1,001 stories, as of"), "all counted")
        say = """return import("/words.js").then(({ WORDS: { en } }) =>
            [en.behind("1"), en.left_out("1"), en.differ("2", "0", "1"), en.pages("1"), en.sites("1,001")])"""
        assert browser.run(say) == [
            "Stories still load: about 1 record has to be read. The list is not complete.",
            "Only the first page and the newest pages are listed; 1 between them is not.",
            "1 word in common, 2 only on the left, 0 only on the right",
            "1 page",
            "1,001 sites",
        ]


def test_each_view_has_one_heading_and_no_two_links_of_a_story_one_name(stage: NewsStage, browser: Browser) -> None:
    browser.open(stage.url)
    browser.sees(".card h2", "title 138")
    assert browser.texts("h1") == ["simstream news"]
    browser.open(f"{stage.url}#story/4")
    browser.sees("h1", "title 4")
    assert len(browser.texts("h1")) == 1
    names = "return [...document.querySelectorAll('.step a, .step button')].map(n => n.ariaLabel)"
    doings = ("Open the page", "Compare")
    sites = ("1. s4.example", "2. s5.example")
    assert browser.run(names) == [f"{what}: {site}" for site in sites for what in doings]


def test_a_screen_reader_hears_the_count_after_a_choice_and_not_as_stories_come(
    stage: NewsStage, browser: Browser
) -> None:
    def says(selector: str, count: int) -> bool:
        return "".join(browser.texts(selector)).startswith(f"{count} stories")

    browser.open(stage.url)
    browser.until(lambda: says("#said", 70), "the first list is told")
    stage.feed.fold.read(place(0, 1000), PageSheet("One more", TIME))
    stage.feed.fold.apply(verdict(1000, 1000))
    browser.until(lambda: says("#status", 71), "the list grew")
    assert says("#said", 70)
    assert browser.run("return document.querySelectorAll('header [role=status], header [aria-live]').length") == 0
    browser.click("[value=largest]")
    browser.until(lambda: says("#said", 71), "the new order is told")
    browser.run(
        "window.told = 0; new MutationObserver(() => window.told++).observe("
        "document.querySelector('#said'), {childList: true})"
    )
    browser.click("[value=newest]")
    browser.until(lambda: browser.run("return window.told") >= 2, "another order is told in the same words")
    assert says("#said", 71)


def test_a_long_timeline_is_folded_until_the_reader_unfolds_it(browser: Browser) -> None:
    with on_stage(30, lambda number: 0) as stage:
        browser.open(f"{stage.url}#story/0")
        browser.sees(".fold button", "Show 50 more pages")
        titles = browser.texts(".step .title")
        assert titles == [f"title {number}" for number in (0, 1, 2, 3, 54, 55, 56, 57, 58, 59)]
        browser.click(".fold button")
        browser.until(lambda: len(browser.texts(".step .title")) == 60, "all pages are listed")
        assert browser.texts(".fold") == []


def test_pages_that_are_left_out_are_counted_on_the_page(stage: NewsStage, browser: Browser) -> None:
    browser.open(stage.url)
    browser.sees(".card h2", "title 138")
    assert browser.texts("#not-shown") == []
    stage.feed.fold.apply(verdict(1000, 1000, ahead=-100 * 3_600_000))
    browser.sees("#not-shown", "Not shown: 1 page older than the window of 72 hours.")


def test_a_short_window_is_told_in_minutes(browser: Browser) -> None:
    with on_stage(2, limits=FoldLimits(window_ms=3_600_000)) as stage:
        browser.open(stage.url)
        browser.sees(".badge", "2 sites in 15 minutes")
        stage.feed.fold.apply(verdict(1000, 1000, ahead=-2 * 3_600_000))
        browser.sees("#not-shown", "Not shown: 1 page older than the window of 60 minutes.")


def test_a_page_that_finds_no_broker_at_its_start_promises_no_old_stories(
    stage: NewsStage, browser: Browser
) -> None:
    stage.feed.condition.has_read_table, stage.feed.sign = False, ""
    stage.now += 17
    browser.open(stage.url)
    browser.sees("#notice-text", "No Kafka broker has answered for 17 s. New stories come when a broker answers.")


def test_pages_without_records_are_shown_by_address_and_counted(stage: NewsStage, browser: Browser) -> None:
    browser.open(stage.url)
    browser.sees(".card h2", "title 138")
    stage.feed.fold.apply(verdict(1000, 1000))
    browser.sees(".card h2", "(no title yet)")
    stage.feed.fold.give_up_title(place(0, 1000))
    browser.sees(".card h2", "https://s1.example/1000")
    wanted = "1 page has its address as title: Kafka no longer had the text."
    browser.sees("#not-shown", wanted)
