"""What `dedup` writes beside its verdicts: kept lines, pairs, clusters; and a corpus that is only compared with."""

from __future__ import annotations

import gzip
import json
import lzma
import os
import threading
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from simstream.cli.main import invoke
from simstream.files.zstandard import zstd
from simstream.tools.dedup.keep import KeepSelection, KeepSelector
from tests.e2e import pages
from tests.e2e.harness import Program
from tests.e2e.pages import ORCHARD, STORY, TRAIN
from tests.naive_truth import jaccard


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
    done = alone.run("dedup", first, second, "--versions", *options)
    assert done.returncode == 1
    assert b"1 of 7 pages could not be read: 1 bad_json (first" in done.stderr
    assert b"first.jsonl, line 6)" in done.stderr
    newer = line("b", TRAIN, newer=True) + b"\n"
    assert (alone.folder / "kept").read_bytes() == kept[0] + newer + line("e", ORCHARD) + b"\n"
    verdicts = {v["id"]: v for v in read(alone.folder / "verdicts") if v["verdict"] == "near_duplicate"}
    named = {"a": "a", "b": "c", "distance": verdicts["c"]["distance"], "similarity": verdicts["c"]["similarity"]}
    assert read(alone.folder / "pairs") == [named]
    assert read(alone.folder / "clusters") == [{"cluster_id": "0", "canonical": "a", "pages": ["a", "c"]}]
    assert b"3 of 7 pages kept" in done.stderr


def test_pages_of_one_id_in_two_files_are_two_pages_and_both_are_kept(alone: Program) -> None:
    first, second = alone.folder / "a.jsonl", alone.folder / "b.jsonl"
    mine = [line("0", TRAIN), line("1", STORY), line("1", STORY, again=True)]
    theirs = [line("0", ORCHARD), line("1", STORY.replace("周六", "周日"))]
    first.write_bytes(b"".join(page + b"\n" for page in mine))
    second.write_bytes(b"".join(page + b"\n" for page in theirs))
    options = ("-o", "verdicts", "--keep", "kept")
    done = alone.run("dedup", first, second, *options)
    shown = [(v["id"], v["verdict"], v["near_duplicate_of"]) for v in read(alone.folder / "verdicts")]
    assert shown == [
        ("0", "new", None),
        ("1", "new", None),
        ("1", "unchanged", None),
        (f"0@{second}:1", "new", None),
        (f"1@{second}:2", "near_duplicate", "1"),
    ]
    assert (alone.folder / "kept").read_bytes().split(b"\n")[:-1] == [mine[0], mine[2], theirs[0]]
    last = done.stderr.decode().splitlines()[-1]
    assert "2 pages have the id of an earlier page" in last
    assert "--versions" in last
    asked = alone.run("explain", f"0@{second}:1", "-i", first, "-i", second, "--json")
    assert json.loads(asked.stdout)["verdict"]["ordinal"] == 3

    old = alone.run("dedup", first, second, *options, "--versions")
    assert [v["verdict"] for v in read(alone.folder / "verdicts")] == [
        "new", "new", "unchanged", "new", "unchanged"]  # fmt: skip
    assert b"came before" not in old.stderr


def test_a_share_of_unreadable_pages_decides_the_exit_code(alone: Program) -> None:
    pages = [line("a", STORY), b'{"id":"b","text":5}', line("c", TRAIN), b"{}"]
    (alone.folder / "p.jsonl").write_bytes(b"\n".join(pages))
    for share, code in (((), 0), (("--max-unreadable", 0.5), 0), (("--max-unreadable", 0.4), 1)):
        done = alone.run("dedup", "p.jsonl", *share)
        assert done.returncode == code
        assert b"2 of 4 pages could not be read: 1 wrong_type (first p.jsonl, line 2), 1 no_text" in done.stderr
        assert len(done.stdout.splitlines()) == 4


def test_a_file_without_the_text_field_ends_with_2_and_names_its_fields(alone: Program) -> None:
    (alone.folder / "p.jsonl").write_bytes(b'{"id":1,"content":"x"}\n{"id":2,"heading":"y","status":200}\n')
    out = alone.folder / "verdicts"
    out.write_text("before")
    done = alone.run("dedup", "p.jsonl", "-o", out)
    assert done.returncode == 2
    assert out.read_text() == "before"
    said = "no page of p.jsonl has a field text or html: name it with --text-field; there are id, content, heading"
    assert said in done.stderr.decode()


@pytest.mark.parametrize(("ending", "opened"), [(".gz", gzip.open), (".XZ", lzma.open), (".zst", zstd.open)])
def test_outputs_are_compressed_by_their_names(alone: Program, ending: str, opened: Any) -> None:
    pages = [line(str(number), f"{STORY} {number}" * number) for number in range(1, 9)]
    (alone.folder / "p.jsonl").write_bytes(b"".join(page + b"\n" for page in pages))
    plain = alone.run("dedup", "p.jsonl", "--keep", "kept")
    packed = alone.run("dedup", "p.jsonl", "--keep", f"kept.jsonl{ending}", "-o", f"verdicts{ending}")
    assert packed.returncode == 0, packed.stderr.decode()
    with opened(alone.folder / f"verdicts{ending}", "rb") as found:
        assert found.read() == plain.stdout
    with opened(alone.folder / f"kept.jsonl{ending}", "rb") as found:
        assert found.read() == (alone.folder / "kept").read_bytes()
    again = alone.run("dedup", f"kept.jsonl{ending}")
    assert again.returncode == 0


def test_the_numbers_of_kept_and_left_out_pages_add_up(alone: Program) -> None:
    pages = [line("a", STORY), line("b", STORY), line("c", "few words"), b"{broken", line("d", ORCHARD, status=500)]
    pages += [line("e", TRAIN), line("e", TRAIN, again=True), line("x", STORY.replace("周六", "周日"))]
    (alone.folder / "p.jsonl").write_bytes(b"\n".join(pages))
    (alone.folder / "old.jsonl").write_bytes(line("o", ORCHARD) + b"\n")
    (alone.folder / "p.jsonl").write_bytes(b"\n".join([*pages, line("p", ORCHARD)]))
    done = alone.run("dedup", "p.jsonl", "--keep", "kept", "--against", "old.jsonl")
    assert (
        b"2 of 9 pages kept; left out: 2 like a kept page, 1 like a page of the corpus, 1 earlier versions, "
        b"1 too short or gone, 1 error pages, 1 unreadable" in done.stderr
    )
    assert (alone.folder / "kept").read_bytes().splitlines() == [pages[0], pages[6]]


def test_least_jaccard_lists_all_pairs_and_everything_follows_from_them(alone: Program) -> None:
    texts = {"a": STORY, "b": STORY.replace("周六", "周日"), "c": STORY + TRAIN, "d": TRAIN, "e": STORY[:22]}
    texts |= {
        f"x{n}": text for n, text in enumerate((ORCHARD, ORCHARD.replace("wheat", "barley"), ORCHARD.upper()))
    }
    texts = {"old": STORY.replace("居民", "读者")} | texts
    source, corpus = alone.folder / "p.jsonl", alone.folder / "old.jsonl"
    source.write_bytes(b"\n".join(line(name, text) for name, text in texts.items() if name != "old"))
    corpus.write_bytes(line("old", texts["old"]))
    expected = {
        (a, b): jaccard(texts[a], texts[b]) for a, b in combinations(texts, 2) if jaccard(texts[a], texts[b]) >= 0.7
    }
    assert len(expected) == 5
    options = ("--least-jaccard", ".7", "--pairs", "pairs", "--keep", "kept", "--clusters", "clusters", "-o", "v")
    done = alone.run("dedup", source, "--against", corpus, *options)
    assert done.returncode == 0, done.stderr.decode()
    assert b"judged with --distance 12\n" in done.stderr
    pairs = read(alone.folder / "pairs")
    assert {(pair["a"], pair["b"]): pair["jaccard"] for pair in pairs} == pytest.approx(expected, abs=6e-5)
    assert all(set(pair) == {"a", "b", "distance", "similarity", "jaccard"} for pair in pairs)
    near = {b: max((alike, a) for (a, other), alike in expected.items() if other == b) for _, b in expected}
    verdicts = {v["id"]: v for v in read(alone.folder / "v")}
    assert {name: verdicts[name]["near_duplicate_of"] for name in near} == {
        name: a for name, (_, a) in near.items()
    }
    assert {v["id"] for v in verdicts.values() if v["verdict"] == "new"} == set(texts) - set(near) - {"old"}
    assert {page["id"] for page in read(alone.folder / "kept")} == {"b", "c", "d", "e", "x0"}, "b is unlike `old`"
    assert [group["pages"] for group in read(alone.folder / "clusters")] == [["old", "a", "b"], ["x0", "x1", "x2"]]
    for wrong in ("0", "1.5", "nan"):
        assert alone.run("dedup", source, "--least-jaccard", wrong).returncode == 2


def test_feed_warns_of_ids_that_the_service_takes_for_versions(alone: Program) -> None:
    for name, text in (("a.jsonl", STORY), ("b.jsonl", TRAIN)):
        (alone.folder / name).write_bytes(line("0", text) + b"\n")
    alone.good("topics", "create", "--log", "log")
    done = alone.run("feed", "a.jsonl", "b.jsonl", "--log", "log")
    assert b"1 page has the id of an earlier page" in done.stderr


def test_a_corpus_gets_no_verdicts_and_pages_like_it_are_not_kept(alone: Program) -> None:
    corpus, source = alone.folder / "corpus.jsonl", alone.folder / "pages.jsonl"
    corpus.write_bytes(line("x", STORY) + b"\n" + line("y", STORY) + b"\n" + line("b", TRAIN) + b"\n")
    pages = [line("c", STORY.replace("周六", "周日")), line("b", TRAIN), line("e", ORCHARD), line("f", ORCHARD)]
    source.write_bytes(b"".join(page + b"\n" for page in pages))
    options = ("--keep", "kept", "--pairs", "pairs", "--clusters", "clusters")
    verdicts = alone.dedup(source, "--versions", "--against", corpus, *options)
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


def test_a_damaged_file_keeps_its_read_pages_and_ends_with_1(alone: Program) -> None:
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


@pytest.mark.parametrize("changed", ["longer", "shorter", "other", "after"])
def test_lines_are_kept_as_they_were_judged_or_not_at_all(
    changed: str, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    empty, first, second = (tmp_path / name for name in ("0.jsonl", "a.jsonl", "b.jsonl"))
    empty.write_bytes(b"")
    first.write_bytes(b"".join(line(*page) + b"\n" for page in (("a", STORY), ("b", TRAIN))))
    second.write_bytes(b"\n" + line("c", ORCHARD) + b"\r\n")
    judged = first.read_bytes() + second.read_bytes()[1:]
    choose = KeepSelector.choose

    def choose_late(keeping: KeepSelector, *arguments: Any) -> KeepSelection:
        if changed in ("longer", "after"):
            for path in (empty, first) if changed == "longer" else (second,):
                path.write_bytes(path.read_bytes() + line("d", STORY * 2) + b"\n")
        elif changed == "shorter":
            first.write_bytes(first.read_bytes().splitlines(keepends=True)[0])
        else:
            first.write_bytes(first.read_bytes().replace(b"baker", b"miller"))
        return choose(keeping, *arguments)

    monkeypatch.setattr(KeepSelector, "choose", choose_late)
    monkeypatch.setenv("SIMSTREAM_CACHE", str(cache))
    kept, out = tmp_path / "kept", tmp_path / "out"
    kept.write_bytes(b"before")
    out.write_bytes(b"before")
    code = invoke(["dedup", *map(str, (empty, first, second)), "-o", str(out), "--keep", str(kept)])
    if changed in ("longer", "after"):
        assert (code, kept.read_bytes()) == (0, judged)
    else:
        assert (code, kept.read_bytes(), out.read_bytes()) == (1, b"before", b"before")
        assert f"{first} changed while it was judged" in capsys.readouterr().err


def test_a_damaged_corpus_leaves_every_output_as_it_was(alone: Program) -> None:
    corpus, source = alone.folder / "corpus.jsonl.gz", alone.folder / "pages.jsonl"
    corpus.write_bytes(gzip.compress(line("a", STORY) + b"\n")[:-8])
    source.write_bytes(line("b", TRAIN))
    kept = alone.folder / "kept"
    kept.write_text("before")
    done = alone.run("dedup", source, "--against", corpus, "--keep", kept)
    assert (done.returncode, done.stdout, kept.read_text()) == (1, b"", "before")


def test_broken_lines_of_a_corpus_end_the_run_unless_a_share_is_allowed(alone: Program) -> None:
    corpus, source = alone.folder / "corpus.jsonl", alone.folder / "pages.jsonl"
    corpus.write_bytes(line("a", STORY) + b"\ngarbage\n")
    source.write_bytes(line("b", STORY))
    done = alone.run("dedup", source, "--against", corpus, "-o", "v")
    assert (done.returncode, (alone.folder / "v").exists()) == (1, False)
    assert b"1 of 2 pages to compare with could not be read: 1 bad_json (first " in done.stderr
    assert b"corpus.jsonl, line 2" in done.stderr
    done = alone.run("dedup", source, "--against", corpus, "--max-unreadable", ".5", "-o", "v")
    assert done.returncode == 0
    assert b"1 of 2 pages to compare with could not be read" in done.stderr
    assert [verdict["near_duplicate_of"] for verdict in read(alone.folder / "v")] == ["a"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("- --keep kept", "--keep reads its inputs twice, and - is no regular file"),
        ("page.html --keep kept", "--keep writes the paths of files, and kept does not end in .txt"),
        ("pages.jsonl --keep pages.jsonl", "pages.jsonl is an input, too"),
        ("pages.jsonl --against corpus.jsonl --pairs corpus.jsonl", "corpus.jsonl is an input, too"),
        ("pages.jsonl --keep out --clusters out", "--keep and --clusters go to the same place, out"),
        ("pages.jsonl --pairs -", "--output and --pairs go to the same place, -"),
        ("pages.jsonl -o out --keep ./out", "--output and --keep go to the same place, ./out"),
        ("pages.jsonl -o out --keep out.part", "--output and --keep go to the same place, out.part"),
        ("pages.jsonl --pairs folder/../out.part --clusters out", "--pairs and --clusters go to the same"),
        ("pages.jsonl --keep link", "link is an input, too"),
        ("folder -o folder/a.txt", "folder/a.txt is an input, too"),
        ("pages.jsonl --against . --clusters page.html", "page.html is an input, too"),
        ("- --against -", "INPUT and --against are both stdin"),
        ("pages.jsonl --max-unreadable nan", "nan is no number"),
        ("pages.jsonl --max-unreadable 1.5", "1.5 is not in the range 0<=x<=1"),
        ("pages.jsonl --against nowhere.jsonl", "nowhere.jsonl cannot be read"),
    ],
)
def test_contradicting_options_are_refused_before_anything_is_read(
    arguments: str, said: str, refuses: Callable[[str, str], None]
) -> None:
    Path("folder").mkdir()
    Path("link").symlink_to("pages.jsonl")
    for name in ("pages.jsonl", "corpus.jsonl", "page.html", "folder/a.txt"):
        Path(name).write_text("{}\n")
    refuses(arguments, said)


def test_distance_auto_is_the_widest_that_the_files_afford_and_says_which(alone: Program, tmp_path: Path) -> None:
    path = pages.write(tmp_path / "pages.jsonl", 200)
    options = ("--max-unreadable", 1, "--distance")
    wide = alone.run("dedup", path, *options, "auto")
    assert wide.stderr.decode().count("judged with --distance 12") == 1
    assert wide.stdout == alone.run("dedup", path, *options, 12).stdout
    plain = alone.run("dedup", path, *options[:2])
    assert (plain.stdout, plain.stderr) == (wide.stdout, wide.stderr)
    for settled in (
        alone.run("dedup", path, *options[:2], SIMSTREAM_DISTANCE="5"),
        alone.run("dedup", path, *options, 5),
    ):
        assert b"judged with" not in settled.stderr
        assert settled.stdout != wide.stdout
    piped = alone.run("dedup", "-", *options, "auto", stdin=path.read_bytes())
    assert "judged with --distance 8" in piped.stderr.decode()
    fifo = tmp_path / "fifo.jsonl"
    os.mkfifo(fifo)
    threading.Thread(target=fifo.write_bytes, args=(path.read_bytes(),), daemon=True).start()
    assert "judged with --distance 8" in alone.run("dedup", fifo, *options, "AUTO").stderr.decode()
    assert len(piped.stdout.splitlines()) == len(wide.stdout.splitlines()) == 200
