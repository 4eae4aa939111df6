"""A recipe with `extract = "fast"` through commands: HTML files and a web archive, without a process for HTML."""

from __future__ import annotations

import json

import pytest

from tests.archives import answer, warc
from tests.e2e.harness import Program
from tests.unit.test_extract_fast import STORY

OTHER = (
    "The night train stops at the mill village again after forty years, and the baker opens before dawn for it.",
    "Two volunteers have swept the platform, mended the clock, and painted the bench by the waiting room green.",
    "Nobody had ordered the goat that came with the first train; the captain refused to take it back, of course.",
)


def html(story: tuple[str, ...], site: str) -> str:
    paragraphs = "".join(f"<p>{part}</p>" for part in story)
    menu = f"<nav><a href='/'>{site}</a><a href='/news'>News of {site}</a></nav>"
    return f"<html><head><title>{site}</title></head><body>{menu}<article>{paragraphs}</article></body></html>"


@pytest.fixture
def recipe(alone: Program) -> str:
    (alone.folder / "fast.toml").write_text('base = "default"\nextract = "fast"\n')
    return "fast.toml"


def test_files_and_archives_are_judged_by_a_fast_recipe(alone: Program, recipe: str) -> None:
    (alone.folder / "a.html").write_text(html(STORY, "Ribao"))
    (alone.folder / "b.html").write_bytes(html(STORY, "Xinwen").encode("gb18030"))
    bodies = [html(OTHER, "Post").encode(), html(STORY, "Post").encode(), b"%PDF-1.7 no page"]
    (alone.folder / "crawl.warc").write_bytes(b"".join(warc(answer(body), i) for i, body in enumerate(bodies)))
    done = alone.run("dedup", "a.html", "b.html", "crawl.warc", "--recipe", recipe, "--max-unreadable", 1)
    assert done.returncode == 0, done.stderr
    verdicts = [json.loads(line) for line in done.stdout.splitlines()]
    assert [v["verdict"] for v in verdicts] == ["new", "near_duplicate", "new", "near_duplicate", "unreadable"]
    assert {v["cluster_id"] for v in verdicts if v["verdict"] == "near_duplicate"} == {"0"}


@pytest.mark.parametrize("extract", ["prose", "fast"])
def test_tokens_with_a_recipe_are_of_the_part_of_html_that_counts(alone: Program, extract: str) -> None:
    (alone.folder / "own.toml").write_text(f'base = "default"\nextract = "{extract}"\n')
    body = html((*STORY, "Headline without marks"), "Ribao")
    (alone.folder / "page.html").write_text(body)
    done = alone.run("tokens", "-i", "page.html", "--recipe", "own.toml", "--json")
    words = {row[0] for row in json.loads(done.stdout)}
    assert "磨坊" in words
    assert "ribao" not in words
    assert ("headline" in words) == (extract == "fast")  # the article has its headlines, prose has none
