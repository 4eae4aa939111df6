"""`simstream find-all`: all near pairs of a list of fingerprints, as simhash-cpp's `simhash-find-all`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from simstream.cli.find_options import as_command, find

if TYPE_CHECKING:
    from simstream.model import U64

USAGE: Final = """\
Usage: simstream find-all --blocks BLOCKS --distance DISTANCE --input INPUT --output OUTPUT

Read fingerprints, one decimal number a line. Write every pair that differs in at most DISTANCE bits, one JSON array
a line, in ascending order. Each fingerprint counts once.
"""


@as_command("find-all")
def command(arguments: tuple[str, ...]) -> int:
    """Write every pair of fingerprints that are near each other."""
    return find(arguments, USAGE, "finding pairs", _lines)


def _lines(column: U64, distance: int, heard: Callable[[int], None]) -> Iterator[bytes]:
    from simstream.tools.find.pairs import near_pairs

    for part in near_pairs(column, distance, heard):
        pairs = zip(column[part.left].tolist(), column[part.right].tolist(), strict=True)
        yield "".join([f"[{left}, {right}]\n" for left, right in pairs]).encode()
