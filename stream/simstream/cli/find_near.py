"""`simstream find-near`: which fingerprints of one list have a match in another list."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import click

from simstream.cli.find_options import opened
from simstream.cli.output import refuse_input, written
from simstream.cli.progress import counting, say
from simstream.errors import UsageError

if TYPE_CHECKING:
    from simstream.model import U64
    from simstream.tools.find.near import NearestDistances

_BATCH_LINES: Final = 1 << 16
"""The number of lines in one write."""


@click.command("find-near")
@click.option(
    "-n",
    "--near",
    "queries",
    metavar="FILE",
    required=True,
    help="Read the queries from FILE; they stay in memory.",
)
@click.option(
    "-i",
    "--input",
    "corpus",
    metavar="FILE",
    required=True,
    help="Read the corpus from FILE, of any length; - is stdin.",
)
@click.option(
    "-d",
    "--distance",
    metavar="K",
    type=click.IntRange(0, 64),
    required=True,
    help="Greatest number of bits that differ.",
)
@click.option("-o", "--output", metavar="FILE", default="-", help="Write the JSON lines to FILE (default: stdout).")
def command(queries: str, corpus: str, distance: int, output: str) -> None:
    """Find the fingerprints of one list, the queries, that have a match in another, the corpus.

    Both lists have one decimal number a line. Writes a line [QUERY, NEAREST, DISTANCE] for each query that differs
    from a fingerprint of the corpus in at most K bits. Lines are in ascending order, one a query. Keeps the queries
    and their tables in memory, and reads the corpus once.
    """
    if queries == corpus:
        raise UsageError(
            f"--near and --input both name {queries}", "use `simstream find-all` for pairs within one list"
        )
    _check(output, [queries, corpus])
    from simstream.tools.find.lists import read_fingerprints, read_parts
    from simstream.tools.find.near import nearest
    from simstream.tools.find.pairs import distinct

    with opened(queries) as handle, counting("reading queries") as heard:
        column = distinct(read_fingerprints(handle, _shown(queries), heard))
    say(f"{len(column):,} distinct queries read")
    with opened(corpus) as handle, counting("comparing") as heard:
        found = nearest(column, read_parts(handle, _shown(corpus)), distance, heard)
    matched = 0
    with written(output, [queries, corpus]) as out:
        for number, part in _lines(column, found):
            out.write(part)
            matched += number
        out.flush()
    say(f"{matched:,} of them have a match among {found.compared:,} fingerprints")


def _check(output: str, inputs: Sequence[str]) -> None:
    """Raise UsageError if the output cannot be written, before anything is compared."""
    if output == "-":
        return
    refuse_input(output, inputs)
    if not os.access(output if os.path.exists(output) else os.path.dirname(output) or ".", os.W_OK):
        raise UsageError(f"{output} cannot be written", "name another file with -o")


def _lines(column: U64, nearest: NearestDistances) -> Iterator[tuple[int, bytes]]:
    """Return the output in parts, with the number of lines of each part."""
    import numpy as np

    from simstream.tools.find.near import NO_MATCH

    matched = np.flatnonzero(nearest.distance != NO_MATCH)
    for first in range(0, len(matched), _BATCH_LINES):
        places = matched[first : first + _BATCH_LINES]
        columns = (column[places].tolist(), nearest.fingerprint[places].tolist(), nearest.distance[places].tolist())
        lines = [f"[{query}, {near}, {bits}]\n" for query, near, bits in zip(*columns, strict=True)]
        yield len(lines), "".join(lines).encode()


def _shown(name: str) -> str:
    return "stdin" if name == "-" else name
