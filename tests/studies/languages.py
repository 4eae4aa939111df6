"""Pages in other languages: recall by J, false matches, Unicode's two forms, and articles in sites' templates.

    SIMSTREAM_CORPORA=FOLDER python -m tests.studies.languages ru=PATH ko=PATH

The pages are versions of translated manuals: each Markdown file of a git repository, as each commit left it. The
translations of React's documentation (`github.com/reactjs/ru.react.dev`) are such repositories. Code, addresses and
markup are left out. A version counts if half of its words have a letter of the language's own: the repositories
have untranslated pages, too, and pages of other languages.
"""

from __future__ import annotations

import re
import subprocess
import unicodedata
from collections import defaultdict
from dataclasses import replace
from functools import cache
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

import click
import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from simstream.settings import default_cache
from simstream.text.extraction.fast import extract_fast
from tests import corpora
from tests.studies import report, sites, transplant
from tests.studies.context import FRONT_MATTER, CorpusPage, StudyContext, rows
from tests.studies.measure import (
    BIN_NAMES,
    StudyTable,
    StudyTally,
    bin_of,
    cell,
    jaccard,
    pair_jaccards,
    share,
    shingles,
)

MIN_LETTERS: Final = 300
MAX_PAIRS: Final = 40
"""Pairs of versions of one page."""
UNRELATED: Final = 20_000
BEGINNING: Final = 600
"""Characters of the shorter pages: the beginnings of the whole ones."""
ARTICLES: Final = 60
TEMPLATES: Final = 6
BINS_SHOWN: Final = BIN_NAMES[:4]
_BESIDE_PROSE: Final = tuple(
    re.compile(pattern, re.DOTALL)
    for pattern in (
        FRONT_MATTER.pattern,
        r"```.*?(?:```|\Z)",
        r"<!--.*?-->",
        r"</?[A-Za-z][^>\n]*>",
        r"(?<=\])\([^)\n]*\)",
        r"\{[/#][^}\n]*\}",
        r"https?://\S+",
        r"[`*_#>|\[\]]+",
    )
)
LETTERS: Final = {
    "ar": "ARABIC",
    "bn": "BENGALI",
    "fa": "ARABIC",
    "he": "HEBREW",
    "hi": "DEVANAGARI",
    "ja": "HIRAGANA",
    "ko": "HANGUL",
    "ru": "CYRILLIC",
    "ta": "TAMIL",
    "th": "THAI",
    "uk": "CYRILLIC",
    "vi": "LATIN",
}
"""How the names of a language's letters begin in Unicode; ASCII's are no language's own."""
_WORD: Final = re.compile(r"[^\W\d_]+")


class VersionPairs(NamedTuple):
    """Pairs of texts by their places: versions of one page, and pages that have nothing to do with one another."""

    near: NDArray[np.int64]  # (n, 2)
    unrelated: NDArray[np.int64]  # (m, 2)


def versions(repository: Path, language: str) -> list[CorpusPage]:
    """Return the translated versions of each Markdown file, the earliest first; `group` is the end of its path."""
    found, blobs = [], _Blobs(repository)
    for path, names in sorted(_history(repository).items()):
        texts = dict.fromkeys(prose_of(blobs.read(name)) for name in reversed(names))
        translated = [text for text in texts if is_translated(text, LETTERS[language])]
        found += [CorpusPage(f"{path}@{number}", path, "", text) for number, text in enumerate(translated)]
    blobs.close()
    return found


def _history(repository: Path) -> dict[str, list[str]]:
    """Return the blobs of each Markdown file, the newest first. Files of one name in folders of one name are one
    file, as manuals move as a whole."""
    command = (
        "git",
        "-C",
        str(repository),
        "log",
        "--raw",
        "--no-abbrev",
        "--no-merges",
        "--no-renames",
        "--format=",
    )
    listed = subprocess.run((*command, "--", "*.md"), capture_output=True, text=True, check=True).stdout
    found: dict[str, list[str]] = defaultdict(list)
    for line in listed.splitlines():
        if line.startswith(":"):
            facts, path = line.split("\t", 1)
            blob = facts.split()[3]
            if blob.strip("0"):  # otherwise the file was removed
                found["/".join(path.split("/")[-2:])].append(blob)
    return found


class _Blobs:
    """The contents of a repository's blobs, by one process."""

    def __init__(self, repository: Path) -> None:
        command = ("git", "-C", str(repository), "cat-file", "--batch")
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def read(self, blob: str) -> str:
        """Return a blob as text; "" if the repository lacks it."""
        asked, answered = self._process.stdin, self._process.stdout
        assert asked is not None
        assert answered is not None
        asked.write(f"{blob}\n".encode())
        asked.flush()
        _, kind, *size = answered.readline().split()
        return answered.read(int(size[0]) + 1).decode("utf-8", "replace") if kind == b"blob" else ""

    def close(self) -> None:
        self._process.communicate()


def prose_of(markdown: str) -> str:
    """Return what a reader sees of a page in Markdown, without its code."""
    for pattern in _BESIDE_PROSE:
        markdown = pattern.sub("" if pattern.pattern == FRONT_MATTER.pattern else " ", markdown)
    lines = (" ".join(line.split()) for line in markdown.splitlines())
    return "\n".join(line for line in lines if line)


def is_translated(text: str, letters: str) -> bool:
    words = _WORD.findall(text)
    own = sum(any(_is_own(letter, letters) for letter in word) for word in words)
    return sum(map(len, words)) >= MIN_LETTERS and 2 * own >= len(words)


@cache
def _is_own(letter: str, letters: str) -> bool:
    return not letter.isascii() and unicodedata.name(letter, "").startswith(letters)


def pairs_of(pages: list[CorpusPage], random: Random, unrelated: int = UNRELATED) -> VersionPairs:
    """Return up to MAX_PAIRS pairs of versions of each page, and random pairs of versions of different pages."""
    places: dict[str, list[int]] = defaultdict(list)
    for place, page in enumerate(pages):
        places[page.group].append(place)
    near: list[tuple[int, int]] = []
    for own in places.values():
        pairs = list(combinations(own, 2))
        near += random.sample(pairs, min(len(pairs), MAX_PAIRS))
    groups = list(places.values())
    apart = [tuple(random.choice(group) for group in random.sample(groups, 2)) for _ in range(unrelated)]
    return VersionPairs(*(np.array(pairs, np.int64).reshape(-1, 2) for pairs in (near, apart)))


def measure(context: StudyContext, texts: list[str], pairs: VersionPairs, sketch_lookups: int) -> dict[str, Any]:
    """Recall by bin of J, without equal texts, and the share of unrelated pairs with a J below .3 that match."""
    recipe = replace(context.recipe, sketch_lookups=sketch_lookups)
    prints, recall = context.prints(texts, recipe), StudyTally()
    changed = np.array([texts[a] != texts[b] for a, b in pairs.near], np.bool_)
    pairs = VersionPairs(pairs.near[changed], pairs.unrelated)
    near, apart = (
        context.matched(rows(prints, chosen[:, 0]), rows(prints, chosen[:, 1]), recipe) for chosen in pairs
    )
    similar, unlike = (pair_jaccards(texts, chosen) for chosen in pairs)
    for similarity, hit in zip(similar.tolist(), near.tolist(), strict=True):
        recall.add(bin_of(similarity), hit)
    return {"recall": recall.by_bin(), "false": share(int(apart[unlike < 0.3].sum()), int((unlike < 0.3).sum()))}


def forms(context: StudyContext, texts: list[str]) -> dict[str, Any]:
    """How many texts match themselves with letters and marks as one character in one and as two in the other."""
    both = [[unicodedata.normalize(form, text) for text in texts] for form in ("NFC", "NFD")]
    differ = [one != two for one, two in zip(*both, strict=True)]
    found: dict[str, Any] = {}
    for value in ("as-is", "nfc"):
        recipe = replace(context.recipe, normalization=value)
        hits = context.matched(*(context.prints(form, recipe) for form in both), recipe)[differ]
        found[value] = share(int(hits.sum()), len(hits))
    return found


def extraction(pages: list[CorpusPage], templates: list[sites.SiteTemplate], random: Random) -> dict[str, Any]:
    """How many articles, put into real sites' pages, are found with a J of at least .8 to the article alone."""
    found = StudyTally()
    for page in random.sample(pages, min(ARTICLES, len(pages))):
        article = sites.SiteArticle(page.id, page.group, page.text.splitlines()[:14])
        own = shingles(article.text)
        for template in random.sample(templates, min(TEMPLATES, len(templates))):
            text = extract_fast(sites.transplant(template, article, random), "text/html").text or ""
            found.add("found", jaccard(shingles(text), own) >= 0.8)
    return found.share("found")


def run(context: StudyContext, pages: list[CorpusPage], templates: list[sites.SiteTemplate]) -> dict[str, Any]:
    """Return the numbers of one language."""
    random = context.random("languages")
    pairs = pairs_of(pages, random, context.some(UNRELATED))
    result: dict[str, Any] = {"pages": len({page.group for page in pages}), "versions": len(pages)}
    for name, length in (("whole", None), ("beginning", BEGINNING)):
        texts = [page.text[:length] for page in pages]
        result[name] = {lookups: measure(context, texts, pairs, lookups) for lookups in (1, 2)}
    newest = list({page.group: page for page in pages}.values())
    result["forms"] = forms(context, [page.text for page in newest])
    return result | {"extraction": extraction(newest, templates, random)}


def tables(found: dict[str, dict[str, Any]]) -> list[StudyTable]:
    """Return a table for whole pages, one for their beginnings, and one of forms and articles."""
    made = []
    for name, title in (("whole", "Whole pages"), ("beginning", f"Their first {BEGINNING} characters")):
        lines = [
            (
                f"{language} ({result['pages']} pages, {result['versions']:,} versions)",
                *(_both(result[name], lambda part, which=which: part["recall"][which]) for which in BINS_SHOWN),
                cell(result[name][1]["false"], 1_000_000),
            )
            for language, result in found.items()
        ]
        head = ("language", *(f"J {which}" for which in BINS_SHOWN), "false, a million")
        made.append(StudyTable(f"{title}: found % with one lookup by the sketch / with two", head, lines))
    lines = [
        (language, *(cell(result["forms"][value]) for value in ("as-is", "nfc")), cell(result["extraction"]))
        for language, result in found.items()
    ]
    head = ("language", "both forms match: as-is", "normalization nfc", "articles, J >= .8")
    made.append(StudyTable("Unicode's two forms, and articles in real sites' templates: found %", head, lines))
    return made


def _both(by_lookups: dict[int, Any], part: Any) -> str:
    one, two = (part(by_lookups[lookups]) for lookups in (1, 2))
    return f"{cell(one)} / {100 * two['share']:.1f}" if one["n"] else "-"


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("repositories", nargs=-1, required=True, metavar="NAME=PATH...")
@click.option("--recipe", default="default", show_default=True, help="A recipe's name or file.")
@click.option("--limit", type=click.IntRange(1), help="Take at most this many unrelated pairs, for a quick look.")
def main(repositories: tuple[str, ...], recipe: str, limit: int | None) -> None:
    """Print how exact the recipe is in other languages; each NAME=PATH is a git repository of one language."""
    if corpora.folder() is None:
        raise click.UsageError("SIMSTREAM_CORPORA names no folder: set it to the folder of the corpora")
    context = StudyContext(recipe, default_cache(), limit)
    templates = [sites.template_of(html) for html in transplant.pages_with_articles()[0].values()]
    found = {}
    for named in repositories:
        language, _, path = named.partition("=")
        if language not in LETTERS:
            raise click.BadParameter(f"use one of {', '.join(LETTERS)}", param_hint=named)
        if not (pages := versions(Path(path), language)):
            raise click.BadParameter(f"{path} has no translated page", param_hint=named)
        found[language] = run(context, pages, templates)
    report.show(Console(), tables(found))


if __name__ == "__main__":
    main()
