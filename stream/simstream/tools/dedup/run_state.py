"""Keeps a run of `dedup` in a folder, so that it goes on there after it was broken off.

The folder has the state of the judge, and a journal with each judged batch and its verdicts. All that `dedup`
counts and writes follows from verdicts. So a run that goes on takes the verdicts up to the last save from the
journal, and reads its inputs from there on. Batches after the last save are judged again.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from simstream.closing import Closing
from simstream.deduper import Deduper, FingerprintedPages
from simstream.errors import StateDamaged, StateError, UsageError
from simstream.files.failures import reading, writing
from simstream.files.file_system import FileSystem, write_whole
from simstream.model import FingerprintColumns, Verdict
from simstream.sources.read import FileEnd, PageReader
from simstream.sources.repeated_names import NameNotes, PageNames
from simstream.tools.dedup.input_copy import InputCopier
from simstream.tools.dedup.run_facts import RunFacts, differences
from simstream.tools.dedup.run_journal import JudgedBatch, RunJournal
from simstream.wire import frame as frames
from simstream.wire import verdict as wire

_FACTS: Final = "run.json"
_JOURNAL: Final = "judged.journal"
_JUDGE: Final = "judge"
_PARTIAL: Final = "run.json.part"
_FINISHED: Final = "judge.finished"
"""The name of the judge's folder once all outputs are whole: a kill while it is removed must not leave a part."""


class RunState(Closing):
    """The folder of one run. It is a `BatchJournal` of the Deduper whose folder is `judge_folder`.

    Raises UsageError for a folder with other files, StateError if it belongs to another run, StateDamaged,
    StateFull and StateUnwritable.
    """

    def __init__(self, folder: Path, facts: RunFacts) -> None:
        self.path, self._facts = folder, facts
        self.judge_folder = folder / _JUDGE
        self.is_open = True
        self._journal: RunJournal | None = None
        self._names: PageNames | None = None
        self._copy: InputCopier | None = None
        self._first = self._pages = 0
        """The ordinal of the first page that is no corpus; pages so far."""
        self._of_corpus = True
        self._ends: list[FileEnd] = []
        """Files of the current part that ended in the journal; later, those that the journal does not have."""
        self._check()

    def begin(self, deduper: Deduper, names: PageNames | None, copy: InputCopier | None) -> None:
        """Open the journal of the run, which the lock of the Deduper's folder protects."""
        self._facts = msgspec.structs.replace(self._facts, policy=deduper.policy.id)
        if not self._check():
            self._write_facts(deduper.judged)
        self._names, self._copy = names, copy
        self._recipe, self._sketch_words = deduper.policy.recipe_id, deduper.policy.sketch_words
        self._journal = RunJournal(self.path / _JOURNAL)
        self._known = self._journal.read(deduper.judged)
        self._following = next(self._known, None)
        if names is not None:
            names.notes = NameNotes()

    def _write_facts(self, judged: int) -> None:
        if judged:
            what = f"{self.path} has no {_FACTS}, which says with what {judged:,} pages were judged"
            raise StateDamaged(what, f"delete {self.path} to begin again")
        files = FileSystem()
        with writing(self.path):
            write_whole(files, self.path / _PARTIAL, msgspec.json.encode(self._facts))
            files.rename(self.path / _PARTIAL, self.path / _FACTS)
            files.sync_folder(self.path)

    def known(self, *, of_corpus: bool) -> Iterator[tuple[FingerprintedPages, list[Verdict]]]:
        """Yield what was judged before, of corpus or inputs. The batches have no pages and no sources."""
        if not of_corpus:
            self._of_corpus, self._first, self._ends = False, self._pages, []
        while (batch := self._following) is not None and batch.of_corpus == of_corpus:
            verdicts = [wire.decode(line) for line in batch.verdicts]
            self._take_up(batch, verdicts)
            yield FingerprintedPages((), _copied(frames.decode(batch.frame).columns), ()), verdicts
            self._following = next(self._known, None)

    def _take_up(self, batch: JudgedBatch, verdicts: Sequence[Verdict]) -> None:
        self._pages += len(verdicts)
        if self._names is not None:
            self._names.take_up(np.frombuffer(batch.names, np.uint64).reshape(-1, 2), batch.repeated)
        self._ends += batch.ended
        if self._copy is not None and not batch.of_corpus:
            self._copy.restore([verdict.source for verdict in verdicts], batch.copy)

    def go_on(self, reader: PageReader) -> None:
        """Let the reader begin after the pages of `known`, which must be at its end."""
        ends, self._ends = self._ends, []
        reader.go_on(ends, self._pages - self._first, self._ends.append)

    def append(self, batch: FingerprintedPages, verdicts: Sequence[Verdict]) -> None:
        """Write a judged batch to the journal."""
        count, begin = len(verdicts), self._pages - self._first
        self._pages += count
        names = self._names.notes.take(count) if self._names is not None and self._names.notes else (b"", 0)
        copy = b"" if self._copy is None or self._of_corpus else self._copy.notes(begin, begin + count)
        ended = [end for end in self._ends if end.records <= begin + count]
        del self._ends[: len(ended)]
        if self._journal is not None:
            frame = self._frame(batch.columns, self._pages - count)
            lines = [wire.encode(verdict) for verdict in verdicts]
            self._journal.append(JudgedBatch(self._of_corpus, frame, lines, *names, copy, ended))

    def _frame(self, columns: FingerprintColumns, ordinal: int) -> bytes:
        end = ordinal + len(columns)
        header = frames.FrameHeader(self._recipe, "dedup", "", 0, ordinal, end, self._sketch_words)
        return frames.encode(header, replace(columns, offset=np.arange(ordinal, end)))

    def sync(self) -> None:
        """Make the journal survive a power cut."""
        if self._journal is not None:
            self._journal.sync()

    def remove(self) -> None:
        """Remove the folder of a run whose outputs are whole, except files of others. Nothing is saved any more.

        A kill at any step leaves no broken run.
        """
        self.is_open = False
        self.close()
        with suppress(OSError):
            self.judge_folder.rename(self.path / _FINISHED)
            self._clear()
            self.path.rmdir()

    def _clear(self) -> None:
        """Remove what a finished run has left."""
        for name in (_JOURNAL, _FACTS, _PARTIAL):
            (self.path / name).unlink(missing_ok=True)
        shutil.rmtree(self.path / _FINISHED, ignore_errors=True)

    def close(self) -> None:
        """Close the journal. May be called twice."""
        if self._journal is not None:
            self._journal.close()

    def _check(self) -> bool:
        """Return whether the folder has this run. Raises UsageError or StateError if it has something else."""
        again = f"delete {self.path} to begin again"
        with reading(self.path):
            names = {path.name for path in self.path.iterdir()} if self.path.exists() else set()
        if others := sorted(names - {_FACTS, _JOURNAL, _JUDGE, _PARTIAL, _FINISHED}):
            what = f"{self.path} is not the state of a run: it holds other files ({', '.join(others[:3])})"
            raise UsageError(what, "name a new or an empty folder")
        if _FINISHED in names:
            with writing(self.path):
                self._clear()
            return False
        if _FACTS not in names:
            return False
        try:
            known = msgspec.json.decode((self.path / _FACTS).read_bytes(), type=RunFacts)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise StateDamaged(f"{self.path / _FACTS} cannot be read ({error})", again) from error
        if known.policy and self._facts.policy not in ("", known.policy):
            what = f"{self.path} belongs to a run with another recipe, distance, similarity, window or link"
            raise StateError(what, f"give the same ones, or {again}")
        if found := list(differences(known, self._facts)):
            what = f"{self.path} belongs to a run {'; '.join(found[:3])}"
            raise StateError(what, f"give the same inputs and options, or {again}")
        return True


def _copied(columns: FingerprintColumns) -> FingerprintColumns:
    """Return columns that do not hold the memory of their frame: without ids and URLs."""
    arrays = {each.name: np.array(getattr(columns, each.name)) for each in fields(columns)[:-2]}
    return FingerprintColumns(**arrays, ids=b"", urls=b"")
