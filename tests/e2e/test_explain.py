"""`simstream explain` over files: it judges them as `dedup` does, and says why."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from simstream.cli.main import invoke
from simstream.wire import verdict as wire
from tests import naive_truth
from tests.e2e import pages
from tests.e2e.harness import ROOT, Program
from tests.e2e.pages import HARBOUR
from tests.e2e.test_errors import one_line

DEMO = ROOT / "stream" / "simstream" / "sources" / "demo_pages.jsonl"


def explained(program: Program, *arguments: object, stdin: bytes = b"") -> list[dict[str, Any]]:
    """The objects that `explain --json` prints."""
    done = program.run("explain", "--json", *arguments, stdin=stdin)
    assert done.returncode == 0, done.stderr.decode()
    return [json.loads(line) for line in done.stdout.splitlines()]


def shown(program: Program, *arguments: object) -> str:
    done = program.run("explain", *arguments)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def test_the_verdicts_that_are_explained_are_those_of_dedup(alone: Program, tmp_path: Path) -> None:
    path = pages.write(tmp_path / "pages.jsonl", 300)
    flags = ("--link", "canonical", "--distance", "6")
    done = alone.run("dedup", path, *flags)
    newest = {json.loads(line)["id"]: line for line in done.stdout.splitlines()}
    ids = sorted(newest)[::9]
    found = alone.run("explain", *ids, "--json", "--diff", "-i", path, *flags)
    assert found.returncode == 0, found.stderr.decode()
    for page_id, line in zip(ids, found.stdout.splitlines(), strict=True):
        assert newest[page_id] in line, "the verdict stands in the explanation as its own bytes"
        one = json.loads(line)
        assert (one["published"], one["agrees"]) == (None, None)
        assert one["text_missing"] is None


def test_files_are_explained_with_the_distance_that_dedup_chose_for_their_size(
    alone: Program, tmp_path: Path
) -> None:
    old, new = pages.write(tmp_path / "old.jsonl", 100), pages.write(tmp_path / "new.jsonl", 200, seed=2)
    recipe = tmp_path / "alone.toml"
    recipe.write_text('base = "default"\nsketch_lookups = 0\n')
    quiet = ("--max-unreadable", 1, "--versions", "--recipe", recipe)
    wide = alone.run("dedup", new, "--against", old, *quiet).stdout.splitlines()
    published = {verdict["id"]: verdict for verdict in map(json.loads, wide)}
    further = [name for name, verdict in published.items() if (verdict["distance"] or 0) > 8]
    assert further
    for one in explained(alone, *further, "-i", old, "-i", new, *quiet[2:]):
        assert 8 < one["verdict"]["distance"] <= one["rules"]["distance"] == 12
        assert one["verdict"] == published[one["verdict"]["id"]]
    piped = explained(alone, *further, "-i", old, "-i", "-", *quiet[2:], stdin=new.read_bytes())
    assert {one["rules"]["distance"] for one in piped} == {8}


def test_a_near_duplicate_is_explained_with_words_candidates_and_differences(alone: Program) -> None:
    [one] = explained(alone, "https://xinwen.example/n/70322", "-i", DEMO, "--diff")
    verdict = wire.decode(json.dumps(one["verdict"]).encode())
    assert verdict.verdict == "near_duplicate"
    assert one["candidates"][0]["id"] == verdict.near_duplicate_of
    assert one["candidates"][0]["rejected_by"] is None
    assert len(one["words"]) == one["distinct_words"] == 80
    assert [row[2] for row in one["words"]] == sorted((row[2] for row in one["words"]), reverse=True)
    changed = [text for passage in one["difference"]["passages"] for text, only in passage["page"] if only]
    assert changed == ["开发", "非常"]


def test_text_for_people_begins_with_the_verdict_and_cuts_lists(alone: Program) -> None:
    lines = shown(alone, "https://xinwen.example/n/70322", "-i", DEMO, "--diff", "--words", 3).splitlines()
    assert lines[0] == "https://xinwen.example/n/70322  near_duplicate"
    assert lines[1].startswith(
        "It is a near duplicate of https://dev.example/paper-kite-beta (ordinal 55): they differ in "
    )
    assert any(line.endswith("77 lighter not shown") for line in lines)
    assert any(line.startswith("+ … ") and "[非常]欢迎" in line for line in lines)
    assert all(line == line.rstrip() for line in lines)


def test_each_kind_of_verdict_says_what_it_means(alone: Program) -> None:
    meanings = {
        "https://museum.example/notes/corn-street-map": "It is new: all 28 other live pages differ in more than 16",
        "https://coast-weekly.example/dunmore-kites": "It is new: even the nearest page",
        "https://news.example/a/10555": "and ties cluster 47 into it",
        "https://sky.example/2026/green-comet": "It is unchanged since its earlier version (ordinal 11)",
        "https://daily.example/live/ticker": "it has 2 distinct words, and pages are compared from 8 on",
        "https://xinwen.example/n/70211": "stays live: a failed fetch is no edit",
        "https://news.example/a/10399": "the page was answered with status 404",
        "https://shop.example/item/5": "`text` is of the wrong type (list)",
    }
    text = shown(alone, *meanings, "--versions", "-i", DEMO, "--distance", 8)
    parts = text.split("═" * 40 + "\n")
    for part, (page_id, meaning) in zip(parts, meanings.items(), strict=True):
        assert part.startswith(page_id)
        assert meaning in part


def test_a_page_of_standard_input_and_of_a_packed_file_is_explained(alone: Program) -> None:
    line = json.dumps({"id": "a", "text": HARBOUR}).encode() + b"\n"
    [one] = explained(alone, "a", "-i", "-", "--diff", stdin=line)
    assert (one["verdict"]["verdict"], one["verdict"]["source"]["topic"]) == ("new", "-")
    (alone.folder / "first.jsonl").write_bytes(line)
    found = explained(
        alone, "-i", "first.jsonl", "-i", "-", "--diff", "--", "-:1", stdin=line.replace(b'"id": "a", ', b"")
    )
    assert found[0]["verdict"]["near_duplicate_of"] == "a"
    assert found[0]["difference"] | {"passages": []} == {
        "id": "a", "ordinal": 0, "passages": [], "same": 18, "only_other": 0, "only_page": 0, "missing": None,
    }  # fmt: skip


def test_a_named_pipe_is_refused_before_it_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pipe = tmp_path / "pages.jsonl"
    os.mkfifo(pipe)
    holder = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)  # a reader would get pages, and then an empty pipe
    try:
        os.write(holder, b'{"id": "a", "text": "x"}\n')
        assert invoke(["explain", "a", "-i", str(pipe)]) == 2
    finally:
        os.close(holder)
    said = capsys.readouterr().err
    assert f"reads its files several times, and {pipe} is no regular file: save it to a file first" in said


def test_pages_with_fields_of_their_own_are_explained_as_dedup_judges_them(alone: Program) -> None:
    rows = [{"doc": one, "body": f"{HARBOUR} {one}", "text": "no"} for one in ("a", "b")]
    lines = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
    own = ("--text-field", "body", "--id-field", "doc")
    [verdict] = [json.loads(line) for line in alone.run("dedup", "-", *own, stdin=lines).stdout.splitlines()[1:]]
    (alone.folder / "own.jsonl").write_bytes(lines)
    for inputs, stdin in ((("-i", "own.jsonl"), b""), (("-i", "-"), lines)):
        [found] = explained(alone, "b", *inputs, *own, stdin=stdin)
        assert found["verdict"]["near_duplicate_of"] == verdict["near_duplicate_of"] == "a"
    refused = alone.run("explain", "b", *own)
    assert refused.returncode == 2
    assert b"set [fields] for a log" in refused.stderr


def test_a_page_of_a_folder_of_html_is_explained_by_its_main_content(alone: Program) -> None:
    site = alone.folder / "site"
    site.mkdir()
    for name, word in (("a", "brass"), ("b", "copper")):
        article = f"<article><p>{HARBOUR.replace('brass', word) * 3}</p></article>"
        (site / f"{name}.html").write_text(f"<html><body><nav>home news login</nav>{article}</body></html>")
    [one] = explained(alone, "site/b.html", "-i", "site", "--diff", "--distance", "16", "--similarity", "0")
    assert one["verdict"]["near_duplicate_of"] == "site/a.html"
    assert "login" not in [row[0] for row in one["words"]]
    assert {
        piece[0].strip() for passage in one["difference"]["passages"] for piece in passage["page"] if piece[1]
    } == {"copper"}


def test_a_page_is_set_beside_any_other_that_was_live(alone: Program) -> None:
    far, later = "https://ribao.example/2026/0302/ditie7", "weather:west-coast"
    ask = ("https://museum.example/notes/corn-street-map", "-i", DEMO, "--diff", "--with")
    [one] = explained(alone, *ask, far)
    assert (one["beside"]["id"], one["beside"]["rejected_by"], one["difference"]["id"]) == (far, "distance", far)
    assert one["beside"]["distance"] > 16
    assert (
        f"Beside {far} (ordinal 0) it is no match: they differ in {one['beside']['distance']} bits (at most"
        in one["sentence"]
    )
    [near] = explained(alone, "https://xinwen.example/n/70322", *ask[1:], "https://dev.example/paper-kite-beta")
    assert near["beside"] == near["candidates"][0]
    assert "it is a match:" in near["sentence"]
    [gone] = explained(alone, later, "--ordinal", 26, *ask[1:], later)
    assert gone["beside"] is None
    assert f"{later} was not live then" in gone["sentence"]
    assert (gone["overlap"], gone["difference"]) == (None, None), "the nearest page was not asked for"


def test_a_page_that_quotes_another_one_whole_is_said_to(alone: Program, tmp_path: Path) -> None:
    essay = " ".join(f"argument{n} leads from premise{n} towards conclusion{n * 7}" for n in range(60))
    made = [{"id": "quoted", "text": HARBOUR}, {"id": "essay", "text": f"{essay} {HARBOUR} {essay[::-1]}"}]
    path = tmp_path / "pages.jsonl"
    path.write_text("".join(json.dumps(page) + "\n" for page in made))
    [one] = explained(alone, "essay", "-i", path, "--with", "quoted")
    assert one["verdict"]["verdict"] == "new"
    assert one["difference"] is None
    texts = made[1]["text"], made[0]["text"]
    assert one["overlap"] == {
        "id": "quoted",
        "ordinal": 0,
        "jaccard": round(naive_truth.jaccard(*texts), 4),
        "of_page": round(naive_truth.share(*texts), 4),
        "of_other": 1.0,
    }
    text = shown(alone, "essay", "-i", path, "--with", "quoted")
    assert "Text in common with quoted (ordinal 0)" in text
    assert "100 % of its runs are in the page" in text
    many = " ".join(f"word{number}" for number in range(6_000))
    path.write_text(
        json.dumps({"id": "long", "text": many}) + "\n" + json.dumps({"id": "plus", "text": f"{many} q"})
    )
    [nearly] = explained(alone, "plus", "-i", path)
    assert (nearly["overlap"]["of_page"], nearly["overlap"]["of_other"]) == (0.9999, 1.0)
    assert "99.99 % of the page's runs" in shown(alone, "plus", "-i", path)


def test_texts_with_half_a_character_are_set_side_by_side(alone: Program, tmp_path: Path) -> None:
    path = tmp_path / "pages.jsonl"
    made = [{"id": "whole", "text": HARBOUR}, {"id": "half", "text": HARBOUR.replace("brass", "\ud800 tin")}]
    path.write_text("".join(json.dumps(page) + "\n" for page in made))
    [one] = explained(alone, "half", "-i", path, "--diff", "--with", "whole")
    assert "?" in json.dumps(one["difference"]["passages"])
    assert "only there" in shown(alone, "half", "-i", path, "--diff", "--with", "whole")


def test_without_a_page_near_it_there_is_no_overlap(alone: Program, tmp_path: Path) -> None:
    path = tmp_path / "pages.jsonl"
    path.write_text(json.dumps({"id": "quoted", "text": HARBOUR}))
    [alone_there] = explained(alone, "quoted", "-i", path)
    assert alone_there["overlap"] is None


def test_an_older_version_is_explained_by_its_ordinal(alone: Program) -> None:
    [newest] = explained(alone, "weather:west-coast", "--versions", "-i", DEMO)
    [older] = explained(alone, "weather:west-coast", "--ordinal", 52, "--versions", "-i", DEMO)
    [bare] = explained(alone, "--ordinal", 52, "--versions", "-i", DEMO)
    assert (newest["verdict"]["ordinal"], newest["verdict"]["verdict"]) == (103, "new")
    assert (older["verdict"]["ordinal"], older["verdict"]["verdict"]) == (52, "unchanged")
    assert bare == older


def test_an_unknown_id_is_named_with_the_likely_one(alone: Program) -> None:
    done = alone.run("explain", "green-comet", "-i", DEMO)
    assert "did you mean https://sky.example/2026/green-comet?" in one_line(done, 1)
    done = alone.run("explain", "nowhere", "weather:west-coast", "-i", DEMO)
    assert "nowhere" in one_line(done, 1)
    assert done.stdout.startswith(b"weather:west-coast"), "the others are explained all the same"
    assert "0 to 107" in one_line(alone.run("explain", "--ordinal", 108, "-i", DEMO), 1)
    assert "weather:west-coast" in one_line(alone.run("explain", "--ordinal", 52, "x", "-i", DEMO), 1)


def test_an_id_cannot_steer_the_terminal(alone: Program) -> None:
    line = json.dumps({"id": "a\x1b[2Jb", "url": "a\x1b[2Jb", "text": HARBOUR + " \x1b[31mred"}).encode()
    done = alone.run("explain", "--ordinal", 0, "-i", "-", stdin=line)
    assert done.returncode == 0
    assert b"\x1b" not in done.stdout
