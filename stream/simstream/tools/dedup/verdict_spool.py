"""Holds verdicts in a temporary file until the final cluster of each page is known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from simstream.closing import Closing
from simstream.model import Verdict
from simstream.tools.dedup.groups import FinalCluster
from simstream.tools.dedup.row_layouts import FinalVerdict
from simstream.tools.dedup.text_rows import TextRows
from simstream.wire import verdict as wire


class VerdictSpool(Closing):
    """Verdicts in their order. `write` and `with_finals` raise SimstreamError as `TextRows` does.

    Cost: as much room in the folder for temporary files as the verdicts take as JSON lines; about 20 us and 8 bytes
    of memory a verdict.
    """

    def __init__(self) -> None:
        self._rows = TextRows()

    def __len__(self) -> int:
        return len(self._rows)

    def write(self, verdict: Verdict) -> None:
        """Add the next verdict."""
        self._rows.add(wire.encode(verdict))

    def with_finals(self, finals: Iterable[FinalCluster | None]) -> Iterator[FinalVerdict]:
        """Yield each verdict with the next of `finals`."""
        for number, final in zip(range(len(self._rows)), finals, strict=True):
            yield FinalVerdict(wire.decode(self._rows.read(number)), final)

    def close(self) -> None:
        """Remove the temporary file. May be called twice."""
        self._rows.close()
