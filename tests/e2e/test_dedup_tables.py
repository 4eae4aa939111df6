"""Outputs of `dedup` as tables: the same rows as the JSON lines, with types."""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from deploy.reference import FOLDER
from simstream.cli.main import invoke
from simstream.deduper import Deduper
from simstream.tools.dedup import table_file
from tests.e2e import pages
from tests.e2e.harness import Program
from tests.e2e.pages import STORY

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
feather = pytest.importorskip("pyarrow.feather")

ENDINGS = (".parquet", ".PQ", ".arrow", ".feather")


def table_of(path: Path) -> Any:
    return pq.read_table(path) if path.suffix.lower() in (".parquet", ".pq") else feather.read_table(path)


def json_rows(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def as_json(row: dict[str, Any]) -> dict[str, Any]:
    """A row of a table as the JSON has it."""
    row = dict(row)
    if row.get("cluster_id") is not None:
        row["cluster_id"] = str(row["cluster_id"])
    if "merged_clusters" in row:
        row["merged_clusters"] = [str(cluster) for cluster in row["merged_clusters"]]
    if "time" in row:
        row["time"] = (row["time"] - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    return row


@pytest.mark.parametrize("ending", ENDINGS)
def test_tables_have_the_rows_of_the_json_lines(alone: Program, ending: str) -> None:
    source = pages.write(alone.folder / "pages.jsonl", 300)
    options = ("--max-unreadable", 1, "--versions", "--link", "any")
    done = alone.run("dedup", source, *options, "-o", "v.jsonl", "--pairs", "p.jsonl", "--clusters", "c.jsonl")
    assert done.returncode == 0, done.stderr.decode()
    names = {name: f"{name}{ending}" for name in "vpc"}
    done = alone.run("dedup", source, *options, "-o", names["v"], "--pairs", names["p"], "--clusters", names["c"])
    assert done.returncode == 0, done.stderr.decode()
    for name, file in names.items():
        rows = json_rows(alone.folder / f"{name}.jsonl")
        table = table_of(alone.folder / file)
        assert [as_json(row) for row in table.to_pylist()] == rows != []
        assert table.column_names == list(rows[0])
        assert not (alone.folder / f"{file}.part").exists()


def test_columns_have_types_that_need_no_conversion(alone: Program) -> None:
    (alone.folder / "p.jsonl").write_text(json.dumps({"id": "a", "text": STORY, "time": "2026-01-02T03:04:05Z"}))
    done = alone.run(
        "dedup", "p.jsonl", "-o", "v.parquet", "--pairs", "p.parquet", "--exact", "--clusters", "c.parquet"
    )
    assert done.returncode == 0, done.stderr.decode()
    schema = pq.read_schema(alone.folder / "v.parquet")
    assert {field.name: str(field.type) for field in schema if field.type != pa.string()} == {
        "distance": "int16",
        "similarity": "double",
        "cluster_id": "int64",
        "merged_clusters": "list<element: int64>",
        "ordinal": "int64",
        "time": "timestamp[ms, tz=UTC]",
        "source": "struct<topic: string not null, partition: int32 not null, offset: int64 not null>",
    }
    [row] = pq.read_table(alone.folder / "v.parquet").to_pylist()
    assert (row["time"], row["cluster_id"]) == (datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), 0)
    pairs = pq.read_table(alone.folder / "p.parquet")
    assert (pairs.num_rows, str(pairs.schema.field("jaccard").type)) == (0, "double")
    assert pq.read_table(alone.folder / "c.parquet").num_rows == 0


def test_exact_pairs_are_a_table_with_the_same_numbers(alone: Program) -> None:
    source = pages.write(alone.folder / "pages.jsonl", 200)
    for more in (("--exact",), ("--least-jaccard", ".7")):
        options = ("--max-unreadable", 1, *more, "-o", "v.jsonl", "--pairs")
        for file in ("p.jsonl", "p.arrow"):
            assert alone.run("dedup", source, *options, file).returncode == 0
        assert feather.read_table(alone.folder / "p.arrow").to_pylist() == json_rows(alone.folder / "p.jsonl") != []


def test_no_page_gives_a_table_without_rows(alone: Program) -> None:
    (alone.folder / "p.jsonl").write_bytes(b"")
    for ending in ENDINGS:
        assert alone.run("dedup", "p.jsonl", "-o", f"v{ending}").returncode == 0
        assert (table_of(alone.folder / f"v{ending}").num_rows) == 0


def test_a_damaged_input_leaves_a_whole_table_of_its_read_pages(alone: Program) -> None:
    source = alone.folder / "pages.jsonl.gz"
    line = json.dumps({"id": "a", "text": STORY}).encode() + b"\n"
    source.write_bytes(gzip.compress(line + line * 20_000)[:-8])
    done = alone.run("dedup", source, "-o", "v.parquet", "--clusters", "c.arrow")
    assert done.returncode == 1
    assert b"damaged or cut off after line" in done.stderr
    assert table_of(alone.folder / "v.parquet").num_rows > 0
    assert table_of(alone.folder / "c.arrow").num_rows == 0


def test_rows_are_written_in_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_file, "MAX_GROUP_ROWS", 2_000)
    layout = table_file.ColumnLayout(
        lambda arrow: arrow.schema([("n", arrow.int64())]), lambda _arrow, rows: [list(rows)]
    )
    path = tmp_path / "t.parquet"
    with path.open("wb") as out:
        table = table_file.RowTableFile(out, str(path), layout)
        for number in range(5_000):
            table.write(number)
        assert out.tell() > 0
        table.close()
        assert not out.closed
    groups = pq.read_metadata(path)
    assert [groups.row_group(n).num_rows for n in range(groups.num_row_groups)] == [2_048, 2_048, 904]
    assert pq.read_table(path)["n"].to_pylist() == list(range(5_000))


@pytest.mark.parametrize("ending", [".parquet", ".arrow"])
def test_a_run_that_fails_leaves_the_former_table(
    ending: str, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stream = Deduper.stream

    def broken(deduper: Deduper, *arguments: Any) -> Any:
        yield from stream(deduper, *arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(Deduper, "stream", broken)
    monkeypatch.setenv("SIMSTREAM_CACHE", str(cache))
    source, out = tmp_path / "p.jsonl", tmp_path / f"v{ending}"
    source.write_text(json.dumps({"id": "a", "text": STORY}))
    out.write_text("before")
    assert invoke(["dedup", str(source), "-o", str(out)]) != 0
    assert out.read_text() == "before"
    assert sorted(tmp_path.iterdir()) == [source, out]
    assert "Exception ignored" not in capsys.readouterr().err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_one_line(alone: Program) -> None:
    source = pages.write(alone.folder / "pages.jsonl", 50)
    for ending in (".parquet", ".arrow"):
        (alone.folder / f"full{ending}").symlink_to("/dev/full")
        done = alone.run("dedup", source, "-o", f"full{ending}", "--max-unreadable", 1)
        assert done.returncode == 1
        assert b"failed (No space left on device)" in done.stderr
        assert b"Traceback" not in done.stderr
        assert b"Exception ignored" not in done.stderr


def test_without_pyarrow_a_table_is_refused_before_anything_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    source = tmp_path / "p.jsonl"
    source.write_text("{}\n")
    for option in ("-o", "--pairs", "--clusters"):
        assert invoke(["dedup", str(source), option, str(tmp_path / "t.parquet")]) == 2
        assert "pip install 'simstream[parquet]'" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [source]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            "-o v.parquet.gz",
            "v.parquet.gz names a compressed table, but tables are compressed inside: leave out .gz",
        ),
        ("--pairs p.arrow.zst", "leave out .zst"),
        ("--keep kept.parquet", "kept.parquet names another format, but --keep writes lines of JSONL"),
        ("-o v.csv", "--output v.csv has the ending of a format that is not written: use .jsonl for lines of JSON"),
        *(
            (f"-o v{ending}", f"--output v{ending} has the ending of a format that is not written")
            for ending in (".ORC", ".avro", ".ipc", ".xlsx", ".bz2", ".jsonl.lz4", ".Z", ".zip", ".7z")
        ),
        ("--clusters c.TSV.gz", "or .parquet, .pq, .arrow, .feather for a table"),
        ("--keep kept.csv", "kept.csv names another format, but --keep writes lines of JSONL"),
        ("-o v.parquet --pairs v.parquet", "--output and --pairs go to the same place"),
    ],
)
def test_names_that_do_not_fit_are_refused(arguments: str, said: str, refuses: Callable[[str, str], None]) -> None:
    Path("pages.jsonl").write_text("{}\n")
    refuses(f"pages.jsonl {arguments}", said)


@pytest.mark.parametrize("ending", [".jsonl", ".parquet"])
def test_final_adds_to_each_row_the_cluster_that_the_clusters_file_lists(alone: Program, ending: str) -> None:
    source = pages.write(alone.folder / "pages.jsonl", 300)
    options = ("--max-unreadable", 1, "--least-jaccard", ".5", "--pairs", "pairs", "--clusters", "clusters")
    assert alone.run("dedup", source, *options, "-o", "plain.jsonl").returncode == 0
    done = alone.run("dedup", source, *options, "--final", "-o", f"v{ending}")
    assert done.returncode == 0, done.stderr.decode()
    path = alone.folder / f"v{ending}"
    rows = json_rows(path) if ending == ".jsonl" else [as_json(row) for row in table_of(path).to_pylist()]
    names = "final_cluster_id", "final_size", "final_canonical"
    found = {row["id"]: tuple(row.pop(name) for name in names) for row in rows}
    assert rows == json_rows(alone.folder / "plain.jsonl")
    listed = {
        page: (str(final[0]), final[1], final[2])
        for group in json_rows(alone.folder / "clusters")
        for page in group["pages"]
        if (final := (group["cluster_id"], len(group["pages"]), group["canonical"]))
    }
    single = {row["id"]: (row["cluster_id"], 1, row["id"]) for row in rows if row["cluster_id"] is not None}
    none = {row["id"]: (None, None, None) for row in rows}
    told = {name: (final[0] and str(final[0]), *final[1:]) for name, final in found.items()}
    assert told == none | single | listed
    assert components(alone.folder / "pairs") == {frozenset(group["pages"]) for group in
                                                  json_rows(alone.folder / "clusters")}  # fmt: skip


def test_each_kind_of_row_is_what_its_json_schema_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pages.write(Path("pages.jsonl"), 60)
    for more, verdict, pair in (([], "verdict", "pair"), (["--final", "--exact"], "final-verdict", "exact-pair")):
        files = ["-o", f"{verdict}.jsonl", "--pairs", f"{pair}.jsonl", "--clusters", "cluster.jsonl"]
        assert invoke(["dedup", "pages.jsonl", "--max-unreadable", "1", *more, *files]) == 0
    for name in ("verdict", "final-verdict", "pair", "exact-pair", "cluster"):
        schema = json.loads((FOLDER / f"{name}.schema.json").read_bytes())
        rows = json_rows(Path(f"{name}.jsonl"))
        assert rows
        for row in rows:
            jsonschema.validate(row, schema)
            assert list(row) == list(schema["properties"]) == schema["required"]


def components(pairs: Path) -> set[frozenset[str]]:
    """Union-find over pairs, the slow way: join sets until all are apart."""
    sets: list[frozenset[str]] = []
    for pair in json_rows(pairs):
        own = frozenset({pair["a"], pair["b"]})
        sets = [*(other for other in sets if not other & own), own.union(*(one for one in sets if one & own))]
    return set(sets)


def test_final_counts_pages_of_the_corpus_and_goes_to_stdout_at_the_end(alone: Program) -> None:
    for name in ("old", "new"):
        (alone.folder / f"{name}.jsonl").write_text(json.dumps({"id": name, "text": STORY}))
    done = alone.run("dedup", "new.jsonl", "--against", "old.jsonl", "--final")
    [row] = map(json.loads, done.stdout.splitlines())
    assert (row["id"], row["final_cluster_id"], row["final_size"], row["final_canonical"]) == ("new", "0", 2, "old")


def test_final_verdicts_of_a_damaged_input_are_whole(alone: Program) -> None:
    line = json.dumps({"id": "a", "text": STORY}).encode() + b"\n"
    (alone.folder / "p.jsonl.gz").write_bytes(gzip.compress(line * 20_000)[:-8])
    done = alone.run("dedup", "p.jsonl.gz", "--final", "-o", "v.parquet")
    assert done.returncode == 1
    finals = table_of(alone.folder / "v.parquet")["final_size"].to_pylist()
    assert finals == [1] * len(finals) != []
