"""`find-all` and `find-clusters`: simhash-cpp's command line, formats and exit codes, and what all pairs say."""

from __future__ import annotations

import io
import json
import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simstream.cli.main import invoke
from simstream.errors import InputError
from simstream.tools.find import lists
from simstream.tools.find import pairs as find_pairs
from simstream.tools.find.clusters import clusters
from simstream.tools.find.lists import read_fingerprints
from simstream.tools.find.pairs import FingerprintPairs, distinct, near_pairs
from tests import naive_find
from tests.short import examples

PAIR = 0xFF << 56
FAMILY = [0, 3, 15, PAIR, PAIR + (1 << 40), 0x0F0F << 20]
"""At distance 2 a chain of three whose ends are 4 apart, a pair, and one alone."""
BOTH = ("find-all", "find-clusters")


def crowd(seed: int, count: int, flips: int) -> list[int]:
    """Fingerprints of which many are near one another, some of them more than once."""
    rng = random.Random(seed)
    values = [rng.getrandbits(64) for _ in range(count // 2)]
    while len(values) < count:
        value = rng.choice(values)
        for _ in range(rng.randint(0, flips)):
            value ^= 1 << rng.randrange(64)
        values.append(value)
    return values


def printed(command: str, folder: Path, lines: str, *arguments: object) -> str:
    """The output of a command over these lines, which must end with 0."""
    source, out = folder / "in.txt", folder / "out.txt"
    source.write_text(lines, newline="")
    assert invoke([command, "-i", str(source), "-o", str(out), *map(str, arguments)]) == 0
    return out.read_text()


def as_lines(values: list[int]) -> str:
    return "".join(f"{value}\n" for value in values)


def test_pairs_are_json_arrays_a_line_the_lesser_first_and_each_once(tmp_path: Path) -> None:
    lines = as_lines([*reversed(FAMILY), 3, 3])
    assert printed("find-all", tmp_path, lines, "-b", 3, "-d", 2) == (
        "[0, 3]\n[3, 15]\n[18374686479671623680, 18374687579183251456]\n"
    )


def test_pairs_connect_clusters_and_single_values_are_not_printed(tmp_path: Path) -> None:
    lines = as_lines([*reversed(FAMILY), 3, 3])
    assert printed("find-clusters", tmp_path, lines, "-b", 3, "-d", 2) == (
        "[0, 3, 15]\n[18374686479671623680, 18374687579183251456]\n"
    )


@pytest.mark.parametrize("command", BOTH)
@pytest.mark.parametrize("lines", ["", "7\n", "7\n7\n"])
def test_where_nothing_is_near_the_output_is_empty(command: str, lines: str, tmp_path: Path) -> None:
    assert printed(command, tmp_path, lines, "-b", 6, "-d", 3) == ""


@pytest.mark.parametrize(("seed", "distance"), [(1, 1), (2, 3), (3, 6), (4, 8), (5, 16), (6, 20)])
def test_both_say_what_comparing_all_with_all_says(seed: int, distance: int, tmp_path: Path) -> None:
    values = crowd(seed, 600, distance + 2)
    options = ("-b", distance + 1, "-d", distance)
    pairs = printed("find-all", tmp_path, as_lines(values), *options)
    groups = printed("find-clusters", tmp_path, as_lines(values), *options)
    assert [json.loads(line) for line in pairs.splitlines()] == naive_find.pairs(values, distance) != []
    assert [json.loads(line) for line in groups.splitlines()] == naive_find.clusters(values, distance) != []


def test_blocks_change_no_result(tmp_path: Path) -> None:
    lines = as_lines(crowd(7, 2000, 5))
    assert len({printed("find-all", tmp_path, lines, "-b", blocks, "-d", 3) for blocks in (4, 6, 64)}) == 1


def test_a_crowd_is_found_whole_in_parts_and_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """With more pairs than one part may have, and more fingerprints than one thread looks up at a time."""
    monkeypatch.setattr(find_pairs, "MAX_PAIRS", 1000)
    monkeypatch.setattr(find_pairs, "BATCH_QUERIES", 64)
    column = distinct(np.array([1 << a | 1 << b for a in range(40) for b in range(a)], np.uint64))
    heard: list[int] = []
    parts = list(near_pairs(column, 4, heard.append))
    places = np.concatenate([np.stack(part, axis=1) for part in parts])
    expected = [[i, j] for j in range(len(column)) for i in range(j)]
    assert places.tolist() == sorted(expected)
    assert heard == sorted(heard)
    assert heard[-1] == len(column)
    assert len(parts) > len(column) // 64 + 1


@settings(max_examples=examples(100), deadline=None)
@given(st.integers(2, 40), st.data())
def test_clusters_are_connected_however_the_pairs_come(count: int, data: st.DataObject) -> None:
    place = st.integers(0, count - 1)
    tied = data.draw(st.lists(st.tuples(place, place).filter(lambda pair: pair[0] != pair[1])))
    cut = data.draw(st.integers(0, len(tied)))
    columns = [np.array(part, np.int64).reshape(-1, 2) for part in (tied[:cut], tied[cut:])]
    found = clusters(count, (FingerprintPairs(part.min(1), part.max(1)) for part in columns if len(part)))
    label = list(range(count))
    for a, b in tied:
        label = [min(label[a], label[b]) if own in (label[a], label[b]) else own for own in label]
    groups = [[place for place in range(count) if label[place] == own] for own in sorted(set(label))]
    assert [group.tolist() for group in found] == [group for group in groups if len(group) > 1]


@pytest.mark.parametrize(
    ("line", "value"),
    [
        (b"18446744073709551615\n", (1 << 64) - 1),
        (b" \t5\n", 5),
        (b"5 x\n", 5),
        (b"5\t1e3\r\n", 5),
        (b"5,page\n", 5),
        (b"5\r\n", 5),
        (b"+5", 5),
        (b"-3\n", (1 << 64) - 3),
        (b"00000000000000000000000000007\n", 7),
    ],
)
def test_a_line_is_read_as_c_reads_it(line: bytes, value: int) -> None:
    assert read_fingerprints(io.BytesIO(b"1\n" + line), "list").tolist() == [1, value]


def test_numbers_between_old_line_ends_are_refused() -> None:
    with pytest.raises(InputError, match="line 1 of list is not an unsigned 64-bit number"):
        read_fingerprints(io.BytesIO(b"1\r2\r"), "list")


def test_a_line_without_an_end_is_refused_before_it_fills_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lists, "_PART_BYTES", 10)
    assert read_fingerprints(io.BytesIO(b"1 2345\n22 45\n3"), "list").tolist() == [1, 22, 3]
    source = io.BytesIO(b"1\n2 " + 1000 * b"x")
    with pytest.raises(InputError, match="line 2 of list has more than 10 bytes"):
        read_fingerprints(source, "list")
    assert source.tell() <= 30


@pytest.mark.parametrize(
    "line", ["", "x7", "18446744073709551616", "1" * 5000, "3ba8eddec5657931", "1e3", "1.5", "0x10", "1_0"]
)
def test_a_line_that_is_no_number_ends_with_1_and_is_named(
    line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text(f"1\n2\n{line}\n3\n")
    assert invoke(["find-all", "-b", "6", "-d", "3", "-i", str(source), "-o", str(out)]) == 1
    assert f"line 3 of {source}" in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.parametrize("command", BOTH)
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ("-x", 1),
        ("--nothing", 1),
        ("-b", 1),
        ("--help=3", 1),
        ("-hx", 0),
        ("-x -h", 1),
        ("-h -x", 0),
        ("--he --nothing", 0),
        ("-b6 -d3 -i -h -o out", 7),
        ("-i -h -x", 1),
        ("", 2),
        ("-- -h", 2),
        ("-b 0 -d 3", 2),
        ("-b x -d 3", 2),
        ("-d 3 -i - -o -", 2),
        ("-b 6", 3),
        ("-b 6 -d 0 -i - -o -", 3),
        ("-b 6 -d 3 -o -", 4),
        ("-b 6 -d 3 --input= -o -", 4),
        ("-b 6 -d 3 -i -", 5),
        ("-b 3 -d 3 -i - -o -", 6),
        ("-b 65 -d 3 -i - -o -", 1),
        ("-b 6 -d 3 -i nowhere -o nowhere/out", 7),
        ("-b 6 -d 3 -i . -o out", 7),
        ("-b 6 -d 3 -i list -o nowhere/out", 8),
        ("-b6 -d3 -i list -o out", 0),
        ("--bl 6 --dist=3 more --inp list --output out", 0),
        ("-b 2 -b 6 -d 3x -i list -o out", 0),
    ],
)
def test_the_exit_codes_are_simhash_cpps(
    command: str, arguments: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("list").write_text("1\n3\n")
    assert invoke([command, *arguments.split()]) == code
    assert Path("out").exists() == (arguments.endswith(" out") and code == 0)


@pytest.mark.parametrize("command", ["find-all", "find-clusters"])
def test_the_list_is_never_overwritten(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "list"
    source.write_text("1\n2\n")
    assert invoke([command, "-b", "6", "-d", "3", "-i", str(source), "-o", str(source)]) == 8
    assert "list is an input, too" in capsys.readouterr().err
    assert source.read_text() == "1\n2\n"
