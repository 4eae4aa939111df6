"""Gives each kind of integer of the judge a type of its own.

An arrow leads from a number to what it finds. Numbers in brackets are given again when free. Rows, entries,
nodes and cluster records begin at 1, so 0 stands for none. docs/design/numbers.md has the ranges and the rules.

::

    identity of a page (128 bits)
        │ judge/directory
        ▼
      [Row] ──────────── a live page ───────────────┐
        │ column `cold`      │ column `link`        │ column `link`, if several pages share the entry: the chain.
        │                    │                      │ The place in the chain then has the node
        ▼                    ▼                      ▼
    [RecordNumber]       [NodeNumber]           [EntryId] = Row of the page that founded the entry
     = Slot << 16            │ or none:             │ index: fingerprint, sketch, bucket
       | place               │ the page is alone    ▼
        │ judge/pages        ▼                   RowTable.earliest: the Row that stands for the entry
        ▼                ClusterRef
    Ordinal, Age,         = [ClusterRecord], or -Row for a cluster of one page
    time, id, ...            │ judge/clusters
                             ▼
                         ClusterId = Age of the founder

    BatchPlace: the place of a readable page in the batch that is judged
    KeyGroup: what pages of a batch share that have the same key and bucket

`Ordinal`, `Age` and `ClusterId` count pages in the order of the log, so they are compared with one another:
a page joins its cluster at the ordinal that becomes its age, and a founder's age names the cluster.
A `Row` becomes an `EntryId` when its page founds an entry. The entry may outlive the page: the row is given again
only after the index has given the entry back. A subtype says where a number serves as another:
an `EntryId` is a `Row`, a `ClusterRecord` a `ClusterRef`. Arrays hold the same numbers as uint32 or int64, without
these types.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NewType

from simstream.kernels.judge import cluster_refs

FULL_ADVICE: Final = "set a window, or a shorter one, under another prefix or with another folder of the state"
"""What to do if a judge has no number left for a page."""

Ordinal = NewType("Ordinal", int)
"""An accepted page's number in the order of the log, from 0 and without gaps."""
Age = NewType("Age", int)
"""The ordinal at which a page joined its cluster. An `unchanged` page takes a new ordinal and keeps its age."""
ClusterId = NewType("ClusterId", int)
"""The ordinal at which a cluster's founder came. No two clusters ever have the same."""
Row = NewType("Row", int)
"""The number of a live page, from 1 to 2^31 - 2."""
EntryId = NewType("EntryId", Row)
"""The number of an entry of the index: the row of the page that founded it."""
RecordNumber = NewType("RecordNumber", int)
"""The number of a page's record: the slot of its chunk in the upper 16 bits, its place there in the lower ones.

Its order means nothing: `PageStore.order` returns a number that ascends with the ordinals. Compaction gives a
record another number.
"""
Slot = NewType("Slot", int)
"""The place of a chunk in the page store, below 65,536."""
BatchPlace = NewType("BatchPlace", int)
"""The place of a readable page in its batch, from 0."""
KeyGroup = NewType("KeyGroup", int)
"""The number of a key in its batch, from 0: fingerprint, sketch, shortness and bucket."""
ClusterRef = NewType("ClusterRef", int)
"""What leads to a cluster now: the number of its record, or `-row` for a cluster of one page."""
ClusterRecord = NewType("ClusterRecord", ClusterRef)
"""The number of a cluster's record, which a cluster has once it has had two pages."""
NodeNumber = NewType("NodeNumber", int)
"""The number of a member's node in the heap of its cluster."""

BEFORE_BATCH: Final = BatchPlace(-1)
"""In the place of a page that came before the batch."""
NO_SLOT: Final = Slot(-1)
NO_ROW: Final = Row(0)
NO_ENTRY: Final = EntryId(NO_ROW)
NO_AGE: Final = Age(0)
NO_CLUSTER: Final = ClusterRef(0)
NO_NODE: Final = NodeNumber(0)

lone_cluster: Final[Callable[[Row], ClusterRef]] = cluster_refs.lone_cluster.py_func
is_lone: Final[Callable[[ClusterRef], bool]] = cluster_refs.is_lone.py_func
only_row: Final[Callable[[ClusterRef], Row]] = cluster_refs.only_row.py_func
