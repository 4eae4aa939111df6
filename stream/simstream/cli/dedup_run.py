"""One run of `dedup`: judges the files and writes all outputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from simstream.cli.dedup_judging import FileJudge
from simstream.cli.dedup_outputs import FINAL, FurtherOutputs
from simstream.cli.options import make_deduper
from simstream.cli.progress import say, shown
from simstream.cli.repeated_names import separate
from simstream.cli.row_output import written_rows
from simstream.errors import InputError
from simstream.model import INCOMPARABLE_VERDICTS, Record
from simstream.processors import cores
from simstream.settings import Settings
from simstream.sources.fields import FieldNames
from simstream.sources.input_files import InputFile
from simstream.sources.read import read_pages, size_of
from simstream.sources.read_ahead import ReadAhead
from simstream.sources.repeated_names import PageNames
from simstream.tools.dedup.exact_pairs import ExactPairs
from simstream.tools.dedup.input_copy import make_copier
from simstream.tools.dedup.row_layouts import FINAL_VERDICT_ROWS, VERDICT_ROWS
from simstream.tools.dedup.true_matches import LeastJaccard, candidate_policy
from simstream.tools.dedup.unread import UnreadPages
from simstream.tools.dedup.verdict_spool import VerdictSpool

if TYPE_CHECKING:
    from simstream.cli.dedup import DedupOptions

_FILES_OF_STORES: Final = 8
"""Files elsewhere that are read at a time: their threads mostly wait."""


@dataclass(slots=True)
class DedupRun:
    """The files of a run, how they are judged, and what was counted.

    `rule`: the true J that decides; None: the sketch decides. `names`: None: pages of one id are versions.
    """

    given: DedupOptions
    settings: Settings
    inputs: list[InputFile]
    against: list[InputFile]
    rule: LeastJaccard | None
    names: PageNames | None
    kinds: Counter[str] = field(default_factory=Counter)
    unread: UnreadPages = field(default_factory=UnreadPages)

    def judge(self) -> None:
        """Judge all pages and write all outputs. Raises InputError after them if an input is damaged."""
        given, settings, rule = self.given, self.settings, self.rule
        fields = FieldNames(given.text_field, given.id_field)
        copy = None
        if given.keep is not None:
            copy = make_copier(self.inputs, given.keep, settings.max_record_bytes, fields)
        with make_deduper(settings) as deduper, ExitStack() as stack:
            policy = deduper.policy if rule is None else candidate_policy(deduper.policy)
            exact = stack.enter_context(ExactPairs(settings.threads)) if given.exact and rule is None else None
            extras = FurtherOutputs(policy, {*given.places, *([FINAL] if given.final else [])}, exact)
            judge = stack.enter_context(FileJudge(deduper, settings.threads, extras, rule))
            if self.against:
                self._compare_with(judge, fields)
            layout = FINAL_VERDICT_ROWS if given.final else VERDICT_ROWS
            names = [file.path for file in self.inputs]
            out = stack.enter_context(written_rows(given.output, names, layout))
            held = stack.enter_context(VerdictSpool()) if given.final else None
            extras.begin(given.places, self.inputs, stack, copy)
            broken: InputError | None = None
            read = self._read(self.inputs, "judging", fields)
            try:
                for verdict in judge.stream(separate(read if copy is None else copy.noted(read), self.names)):
                    (out if held is None else held).write(verdict)
                    self.kinds[verdict.verdict] += 1
                    self.unread.take(verdict)
            except InputError as error:
                broken = error  # what was read before the damage counts
            if held is not None:
                extras.write_finals(held, out)
            extras.finish()
            if broken is not None:
                if str(self.unread):
                    say(str(self.unread))
                raise broken

    def _compare_with(self, judge: FileJudge, fields: FieldNames) -> None:
        """Make the pages of a corpus live."""
        title = "reading the corpus to compare with"
        corpus = separate(self._read(self.against, title, fields), self.names)
        kinds = Counter[str](verdict.verdict for verdict in judge.stream(corpus))
        left_out = sum(kinds[kind] for kind in INCOMPARABLE_VERDICTS)
        say(f"{kinds.total():,} pages to compare with; {left_out:,} of them are too short or unreadable")

    def _read(self, files: list[InputFile], title: str, fields: FieldNames) -> Iterator[Record]:
        read = self.settings.read
        at_once = read.files or (_FILES_OF_STORES if any(file.is_remote for file in files) else cores())
        ahead = ReadAhead(min(at_once, len(files)), read.ahead_bytes)
        reader = read_pages(files, self.settings.max_record_bytes, fields, say, ahead=ahead)
        return shown(reader, title, size_of(files))
