"""`dedup --keep` for Parquet inputs: the rows of kept pages, unchanged, in the schema of the inputs."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simstream.cli.main import invoke
from simstream.tools.dedup import table_file
from simstream.tools.dedup.keep import KeepSelection, KeepSelector
from simstream.tools.dedup.parquet_copy import ParquetCopier
from tests.e2e import pages
from tests.e2e.harness import Program
from tests.e2e.pages import ORCHARD, STORY, TRAIN

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def as_table(lines: list[bytes]) -> Any:
    """Pages as a table, with columns that no page has, of types that only Parquet has."""
    told = [json.loads(line) for line in lines]
    count = len(told)
    return pa.table(
        {
            "price": pa.array([Decimal(n) / 100 if n % 3 else None for n in range(count)], pa.decimal128(9, 2)),
            "id": [str(page.get("id", n)) for n, page in enumerate(told)],
            "seen": pa.array([datetime(2026, 1, 2, tzinfo=UTC)] * count, pa.timestamp("us", "UTC")),
            "text": pa.array([page.get("text") for page in told], pa.large_string()),
            "links": [[{"to": f"u{n}", "rank": None}] * (n % 3) for n in range(count)],
            "group": pa.array([f"g{n % 5}" for n in range(count)]).dictionary_encode(),
            "raw": [bytes([n % 256]) for n in range(count)],
        }
    ).replace_schema_metadata({"from": "a crawl"})


def usable(count: int, seed: int) -> list[bytes]:
    told = [line for line in pages.lines(count, seed) if line.startswith(b"{") and line.endswith(b"}")]
    return [line for line in told if isinstance(json.loads(line).get("text"), str)]


def test_kept_rows_are_the_rows_of_the_kept_lines_with_the_schema_of_the_input(alone: Program) -> None:
    lines = usable(400, 3)
    table = as_table(lines)
    half = table.num_rows // 2
    pq.write_table(table[:half], alone.folder / "a.parquet", row_group_size=50)
    pq.write_table(table[half:], alone.folder / "b.pq", row_group_size=70)
    rows = [{"id": row["id"], "text": row["text"], "n": n} for n, row in enumerate(table.to_pylist())]
    for name, part in (("a", rows[:half]), ("b", rows[half:])):
        (alone.folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in part))
    options = ("--distance", 8, "--max-unreadable", 1, "-o", "v", "--keep")
    assert alone.run("dedup", "a.jsonl", "b.jsonl", *options, "kept.jsonl").returncode == 0
    done = alone.run("dedup", "a.parquet", "b.pq", *options, "kept.parquet")
    assert done.returncode == 0, done.stderr.decode()
    kept = [json.loads(line)["n"] for line in (alone.folder / "kept.jsonl").read_bytes().splitlines()]
    assert f"{len(kept)} of {len(rows)} pages kept".encode() in done.stderr
    found = pq.read_table(alone.folder / "kept.parquet")
    assert found.schema.equals(pq.read_schema(alone.folder / "a.parquet"), check_metadata=True)
    assert 0 < len(kept) < len(rows)
    assert found.to_pylist() == table.take(kept).to_pylist()


def test_rows_of_any_numbers_are_copied_in_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_file, "MAX_GROUP_ROWS", 100)
    rng = np.random.default_rng(1)
    tables = [pa.table({"n": range(at, at + 500), "text": ["x"] * 500}) for at in (0, 500)]
    names = [str(tmp_path / name) for name in ("a.parquet", "b.parquet")]
    for table, name in zip(tables, names, strict=True):
        pq.write_table(table, name, row_group_size=130)
    for share in (0, 0.02, 0.5, 1):
        numbers = np.flatnonzero(rng.random(1_000) < share)
        with (tmp_path / "kept.parquet").open("wb") as out:
            ParquetCopier(names, "kept.parquet").copy(numbers, out)
        assert pq.read_table(tmp_path / "kept.parquet")["n"].to_pylist() == numbers.tolist()
        groups = pq.read_metadata(tmp_path / "kept.parquet")
        assert all(groups.row_group(n).num_rows < 200 for n in range(groups.num_row_groups))


def test_no_rows_and_repeated_names_of_other_columns_are_kept_as_they_are(alone: Program) -> None:
    schema = pa.schema([("text", pa.string()), ("tag", pa.int8()), ("tag", pa.string())])
    pq.write_table(schema.empty_table(), alone.folder / "none.parquet")
    assert alone.run("dedup", "none.parquet", "-o", "v", "--keep", "k.parquet").returncode == 0
    assert pq.read_schema(alone.folder / "k.parquet").equals(schema)
    columns = [pa.array([STORY, None, STORY, TRAIN]), pa.array([1, 2, None, 4], pa.int8()), pa.array(list("abcd"))]
    pq.write_table(pa.Table.from_arrays(columns, schema=schema), alone.folder / "twice.parquet")
    done = alone.run("dedup", "twice.parquet", "-o", "v", "--keep", "k.parquet", "--max-unreadable", 1)
    assert done.returncode == 0, done.stderr.decode()
    kept = pq.ParquetFile(alone.folder / "k.parquet").read()  # `read_table` takes no repeated names
    assert kept.schema.equals(schema)
    assert [column.to_pylist() for column in kept.columns] == [[STORY, TRAIN], [1, 4], ["a", "d"]]


@pytest.mark.parametrize("change", ["rewritten", "replaced", "touched later"])
def test_rows_are_kept_as_they_were_judged_or_not_at_all(
    change: str, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second, kept = (tmp_path / name for name in ("a.parquet", "b.parquet", "kept.parquet"))
    pq.write_table(pa.table({"text": [STORY]}), first)
    pq.write_table(pa.table({"text": [TRAIN]}), second)
    choose = KeepSelector.choose

    def choose_late(keeping: KeepSelector, *arguments: Any) -> KeepSelection:
        if change == "rewritten":
            pq.write_table(pa.table({"text": [ORCHARD]}), second)
        elif change == "replaced":
            pq.write_table(pa.table({"text": [ORCHARD]}), tmp_path / "c")
            os.replace(tmp_path / "c", second)
        else:
            os.utime(second)
        return choose(keeping, *arguments)

    monkeypatch.setattr(KeepSelector, "choose", choose_late)
    monkeypatch.setenv("SIMSTREAM_CACHE", str(cache))
    code = invoke(["dedup", str(first), str(second), "-o", str(tmp_path / "out"), "--keep", str(kept)])
    assert (code, kept.exists(), (tmp_path / "out").exists()) == (1, False, False)
    assert f"{second} changed while it was judged" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("a.parquet --keep kept.jsonl", "--keep writes Parquet, as the inputs are, but kept.jsonl does not end in"),
        ("a.parquet --keep kept.parquet.gz", "kept.parquet.gz names a compressed table"),
        (
            "a.parquet p.jsonl --keep kept.parquet",
            "the inputs are of several formats, but --keep writes one format",
        ),
        ("a.parquet b.parquet --keep k.parquet", "b.parquet has another schema than a.parquet (text large_string)"),
        ("twice.parquet --keep k.parquet", "twice.parquet has two columns named text: rename one of them"),
        ("a.parquet --keep a.parquet", "a.parquet is an input, too"),
    ],
)
def test_inputs_and_names_that_do_not_fit_are_refused(
    arguments: str, said: str, refuses: Callable[[str, str], None]
) -> None:
    pq.write_table(pa.table({"text": [STORY]}), "a.parquet")
    pq.write_table(pa.table({"text": pa.array([STORY], pa.large_string())}), "b.parquet")
    two = pa.Table.from_arrays([pa.array([STORY]), pa.array([TRAIN])], names=["text", "text"])
    pq.write_table(two, "twice.parquet")
    Path("p.jsonl").write_text("{}\n")
    refuses(arguments, said)


def test_a_damaged_input_leaves_no_copy(alone: Program) -> None:
    pq.write_table(pa.table({"text": [f"{STORY}{n}" for n in range(3_000)]}), alone.folder / "a.parquet")
    data = (alone.folder / "a.parquet").read_bytes()
    (alone.folder / "cut.parquet").write_bytes(data[: len(data) // 2])
    done = alone.run("dedup", "cut.parquet", "-o", "v", "--keep", "k.parquet")
    assert done.returncode == 1
    assert b"cut.parquet is damaged or not a Parquet file" in done.stderr
    assert not (alone.folder / "k.parquet").exists()


def test_damage_in_a_column_that_is_not_judged_ends_the_copy_with_1(alone: Program) -> None:
    rows = 2_000
    table = pa.table({"text": [f"{STORY}{n}" for n in range(rows)], "more": [os.urandom(400) for _ in range(rows)]})
    options = {"row_group_size": 500, "use_dictionary": False, "write_page_checksum": True}
    pq.write_table(table, alone.folder / "a.parquet", **options)
    column = pq.read_metadata(alone.folder / "a.parquet").row_group(2).column(1)
    data = bytearray((alone.folder / "a.parquet").read_bytes())
    middle = column.data_page_offset + column.total_compressed_size // 2
    data[middle : middle + 50] = bytes(50)
    (alone.folder / "a.parquet").write_bytes(data)
    done = alone.run("dedup", "a.parquet", "-o", "v.parquet", "--keep", "k.parquet", "--distance", 0)
    assert done.returncode == 1
    assert b"a.parquet is damaged or not a Parquet file" in done.stderr
    assert b"Traceback" not in done.stderr
    assert pq.read_table(alone.folder / "v.parquet").num_rows == rows
    pq.write_table(table, alone.folder / "whole.parquet")
    alone.run("dedup", "whole.parquet", "-o", "w.parquet", "--keep", "all.parquet", "--distance", 0)
    kept, wanted = pq.read_table(alone.folder / "k.parquet"), pq.read_table(alone.folder / "all.parquet")
    assert 0 < kept.num_rows < wanted.num_rows
    assert kept == wanted.slice(0, kept.num_rows)


def test_columns_of_every_string_type_are_copied(alone: Program) -> None:
    rows = range(200)
    stories = [f"{STORY} {n // 2 * 'word '}" for n in rows]
    types = [pa.string(), pa.large_string(), pa.string_view(), pa.binary_view()]
    more = {str(kind): pa.array([str(n) for n in rows], pa.string()).cast(kind) for kind in types}
    pq.write_table(pa.table({"text": stories, **more}), alone.folder / "a.parquet")
    done = alone.run("dedup", "a.parquet", "-o", "v.jsonl", "--keep", "k.parquet", "--distance", 0)
    assert done.returncode == 0, done.stderr.decode()
    kept = pq.read_table(alone.folder / "k.parquet").to_pylist()
    lines = (alone.folder / "v.jsonl").read_bytes().splitlines()
    new = [n for n, line in zip(rows, lines, strict=True) if b'"verdict":"new"' in line]
    assert 0 < len(new) < len(rows)
    assert [row["text"] for row in kept] == [stories[n] for n in new]
    assert [[row[str(kind)] for kind in types] for row in kept] == [
        [str(n), str(n), str(n), b"%d" % n] for n in new
    ]


@pytest.mark.parametrize("ending", [".parquet", ".warc"])
def test_a_pipe_is_refused_at_once(
    ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkfifo(f"p{ending}")
    assert invoke(["dedup", f"p{ending}", "--keep", f"k{ending}"]) == 2
    assert f"--keep reads its inputs twice, and p{ending} is no regular file" in capsys.readouterr().err
