"""`find-near`: which queries have a match in a corpus, as comparing all with all says, the corpus read in parts."""

from __future__ import annotations

import gzip
import json
import lzma
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from simstream.cli.main import invoke
from simstream.errors import InputError
from simstream.model import U64
from simstream.tools.find import near as find_near
from simstream.tools.find.near import NO_MATCH, nearest
from simstream.tools.find.pairs import distinct
from tests import naive_find
from tests.unit.test_find import as_lines, crowd


def files(folder: Path, queries: list[int], corpus: list[int]) -> tuple[str, str]:
    near, source = folder / "queries.txt", folder / "corpus.txt"
    near.write_text(as_lines(queries))
    source.write_text(as_lines(corpus))
    return str(near), str(source)


def printed(folder: Path, queries: list[int], corpus: list[int], distance: int) -> list[list[int]]:
    near, source = files(folder, queries, corpus)
    out = folder / "out.jsonl"
    assert invoke(["find-near", "-n", near, "-i", source, "-d", str(distance), "-o", str(out)]) == 0
    return [json.loads(line) for line in out.read_text().splitlines()]


@pytest.mark.parametrize(("seed", "distance"), [(1, 0), (2, 1), (3, 3), (4, 8), (5, 16), (6, 20), (7, 64)])
def test_it_says_what_comparing_all_with_all_says(seed: int, distance: int, tmp_path: Path) -> None:
    values = crowd(seed, 900, distance + 2)
    queries, corpus = [*values[:200], *values[700:]], values[150:800]
    expected = naive_find.nearest(queries, corpus, distance)
    assert expected
    assert printed(tmp_path, queries, corpus, distance) == expected


def test_packed_lists_are_read_and_damage_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    near, source = files(tmp_path, [3, 5], [7, 1 << 60])
    for path in (near, source):
        Path(path + ".xz").write_bytes(lzma.compress(Path(path).read_bytes()))
    out = tmp_path / "out.jsonl.gz"
    assert invoke(["find-near", "-n", near + ".xz", "-i", source + ".xz", "-d", "1", "-o", str(out)]) == 0
    assert gzip.decompress(out.read_bytes()) == b"[3, 7, 1]\n[5, 7, 1]\n"
    Path(source + ".xz").write_bytes(lzma.compress(Path(source).read_bytes())[:-9])
    assert invoke(["find-near", "-n", near, "-i", source + ".xz", "-d", "1"]) == 1
    assert "corpus.txt.xz is damaged or cut off after line 0" in capsys.readouterr().err


def test_tables_say_the_same_as_a_scan() -> None:
    """So many queries that tables are made, and a corpus in parts that are looked up by several threads."""
    rng = np.random.default_rng(8)
    queries = distinct(rng.integers(0, 1 << 64, 20_000, np.uint64))
    flipped = queries[::7] ^ (np.uint64(1) << rng.integers(0, 64, len(queries[::7])).astype(np.uint64))
    corpus = rng.permutation(np.concatenate([flipped, queries[::50], rng.integers(0, 1 << 64, 40_000, np.uint64)]))
    heard: list[int] = []
    found = nearest(queries, np.array_split(corpus, 9), 3, heard.append)
    expected = np.full(len(queries), NO_MATCH)
    expected[::7] = 1
    expected[::50] = 0
    assert found.distance.tolist() == expected.tolist()
    matched = found.distance != NO_MATCH
    assert np.bitwise_count(found.fingerprint ^ queries)[matched].tolist() == expected[matched].tolist()
    assert found.compared == heard[-1] == len(corpus)
    assert heard == sorted(heard)


def test_a_crowd_of_hits_is_reduced_to_the_nearest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(find_near, "CHUNK_FINGERPRINTS", 50)
    values = [1 << a | 1 << b for a in range(40) for b in range(a)]
    queries, corpus = values[::2], [value ^ 1 << 50 for value in values]
    found = nearest(distinct(np.array(queries, np.uint64)), [np.array(corpus, np.uint64)], 5)
    assert found.distance.tolist() == [1] * len(queries)
    assert (found.fingerprint ^ np.uint64(1 << 50)).tolist() == sorted(queries)


def test_only_a_few_parts_of_the_corpus_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(find_near, "cores", lambda: 2)
    heard = [0]
    ahead = 0

    def parts() -> Iterator[U64]:
        nonlocal ahead
        for number in range(40):
            ahead = max(ahead, number * 1000 - heard[-1])
            yield np.arange(number * 1000, (number + 1) * 1000, dtype=np.uint64)

    found = nearest(np.array([5], np.uint64), parts(), 3, heard.append)
    assert found.compared == 40_000
    assert 0 < ahead <= 6000


@pytest.mark.parametrize(("queries", "corpus"), [([], [1, 2]), ([7], []), ([7], [7 ^ (0xFF << 20)])])
def test_where_nothing_is_near_the_output_is_empty(queries: list[int], corpus: list[int], tmp_path: Path) -> None:
    assert printed(tmp_path, queries, corpus, 3) == []


def test_it_reads_a_pipe_and_writes_one(tmp_path: Path) -> None:
    near, _ = files(tmp_path, [9, 0xFF << 40], [])
    done = subprocess.run(
        [sys.executable, "-m", "simstream", "find-near", "--near", near, "-i", "-", "-d", "2"],
        input=b"8\n11\n",
        capture_output=True,
        check=True,
    )
    assert done.stdout == b"[9, 8, 1]\n"
    assert b"1 of them have a match among 2 fingerprints" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ("-n list -i list -d 3", 2, "--near and --input both name list"),
        ("-n nowhere -i list -d 3", 2, "nowhere cannot be read"),
        ("-n list -i . -d 3", 2, ". cannot be read"),
        ("-n list -i bad -d 3", 1, "line 2 of bad is not an unsigned 64-bit number"),
        ("-n bad -i list -d 3", 1, "line 2 of bad"),
        ("-n list -i bad -d 65", 2, "65 is not in the range 0<=x<=64"),
        ("-n list -i more -d 3 -o list", 2, "list is an input, too"),
        ("-n list -i new.part -d 3 -o new", 2, "new is an input, too"),
        ("-n list -i more -d 3 -o nowhere/out", 2, "nowhere/out cannot be written"),
        ("-n list -i more", 2, "Missing option '-d' / '--distance'"),
    ],
)
def test_an_error_is_one_line_and_leaves_no_output(
    arguments: str,
    code: int,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("list").write_text("1\n3\n")
    Path("more").write_text("1\n3\n")
    Path("new.part").write_text("1\n3\n")
    Path("bad").write_text("1\nx\n")
    output = [] if "-o" in arguments else ["-o", "out"]
    assert invoke(["find-near", *arguments.split(), *output]) == code
    last = capsys.readouterr().err.splitlines()[-1]
    assert said in last
    assert not Path("out").exists()
    assert Path("list").read_text() == "1\n3\n"


def test_an_error_of_the_corpus_ends_it_without_an_answer() -> None:
    def parts() -> Iterator[U64]:
        yield np.arange(1000, dtype=np.uint64)
        raise InputError("it broke off", "look")

    with pytest.raises(InputError, match="broke off"):
        nearest(np.array([5], np.uint64), parts(), 3)


def test_lists_come_from_pages_and_go_to_every_find_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the README says: numbers for pages that have a fingerprint, ids behind them, read by all three."""
    monkeypatch.chdir(tmp_path)
    words = [f"word{number}" for number in range(60)]
    texts = {"a": words, "b": [*words[:-1], "other"], "c": words[:3], "d": [f"far{n}" for n in range(60)]}
    pages = (json.dumps({"id": name, "text": " ".join(text)}) for name, text in texts.items())
    Path("pages.jsonl").write_text("\n".join(pages))
    assert invoke(["fingerprint", "pages.jsonl"]) == 0
    hexadecimal = dict(reversed(line.split("\t")) for line in capsys.readouterr().out.splitlines())
    assert invoke(["fingerprint", "--decimal", "pages.jsonl"]) == 0
    printed_lines = capsys.readouterr().out
    decimal = dict(reversed(line.split("\t")) for line in printed_lines.splitlines())
    assert hexadecimal["c"] == "-" * 16
    assert {name: f"{int(number):016x}" for name, number in decimal.items()} == {
        name: number for name, number in hexadecimal.items() if name != "c"
    }
    Path("list").write_text(printed_lines)
    Path("one").write_text(decimal["a"])
    values = [int(decimal[name]) for name in "abd"]
    for command, expected in (("find-all", naive_find.pairs), ("find-clusters", naive_find.clusters)):
        assert invoke([command, "-i", "list", "-o", "out", "-b", "17", "-d", "16"]) == 0
        assert [json.loads(line) for line in Path("out").read_text().splitlines()] == expected(values, 16)
    assert invoke(["find-near", "-n", "one", "-i", "list", "-d", "16", "-o", "out"]) == 0
    assert Path("out").read_text() == f"[{values[0]}, {values[0]}, 0]\n"
    assert invoke(["fingerprint", "--decimal", "--bits", "pages.jsonl"]) == 2
