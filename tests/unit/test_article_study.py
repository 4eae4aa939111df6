"""The study of articles, small: made-up pages in the benchmarks' folders, learnt from and measured."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from random import Random
from string import ascii_lowercase
from typing import NamedTuple

import click
import numpy as np
import pytest
from click.testing import CliRunner

from simstream.text.extraction.article import article_of
from tests.studies import article_pages, article_quality, article_trees, reworded
from tests.studies.article_pages import ArticlePage, read_pages
from tests.studies.article_scores import score
from tests.studies.article_trees import correct, label, letters

PAGES = 14
"""The pages of each set."""
KINDS = ("article", "forum", "product")
LETTERS = "河边的磨坊昨天重新开张面包师天不亮就生了火镇上人都来看热闹直到黑才散去"


class MadePage(NamedTuple):
    """A page of a made-up site, its article, and a comment below it."""

    html: str
    body: str
    comment: str


class BenchmarkFolders(NamedTuple):
    """Folders as the benchmarks' checkouts, and the articles of trafilatura's pages as a teacher's file."""

    scrapinghub: Path
    trafilatura: Path
    wcxb: Path
    teacher: Path

    @property
    def options(self) -> list[str]:
        return [
            *("--scrapinghub", str(self.scrapinghub)),
            *("--wcxb", str(self.wcxb)),
            *("--trafilatura", str(self.trafilatura)),
        ]

    def pages(self) -> dict[str, list[ArticlePage]]:
        return read_pages(self.scrapinghub, self.trafilatura, self.wcxb)


def made_sentence(random: Random, chinese: bool) -> str:
    words = ["".join(random.choices(LETTERS if chinese else ascii_lowercase, k=9)) for _ in range(12)]
    return "，".join(words[:6]) + "。" if chinese else " ".join(words) + ", and so on."


def made_page(number: int, chinese: bool = False) -> MadePage:
    random = Random(number)
    body = [made_sentence(random, chinese) for _ in range(random.randint(6, 9))]
    links = "".join(f"<li><a href=/{i}>{made_sentence(random, chinese)[:20]}</a></li>" for i in range(12))
    story = "".join(f"<p>{paragraph}</p>" for paragraph in body)
    comments = [made_sentence(random, chinese) for _ in range(2)]
    below = "".join(f"<p>{comment}</p>" for comment in comments)
    parts = f"<ul>{links}</ul><div class=story>{story}</div><div class=comments>{below}</div>"
    html = f"<html><head><meta charset=utf-8></head><body>{parts}</body></html>"
    return MadePage(html, "\n".join(body), comments[0])


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> BenchmarkFolders:
    root = tmp_path_factory.mktemp("benchmarks")
    first, second, chinese = root / "first", root / "second/tests", root / "corpora/html_pages/zh_html_gne/html"
    for folder in (first / "html", first / "output", second / "cache", second / "eval", chinese):
        folder.mkdir(parents=True)
    bodies, segments, taught = {}, {}, []
    for number in range(PAGES):
        page, other = made_page(number), made_page(100 + number)
        (first / f"html/{number}.html.gz").write_bytes(gzip.compress(page.html.encode()))
        bodies[str(number)] = {"articleBody": page.body}
        (second / ("cache" if number % 2 else "eval") / f"site.{number}.html").write_text(other.html)
        known = {"with": other.body.splitlines()[:1], "without": [other.comment]}
        segments[f"http://site/{number}"] = {"file": f"site.{number}.html", **known}
        taught.append(json.dumps({"name": f"site.{number}", "text": other.body}))
        (chinese / f"zh__{number}.html").write_text(made_page(200 + number, chinese=True).html, encoding="utf-8")
    for number in range(PAGES):
        _write_wcxb(root / "third" / ("test" if number % 2 else "dev"), number)
    (first / "ground-truth.json").write_text(json.dumps(bodies))
    (first / "output/perfect.json").write_text(json.dumps({"version": "1", "output": bodies}))
    (first / "output/partial.json").write_text(json.dumps({"0": bodies["0"]}))
    (second / "evaldata.json").write_text(json.dumps(segments))
    (root / "teacher.jsonl").write_text("\n".join(taught))
    return BenchmarkFolders(first, second.parent, root / "third", root / "teacher.jsonl")


def _write_wcxb(folder: Path, number: int) -> None:
    """Write a page, and one without any main text."""
    page = made_page(300 + number)
    for name, truth in ((f"{number}", {"main_content": page.body}), (f"{number}-empty", {"title": "x"})):
        for part in ("html", "ground-truth"):
            (folder / part).mkdir(parents=True, exist_ok=True)
        (folder / f"html/{name}.html.gz").write_bytes(gzip.compress(page.html.encode()))
        row = {"_internal": {"page_type": {"primary": KINDS[number % 3]}}, "ground_truth": truth}
        (folder / f"ground-truth/{name}.json").write_text(json.dumps(row))


@pytest.fixture(autouse=True)
def corpora(monkeypatch: pytest.MonkeyPatch, folders: BenchmarkFolders) -> None:
    monkeypatch.setenv("SIMSTREAM_CORPORA", str(folders.scrapinghub.parent / "corpora"))


def run(command: click.Command, *arguments: str) -> str:
    done = CliRunner().invoke(command, arguments, env={"COLUMNS": "120"})
    assert done.exit_code == 0, done.output
    return done.stdout


# The pages


def test_the_pages_of_all_sets_are_read_with_what_is_known_of_their_articles(folders: BenchmarkFolders) -> None:
    sets = folders.pages()
    assert {name: len(pages) for name, pages in sets.items()} == dict.fromkeys(sets, PAGES)
    assert [page.body for page in sets["scrapinghub"]] == [made_page(number).body for number in range(PAGES)]
    chinese = {page.name: page.body for page in sets["chinese"]}
    assert chinese["zh__3"] == made_page(203, chinese=True).body
    page = sets["trafilatura"][3]
    assert (page.name, page.html, page.body) == ("site.3", made_page(103).html, None)
    assert (page.wanted, page.unwanted) == (made_page(103).body.splitlines()[:1], [made_page(103).comment])


def test_some_pages_of_each_set_are_held(folders: BenchmarkFolders) -> None:
    for pages in folders.pages().values():
        assert 0 < sum(page.is_held for page in pages) < PAGES


def test_a_folder_without_the_benchmark_is_wrong_usage(folders: BenchmarkFolders, tmp_path: Path) -> None:
    arguments = [*folders.options[:5], str(tmp_path)]
    done = CliRunner().invoke(article_quality.main, arguments)
    assert done.exit_code == 2
    assert f"--trafilatura: {tmp_path / 'tests/evaldata.json'} does not exist" in done.output


def test_pages_are_written_for_other_programs(folders: BenchmarkFolders) -> None:
    rows = [json.loads(line) for line in run(article_pages.main, *folders.options).splitlines()]
    assert len(rows) == 4 * PAGES
    assert rows[0] == {"name": "0", "html": made_page(0).html}


# The scores


def test_shares_are_of_runs_of_four_words_or_chinese_characters() -> None:
    for body in ("a b c, d e f", "河边的磨坊。昨"):
        page = ArticlePage("", "", body, [], [])
        assert score([page], [body])[:3] == (1, 1, 1)
        assert score([page], [body + " x y z"])[:3] == pytest.approx((0.5, 1, 2 / 3))  # 3 runs and 3 others
        assert score([page], [body[:-1]])[:3] == pytest.approx((1, 2 / 3, 0.8))


def test_a_page_without_text_counts_for_recall_alone() -> None:
    pages = [ArticlePage(name, "", "one two three four five", [], []) for name in "ab"]
    assert score(pages, [pages[0].body or "", ""])[:3] == pytest.approx((1, 0.5, 2 / 3))
    assert score(pages, ["", ""])[:3] == (0, 0, 0)


def test_segments_are_counted_over_all_pages_whatever_their_spaces() -> None:
    pages = [
        ArticlePage("a", "", None, ["one two", "three"], ["no"]),
        ArticlePage("b", "", None, ["four"], ["never"]),
    ]
    assert score(pages, ["one\n two", "four never"])[:3] == pytest.approx((2 / 3, 2 / 3, 2 / 3))


def test_pages_of_several_kinds_are_scored_by_words_page_by_page() -> None:
    pages = [ArticlePage(name, "", "One two two three", [], [], "forum") for name in "ab"]
    assert score(pages, ["one TWO two three", ""])[:3] == pytest.approx((1, 0.5, 0.5))
    assert score(pages[:1], ["three four"])[:3] == pytest.approx((1 / 2, 1 / 4, 1 / 3))


# The labels


def test_blocks_of_the_article_are_told_by_their_runs_and_short_ones_by_their_place() -> None:
    long = "The night ferry runs again, after thirty years."
    blocks = [letters(block) for block in ("ferry", "x", "x", "x", "x", long, "ferry", "Advertisement", "By Ann")]
    found = label(blocks, f"{long}\nBy Ann\nThe island came to see the ferry.")
    assert found.tolist() == [False] * 5 + [True, True, False, True]
    assert not label([letters("The night ferry, and all of a quite different story")], long).any()


def test_segments_overrule_a_teacher() -> None:
    blocks = [letters(block) for block in ("The ferry runs again", "Read more", "...")]
    labels = np.array([False, True, False])
    correct(labels, blocks, ArticlePage("", "", None, ["ferry runs", ":-)"], ["Read more"]))
    assert labels.tolist() == [True, False, False]


# The commands


def test_trees_are_learnt_that_find_the_articles_of_held_pages(folders: BenchmarkFolders, tmp_path: Path) -> None:
    arguments = [*folders.options, "--teacher", str(folders.teacher), "--rounds", "6", "--out"]
    outputs = [run(article_trees.main, *arguments, str(tmp_path / name)) for name in "ab"]
    assert [outputs[0].count(name) for name in ("scrapinghub", "chinese", "trafilatura", "wcxb")] == [1, 1, 1, 1]
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    trees = np.loadtxt(tmp_path / "a", np.int16, comments="#")
    for pages in folders.pages().values():
        held = [page for page in pages if page.is_held]
        learnt, blind = (
            score(held, [article_of(page.html.encode(), each).decode() for page in held]).f1
            for each in (trees, trees[:0])
        )
        assert learnt > 0.95 > 0.9 > blind


def test_without_a_teacher_its_pages_are_only_measured(folders: BenchmarkFolders, tmp_path: Path) -> None:
    arguments = [*folders.options, "--rounds", "2", "--out", str(tmp_path / "trees")]
    assert "trafilatura" in run(article_trees.main, *arguments)
    assert len((tmp_path / "trees").read_text().splitlines()) == 3


def test_the_table_has_all_extractions_and_what_other_programs_find(folders: BenchmarkFolders) -> None:
    found = run(article_quality.main, *folders.options, "--outputs", str(folders.teacher))
    names = ('simstream, "fast"', 'simstream, "main"', 'simstream, "prose"', "perfect", "partial", "teacher.jsonl")
    assert [found.count(name) for name in names] == [5, 5, 5, 1, 0, 1]
    assert "1.000" in next(line for line in found.splitlines() if "perfect" in line)


def test_other_words_beside_the_main_text_leave_a_page_the_same_and_in_it_make_another(
    folders: BenchmarkFolders,
) -> None:
    found = run(reworded.main, *folders.options)
    [fast] = [line for line in found.splitlines() if "fast" in line]
    assert "7 / 0 of 7" in fast
    page = next(page for page in folders.pages()["wcxb"] if page.kind == "article")
    [made] = reworded.reword([page], Random(1))
    paragraphs = (page.body or "").splitlines()
    assert [sum(one in html for one in paragraphs) for html in (made.page, made.beside, made.within)] == [
        len(paragraphs),
        len(paragraphs),
        0,
    ]
    assert not list(reworded.reword([page._replace(body="quite another text, which no script brings")], Random(1)))
