"""The programs of `examples/` and its notebook do what they say."""

from __future__ import annotations

import contextlib
import io
import json
import re
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from simstream import fingerprint
from tests.e2e.harness import Program


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The objects of a JSONL file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


EXAMPLES = Path(__file__).parents[2] / "examples"
PAGES = EXAMPLES / "pages.jsonl"
TEXTS = {page.get("id") or page["url"]: page["text"] for page in read_lines(PAGES)}
LONG = [text for text in TEXTS.values() if text.isascii() and len(text) > 600]
STORIES = list({text[:16]: text for text in reversed(LONG)}.values())
"""One text of each English story."""
Run = Callable[..., str]


@pytest.fixture
def run(cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a program of `examples/` in this process; return what it prints."""
    monkeypatch.setenv("SIMSTREAM_CACHE", str(cache))

    def run(name: str, *arguments: object) -> str:
        monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        return capsys.readouterr().out

    return run


def test_the_table_of_the_readme_names_each_example_and_its_own_words_are_short() -> None:
    programs = {path.name: path.read_text(encoding="utf-8") for path in EXAMPLES.glob("*.py")}
    table = re.findall(r"^\| \[(\S+)\]\(\1\)", (EXAMPLES / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert set(table) == {*programs, "research.ipynb"}
    assert {name: len(text.splitlines()) for name, text in programs.items() if len(text.splitlines()) > 60} == {}
    named = [name for name, text in programs.items() if f"examples/{name}" in text]
    assert sorted(named) == sorted(programs)  # how to run it stands in its docstring


def test_jsonl_unique_keeps_the_first_of_each_group(run: Run, tmp_path: Path) -> None:
    said = run("jsonl_unique.py", PAGES, tmp_path / "unique.jsonl")
    kept = (tmp_path / "unique.jsonl").read_text(encoding="utf-8").splitlines()
    assert said == f"{len(kept)} of 30 pages kept\n"
    assert kept[0] == PAGES.read_text(encoding="utf-8").splitlines()[0]
    assert 10 < len(kept) < 25


def test_parquet_table_adds_the_verdicts_as_columns(run: Run, tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    story = STORIES[0]
    rows = [{"id": "a", "text": story}, {"id": "b", "text": story + " Again."}, {"id": "c", "text": STORIES[1]}]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "in.parquet")
    assert run("parquet_table.py", tmp_path / "in.parquet", tmp_path / "out.parquet").startswith(
        "3 rows, 2 of them"
    )
    out = pq.read_table(tmp_path / "out.parquet").to_pylist()
    assert [(row["id"], row["verdict"], row["near_duplicate_of"]) for row in out] == [
        ("a", "new", None),
        ("b", "near_duplicate", "a"),
        ("c", "new", None),
    ]


def test_match_corpus_finds_the_page_of_a_text(run: Run, tmp_path: Path) -> None:
    assert run("match_corpus.py", "corpus", tmp_path / "state", PAGES).startswith("30 pages read, ")
    name, text = next((name, text) for name, text in TEXTS.items() if text == STORIES[0])
    assert run("match_corpus.py", "ask", tmp_path / "state", text).startswith(f"{name}: 0 bits apart")
    assert run("match_corpus.py", "ask", tmp_path / "state", "no such page") == "no page of the corpus matches\n"


def test_explain_pair_says_which_rule_decides(run: Run, tmp_path: Path) -> None:
    one, other = tmp_path / "one.txt", tmp_path / "other.txt"
    one.write_text(STORIES[0])
    for text, said in (
        (STORIES[0] + " Again.", r"a match: \d bits apart \(at most 8\), similarity [01]\.\d"),
        (STORIES[1], "no match: the fingerprints differ in more than 16 bits"),
        ("too short", r"no match: a text cannot be compared \(few_words\)"),
    ):
        other.write_text(text)
        assert re.match(said, run("explain_pair.py", one, other))


def test_hamming_names_the_nearest_text(run: Run, tmp_path: Path) -> None:
    lines = [STORIES[0], STORIES[1], "short", STORIES[0] + " Again."]
    (tmp_path / "texts.txt").write_text("\n".join(lines))
    said = run("hamming.py", tmp_path / "texts.txt").splitlines()
    assert [line.split(":")[0] for line in said] == ["line 1", "line 2", "line 4"]
    assert said[0].startswith(f"line 1: {fingerprint([STORIES[0]])[0]:016x}, nearest is line 4, ")


def test_compare_recipes_shows_precision_and_recall(run: Run, tmp_path: Path) -> None:
    (tmp_path / "wide.toml").write_text('distance = 16\nsimilarity = "0"\n')
    head, *rows = run(
        "compare_recipes.py", EXAMPLES / "pairs.jsonl", "google2007", tmp_path / "wide.toml"
    ).splitlines()
    assert head.split() == ["recipe", "precision", "recall"]
    found = {name: (float(precision), float(recall)) for name, precision, recall in map(str.split, rows)}
    assert set(found) == {"google2007", "wide"}
    assert found["google2007"][1] < found["wide"][1]


def test_train_weights_makes_a_recipe_with_other_fingerprints(run: Run, tmp_path: Path) -> None:
    said = run("train_weights.py", PAGES, tmp_path / "weights.txt")
    assert said.startswith("lightest words: ")
    assert int(said.split()[-1]) > 0
    assert (tmp_path / "weights.toml").is_file()


def test_news_feed_shows_the_largest_stories_of_a_file_of_verdicts(
    run: Run, alone: Program, tmp_path: Path
) -> None:
    alone.dedup(PAGES, "-o", "verdicts.jsonl")
    sizes: dict[str, set[str]] = {}
    for verdict in read_lines(tmp_path / "verdicts.jsonl"):
        if verdict["cluster_id"] is not None:
            sizes.setdefault(verdict["cluster_id"], set()).add(verdict["id"])
    said = run("news_feed.py", tmp_path / "verdicts.jsonl", 3).splitlines()
    assert [int(line.split()[0]) for line in said] == sorted(map(len, sizes.values()), reverse=True)[:3]


def test_the_notebook_prints_what_it_shows(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIMSTREAM_CACHE", str(cache))
    monkeypatch.chdir(EXAMPLES)
    space: dict[str, object] = {}
    cells = json.loads((EXAMPLES / "research.ipynb").read_text(encoding="utf-8"))["cells"]
    for cell in [cell for cell in cells if cell["cell_type"] == "code"]:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile("".join(cell["source"]), cell["id"], "exec"), space)
        [shown] = cell["outputs"]
        assert printed.getvalue() == "".join(shown["text"])
