"""`simstream find-clusters`: clusters of a list of fingerprints, as simhash-cpp's `simhash-find-clusters`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from simstream.cli.find_options import as_command, find

if TYPE_CHECKING:
    from simstream.model import U64

USAGE: Final = """\
Usage: simstream find-clusters --blocks BLOCKS --distance DISTANCE --input INPUT --output OUTPUT

Read fingerprints, one decimal number a line. Pairs that differ in at most DISTANCE bits connect them to clusters.
Write each cluster of two or more as one JSON array a line, in ascending order. Each fingerprint counts once.
"""


@as_command("find-clusters")
def command(arguments: tuple[str, ...]) -> int:
    """Write every cluster of fingerprints that near pairs connect."""
    return find(arguments, USAGE, "finding clusters", _lines)


def _lines(column: U64, distance: int, heard: Callable[[int], None]) -> Iterator[bytes]:
    from simstream.tools.find.clusters import clusters
    from simstream.tools.find.pairs import near_pairs

    for places in clusters(len(column), near_pairs(column, distance, heard)):
        yield f"{column[places].tolist()}\n".encode()
