"""`Deduper.judge_table`: the verdicts of the rows as `judge` gives them, whatever kind of table it is."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from simstream import Deduper
from simstream.errors import Unavailable, UsageError
from simstream.model import Verdict
from tests.e2e import pages

pa = pytest.importorskip("pyarrow")
STORY = "The night train stops at the mill village again after forty years, before dawn."


def rows_of(verdicts: list[Verdict]) -> list[dict[str, Any]]:
    return [
        {
            **{name: getattr(v, name) for name in v.__struct_fields__},
            "cluster_id": None if v.cluster_id is None else int(v.cluster_id),
            "merged_clusters": [*map(int, v.merged_clusters)],
            "time": datetime.fromtimestamp(v.time / 1000, UTC),
            "source": {"topic": v.source.topic, "partition": v.source.partition, "offset": v.source.offset},
        }
        for v in verdicts
    ]


@pytest.mark.parametrize("chunks", [1, 7])
def test_verdicts_are_those_of_the_rows_as_mappings(cache: Path, chunks: int) -> None:
    told: list[dict[str, Any]] = []
    for line in pages.lines(2_500, 4):
        page = json.loads(line) if line.startswith(b"{") and line.endswith(b"}") else {}
        told.append({name: page.get(name) if isinstance(page.get(name), str | None) else None
                     for name in ("id", "url", "text", "html")})  # fmt: skip
        told[-1]["status"] = 404 if len(told) % 50 == 0 else None
        told[-1]["other"] = [len(told)]
    table = pa.table({name: [page[name] for page in told] for name in reversed(told[0])})
    size = -(-len(told) // chunks)
    table = pa.concat_tables([table.slice(at, size) for at in range(0, len(told), size)])
    with Deduper(cache=cache, workers=0) as first, Deduper(cache=cache, workers=0) as second:
        expected = [v for at in (0, 1_000) for v in first.judge(told[at : at + 1_000])]
        found = pa.concat_tables([second.judge_table(table.slice(at, 1_000)) for at in (0, 1_000)])
    assert found.to_pylist() == rows_of(expected)
    assert {"new", "near_duplicate", "too_short", "unreadable"} <= set(found["verdict"].to_pylist())


def test_a_pandas_frame_gives_what_its_arrow_table_gives(cache: Path) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({
        "id": [7, 8, 9],
        "text": [STORY, None, STORY.upper()],
        "time": pandas.to_datetime(["2026-03-01T00:00:00Z", "2026-03-02", None], format="ISO8601", utc=True),
        "status": [None, 404, None],
        "score": [.5, .25, None],
    })  # fmt: skip
    with Deduper(cache=cache, workers=0) as first, Deduper(cache=cache, workers=0) as second:
        found = first.judge_table(frame)
        assert found == second.judge_table(pa.Table.from_pandas(frame))
    assert found["id"].to_pylist() == ["7", "8", "9"]
    assert found["verdict"].to_pylist() == ["new", "too_short", "near_duplicate"]
    assert found["time"].to_pylist()[1] == datetime(2026, 3, 2, tzinfo=UTC)
    assert found.to_pandas()["near_duplicate_of"].to_list() == [None, None, "7"]


def test_types_of_arrow_count_as_in_parquet_files(cache: Path) -> None:
    table = pa.table(
        {
            "id": [7, None],
            "html": pa.array([f"<p>{STORY}".encode(), None], pa.large_binary()),
            "text": pa.array([None, STORY]).dictionary_encode(),
            "time": pa.array([datetime(2026, 1, 2, tzinfo=UTC), None], pa.timestamp("ns", "UTC")),
        }
    )
    with Deduper(cache=cache, workers=0) as deduper:
        found = deduper.judge_table(table).to_pylist()
    assert [(row["id"], row["verdict"], row["near_duplicate_of"]) for row in found] == [
        ("7", "new", None),
        ("python/0/1", "near_duplicate", "7"),
    ]
    assert [row["time"].year for row in found] == [2026, 1970]


class OtherTable:
    """A table of another library: all that it has is the stream."""

    def __init__(self, table: Any) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._table.__arrow_c_stream__(requested_schema)


def test_tables_of_other_libraries_are_read_by_the_interface_of_arrow(cache: Path) -> None:
    own = pa.table({"id": ["a", "b"], "text": pa.array([STORY, STORY.upper()], pa.string_view())})
    with Deduper(cache=cache, workers=0) as deduper:
        assert deduper.judge_table(OtherTable(own))["near_duplicate_of"].to_pylist() == [None, "a"]


def test_no_rows_give_no_rows_with_the_same_schema(cache: Path) -> None:
    with Deduper(cache=cache, workers=0) as deduper:
        none = deduper.judge_table(pa.table({"text": pa.array([], pa.string())}))
        assert none.num_rows == 0
        assert none.schema.equals(deduper.judge_table(pa.table({"text": [STORY]})).schema)


@pytest.mark.parametrize("column", [[1, 2], [[STORY], None], [True, None], [1.5, float("nan")]])
def test_a_text_of_another_type_is_unreadable(cache: Path, column: list[Any]) -> None:
    with Deduper(cache=cache, workers=0) as first, Deduper(cache=cache, workers=0) as second:
        found = first.judge_table(pa.table({"text": column})).to_pylist()
        assert {row["verdict"] for row in found} == {"unreadable"}
        assert found == rows_of(second.judge([{"text": value} for value in column]))


def test_a_status_of_whole_floats_counts_as_pandas_writes_it(cache: Path) -> None:
    with Deduper(cache=cache, workers=0) as deduper:
        found = deduper.judge_table(pa.table({"text": [STORY] * 3, "status": [200.0, None, 404.0]})).to_pylist()
    assert [row["verdict"] for row in found] == ["new", "near_duplicate", "too_short"]


def test_a_page_that_is_gone_leaves_also_without_a_body(cache: Path) -> None:
    columns = {"id": ["a", "a", "b"], "html": [STORY.encode(), b"", STORY.encode()], "status": [200, 410, 200]}
    with Deduper(cache=cache, workers=0) as deduper:
        found = deduper.judge_table(pa.table(columns)).to_pylist()
    assert [row["verdict"] for row in found] == ["new", "too_short", "new"]


@pytest.mark.parametrize("kind", [pa.time64("ns"), pa.duration("ns"), pa.timestamp("s", "Mars/Base")], ids=str)
def test_a_column_that_has_no_values_in_python_is_named(cache: Path, kind: Any) -> None:
    nested = pa.StructArray.from_arrays([pa.array([1], pa.int64()).cast(kind)], ["inner"])
    table = pa.table({"text": [STORY], "title": nested})
    with Deduper(cache=cache, workers=0) as deduper, pytest.raises(UsageError, match="the column title has values"):
        deduper.judge_table(table)


def test_a_stream_that_fails_is_a_named_error(cache: Path) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"text": [STORY]})
        raise pa.ArrowInvalid("the network is away")

    schema = pa.schema({"text": pa.string()})
    with Deduper(cache=cache, workers=0) as deduper:
        with pytest.raises(UsageError, match=r"ended with an error .*the network is away"):
            deduper.judge_table(pa.RecordBatchReader.from_batches(schema, batches()))
        with pytest.raises(TypeError, match="not a type: pass its rows to judge"):
            deduper.judge_table(pa.Table)


def test_what_is_no_table_of_pages_is_refused_and_nothing_is_judged(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    twice = pa.Table.from_arrays([pa.array([STORY]), pa.array([STORY])], names=["text", "text"])
    with Deduper(cache=cache, workers=0) as deduper:
        with pytest.raises(TypeError, match=r"judge_table takes a table .* not a list: pass its rows to judge"):
            deduper.judge_table([{"text": STORY}])
        with pytest.raises(
            UsageError,
            match="the table has no column text or html, but body, id: name it with",
        ):
            deduper.judge_table(pa.table({"body": [STORY], "id": ["a"]}))
        with pytest.raises(UsageError, match="no column"):
            deduper.judge_table(pa.table({"body": [STORY], "id": ["a"]}), text_field="bodies")
        with pytest.raises(UsageError, match="the table has two columns named text: rename one of them"):
            deduper.judge_table(twice)
        with pytest.raises(UsageError, match="the name of a page without an id"):
            deduper.judge_table(pa.table({"text": [STORY, STORY], "id": [None, "python/0/7"]}))
        monkeypatch.setitem(sys.modules, "pyarrow", None)
        with pytest.raises(Unavailable, match="judging a table needs pyarrow"):
            deduper.judge_table(twice)
        assert deduper.judged == 0


def test_a_column_of_structs_holds_text_and_id(cache: Path) -> None:
    rows = [
        {"body": {"content": STORY}, "meta": {"doc": 7}, "parts": [STORY, None, STORY]},
        {"body": None, "meta": {"doc": 8}, "parts": None},
    ]
    with Deduper(cache=cache) as deduper:
        table = pa.Table.from_pylist(rows)
        found = deduper.judge_table(table, text_field="body.content", id_field="meta.doc").to_pylist()
        assert [(row["id"], row["verdict"]) for row in found] == [("7", "new"), ("8", "unreadable")]
        [one, two] = deduper.judge_table(table, text_field="parts", id_field="meta.doc").to_pylist()
        assert (one["verdict"], two["verdict"]) == ("unchanged", "unreadable")
        for wrong in ("body.text", "body.content.more", "nobody.content"):
            with pytest.raises(UsageError, match="no column"):
                deduper.judge_table(table, text_field=wrong, id_field="meta.doc")


def test_columns_may_have_names_of_their_own(cache: Path) -> None:
    table = pa.table({"uid": [7, 8], "body": [STORY, STORY.upper()], "text": ["no", "no"]})
    with Deduper(cache=cache, workers=0) as deduper:
        found = deduper.judge_table(table, text_field="body", id_field="uid").to_pylist()
    assert [(one["id"], one["near_duplicate_of"]) for one in found] == [("7", None), ("8", "7")]
