"""What `dedup` writes beside its verdicts: kept lines, pairs, clusters; and a corpus that is only compared with."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from stream.cli.main import invoke
from tests.e2e.harness import Program

STORY = "江边的老图书馆周六重新开放，馆员把修补好的地方志摆上书架，居民排队办理借书证，孩子们在院子里听故事。"
TRAIN = "The night train now stops at the mill village again after forty years, and the baker opens before dawn."
ORCHARD = (
    "Farmers of the northern orchard sold the last wheat of a dry summer before the council closed the bridge."
)


def line(page_id: str, text: str, **more: Any) -> bytes:
    """A page with odd spacing, and fields that nobody asked for."""
    return json.dumps({"id": page_id, "tags": ["a", None], "text": text, **more}, indent=None).encode() + b" "


def read(path: Path) -> list[Any]:
    return [json.loads(part) for part in path.read_bytes().splitlines()]


def test_canonical_lines_are_kept_as_they_are_and_pairs_and_clusters_named(alone: Program) -> None:
    kept = [line("a", STORY) + b"\r\n", b"\t" + line("b", TRAIN) + b"\n"]
    later = [line("d", "too short") + b"\n", b"\n", line("c", STORY.replace("周六", "周日")) + b"\n{broken\n"]
    first, second = alone.folder / "first.jsonl", alone.folder / "second.jsonl.gz"
    first.write_bytes(b"\xef\xbb\xbf" + b"".join([*kept, *later]))
    second.write_bytes(gzip.compress(line("b", TRAIN, newer=True) + b"\n" + line("e", ORCHARD)))
    options = ("-o", "verdicts", "--keep", "kept", "--pairs", "pairs", "--clusters", "clusters")
    done = alone.run("dedup", first, second, *options)
    assert done.returncode == 0, done.stderr.decode()
    newer = line("b", TRAIN, newer=True) + b"\n"
    assert (alone.folder / "kept").read_bytes() == kept[0] + newer + line("e", ORCHARD) + b"\n"
    verdicts = {v["id"]: v for v in read(alone.folder / "verdicts") if v["verdict"] == "near_duplicate"}
    named = {"a": "a", "b": "c", "distance": verdicts["c"]["distance"], "similarity": verdicts["c"]["similarity"]}
    assert read(alone.folder / "pairs") == [named]
    assert read(alone.folder / "clusters") == [{"cluster_id": "0", "canonical": "a", "pages": ["a", "c"]}]
    assert b"3 of 7 pages kept" in done.stderr


def test_a_corpus_gets_no_verdicts_and_what_is_like_it_is_not_kept(alone: Program) -> None:
    corpus, source = alone.folder / "corpus.jsonl", alone.folder / "pages.jsonl"
    corpus.write_bytes(line("x", STORY) + b"\n" + line("y", STORY) + b"\n" + line("b", TRAIN) + b"\n")
    pages = [line("c", STORY.replace("周六", "周日")), line("b", TRAIN), line("e", ORCHARD), line("f", ORCHARD)]
    source.write_bytes(b"".join(page + b"\n" for page in pages))
    options = ("--keep", "kept", "--pairs", "pairs", "--clusters", "clusters")
    verdicts = alone.dedup(source, "--against", corpus, *options)
    shown = [(v["id"], v["verdict"], v["near_duplicate_of"], v["ordinal"]) for v in verdicts]
    assert shown[0][:2] == ("c", "near_duplicate")
    assert shown[0][2] in ("x", "y")
    assert shown[1:] == [("b", "unchanged", None, 4), ("e", "new", None, 5), ("f", "near_duplicate", "e", 6)]
    assert (alone.folder / "kept").read_bytes() == pages[2] + b"\n"
    assert [pair["b"] for pair in read(alone.folder / "pairs")] == ["c", "f"]
    assert read(alone.folder / "clusters") == [
        {"cluster_id": "0", "canonical": "x", "pages": ["x", "y", "c"]},
        {"cluster_id": "5", "canonical": "e", "pages": ["e", "f"]},
    ]


def test_of_a_damaged_file_what_was_read_is_kept_and_it_ends_with_1(alone: Program) -> None:
    source = alone.folder / "pages.jsonl.gz"
    much = "x" * 400_000  # more than is unpacked at once
    pages = [line("a", STORY), line("b", TRAIN), line("c", STORY, more=much), line("d", ORCHARD, more=much)]
    source.write_bytes(gzip.compress(b"\n".join([*pages, b""]))[:-8])
    done = alone.run("dedup", source, "--keep", "kept")
    assert done.returncode == 1
    assert b"damaged or cut off after line" in done.stderr
    judged = [json.loads(part) for part in done.stdout.splitlines()]
    new = [v["id"] for v in judged if v["verdict"] == "new"]
    assert new[:2] == ["a", "b"]
    assert [page["id"] for page in read(alone.folder / "kept")] == new


def test_a_damaged_corpus_leaves_every_output_as_it_was(alone: Program) -> None:
    corpus, source = alone.folder / "corpus.jsonl.gz", alone.folder / "pages.jsonl"
    corpus.write_bytes(gzip.compress(line("a", STORY) + b"\n")[:-8])
    source.write_bytes(line("b", TRAIN))
    kept = alone.folder / "kept"
    kept.write_text("before")
    done = alone.run("dedup", source, "--against", corpus, "--keep", kept)
    assert (done.returncode, done.stdout, kept.read_text()) == (1, b"", "before")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("- --keep kept", "the pages of - are no lines that can be read twice"),
        ("page.html --keep kept", "the pages of page.html are no lines"),
        ("pages.jsonl --keep pages.jsonl", "pages.jsonl is an input, too"),
        ("pages.jsonl --against corpus.jsonl --pairs corpus.jsonl", "corpus.jsonl is an input, too"),
        ("pages.jsonl --keep out --clusters out", "--keep and --clusters go to the same place, out"),
        ("pages.jsonl --pairs -", "--output and --pairs go to the same place, -"),
        ("- --against -", "stdin is both"),
        ("pages.jsonl --against nowhere.jsonl", "nowhere.jsonl cannot be read"),
    ],
)
def test_what_does_not_go_together_is_refused_before_anything_is_read(
    arguments: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("pages.jsonl", "corpus.jsonl", "page.html"):
        Path(name).write_text("{}\n")
    assert invoke(["dedup", *arguments.split()]) == 2
    assert said in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["corpus.jsonl", "page.html", "pages.jsonl"]
