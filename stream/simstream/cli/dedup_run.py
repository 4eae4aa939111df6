"""One run of `dedup`: judges the files and writes all outputs."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING, Final

from simstream.amounts import say_pages
from simstream.cli.dedup_outputs import FINAL, FurtherOutputs, written_rows
from simstream.cli.options import make_deduper
from simstream.cli.progress import say, shown
from simstream.closing import Closing
from simstream.errors import InputError
from simstream.model import INCOMPARABLE_VERDICTS, Record, Verdict
from simstream.settings import Settings
from simstream.sources.input_files import InputFile
from simstream.sources.read import PageReader, read_pages, size_of
from simstream.sources.read_ahead import ReadAhead
from simstream.sources.repeated_names import PageNames
from simstream.sources.unread import UnreadPages
from simstream.tools.dedup.exact_pairs import ExactPairs
from simstream.tools.dedup.input_copy import InputCopier, make_copier
from simstream.tools.dedup.row_layouts import FINAL_VERDICT_ROWS, VERDICT_ROWS
from simstream.tools.dedup.run_state import RunState
from simstream.tools.dedup.text_rows import TextRows
from simstream.tools.dedup.true_judge import TrueJudge
from simstream.tools.dedup.true_matches import LeastJaccard, candidate_policy
from simstream.wire import verdict as wire

if TYPE_CHECKING:
    from simstream.cli.dedup import DedupOptions
    from simstream.deduper import Deduper, FingerprintedPages
    from simstream.deduper.state import BatchJournal

_FILES_OF_STORES: Final = 8
"""Files elsewhere that are read at a time: their threads mostly wait. On the disk, it gained nothing measurable."""


class FileJudge(Closing):
    """Judges records, and tells `extras` of each page, pair and verdict. With a `rule`, the true J decides."""

    def __init__(self, deduper: Deduper, threads: int, extras: FurtherOutputs, rule: LeastJaccard | None) -> None:
        self._deduper, self._threads, self._extras = deduper, threads, extras
        self._true: TrueJudge | None = None
        if rule is not None:
            self._true = TrueJudge(deduper.policy, rule, extras.take_pairs if extras.wants_pairs else None)
            extras.judge_by(self._true.matcher)

    def stream(self, records: Iterable[Record], journal: BatchJournal | None = None) -> Iterator[Verdict]:
        """Yield one verdict for each record, in order. Raises what `Deduper.stream` raises.

        `journal`: as there; None with a `rule`.
        """
        seen = self._extras.note_pages
        if self._true is None:
            verdicts = self._deduper.stream(records, self._threads, seen, journal)
        else:
            verdicts = self._true.stream(self._deduper.fingerprinted(records, self._threads), seen)
        for verdict in verdicts:
            yield verdict
            self._extras.take(verdict)

    def take_known(self, batches: Iterable[tuple[FingerprintedPages, list[Verdict]]]) -> Iterator[Verdict]:
        """Yield the verdicts of batches that an earlier run has judged."""
        for batch, verdicts in batches:
            self._extras.note_pages(batch)
            for verdict in verdicts:
                yield verdict
                self._extras.take(verdict)

    def close(self) -> None:
        """Remove the temporary files. May be called twice."""
        if self._true is not None:
            self._true.close()


def with_candidates(settings: Settings, rule: LeastJaccard) -> Settings:
    """Return the settings with the least similarity of candidates, unless they name one. Raises SettingsError."""
    from msgspec.structs import replace

    from simstream.text.recipe_file import load_recipe

    if settings.similarity is not None or not load_recipe(settings.recipe).sketch_bits:
        return settings
    return replace(settings, similarity=rule.candidate_similarity)


@dataclass(slots=True)
class DedupRun:
    """The files of a run, how they are judged, and what was counted.

    `rule`: the true J that decides; None: the sketch decides. `names`: None: pages of one id are versions.
    `state`: the folder of the run; None: a run that is broken off begins again.
    """

    given: DedupOptions
    settings: Settings
    inputs: list[InputFile]
    against: list[InputFile]
    rule: LeastJaccard | None
    names: PageNames | None
    state: RunState | None
    kinds: Counter[str] = field(default_factory=Counter)
    unread: UnreadPages = field(default_factory=UnreadPages)
    damage: InputError | None = None
    """The error that names the damaged inputs. What was read of them is judged and written."""
    known: int = 0
    """Verdicts of inputs that an earlier run has judged."""
    first_verdict_at: float = 0.0
    """The time `perf_counter` of the first verdict that this run has judged; 0 before it."""

    def judge(self) -> None:
        """Judge all pages and write all outputs. Raises InputError after them if an input is damaged."""
        copy = None
        if self.given.keep is not None:
            copy = make_copier(self.inputs, self.given.keep, self.settings.max_record_bytes, self.given.fields)
        with self._deduper() as deduper:
            if self.state is not None:
                self.state.begin(deduper, self.names, copy)
            gc.freeze()  # what the start has made stays: no collection need walk over it
            with ExitStack() as stack:
                self._write(deduper, copy, stack)
            if self.state is not None:
                self.state.remove()  # while the folder is still locked

    def _write(self, deduper: Deduper, copy: InputCopier | None, stack: ExitStack) -> None:
        """Judge all pages, and write all outputs, which `stack` closes."""
        given, threads, rule = self.given, self.settings.threads, self.rule
        policy = deduper.policy if rule is None else candidate_policy(deduper.policy)
        exact = stack.enter_context(ExactPairs(threads)) if given.exact and rule is None else None
        extras = FurtherOutputs(policy, {*given.places, *([FINAL] if given.final else [])}, exact)
        judge = stack.enter_context(FileJudge(deduper, threads, extras, rule))
        if self.against:
            self._compare_with(judge)
        layout = FINAL_VERDICT_ROWS if given.final else VERDICT_ROWS
        names = [file.path for file in self.inputs]
        write = stack.enter_context(written_rows(given.output, names, layout))
        held = stack.enter_context(TextRows()) if given.final else None
        extras.begin(given.places, self.inputs, stack, copy)
        try:
            for verdict in self._verdicts(judge, copy):
                if held is None:
                    write(verdict)
                else:
                    held.add(wire.encode(verdict))
                self.kinds[verdict.verdict] += 1
                self.unread.take(verdict)
                self.first_verdict_at = self.first_verdict_at or perf_counter()
        except InputError as error:
            self.damage = error  # what was read before the damage counts
        if held is not None:
            extras.write_finals(held, write)
        extras.finish()
        if self.damage is not None:
            raise self.damage

    def _deduper(self) -> Deduper:
        folder = None if self.state is None else self.state.judge_folder
        return make_deduper(self.settings, folder, self.given.save_every_s)

    def _compare_with(self, judge: FileJudge) -> None:
        """Make the pages of a corpus live. Raises InputError if it is damaged, or too much of it is unreadable."""
        kinds, unread = Counter[str](), UnreadPages("pages to compare with")
        try:
            for verdict in self._verdicts(judge, of_corpus=True):
                kinds[verdict.verdict] += 1
                unread.take(verdict)
            unread.check(self.given.max_unreadable)
        except InputError as error:
            raise InputError(error.what, f"{error.todo}; no page was judged, as the corpus comes first") from error
        unread.report(say)
        left_out = sum(kinds[kind] for kind in INCOMPARABLE_VERDICTS)
        say(f"{say_pages(kinds.total())} to compare with; too short or unreadable: {left_out:,}")

    def _verdicts(
        self, judge: FileJudge, copy: InputCopier | None = None, *, of_corpus: bool = False
    ) -> Iterator[Verdict]:
        """Yield the verdicts of the inputs or of the corpus; first those that the state has."""
        reader = self._reader(self.against if of_corpus else self.inputs)
        if self.state is not None:
            yield from judge.take_known(self.state.known(of_corpus=of_corpus))
            self.known, self.first_verdict_at = self.kinds.total(), 0.0
            self.state.go_on(reader)
        title = "reading the corpus to compare with" if of_corpus else "judging"
        read = shown(reader, title, size_of(self.against if of_corpus else self.inputs))
        noted = read if copy is None else copy.noted(read)
        yield from judge.stream(noted if self.names is None else self.names.separate(noted), self.state)

    def _reader(self, files: list[InputFile]) -> PageReader:
        read = self.settings.read
        at_once = read.files or (_FILES_OF_STORES if any(file.is_remote for file in files) else 1)
        ahead = ReadAhead(min(at_once, len(files)), read.ahead_bytes)
        return read_pages(files, self.settings.max_record_bytes, self.given.fields, say, ahead=ahead)
