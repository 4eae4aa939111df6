"""Writes the outputs of `dedup`: files of rows, and beside the verdicts those of --keep, --pairs and --clusters."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import msgspec

from simstream.cli.output import places_of, refuse_input, refuse_missing_folder, written
from simstream.cli.progress import counting, say
from simstream.errors import UsageError
from simstream.model import ENDING_KINDS, Verdict
from simstream.sources.arrow import load_pyarrow
from simstream.sources.input_files import STDIN, InputFile
from simstream.sources.lines import COMPRESSIONS
from simstream.tools.dedup.groups import DuplicateGroups
from simstream.tools.dedup.keep import KeepSelector
from simstream.tools.dedup.row_layouts import (
    CLUSTER_ROWS,
    EXACT_PAIR_ROWS,
    PAIR_ROWS,
    ExactPair,
    FinalRecord,
    NearPair,
    RowLayout,
)
from simstream.tools.dedup.table_file import TABLES, RowTableFile, finished, is_table, names_unwritten_format
from simstream.wire import verdict as wire

if TYPE_CHECKING:
    from simstream.deduper import FingerprintedPages
    from simstream.judge.policy import Policy
    from simstream.tools.dedup.exact_pairs import ExactPairs
    from simstream.tools.dedup.input_copy import InputCopier
    from simstream.tools.dedup.text_rows import TextRows
    from simstream.tools.dedup.true_judge import TruePair
    from simstream.tools.dedup.true_matches import TrueMatcher

KEEP, PAIRS, CLUSTERS, FINAL = "--keep", "--pairs", "--clusters", "--final"
_JSON: Final = msgspec.json.Encoder().encode
_decode_pair: Final = msgspec.json.Decoder(NearPair).decode
RowWriter = Callable[[Any], object]
"""Appends a row to an output. Raises OutputError if the system accepts no more bytes."""


@contextmanager
def written_rows(path: str, inputs: Sequence[str], layout: RowLayout) -> Iterator[RowWriter]:
    """Return what appends a row to an output; it becomes `path` at the end, as with `written`.

    It is a table if the name ends in .parquet, .pq, .arrow or .feather, else JSON lines. After an InputError other
    than InputChanged, a table is whole, too, with the rows that were written. Raises what `written` raises, and
    Unavailable without pyarrow.
    """
    with written(path, inputs) as out:
        if is_table(path):
            with finished(RowTableFile(out, path, layout.table)) as table:
                yield table.write
        else:
            yield lambda row: out.write(layout.line(row) + b"\n")


class FurtherOutputs:
    """Follows a run of verdicts and writes the further outputs that `options` name.

    `exact` sees every page and computes the similarity of the pairs at the end; None: --exact was not given.
    Memory: that of `KeepSelector` for --keep, and of `DuplicateGroups` for --clusters and --final.
    """

    def __init__(self, policy: Policy, options: Collection[str], exact: ExactPairs | None) -> None:
        self._exact = exact
        self._matcher: TrueMatcher | None = None
        self.wants_pairs = PAIRS in options
        self._groups = DuplicateGroups() if {CLUSTERS, FINAL} & set(options) else None
        self._keeping = KeepSelector(policy) if KEEP in options else None
        self._rows: dict[str, RowWriter] = {}
        self._kept: BinaryIO | None = None
        self._copy: InputCopier | None = None
        self._kinds: deque[int] = deque()
        """The kind of each page that was seen and has no verdict yet."""
        self._first = self._pages = 0

    def note_pages(self, batch: FingerprintedPages) -> None:
        """Take the pages of the next verdicts, with their texts."""
        if self._exact is not None:
            self._exact.note_pages(batch.pages)
        if self._groups is not None:
            self._kinds.extend(batch.columns.kind.tolist())
        if self._keeping is not None:
            self._keeping.note_pages(batch.columns)

    def take(self, verdict: Verdict) -> None:
        """Take the next verdict. Until `begin` is called, it belongs to a page of the corpus."""
        self._pages += 1
        if self._groups is not None:
            self._groups.take(verdict, self._kinds.popleft() in ENDING_KINDS)
        if self._keeping is not None:
            self._keeping.take(verdict)
        if self._matcher is None:
            self._take_pair(verdict)

    def _take_pair(self, verdict: Verdict) -> None:
        pair, write = None, self._rows.get(PAIRS)
        if verdict.near_duplicate_of is not None and write is not None:
            pair = NearPair(verdict.near_duplicate_of, verdict.id, verdict.distance, verdict.similarity)
        if self._exact is not None:
            self._exact.take(verdict, None if pair is None else _JSON(pair))
        elif pair is not None and write is not None:
            write(pair)

    def judge_by(self, matcher: TrueMatcher) -> None:
        """Take the pairs from `take_pairs`, and let the true J confirm which pages are alike."""
        self._matcher = matcher

    def take_pairs(self, pairs: Sequence[TruePair]) -> None:
        """Take all pairs of the next page. Until `begin` is called, they belong to pages of the corpus."""
        if write := self._rows.get(PAIRS):
            for pair in pairs:
                write(_exact(*pair))

    def begin(
        self, places: Mapping[str, str], inputs: Sequence[InputFile], stack: ExitStack, copy: InputCopier | None
    ) -> None:
        """Begin the inputs: all earlier pages are the corpus that they are compared with.

        Opens the output of each option; `stack` closes it. `copy` writes the pages of --keep.
        """
        self._first, self._copy = self._pages, copy
        names = [file.path for file in inputs]
        for option, path in places.items():
            if option == KEEP:
                compressed = copy is None or copy.compresses
                self._kept = stack.enter_context(written(path, names, compressed=compressed))
            else:
                self._rows[option] = stack.enter_context(written_rows(path, names, self._layout(option)))

    def _layout(self, option: str) -> RowLayout:
        if option == CLUSTERS:
            return CLUSTER_ROWS
        return PAIR_ROWS if self._exact is None and self._matcher is None else EXACT_PAIR_ROWS

    def write_finals(self, held: TextRows, write: RowWriter) -> None:
        """Write the verdicts of all pages from `begin` on, with their final clusters. Needs the option --final.

        `held`: the JSON of these verdicts, in their order. Cost: about 20 us a verdict.
        """
        if self._groups is not None:
            finals = self._groups.finals(self._first)
            with counting("writing final clusters", len(held)) as heard:
                for number, final in zip(range(len(held)), finals, strict=True):
                    verdict = msgspec.structs.astuple(wire.decode(held.read(number)))
                    write(FinalRecord(*verdict, *(final or (None, None, None))))
                    if (number + 1) % 1000 == 0:
                        heard(number + 1)

    def finish(self) -> None:
        """Write the outputs that are known only at the end. For --keep, read the inputs again.

        Raises InputChanged if a page to keep has changed.
        """
        if self._exact is not None and (write := self._rows.get(PAIRS)):
            self._write_exact(self._exact, write)
        if self._groups is not None and (write := self._rows.get(CLUSTERS)):
            for group in self._groups.groups(self._first):
                write(group)
        if self._keeping is not None and self._kept is not None and self._copy is not None:
            with counting("choosing the pages to keep", self._pages) as heard:
                confirm = None if self._matcher is None else self._matcher.confirm
                kept = self._keeping.choose(self._first, heard, confirm)
            self._copy.copy(kept.ordinals - self._first, self._kept)
            self._kept.flush()  # never report a page as kept before it is written
            without = ", ".join(f"{count:,} {reason}" for reason, count in kept.left_out.items())
            total = self._pages - self._first
            say(f"{len(kept.ordinals):,} of {total:,} pages kept; left out: {without or 'none'}")

    @staticmethod
    def _write_exact(exact: ExactPairs, write: RowWriter) -> None:
        with counting("comparing texts", exact.pairs) as heard:
            for number, (line, alike) in enumerate(exact.lines(), 1):
                pair = _decode_pair(line)
                write(_exact(pair.a, pair.b, pair.distance, pair.similarity, alike))
                if number % 100 == 0:
                    heard(number)


def _exact(a: str, b: str, distance: int | None, similarity: float | None, alike: float) -> ExactPair:
    return ExactPair(a, b, distance, similarity, round(alike, 4))


def check(
    inputs: Sequence[InputFile],
    against: Sequence[InputFile],
    outputs: Mapping[str, str],
    exact: bool,
    state: str | None = None,
) -> None:
    """Raise UsageError if inputs and outputs do not fit together, before anything is read.

    `outputs`: the path of each option, and the path of the verdicts. `state`: the folder that keeps the progress.
    """
    if exact and PAIRS not in outputs:
        raise UsageError(
            "--exact needs --pairs, which is not given", "name a file with --pairs, or leave out --exact"
        )
    for option, path in outputs.items():
        if option != KEEP and names_unwritten_format(path):
            what = f"{option} {path} has the ending of a format that is not written"
            lines = f".jsonl for lines of JSON (also with {', '.join(COMPRESSIONS)})"
            raise UsageError(what, f"use {lines}, or {', '.join(TABLES)} for a table")
    if [path for path in outputs.values() if is_table(path)]:
        load_pyarrow("writing a table")
    files = [file.path for file in inputs]
    if STDIN in files and STDIN in [file.path for file in against]:
        raise UsageError("INPUT and --against are both stdin", "name a file for one of them")
    for option, path in outputs.items():
        if state is not None and any(
            Path(place).is_relative_to(Path(state).resolve()) for place in places_of(path)
        ):
            raise UsageError(f"{option} {path} lies in {state}, the folder of --state", "name a file elsewhere")
    for path in set(outputs.values()):
        refuse_missing_folder(path)
        refuse_input(path, [*files, *(file.path for file in against)])
    for (one, first), (other, second) in combinations(outputs.items(), 2):
        if (places_of(first) & places_of(second)) - {"/dev/null"}:
            raise UsageError(f"{one} and {other} go to the same place, {second}", "name a file for each")
