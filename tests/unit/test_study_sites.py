"""Pages taken apart and put together: an article leaves its page whole, and comes whole into another."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace

from tests.studies import dressing
from tests.studies.chaining import final_clusters
from tests.studies.shells import SHELLS, page
from tests.studies.sites import article_of, template_of, transplant

OWN = ("河边的磨坊，昨天重新开张；面包师天不亮就生了火。", "镇上的人，都来看热闹。有人带来了旧照片！")
OTHER = ("夜里下了雪，码头上没有人扫。第一班渡船，拉响了汽笛。", "钟楼停了三年；钟表匠说，只差一个齿轮。")


def site(name: str, paragraphs: tuple[str, ...]) -> str:
    """A page with a heading, navigation, a list of links and an article."""
    links = "".join(f"<li><a href='/{number}'>{name}的另一条长长的标题{number}</a></li>" for number in range(9))
    text = "".join(f"<p>{paragraph}</p>" for paragraph in paragraphs)
    return (
        f"<html><head><title>{name}</title></head><body><div class='nav'>{name}首页</div><h1>{name}的标题</h1>"
        f"<div class='main'><div class='story'>{text}</div><div class='side'><ul>{links}</ul></div></div>"
        "</body></html>"
    )


def test_an_article_is_found_without_what_surrounds_it() -> None:
    article = article_of("a", site("甲报", OWN))
    assert article.paragraphs == list(OWN)
    assert article.title == "甲报的标题"


def test_a_transplanted_article_replaces_the_page_s_own_and_keeps_the_site_around_it() -> None:
    article = article_of("a", site("甲报", OWN))
    html = transplant(template_of(site("乙报", OTHER)), article, Random(4))
    found = "".join(html.split("<p>")).replace("</p>", "").replace("<br>", "")
    assert "乙报首页" in html
    assert "甲报的标题" in html
    assert all(part not in html for part in OTHER)
    assert all(
        sentence in found for sentence in ("河边的磨坊，昨天重新开张；面包师天不亮就生了火。", "有人带来了旧照片！")
    )
    assert not any(0xE000 <= ord(character) < 0xE010 for character in html)  # no mark is left


def test_two_transplants_differ_around_the_article() -> None:
    article, template = article_of("a", site("甲报", OWN)), template_of(site("乙报", OTHER))
    assert transplant(template, article, Random(1)) != transplant(template, article, Random(2))


def test_every_boilerplate_template_can_be_filled_in_more_than_one_way() -> None:
    for shell in SHELLS:
        pages = {page(shell, dressing.headline(Random(seed)), Random(seed)) for seed in range(8)}
        assert len(pages) > 1
        assert not any("{" in html.replace("{main}", "") for html in pages)


def test_pages_of_merged_clusters_count_as_one_cluster() -> None:
    verdicts = [
        SimpleNamespace(cluster_id=name, merged_clusters=merged)
        for name, merged in (("0", ()), ("1", ()), ("2", ()), ("1", ("2",)), (None, ()), ("0", ("1",)))
    ]
    assert final_clusters(verdicts) == ["0", "0", "0", "0", None, "0"]
