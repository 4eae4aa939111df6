"""The same article in other sites' templates must match; different articles in one template must not.

Real article pages are taken apart (`sites`), and each article is put into other sites' pages, with paragraphs,
advertisements, dates, counters, comments, headlines and navigation changed. Measured over each part of HTML that a
recipe can compare (its setting `extract`), and over the whole visible text. Recall is over disjoint pairs of pages,
so that no page counts twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations
from random import Random
from typing import Any, NamedTuple

from resiliparse.extract.html2text import extract_plain_text

from simstream.model import U64
from simstream.text.extraction.extract import extract_one
from simstream.text.extraction.fast import extract_fast
from simstream.text.extraction.prose import prose
from tests import corpora
from tests.studies import sites
from tests.studies.context import StudyContext, TextFingerprints, rows
from tests.studies.measure import BIN_NAMES, StudyTable, StudyTally, bin_of, cell, common, jaccard, share, shingles

TEMPLATES = 16
"""Templates that each article is put into, of as many other sites."""
WAYS = ("main", "prose", "fast", "whole")
"""The compared texts: extracted main content; its prose; the article as kernels find it; all visible text."""
MIN_CHARACTERS = 200
DIFFERENT = 0.3
"""Articles with at least this similarity (J) count as one, and the first is taken."""
LENGTHS = ((0, 500, "< 500"), (500, 1500, "500-1,500"), (1500, 1 << 30, "> 1,500"))
LOST, NOISY = 0.8, 0.5


class TransplantedPage(NamedTuple):
    """One page: the article's number, the template's name, and the visible part of its HTML."""

    article: int
    template: str
    main: str
    fast: str
    whole: str

    @property
    def prose(self) -> str:
        """What a recipe with `extract = "prose"` compares."""
        return prose(self.main)


def run(context: StudyContext) -> dict[str, Any]:
    random = context.random("transplant")
    pages, found = pages_with_articles()
    articles = list(_different(found.values()))[: context.some(len(pages))]
    made = list(_transplanted(articles, pages, random))
    own = [shingles(article.text) for article in articles]
    result: dict[str, Any] = {
        "extract": context.recipe.extract,
        "articles": len(articles),
        "templates": len(pages),
        "pages": len(made),
    }
    for way in WAYS:
        texts = [str(getattr(page, way)) for page in made]
        result[way] = _measure(context, texts, made, [len(article.text) for article in articles])
    result["extraction_by_site"] = _extraction(made, own)
    return result


def _pages() -> dict[str, str]:
    """HTML by name, of the 60 article pages."""
    root = corpora.folder()
    if root is None:
        raise FileNotFoundError("SIMSTREAM_CORPORA names no folder")
    files = sorted((root / "html_pages" / "zh_html_gne" / "html").glob("*.html"))
    return {file.stem: sites.read(file) for file in files}


def _site(name: str) -> str:
    return name.split("__")[0]


def pages_with_articles() -> tuple[dict[str, str], dict[str, sites.SiteArticle]]:
    """HTML and articles by the page's name, of the pages whose article is long enough."""
    pages = _pages()
    found = {name: sites.article_of(name, html) for name, html in pages.items()}
    found = {name: article for name, article in found.items() if len(article.text) >= MIN_CHARACTERS}
    return {name: pages[name] for name in found}, found


def _different(articles: Iterable[sites.SiteArticle]) -> Iterator[sites.SiteArticle]:
    """Each article once, where two pages have it."""
    kept: list[U64] = []
    for article in articles:
        own = shingles(article.text)
        if all(jaccard(own, other) < DIFFERENT for other in kept):
            kept.append(own)
            yield article


def _transplanted(
    articles: list[sites.SiteArticle], pages: dict[str, str], random: Random
) -> Iterator[TransplantedPage]:
    templates = {name: sites.template_of(html) for name, html in pages.items()}
    by_site: dict[str, list[str]] = {}
    for name in pages:
        by_site.setdefault(_site(name), []).append(name)
    for number, article in enumerate(articles):
        others = [site for site in by_site if site != _site(article.page)]
        for site in random.sample(others, min(TEMPLATES, len(others) // 2 * 2)):
            name = random.choice(by_site[site])
            html = sites.transplant(templates[name], article, random)
            main, fast = (extract(html, "text/html").text or "" for extract in (extract_one, extract_fast))
            whole = extract_plain_text(html, list_bullets=False, alt_texts=False)
            yield TransplantedPage(number, name, main, fast, whole)


def _measure(
    context: StudyContext, texts: list[str], made: list[TransplantedPage], lengths: list[int]
) -> dict[str, Any]:
    prints, sets = context.prints(texts), [shingles(text) for text in texts]
    same = [(i, i + 1) for i in range(0, len(made) - 1, 2) if made[i].article == made[i + 1].article]
    hits = _matched(context, prints, same)
    bins, by_length = StudyTally(), StudyTally()
    for (i, j), hit in zip(same, hits, strict=True):
        bins.add(bin_of(jaccard(sets[i], sets[j])), hit)
        length = lengths[made[i].article]
        by_length.add(next(name for low, high, name in LENGTHS if low <= length < high), hit)
    in_one = list(_pairs_of_one_template(made))
    false = _matched(context, prints, in_one)
    alike = [jaccard(sets[i], sets[j]) for i, j in in_one]
    return {
        "same_article": share(sum(hits), len(hits)),
        "same_article_by_jaccard": bins.by_bin(),
        "same_article_by_characters": {name: by_length.share(name) for _, _, name in LENGTHS},
        "different_articles_in_one_template": share(sum(false), len(false)),
        "different_articles_mean_jaccard": sum(alike) / max(1, len(alike)),
        "too_short": share(int((prints.words < context.recipe.min_words).sum()), len(made)),
    }


def _pairs_of_one_template(made: list[TransplantedPage]) -> Iterator[tuple[int, int]]:
    places: dict[str, list[int]] = {}
    for number, page in enumerate(made):
        places.setdefault(page.template, []).append(number)
    for numbers in places.values():
        yield from combinations(numbers, 2)


def _matched(context: StudyContext, prints: TextFingerprints, pairs: list[tuple[int, int]]) -> list[bool]:
    a, b = (rows(prints, [pair[side] for pair in pairs]) for side in (0, 1))
    found: list[bool] = context.matched(a, b).tolist()
    return found


def _extraction(made: list[TransplantedPage], own: list[U64]) -> dict[str, dict[str, Any]]:
    """By site: pages whose article is mostly lost by extraction, and pages that are mostly not the article."""
    lost, noisy, kept_sum = StudyTally(), StudyTally(), {}
    for page in made:
        found = shingles(page.main)
        both, site = common(found, own[page.article]), _site(page.template)
        kept, noise = both / max(1, len(own[page.article])), 1 - both / max(1, len(found))
        lost.add(site, kept < LOST)
        noisy.add(site, noise > NOISY)
        sums = kept_sum.setdefault(site, [0.0, 0.0])
        sums[0] += kept
        sums[1] += noise
    found_by: dict[str, dict[str, Any]] = {}
    for name, (kept, noise) in sorted(kept_sum.items()):
        n = lost.share(name)["n"]
        means = {"mean_kept": kept / n, "mean_noise": noise / n}
        found_by[name] = {"lost": lost.share(name), "noisy": noisy.share(name), **means}
    return found_by


def tables(result: dict[str, Any]) -> list[StudyTable]:
    ways = tuple(result[way] for way in WAYS)
    columns = ("", "main content", "its prose", "article by kernels", "whole visible text")
    lines = [
        ("same article, other template: recall %", *(cell(way["same_article"]) for way in ways)),
        *(
            (f"… article of {name} characters", *(cell(way["same_article_by_characters"][name]) for way in ways))
            for _, _, name in LENGTHS
        ),
        (
            "different articles, one template: false matches a 1,000",
            *(cell(way["different_articles_in_one_template"], 1000) for way in ways),
        ),
        ("… their mean J", *(f"{way['different_articles_mean_jaccard']:.2f}" for way in ways)),
        ("too_short %", *(cell(way["too_short"]) for way in ways)),
    ]
    bins = [(name, *(cell(way["same_article_by_jaccard"][name]) for way in ways)) for name in BIN_NAMES]
    worst = sorted(
        ((name, row) for name, row in result["extraction_by_site"].items()),
        key=lambda item: item[1]["mean_kept"] - item[1]["mean_noise"],
    )[:12]
    return [
        StudyTable(f"Transplanted articles (the recipe compares {result['extract']})", columns, lines),
        StudyTable("Same article: recall by J of the two texts compared", columns, bins),
        StudyTable(
            "Sites that extraction does badly with",
            ("site", "article kept, mean", "of the text not the article, mean", "pages that lose a fifth %"),
            [
                (name, f"{row['mean_kept']:.2f}", f"{row['mean_noise']:.2f}", cell(row["lost"]))
                for name, row in worst
            ],
        ),
    ]
