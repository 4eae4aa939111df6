"""Says how `dedup` writes each kind of row: as a line of JSON, and as columns of a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from simstream.deduper.verdict_columns import verdict_columns, verdict_schema
from simstream.model import Verdict
from simstream.tools.dedup.groups import DuplicateGroup
from simstream.tools.dedup.table_file import ColumnLayout
from simstream.wire import verdict as wire

_JSON: Final = msgspec.json.Encoder().encode


class NearPair(msgspec.Struct):
    """A near duplicate and its closest page: one line of JSON with the fields that `evaluate` reads."""

    a: str
    """The id of the earlier page."""
    b: str
    """The id of the page that is like it."""
    distance: int | None
    """The Hamming distance of their closest lookups."""
    similarity: float | None
    """The similarity of their sketches, from 0 to 1, rounded to 4 decimals; null without a sketch."""


class ExactPair(NearPair):
    """A pair as `--exact` and `--least-jaccard` write it: with the similarity of both texts."""

    jaccard: float
    """The Jaccard similarity of both texts, from 0 to 1, rounded to 4 decimals."""


class FinalRecord(Verdict, frozen=True):
    """A verdict as `--final` writes it: with the cluster that its page is in at the end of the run."""

    final_cluster_id: str | None
    """The cluster, a decimal number; null if the page's last version is in none."""
    final_size: int | None
    """The number of its pages, with those of `--against`."""
    final_canonical: str | None
    """The id of its oldest page."""


class RowLayout(NamedTuple):
    """How rows are written: `line` returns the JSON of a row, without a line end."""

    line: Callable[[Any], bytes]
    table: ColumnLayout


def _final_line(row: FinalRecord) -> bytes:
    more = _JSON(row.final_cluster_id), _JSON(row.final_size), _JSON(row.final_canonical)
    fields = b',"final_cluster_id":%b,"final_size":%b,"final_canonical":%b}' % more
    return wire.encode(row).removesuffix(b"}") + fields


def _final_schema(arrow: Any) -> Any:
    kinds = {"cluster_id": arrow.int64(), "size": arrow.int64(), "canonical": arrow.string()}
    return arrow.schema([*verdict_schema(arrow), *((f"final_{name}", kind) for name, kind in kinds.items())])


def _final_columns(arrow: Any, rows: Sequence[FinalRecord]) -> list[Any]:
    return [
        *verdict_columns(arrow, rows),
        [None if row.final_cluster_id is None else int(row.final_cluster_id) for row in rows],
        [row.final_size for row in rows],
        [row.final_canonical for row in rows],
    ]


def _pair_schema(arrow: Any) -> Any:
    names = [arrow.field(name, arrow.string(), nullable=False) for name in ("a", "b")]
    return arrow.schema([*names, ("distance", arrow.int16()), ("similarity", arrow.float64())])


def _exact_pair_schema(arrow: Any) -> Any:
    return _pair_schema(arrow).append(arrow.field("jaccard", arrow.float64(), nullable=False))


def _columns_of(kind: type[NearPair]) -> Callable[[Any, Sequence[NearPair]], list[Any]]:
    """Return what makes a column of each field of these pairs: their order is that of the schema."""
    names = kind.__struct_fields__
    return lambda _arrow, pairs: [[getattr(pair, name) for pair in pairs] for name in names]


def _cluster_schema(arrow: Any) -> Any:
    kinds = {"cluster_id": arrow.int64(), "canonical": arrow.string(), "pages": arrow.list_(arrow.string())}
    return arrow.schema([arrow.field(name, kind, nullable=False) for name, kind in kinds.items()])


def _cluster_columns(_arrow: Any, groups: Sequence[DuplicateGroup]) -> list[Any]:
    return [
        [int(group.cluster_id) for group in groups],
        [group.canonical for group in groups],
        [group.pages for group in groups],
    ]


VERDICT_ROWS: Final = RowLayout(wire.encode, ColumnLayout(verdict_schema, verdict_columns))
FINAL_VERDICT_ROWS: Final = RowLayout(_final_line, ColumnLayout(_final_schema, _final_columns))
PAIR_ROWS: Final = RowLayout(_JSON, ColumnLayout(_pair_schema, _columns_of(NearPair)))
EXACT_PAIR_ROWS: Final = RowLayout(_JSON, ColumnLayout(_exact_pair_schema, _columns_of(ExactPair)))
CLUSTER_ROWS: Final = RowLayout(_JSON, ColumnLayout(_cluster_schema, _cluster_columns))
